"""Certainty forcing (arXiv 2509.26488): the rows of half-masked blocks, their complementary copies, and the loss."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from engines.training.core.data import IGNORED, Batch, Pair, cut_by_length, shifted
from engines.training.tiny.networks import Network
from engines.training.tiny.recipes import Recipe

TEMPERATURE = 0.5  # of the distribution whose entropy is pressed down


def batches_of(recipe: Recipe, tokenizer: Any, pairs: list[Pair], ratio: float) -> Iterator[Batch]:
    """Endless batches of at most `recipe.batch` tokens, both copies counted, every pair once per epoch."""
    single = replace(recipe, batch=recipe.batch // 2)
    for epoch in count():
        rng = random.Random(f"{recipe.name}/{recipe.seed}/epoch {epoch}")
        for rows in cut_by_length(single, pairs, rng):
            length = max(len(prompt) + canvas for (prompt, _), canvas in rows)
            ids = torch.full((len(rows), length), tokenizer.eos_token_id)
            for i, ((prompt, answer), _) in enumerate(rows):
                ids[i, : len(prompt) + len(answer)] = torch.tensor(prompt + answer)
            x, active = masked_copies(
                ids, [pair for pair, _ in rows], recipe.block, ratio, tokenizer.mask_token_id, rng
            )
            yield {"input_ids": x, "targets": shifted(ids.repeat(2, 1), active)}


def masked_copies(
    ids: Tensor, pairs: Sequence[Pair], block: int, ratio: float, mask_id: int, rng: random.Random
) -> tuple[Tensor, Tensor]:
    """Card, training steps 1 and 2. ids [R, L] end in end marks -> boards [2R, L], the complementary copies behind the
    first, and their active masks."""
    places, generator = torch.arange(ids.shape[1]), torch.Generator().manual_seed(rng.getrandbits(48))
    last = [(len(answer) - 1) // block for _, answer in pairs]  # the block that holds the answer's end
    j = [rng.randint(0, most) for most in last]
    first = torch.tensor([len(prompt) + block * n for (prompt, _), n in zip(pairs, j, strict=True)])[:, None]
    to_the_end = torch.tensor([n == most for n, most in zip(j, last, strict=True)])[:, None]
    active = (places >= first) & ((places < first + block) | to_the_end)  # [R, L]
    drawn = torch.rand(ids.shape, generator=generator) < (1 - 1e-3) * ratio + 1e-3
    hidden = torch.cat([active & drawn, active & ~drawn])
    behind = ((places >= first) & ~active).repeat(2, 1)
    return torch.where(hidden | behind, mask_id, ids.repeat(2, 1)), hidden


def certainty_loss(z: Tensor, y: Tensor, row: Tensor, rows: int, weight: float) -> tuple[Tensor, dict[str, float]]:
    """Card, training steps 3 and 4: CE + CE' + lambda (Ent + Ent'), a mean over sequences, in nats; and what is
    recorded of it.

    z [m, V] logits of the active masks, y [m] their tokens, row [m] the copy each is in, of `rows` copies (two per
    sequence), weight: lambda."""
    right = z.detach().argmax(-1) == y
    log_p = (z[right] / TEMPERATURE).log_softmax(-1)
    ce = _mean_per_row(F.cross_entropy(z, y, reduction="none"), row, rows)
    ent = _mean_per_row(-(log_p.exp() * log_p).sum(-1), row[right], rows)
    loss = 2 * (ce + weight * ent).mean()
    return loss, {"ce": ce.mean().item(), "ent": ent.mean().item(), "n_correct": int(right.sum()), "n_masked": len(y)}


def _mean_per_row(values: Tensor, row: Tensor, rows: int) -> Tensor:
    """Mean of the values [m] of each row -> [rows]; 0 for a row that has none."""
    zeros = torch.zeros(rows, dtype=values.dtype, device=values.device)
    return zeros.index_add(0, row, values) / zeros.index_add(0, row, torch.ones_like(values)).clamp_min(1)


def step_loss(network: Network, batch: Batch, weight: float) -> tuple[Tensor, dict[str, float]]:
    """The loss of a batch; the output layer runs on the active masks alone."""
    wanted = batch["targets"] != IGNORED
    states = network.model(input_ids=batch["input_ids"], use_cache=False).last_hidden_state[wanted]
    return certainty_loss(
        network.lm_head(states).float(), batch["targets"][wanted], wanted.nonzero()[:, 0], len(wanted), weight
    )
