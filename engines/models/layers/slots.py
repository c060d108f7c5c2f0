"""A preallocated key-value cache: rows are written where they belong, never concatenated.

It is a transformers `Cache`, so stock models take it as `past_key_values`, and the `KVCache` of our protocol. Shapes: h
key-value heads, d head size, n new rows.

Behind the rows in use there may be a *board*: rows that are seen but do not count, and that later forwards write again
at places of their choice (the unfinished block of block diffusion). The first ordinary update, a crop and a reset
forget it.

Layers may hold different numbers of rows: a forward that leaves early fills the first ones only."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

from engines.core.errors import UserError


class SlotLayer(CacheLayerMixin):
    """Keys and values of one layer in two buffers [1, h, capacity, d], of which the first `length` rows are in use, and
    `board` ones behind them.

    start: where on the board the next rows go; None: behind the rows in use, as ordinary ones.
    """

    is_sliding = False
    is_croppable = True
    supports_early_init = False

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self.capacity, self.length, self.board = capacity, 0, 0
        self.start: int | None = None

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Allocate the buffers in the shape, dtype and device of the first rows [1, h, n, d] that arrive."""
        self.dtype, self.device = key_states.dtype, key_states.device
        self.keys = key_states.new_zeros(*key_states.shape[:2], self.capacity, key_states.shape[-1])
        self.values = value_states.new_zeros(*value_states.shape[:2], self.capacity, value_states.shape[-1])
        self.is_initialized = True

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Write rows [1, h, n, d] behind the used ones, or on the board; return views [1, h, length + board, d]. Raises
        UserError if they do not fit."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        begin = self.length + (self.start or 0)
        end = begin + key_states.shape[-2]
        check_room(begin, end - begin, self.capacity)
        self.keys.narrow(2, begin, end - begin).copy_(key_states)
        self.values.narrow(2, begin, end - begin).copy_(value_states)
        if self.start is None:
            self.length, self.board = end, 0
        else:
            self.board = max(self.board, end - self.length)
        seen = self.length + self.board
        return self.keys.narrow(2, 0, seen), self.values.narrow(2, 0, seen)

    def keep(self, base: int, rows: Tensor) -> None:
        """Move the rows `base + rows` [k] behind the first `base` ones, in place."""
        end = base + len(rows)
        if self.is_initialized:
            rows = base + rows.to(self.keys.device)
            self.keys[:, :, base:end] = self.keys.index_select(2, rows)
            self.values[:, :, base:end] = self.values.index_select(2, rows)
        self.crop(end)

    def crop(self, length: int) -> None:
        """Forget the board and everything from row `length` on."""
        self.length, self.board = min(self.length, length), 0

    def reset(self) -> None:
        """Forget all rows; the buffers stay."""
        self.crop(0)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """(columns of the attention mask, first column), as transformers asks for it."""
        return self.length + query_length, 0

    def get_seq_length(self) -> int:
        """Rows in use."""
        return self.length

    def get_max_length(self) -> int:
        """Rows that fit."""
        return self.capacity


class SlotCache(Cache):
    """One `SlotLayer` per layer of the model, for one sequence of at most `capacity` positions."""

    layers: list[SlotLayer]

    def __init__(self, num_layers: int, capacity: int, layer: type[SlotLayer] = SlotLayer) -> None:
        check_capacity(capacity)
        super().__init__(layers=[layer(capacity) for _ in range(num_layers)])
        self.capacity = capacity

    @property
    def lengths(self) -> tuple[int, ...]:
        """Rows in use by layer."""
        return tuple(layer.length for layer in self.layers)

    @property
    def length(self) -> int:
        """Positions that the cache holds, in all layers."""
        return min(layer.length for layer in self.layers)

    @property
    def bytes(self) -> int:
        """Bytes of all buffers as they are allocated, 0 before the first forward."""
        return sum(layer.keys.nbytes + layer.values.nbytes for layer in self.layers if layer.is_initialized)

    @property
    def board(self) -> int:
        """Rows on the board behind those."""
        return self.layers[0].board

    @contextmanager
    def on_board(self, start: int) -> Iterator[None]:
        """Forwards in here write their rows on the board, from its place `start` on, instead of adding to the rows in
        use."""
        try:
            for layer in self.layers:
                layer.start = start
            yield
        finally:
            for layer in self.layers:
                layer.start = None

    def cut_board(self, rows: int) -> None:
        """Keep the first `rows` rows of the board."""
        for layer in self.layers:
            layer.board = min(layer.board, rows)

    def crop(self, length: int) -> None:
        """Forget the board and everything from position `length` on (transformers' own caches take a negative count);
        layers that hold less stay as they are. Raises ValueError if none holds that much."""
        check_crop(max(self.lengths), length)
        for layer in self.layers:
            layer.crop(length)

    @torch.no_grad()
    def keep(self, base: int, rows: Sequence[int]) -> None:
        """Keep the first `base` rows and, behind them, the rows base + r for r in `rows` (ascending); a layer that
        lags behind keeps those of them that it holds. Raises ValueError for rows that no layer holds."""
        check_kept(held := max(self.lengths), base, rows)
        same = next((i for i, row in enumerate(rows) if i != row), len(rows))  # a leading 0, 1, 2 ... stays where it is
        if same == len(rows):
            return self.crop(base + same)
        moved = torch.tensor([row - same for row in rows[same:]])
        for layer in self.layers:
            there = layer.length - base - same  # rows that it holds from the first moved one on
            layer.keep(min(base + same, layer.length), moved if layer.length == held else moved[moved < there])


def check_room(used: int, new: int, capacity: int) -> None:
    """Raise UserError if `new` rows do not fit behind `used` ones."""
    if used + new > capacity:
        raise UserError(
            f"the cache has room for {capacity} positions; {used} are used and {new} more were fed. Give new_cache a "
            "larger capacity."
        )


def check_capacity(capacity: int) -> None:
    """Raise UserError for a cache that holds nothing."""
    if capacity < 1:
        raise UserError(f"a cache needs room for at least one position; capacity={capacity} was given.")


def check_crop(held: int, length: int) -> None:
    """Raise ValueError where a cache of `held` positions cannot be cropped to that length."""
    if not 0 <= length <= held:
        raise ValueError(f"the cache holds {held} positions; it cannot be cropped to {length}")


def check_kept(held: int, base: int, rows: Sequence[int]) -> None:
    """Raise ValueError where a cache of `held` positions cannot keep `base` of them and those rows behind them."""
    ordered = all(a < b for a, b in pairwise(rows))
    if base < 0 or not ordered or (rows and (rows[0] < 0 or base + rows[-1] >= held)) or base > held:
        raise ValueError(
            f"the cache holds {held} positions; cannot keep {base} and then the rows {list(rows)} behind them"
        )
