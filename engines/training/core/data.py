"""Batches for the three kinds of training, deterministic for a seed and a pool number (so that a resumed run sees the
same data).

Examples are drawn in pools, sorted by length and cut into batches of about equal numbers of tokens: little padding, and
no attention mask is needed for causal rows (padding stands behind) or for masked ones (the canvas is lengthened with
end marks instead)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from engines.tasks import TASKS, Example
from engines.tasks.rows import answer_text, prompt_text
from engines.training.tiny.recipes import Recipe
from engines.training.tiny.stories import prompt_of, read_stories

POOL = 1024  # examples that are sorted together
IGNORED = -100
COPIES = {"block": 4}  # noisy and clean half, and both again with the complementary mask
Pair = tuple[list[int], list[int]]  # ids of the prompt with the chat template, ids of the answer with the end mark
Batch = dict[str, Tensor]  # arguments of the network, and "targets" with IGNORED where no loss is taken


def batches(
    recipe: Recipe, tokenizer: PreTrainedTokenizerBase, start: tuple[int, int] = (0, 0)
) -> Iterator[tuple[tuple[int, int], Batch]]:
    """Endless (position behind the batch, batch), from a position (pool, batch in the pool)."""
    pool, skip = start
    while True:
        rng = random.Random(f"{recipe.drawn}/{pool}")
        pairs = encode(tokenizer, draw(recipe, rng))
        for i, rows in enumerate(cut_by_length(recipe, pairs, rng)):
            seed = rng.getrandbits(48)
            if i >= skip:
                yield (
                    (pool, i + 1),
                    make_batch(recipe, tokenizer, rows, random.Random(seed), torch.Generator().manual_seed(seed)),
                )
        pool, skip = pool + 1, 0


def draw(recipe: Recipe, rng: random.Random) -> list[Example]:
    """One pool of training examples in the recipe's mixture."""
    streams = {name: TASKS[name].generate("train", rng.getrandbits(48)) for name in recipe.mixture if name in TASKS}
    chosen = rng.choices(list(recipe.mixture), list(recipe.mixture.values()), k=POOL)
    return [next(streams[name]) if name in streams else rng.choice(_told()) for name in chosen]


@cache
def _told() -> list[Example]:
    return [Example("tell", prompt_of(story), story["text"]) for story in read_stories("train")]


def encode(tokenizer: PreTrainedTokenizerBase, examples: list[Example]) -> list[Pair]:
    """(prompt ids, answer ids) per example."""
    prompts = tokenizer([prompt_text(e.prompt) for e in examples])["input_ids"]
    answers = tokenizer([answer_text(e.answer) for e in examples])["input_ids"]
    return list(zip(prompts, answers, strict=True))


def cut_by_length(recipe: Recipe, pairs: list[Pair], rng: random.Random) -> list[list[tuple[Pair, int]]]:
    """Rows (pair, length of the answer's canvas) in batches of at most `recipe.batch` tokens, in random order."""
    rows = sorted(((pair, _canvas(recipe, pair, rng)) for pair in pairs), key=lambda row: len(row[0][0]) + row[1])
    cut: list[list[tuple[Pair, int]]] = [[]]
    for row in rows:
        longest = len(row[0][0]) + row[1]  # sorted: the newest row is the longest
        if cut[-1] and longest * (len(cut[-1]) + 1) * COPIES.get(recipe.kind, 1) > recipe.batch:
            cut.append([])
        cut[-1].append(row)
    rng.shuffle(cut)
    return cut


def _canvas(recipe: Recipe, pair: Pair, rng: random.Random) -> int:
    """Answer positions of a row: the answer; for a masked model end marks behind it, seldom many, so that a long canvas
    is known too."""
    prompt, answer = pair
    if recipe.kind == "masked":
        return len(answer) + int(80 * rng.random() ** 3)
    return (
        -(-(len(prompt) + len(answer)) // recipe.block) * recipe.block - len(prompt)
        if recipe.kind == "block"
        else len(answer)
    )


def make_batch(
    recipe: Recipe,
    tokenizer: PreTrainedTokenizerBase,
    rows: list[tuple[Pair, int]],
    rng: random.Random,
    generator: torch.Generator,
) -> Batch:
    """Network inputs and targets of some rows. Row i of the logits predicts token i + 1, so targets are shifted."""
    length = max(len(prompt) + canvas for (prompt, _), canvas in rows)
    ids = torch.full((len(rows), length), tokenizer.eos_token_id)
    answered = torch.zeros((len(rows), length), dtype=torch.bool)
    for i, ((prompt, answer), canvas) in enumerate(rows):
        ids[i, : len(prompt) + len(answer)] = torch.tensor(prompt + answer)
        answered[i, len(prompt) : length if recipe.kind == "masked" else len(prompt) + canvas] = True
    if recipe.kind == "causal":
        return {"input_ids": ids, "targets": shifted(ids, answered)}
    if recipe.kind == "masked":
        if recipe.causal and rng.random() < recipe.causal:
            causal = torch.ones((1, 1, length, length), dtype=torch.bool).tril()
            ends = torch.tensor([[len(prompt) + len(answer)] for (prompt, answer), _ in rows])
            return {
                "input_ids": ids,
                "attention_mask": causal,
                "targets": shifted(ids, answered & (torch.arange(length) < ends)),
            }
        drawn = [_hide(len(prompt), len(answer), length, recipe.near, rng, generator) for (prompt, answer), _ in rows]
        hidden, wanted = (torch.stack(part) & answered for part in zip(*drawn, strict=True))
        return {"input_ids": torch.where(hidden, tokenizer.mask_token_id, ids), "targets": shifted(ids, wanted)}
    return block_batch(ids, answered, recipe.block, tokenizer.mask_token_id, generator)


def shifted(ids: Tensor, wanted: Tensor) -> Tensor:
    """Targets [R, L] of the wanted tokens of ids [R, L], each one row earlier; IGNORED elsewhere."""
    targets = torch.full_like(ids, IGNORED)
    targets[:, :-1] = torch.where(wanted, ids, IGNORED)[:, 1:]
    return targets


def _hide(
    prompt: int, answer: int, length: int, near: int, rng: random.Random, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """(which positions of a row are masked, which of them take the loss), each [length]. Half of the rows mask each
    with one rate t ~ U(0, 1) (LLaDA's loss), half are in semi-autoregressive state: a clean prefix, some of the current
    block known, everything behind masked."""
    if rng.random() < 0.5:
        hidden = torch.rand(length, generator=generator) < rng.random()
        return hidden, hidden
    hidden = torch.zeros(length, dtype=torch.bool)
    first = prompt + rng.randint(0, answer - 1)
    end = first + rng.choice((4, 8, 16, 32, 64))
    hidden[first:] = True
    hidden[first:end] = torch.rand(len(hidden[first:end]), generator=generator) < rng.random()
    return hidden, hidden & (hidden.cumsum(0) <= near) if near else hidden


def block_batch(ids: Tensor, answered: Tensor, block: int, mask_id: int, generator: torch.Generator) -> Batch:
    """Fast-dLLM v2's training rows: the noisy text and behind it the clean one, each twice, with a mask and with its
    complement.

    ids [R, L] with L a multiple of `block`. Every block draws t ~ U(0, 1) and masks its answer tokens with probability
    (1 - 1e-3) t + 1e-3. Returns input_ids [2R, 2L], position_ids, the attention mask [1, 1, 2L, 2L] and targets [2R,
    2L], which stand in the noisy half only (section 3.2 and the released code; each answer token is asked for in just
    one of the two copies)."""
    rows, length = ids.shape
    rate = torch.rand((rows, length // block), generator=generator).repeat_interleave(block, dim=1) * (1 - 1e-3) + 1e-3
    drawn = torch.rand((rows, length), generator=generator) < rate
    hidden = torch.cat([drawn & answered, ~drawn & answered])
    clean = ids.repeat(2, 1)
    noisy = torch.where(hidden, mask_id, clean)
    positions = torch.arange(length).repeat(2)[None]
    return {
        "input_ids": torch.cat([noisy, clean], dim=1),
        "position_ids": positions,
        "attention_mask": block_training_mask(length, block)[None, None],
        "targets": torch.cat([shifted(clean, hidden), torch.full_like(clean, IGNORED)], dim=1),
    }


def block_training_mask(length: int, block: int) -> Tensor:
    """Who may look at whom in [noisy; clean] [2L, 2L], True where allowed: own block in the own half, clean earlier
    blocks; a clean row also its own."""
    number = torch.arange(length) // block
    same, earlier = number[:, None] == number[None], number[:, None] > number[None]
    nothing = torch.zeros_like(same)
    return torch.cat([torch.cat([same, earlier], dim=1), torch.cat([nothing, same | earlier], dim=1)])
