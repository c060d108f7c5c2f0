"""What the activation patterns of a sparse layer say: shares of experts off, by token and by chunk, unions, reuse
(BlockFFN, arXiv 2507.08771, sections 2 and 4).

A pattern is boolean [T, N]: which of N experts are on for each of T tokens in a row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engines.core.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor


def tls(on: Tensor) -> float:
    """Token-level sparsity: the mean share of experts that are off for a token."""
    return cls(on, 1)


def cls(on: Tensor, length: int) -> float:
    """Chunk-level sparsity: the mean share of experts that are off for every token of a chunk, over chunks of that many
    tokens that do not overlap; a rest behind the last whole chunk does not count. NaN where there is no whole chunk.

    Raises ValueError for chunks shorter than one token."""
    if length < 1:
        raise ValueError(f"chunks of {length} tokens cannot be; give 1 or more")
    whole = len(on) // length * length
    if not whole:
        return float("nan")
    return 1 - float(on[:whole].unflatten(0, (-1, length)).any(1).double().mean())


def union(on: Tensor) -> list[int]:
    """The experts that at least one token uses, in rising order."""
    found: list[int] = on.any(0).nonzero()[:, 0].tolist()
    return found


def growth(on: Tensor) -> list[int]:
    """How many experts the first 1, 2, ... T tokens use together."""
    found: list[int] = on.long().cummax(0).values.sum(1).tolist()
    return found


def reuse(on: Tensor) -> float:
    """The mean share of a token's experts that the next token uses too; tokens that use none do not count."""
    here, both = on[:-1].sum(1), (on[:-1] & on[1:]).sum(1)
    some = here > 0
    return float((both[some].double() / here[some]).mean()) if bool(some.any()) else float("nan")
