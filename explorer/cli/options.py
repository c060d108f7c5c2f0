"""The options that commands share: an option and a flag in one line each, parameters and method files, prompts of one's
own, `--max-new-tokens`, which methods call `max_new_tokens`, and `--part head=ID_OR_FOLDER`, a published drafter."""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

import engines
from engines import MethodInfo, UserError, texts
from explorer.arguments import Parser
from explorer.cli.io import MAX_PROMPT_BYTES, read_bytes, remark, text_of

LENGTH = "max_new_tokens"
OPTION = "--max-new-tokens"

ROLE = "head"  # of the drafter, in any method
ALL = 12  # methods that are not named one by one


class Command(Parser):
    """The parser of a command, with the options that commands share."""

    def option(self, name: str, metavar: str | None, about: str, **more: Any) -> None:
        """An option with a value, or a positional argument."""
        self.add_argument(name, metavar=metavar, help=about, **more)

    def flag(self, name: str, about: str, **more: Any) -> None:
        """An option without a value."""
        self.add_argument(name, action="store_true", help=about, **more)

    def one_of(self, *options: tuple[str, str, str]) -> None:
        """Options (name, metavar, about), of which one must be given."""
        group = self.add_mutually_exclusive_group(required=True)
        for name, metavar, about in options:
            group.add_argument(name, metavar=metavar, help=about)

    def several(self, name: str, metavar: str | None, about: str, **more: Any) -> None:
        """An option that may be given again and again: a list, empty without it."""
        self.add_argument(name, action="append", default=[], metavar=metavar, help=about, **more)

    def method_files(self) -> None:
        """--method-file, which `cli.main` loads before the command runs."""
        self.several("--method-file", "FILE", "a Python file with a method of your own; it is run, so trust it")

    def json(self) -> None:
        """--json of a measurement, which `write_json` takes."""
        self.option("--json", "FILE", "print JSON, or write it here", nargs="?", const="-")

    def length(self, usual: object = "the method's own") -> None:
        """Declare the option, None where it is not given. usual: the length then."""
        self.option(OPTION, "N", f"how many tokens an answer may have (default {usual})", type=positive)

    def prompts(self) -> None:
        """--prompt and --prompts."""
        self.several("--prompt", "TEXT", "a prompt of yours; repeatable")
        about = 'prompts of yours: a line each, or JSON lines with "prompt" each; - is standard input'
        self.option("--prompts", "FILE", about)

    def part(self) -> None:
        """--part and --force."""
        formats = "EAGLE, EAGLE-3, P-EAGLE, Medusa, Hydra, MTP or DFlash checkpoints as they are"
        self.several("--part", "head=ID", f"a published drafter of the target, a hub id or a folder: {formats}")
        self.flag("--force", "take a drafter although it names another target; the output says so")

    def loading(self) -> None:
        """Where the weights lie and in what form; `loading.loading` reads it."""
        about = "where the models run: cpu (default), cuda, cuda:1, mps, or auto: the best of them"
        self.option("--device", "D", about)
        self.option("--dtype", "T", "the weights' type: float32, bfloat16 ... (default: the model's own)")
        about = "code the weights of linear layers and experts while loading"
        self.option("--quantisation", None, about, choices=("4bit", "8bit"))
        about = 'spread the layers: auto (cards, then the CPU), or JSON such as {"model": 0, "lm_head": "cpu"}'
        self.option("--device-map", "MAP", about)
        about = "of a GGUF file: how many layers run on the card, -1 for all (default: none, with --device cuda all)"
        self.option("--gpu-layers", "N", about, type=int)
        about = (
            "of a left-to-right model: a row's logits are the same bits beside any rows, so that lossless texts are "
            "their control's in bfloat16, too; somewhat slower"
        )
        self.flag("--row-invariant", about, default=None)


def positive(text: str) -> int:
    """A whole number above 0, for argparse."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number above 0")
    return int(text)


def key_values(given: Sequence[str], option: str) -> dict[str, str]:
    """`name=value` arguments as a dict. Raises UserError for one without '=' or given twice."""
    values: dict[str, str] = {}
    for argument in given:
        name, equals, value = argument.partition("=")
        if not equals or not name:
            raise UserError(f"{option} {argument} is not understood; write {option} name=value.")
        if name in values:
            raise UserError(f"{option} {name} is given twice.")
        values[name] = value
    return values


def with_length(given: Mapping[str, str], args: argparse.Namespace, infos: Sequence[MethodInfo]) -> dict[str, str]:
    """What --param gives, with --max-new-tokens as one more. Raises UserError where the two contradict each other, and
    where none of the methods has the parameter."""
    asked: int | None = args.max_new_tokens
    if asked is None:
        return dict(given)
    if other := _another(given, asked):
        raise UserError(f"--param {other} and {OPTION} {asked} are two lengths; leave one of them out.")
    known = sorted({p.name for info in infos for p in info.params})
    if LENGTH not in known:
        whose = " and ".join(info.slug for info in infos)
        raise UserError(
            f"{OPTION} sets the parameter {LENGTH}, which {whose} has not; what it has is {', '.join(known) or 'none'}."
        )
    return {LENGTH: str(asked), **given}


def length_of_all(args: argparse.Namespace, usual: int) -> int:
    """The one length of the answers of several methods and their controls: the given one, or the usual. Raises
    UserError where --param gives another one to a method."""
    given = key_values(args.param, "--param")
    length: int = args.max_new_tokens or _number(given.get(LENGTH, "")) or usual
    if other := _another(given, length):
        raise UserError(
            f"--param {other} is another length than the {length} tokens that all answers here may have, those of the "
            f"control too; give all of them one by {OPTION} N."
        )
    return length


def _another(given: Mapping[str, str], length: int) -> str:
    """The first of these parameters that says another length, as it was given, or nothing."""
    lengths = {key: value for key, value in given.items() if key.rpartition(":")[2] == LENGTH}
    return next((f"{key}={value}"[:80] for key, value in lengths.items() if _number(value) != length), "")


def _number(text: str) -> int | None:
    """A whole number as parameters read it: 16, 16.0 or 1.6e1."""
    try:
        number = float(text)
    except ValueError:
        return None
    return int(number) if number.is_integer() else None


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


def with_part(
    model: Any, args: argparse.Namespace, infos: Iterable[MethodInfo] | None = None, *, any_format: bool = False
) -> Any:
    """The loaded model with the drafter of --part beside it, or as it is. What a person should know of the drafter goes
    to standard error. infos: the methods that were asked for, of which one has to take it; any_format: none has to.
    Raises UserError."""
    given = named(args.part)
    if given is None:
        return model
    drafter = engines.load_drafter(given, model, force=args.force)
    if not any_format:
        _check_taken(drafter, list(engines.list_methods() if infos is None else infos))
    for note in drafter.notes:
        remark(note)
    return engines.with_drafter(model, drafter)


def named(parts: Sequence[str]) -> str | None:
    """The one hub id or folder that --part names. Raises UserError for several, and for a role that no drafter has."""
    if len(parts) > 1:
        raise UserError(f"--part was given {len(parts)} times; a run drafts with one drafter, so give it once.")
    if not parts:
        return None
    role, equals, name = parts[0].partition("=")
    if not equals or role != ROLE or not name:
        raise UserError(f"--part {parts[0][:80]} names no part; write --part {ROLE}=ID_OR_FOLDER.")
    return name


def _check_taken(drafter: Any, infos: list[MethodInfo]) -> None:
    """Raises UserError where none of these methods can draft with a drafter."""

    def takes(info: MethodInfo) -> bool:
        return any(drafter.format in formats for formats in info.drafters.values())

    if any(map(takes, infos)):
        return
    able = ", ".join(info.slug for info in engines.list_methods() if takes(info))
    asked = ", ".join(info.slug for info in infos) if len(infos) < ALL else "the methods here"
    raise UserError(
        f"'{drafter.name}' is a drafter of the format {drafter.format}, and {asked} cannot draft with it; choose "
        f"{able}."
    )
