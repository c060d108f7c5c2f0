"""Prompts of one's own from the command line and from a file."""

import argparse

import msgspec

from engines import UserError, texts
from explorer.cli.io import MAX_PROMPT_BYTES, read_bytes, several, text_of


def add_prompts(parser: argparse.ArgumentParser) -> None:
    """Declare --prompt and --prompts."""
    several(parser, "--prompt", "TEXT", "a prompt of yours; repeatable")
    parser.add_argument(
        "--prompts",
        metavar="FILE",
        help='prompts of yours: a line each, or JSON lines with "prompt" each; - is standard input',
    )


def given_prompts(args: argparse.Namespace) -> list[str]:
    """All of them. Raises UserError where there is none."""
    prompts = [*args.prompt, *(read_prompts(args.prompts) if args.prompts else [])]
    if not prompts:
        raise UserError("no prompt is given; write --prompt TEXT, or --prompts FILE with one a line.")
    return prompts


def read_prompts(name: str) -> list[str]:
    """The prompts of a file: of JSON lines each one's "prompt", else a line each; empty lines are none. Raises
    UserError with the number of a line that cannot be read."""
    data = read_bytes(name, MAX_PROMPT_BYTES)
    if len(data) > MAX_PROMPT_BYTES:
        raise UserError(f"'{name}' has more than {MAX_PROMPT_BYTES:,} bytes, which is too long for prompts.")
    lines = texts.lines(text_of(data, name))
    numbered = [(number, line.strip()) for number, line in enumerate(lines, 1) if line.strip()]
    if not numbered:
        raise UserError(f"'{name}' holds no prompt; write one a line.")
    if not numbered[0][1].startswith("{"):
        return [line for _, line in numbered]
    return [_of_json(line, f"'{name}', line {number}") for number, line in numbered]


def _of_json(line: str, where: str) -> str:
    try:
        record = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UserError(f"{where} is not JSON: {error}.") from None
    prompt = record.get("prompt") if isinstance(record, dict) else None
    if not isinstance(prompt, str) or not prompt.strip():
        raise UserError(f'{where} has no text "prompt"; write {{"prompt": "..."}}.')
    return prompt
