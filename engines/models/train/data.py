"""Batches for the two kinds of training, deterministic for a seed and a step (so that a resumed run sees the same data)."""

from __future__ import annotations

import random
from collections.abc import Iterator

import torch
from transformers import PreTrainedTokenizerBase

from engines.models.train.recipes import Recipe
from engines.tasks import TASKS, Example

Batch = tuple[torch.Tensor, torch.Tensor]  # input ids [B, L], target ids [B, L] with -100 where no loss is taken


def batches(recipe: Recipe, tokenizer: PreTrainedTokenizerBase, start: int = 0) -> Iterator[Batch]:
    """Endless batches from step `start`. Row i of the logits predicts token i+1 in both kinds, so targets are shifted left by one."""
    weights = list(recipe.mixture.values())
    step = start
    while True:
        rng = random.Random(f"{recipe.name}/{recipe.seed}/{step}")
        streams = {name: TASKS[name].generate("train", rng.getrandbits(48)) for name in recipe.mixture}
        examples = [next(streams[name]) for name in rng.choices(list(recipe.mixture), weights, k=recipe.batch)]
        pairs = encode(tokenizer, examples)
        yield _causal(tokenizer, pairs) if recipe.kind == "causal" else _masked(recipe, tokenizer, pairs, rng)
        step += 1


def encode(tokenizer: PreTrainedTokenizerBase, examples: list[Example]) -> list[tuple[list[int], list[int]]]:
    """(prompt ids with the chat template, answer ids with the end mark) per example."""
    prompts = tokenizer([f"<user> {e.prompt}<answer>" for e in examples])["input_ids"]
    answers = tokenizer([f" {e.answer}<eos>" for e in examples])["input_ids"]
    return list(zip(prompts, answers, strict=True))


def _causal(tokenizer: PreTrainedTokenizerBase, pairs: list[tuple[list[int], list[int]]]) -> Batch:
    length = max(len(p) + len(a) for p, a in pairs)
    ids = torch.full((len(pairs), length), tokenizer.pad_token_id)
    targets = torch.full((len(pairs), length), -100)
    for row, (prompt, answer) in enumerate(pairs):
        end = len(prompt) + len(answer)
        ids[row, :end] = torch.tensor(prompt + answer)
        targets[row, len(prompt) - 1 : end - 1] = torch.tensor(answer)
    return ids, targets


def _masked(recipe: Recipe, tokenizer: PreTrainedTokenizerBase, pairs: list[tuple[list[int], list[int]]], rng: random.Random) -> Batch:
    """The answer stands on an EOS-padded canvas. Half of the rows mask every position with a rate t ~ U(0, 1) (LLaDA's loss), half are
    in semi-autoregressive state: a clean prefix, some of the current block known, everything behind masked.

    Rows are padded to one length by lengthening the canvas, so that no position is hidden and a plain full-attention forward serves.
    """
    generator = torch.Generator().manual_seed(rng.getrandbits(48))
    low, high = recipe.canvas
    canvas = low + int((high + 1 - low) * rng.random() ** 3)
    length = max(len(p) for p, _ in pairs) + canvas
    ids = torch.full((len(pairs), length), tokenizer.eos_token_id)
    answered = torch.zeros((len(pairs), length), dtype=torch.bool)
    hidden = torch.zeros((len(pairs), length), dtype=torch.bool)
    for row, (prompt, answer) in enumerate(pairs):
        ids[row, : len(prompt) + len(answer)] = torch.tensor(prompt + answer)
        answered[row, len(prompt) :] = True
        if rng.random() < 0.5:
            hidden[row] = torch.rand(length, generator=generator) < rng.random()
        else:
            first = len(prompt) + rng.randint(0, len(answer) - 1)
            block_end = first + rng.choice((4, 8, 16, 32))
            hidden[row, first:] = True
            hidden[row, first:block_end] = torch.rand(len(hidden[row, first:block_end]), generator=generator) < rng.random()
    hidden &= answered
    targets = torch.full_like(ids, -100)
    targets[:, :-1] = torch.where(hidden, ids, -100)[:, 1:]
    return torch.where(hidden, tokenizer.mask_token_id, ids), targets
