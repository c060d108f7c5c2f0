"""How good a trained network is: exact match on tasks, forwards and calibration of parallel commits, loss and agreement
of causal ones.

Decoding here is written for whole batches of prompts, with nothing recorded; a test holds it against the engines.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from engines.tasks import TASKS, Example, Split, check
from engines.training.core.data import IGNORED, Pair, encode
from engines.training.tiny.networks import Network
from engines.training.tiny.recipes import Recipe

ROWS = 32  # prompts decoded together
SLACK = 16  # answer positions beyond the longest answer seen, in which a model may end by itself


@dataclass(frozen=True)
class Mark:
    """Of some prompts: the share answered exactly, the mean forwards, and how many tokens were committed at p > 0.9 and
    were the reference's."""

    exact: float
    forwards: float
    sure: int = 0
    sure_right: int = 0


def held_out(task: str, n: int, split: Split = "held-out", size: int | None = None) -> list[Example]:
    """The first n prompts of a split, of one size if it is given."""
    return list(islice(TASKS[task].generate(split, seed=1, size=size), n))


@cache
def canvas_length(task: str, tokenizer: Any) -> int:
    """Answer positions that serve a task: its longest answer among 300, up to a multiple of 16."""
    longest = max(len(answer) for _, answer in encode(tokenizer, held_out(task, 300, "train")))
    return -(-longest // 16) * 16


def exact_match(
    network: Network, tokenizer: Any, recipe: Recipe, task: str, n: int, split: Split = "held-out"
) -> float:
    """Share of n prompts answered exactly with one token per forward."""
    return mark(network, tokenizer, recipe, task, n, split).exact


@torch.inference_mode()
def mark(
    network: Network,
    tokenizer: Any,
    recipe: Recipe,
    task: str,
    n: int,
    split: Split = "held-out",
    threshold: float | None = None,
    size: int | None = None,
) -> Mark:
    """Decode n prompts of a task. threshold: commit every position above it in each forward (0: all at once); None: one
    token per forward."""
    network.eval()
    examples = held_out(task, n, split, size)
    pairs = encode(tokenizer, examples)
    order = sorted(range(n), key=lambda i: len(pairs[i][0]))
    right = forwards = sure = sure_right = 0
    for start in range(0, n, ROWS):
        chunk = [pairs[i] for i in order[start : start + ROWS]]
        length = canvas_length(task, tokenizer)
        if recipe.kind == "causal":
            outputs = _generate(network, tokenizer, recipe, chunk, length)
            forwards += sum(len(output) for output in outputs)
        else:
            outputs, counts, confident = _fill(network, tokenizer, recipe, chunk, length, threshold)
            forwards += sum(counts)
            for (_, answer), output, row in zip(chunk, outputs, confident, strict=True):
                wanted = answer + [tokenizer.eos_token_id] * (len(output) - len(answer))
                sure += sum(row)
                sure_right += sum(c and o == w for c, o, w in zip(row, output, wanted, strict=False))
        for i, output in zip(order[start : start + ROWS], outputs, strict=True):
            text = output[: output.index(tokenizer.eos_token_id)] if tokenizer.eos_token_id in output else output
            right += check(examples[i], tokenizer.decode(text)).correct
    return Mark(right / n, forwards / n, sure, sure_right)


def _generate(network: Network, tokenizer: Any, recipe: Recipe, pairs: list[Pair], length: int) -> list[list[int]]:
    """Greedy decoding by transformers, prompts padded on the left; ids up to the end mark, which stays."""
    longest = max(len(prompt) for prompt, _ in pairs)
    pad = tokenizer.pad_token_id
    rows = [[pad] * (longest - len(p)) + p for p, _ in pairs]
    ids = torch.tensor(rows, device=network.device)
    out = network.generate(ids, attention_mask=(ids != pad).long(), max_new_tokens=length, do_sample=False)
    answers = out[:, longest:].tolist()
    return [row[: row.index(tokenizer.eos_token_id) + 1] if tokenizer.eos_token_id in row else row for row in answers]


def _fill(
    network: Network, tokenizer: Any, recipe: Recipe, pairs: list[Pair], length: int, threshold: float | None
) -> tuple[list[list[int]], list[int], list[list[bool]]]:
    """Fill `length` masks behind every prompt. Returns per row the answer's ids, the forwards and which tokens were
    committed at p > 0.9.

    A masked model may fill anywhere; a block model only in the first block that is open, whose first token always comes
    first (Fast-dLLM v2's free token), and it stops at an end mark with everything before it known. Rows are as long as
    the longest one, so shorter prompts have a longer canvas."""
    mask_id, size = tokenizer.mask_token_id, recipe.block if recipe.kind == "block" else 0
    width = max(len(prompt) for prompt, _ in pairs) + length
    width = -(-width // size) * size if size else width
    x = torch.full((len(pairs), width), mask_id)
    for i, (prompt, _) in enumerate(pairs):
        x[i, : len(prompt)] = torch.tensor(prompt)
    starts = [len(prompt) for prompt, _ in pairs]
    answer = torch.arange(width)[None] >= torch.tensor(starts)[:, None]  # [R, L]
    confident, counts = torch.zeros_like(x, dtype=torch.bool), torch.zeros(len(pairs), dtype=torch.long)
    x, answer, confident = (t.to(network.device) for t in (x, answer, confident))
    while True:
        masked = x == mask_id
        ended = _first((x == tokenizer.eos_token_id) & answer) < _first(masked)
        rows = (masked.any(1) & ~ended if size else masked.any(1)).nonzero().flatten()
        if not len(rows):
            break
        counts[rows.cpu()] += 1
        commit, tokens, p = _commits(network, x[rows], masked[rows], size, threshold, mask_id)
        x[rows] = torch.where(commit, tokens, x[rows])
        confident[rows] |= commit & (p > 0.9)
    return (
        [x[i, s:].tolist() for i, s in enumerate(starts)],
        counts.tolist(),
        [confident[i, s:].tolist() for i, s in enumerate(starts)],
    )


def _first(found: Tensor) -> Tensor:
    """Index of the first True in each row [R, L] -> [R]; L where there is none."""
    return torch.where(found.any(1), found.int().argmax(1), found.shape[1])


def _commits(
    network: Network, x: Tensor, masked: Tensor, size: int, threshold: float | None, mask_id: int
) -> tuple[Tensor, Tensor, Tensor]:
    """One forward over boards x [R, L]: which positions are committed, the tokens proposed there and their
    probabilities, each [R, L]."""
    inputs: dict[str, Any] = {}
    first = masked.int().argmax(1, keepdim=True)  # [R, 1]
    if size:
        number = torch.arange(x.shape[1], device=x.device) // size
        inputs["attention_mask"] = (number[:, None] >= number[None])[None, None]
        masked = masked & (number[None] == number[first])
    logits = network(input_ids=x, use_cache=False, **inputs).logits.float()
    logits = torch.cat([logits[:, :1], logits[:, :-1]], dim=1)
    logits[..., mask_id] = -torch.inf
    p, tokens = logits.softmax(-1).max(-1)
    if size:  # the first token of a block is decided by the block before, alone, before anything is known of the block
        free = torch.zeros_like(masked).scatter(1, first, True)
        masked = torch.where(first % size == 0, free, masked)
    confidence = torch.where(masked, p, -1.0)
    best = torch.zeros_like(masked).scatter(1, confidence.argmax(1, keepdim=True), True)
    return best if threshold is None else best | (confidence > threshold), tokens, p


@torch.inference_mode()
def loss_and_agreement(
    network: Network, other: Network | None, tokenizer: Any, examples: list[Example]
) -> tuple[float, float | None]:
    """(mean loss in nats per answer token with the reference before it, share of those positions where both networks
    rank the same token first)."""
    loss = tokens = same = 0.0
    for start in range(0, len(examples), ROWS):
        pairs = encode(tokenizer, examples[start : start + ROWS])
        width = max(len(p) + len(a) for p, a in pairs)
        ids = torch.full((len(pairs), width), tokenizer.eos_token_id)
        targets = torch.full((len(pairs), width), IGNORED)
        for i, (prompt, answer) in enumerate(pairs):
            end = len(prompt) + len(answer)
            ids[i, :end] = torch.tensor(prompt + answer)
            targets[i, len(prompt) - 1 : end - 1] = torch.tensor(answer)
        wanted = targets != IGNORED
        logits = network(input_ids=ids, use_cache=False).logits[wanted].float()
        loss += torch.nn.functional.cross_entropy(logits, targets[wanted], reduction="sum").item()
        tokens += int(wanted.sum())
        if other is not None:
            same += int((logits.argmax(-1) == other(input_ids=ids, use_cache=False).logits[wanted].argmax(-1)).sum())
    return loss / tokens, same / tokens if other is not None else None
