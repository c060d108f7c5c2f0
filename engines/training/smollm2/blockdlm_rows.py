"""The texts that the block-diffusion SmolLM2 learns from: chats of a JSONL file, as rows of whole blocks."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from engines.core.errors import UserError
from engines.core.texts import decoded, lines
from engines.training.core.data import COPIES, Batch, Pair, block_batch
from engines.training.smollm2.blockdlm_model import Settings

FORM = '{"prompt": "...", "answer": "..."} or {"messages": [...]}'
Chat = tuple[list[dict[str, str]], str | list[int]]  # the turns before the answer, and the answer: a text, or ids


def read_chats(file: Path) -> list[Chat]:
    """The chats of a JSONL file. Raises UserError for a file or a line that is none."""
    if not file.is_file():
        raise UserError(f"'{file}' is not there; give a JSONL file with {FORM} on every line.")
    found = []
    for number, line in enumerate(lines(decoded(file.read_bytes())), 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            turns = entry["messages"] if "messages" in entry else [{"role": "user", "content": entry["prompt"]}]
            *turns, last = (
                turns
                if "messages" in entry
                else [*turns, {"role": "assistant", "content": entry.get("ids") or entry["answer"]}]
            )
            assert (
                last["role"] == "assistant"
                and turns
                and last["content"]
                and all(isinstance(t["content"], str) for t in turns)
            )
            assert isinstance(last["content"], str) or all(isinstance(token, int) for token in last["content"])
        except (ValueError, KeyError, TypeError, AttributeError, AssertionError):
            raise UserError(f"line {number} of {file} is not a chat that ends with an answer; give {FORM}.") from None
        found.append((turns, last["content"]))
    return found


def encode(chats: Sequence[Chat], tokenizer: Any, settings: Settings) -> tuple[list[Pair], list[Pair]]:
    """(rows to learn, rows held out), each rising in length; a twentieth of the prompts is held out. Raises UserError
    where too few are left."""
    prompts: dict[tuple[int, ...], list[Pair]] = {}
    for turns, answer in chats:
        prompt = list(tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_dict=False))
        ids = answer if isinstance(answer, list) else tokenizer(answer, add_special_tokens=False)["input_ids"]
        ids = [*ids, *([] if ids[-1:] == [tokenizer.eos_token_id] else [tokenizer.eos_token_id])]
        if len(prompt) + len(ids) <= settings.longest:
            prompts.setdefault(tuple(prompt), []).append((prompt, ids))
    if len(prompts) < 2:
        raise UserError(
            f"{len(prompts)} different prompts have answers within {settings.longest} tokens; give at least two, one "
            "is held out."
        )
    groups = list(prompts.values())
    random.Random(settings.seed).shuffle(groups)
    few = max(1, len(groups) // 20)
    held, kept = (
        sorted((pair for group in part for pair in group), key=lambda pair: len(pair[0]) + len(pair[1]))
        for part in (groups[:few], groups[few:])
    )
    return kept, held


def batch_of(pairs: Sequence[Pair], settings: Settings, key: object, end_id: int, mask_id: int) -> Batch:
    """Training rows of about equal length, the same for a key and a seed: a drawn one and its shorter neighbours, as
    many as the batch takes."""
    rng = random.Random(f"{settings.seed}/{key}")
    last, block = rng.randrange(len(pairs)), settings.block
    length = -(-(len(pairs[last][0]) + len(pairs[last][1])) // block) * block
    rows = pairs[max(0, last + 1 - max(1, settings.batch // (COPIES["block"] * length))) : last + 1]
    ids = torch.full((len(rows), length), end_id)
    answered = torch.zeros((len(rows), length), dtype=torch.bool)
    for i, (prompt, answer) in enumerate(rows):
        end = len(prompt) + len(answer)
        ids[i, :end] = torch.tensor(prompt + answer)
        answered[i, len(prompt) : -(-end // block) * block] = True  # end marks up to the end of the block
    return block_batch(ids, answered, block, mask_id, torch.Generator().manual_seed(rng.getrandbits(48)))
