"""One token behind a text, as plain decoding writes it: how it is chosen, and what a step records of it."""

from __future__ import annotations

from typing import Any

from engines.kit import Generator, Tensor, distribution, draw, entropy, token_probability, torch


def chosen(z: Tensor, temperature: float, rng: Generator) -> int:
    """The likeliest token of logits [1, V], or above temperature 0 one that is drawn."""
    return draw(distribution(z[0].double(), temperature), rng) if temperature else int(z[0].argmax())


def token_groups(
    at: int, token: int, z: Tensor, temperature: float = 0.0, dtype: torch.dtype | None = None
) -> dict[str, Any]:
    """The groups of the record of a token at a position, chosen from logits [1, V]. dtype: in which its probability is
    computed, by default float64."""
    chance = token_probability(z, z.new_tensor([token]).long(), dtype)  # [1]
    return {
        "commits": ([at], [token], "sampled" if temperature else "greedy", chance),
        "scores": lambda: {"confidence": ([at], chance), "entropy": ([at], entropy(z))},
        "candidates": lambda: ([at], z),
    }
