"""The preallocated cache: writes in place, crops, keeps accepted rows, refuses what does not fit."""

import pytest
import torch

from engines.core.errors import UserError
from engines.models.layers.slots import SlotCache
from tests.engines.refusals import refuses


def filled(n: int, layers: int = 2, capacity: int = 10) -> SlotCache:
    cache = SlotCache(layers, capacity)
    for layer in range(layers):
        rows = torch.arange(float(n)).view(1, 1, n, 1).expand(1, 2, n, 3) + 100 * layer
        cache.update(rows, -rows, layer)
    return cache


def held(cache: SlotCache, layer: int = 0) -> list[float]:
    return cache.layers[layer].keys[0, 0, : cache.lengths[layer], 0].tolist()


def test_rows_are_written_and_gathered_in_place() -> None:
    cache = filled(7)
    buffer = cache.layers[1].values
    keys, values = cache.update(torch.full((1, 2, 1, 3), 7.0), torch.full((1, 2, 1, 3), -7.0), 0)
    assert keys.shape == (1, 2, 8, 3) and values[0, 0, -1, 0] == -7
    assert keys.data_ptr() == cache.layers[0].keys.data_ptr()
    cache.update(torch.full((1, 2, 1, 3), 107.0), torch.full((1, 2, 1, 3), -107.0), 1)
    cache.keep(3, [0, 2, 4])
    assert held(cache) == [0, 1, 2, 3, 5, 7] and held(cache, 1) == [100, 101, 102, 103, 105, 107]
    assert cache.layers[1].values.data_ptr() == buffer.data_ptr() and cache.layers[1].values[0, 0, 5, 0] == -107
    with pytest.raises(UserError, match=r"room for 10 positions; 6 are used and 5 more"):
        cache.update(torch.zeros(1, 2, 5, 3), torch.zeros(1, 2, 5, 3), 0)
    refuses(UserError, "capacity=0", SlotCache, 1, 0)


@pytest.mark.parametrize(
    ("base", "rows", "left"),
    [(3, [], [0, 1, 2]), (3, [0, 1], [0, 1, 2, 3, 4]), (0, [5], [5]), (6, [], [0, 1, 2, 3, 4, 5])],
)
def test_keep_edges_and_what_it_does_not_hold(base: int, rows: list[int], left: list[float]) -> None:
    cache = filled(6)
    cache.keep(base, rows)
    assert held(cache) == left
    for base, rows in [(-1, [0]), (3, [1, 0]), (3, [0, 0]), (3, [3]), (7, []), (2, [-1])]:
        refuses(ValueError, "holds 6 positions", filled(6).keep, base, rows)


def uneven() -> SlotCache:
    """Six rows in the first layer, four in the second: two left early."""
    cache = filled(4)
    cache.update(torch.tensor([4.0, 5.0]).view(1, 1, 2, 1).expand(1, 2, 2, 3), torch.zeros(1, 2, 2, 3), 0)
    return cache


def test_layers_may_hold_different_numbers_of_rows() -> None:
    cache = uneven()
    assert cache.lengths == (6, 4) and cache.length == 4
    cache.crop(5)  # the layer that lags behind stays as it is
    assert held(cache) == [0, 1, 2, 3, 4] and held(cache, 1) == [100, 101, 102, 103]
    cache.crop(2)
    assert held(cache) == [0, 1] and held(cache, 1) == [100, 101]
    refuses(ValueError, "cannot be cropped to 3", cache.crop, 3)
    cache.crop(0)
    assert cache.length == 0
    refuses(ValueError, "holds 6 positions; it cannot be cropped to 7", uneven().crop, 7)


@pytest.mark.parametrize(
    ("base", "rows", "first", "second"),
    [
        (4, [1], [0, 1, 2, 3, 5], [100, 101, 102, 103]),
        (2, [0, 1, 3], [0, 1, 2, 3, 5], [100, 101, 102, 103]),
        (1, [1, 2, 4], [0, 2, 3, 5], [100, 102, 103]),
    ],
)
def test_a_layer_that_lags_behind_keeps_what_it_holds(base, rows, first, second):
    cache = uneven()
    cache.keep(base, rows)
    assert (held(cache), held(cache, 1)) == (first, second)
    refuses(ValueError, "holds 6 positions", uneven().keep, 4, [2])


def rows(value: float, n: int) -> torch.Tensor:
    return torch.full((1, 2, n, 3), value)


def test_the_board_behind_the_rows_in_use_is_forgotten_by_whatever_moves_them() -> None:
    cache = filled(4, layers=1)
    with cache.on_board(0):
        keys, _ = cache.update(rows(7.0, 3), rows(0.0, 3), 0)
        assert keys[0, 0, :, 0].tolist() == [0, 1, 2, 3, 7, 7, 7]
    with cache.on_board(1):
        keys, values = cache.update(rows(8.0, 1), rows(1.0, 1), 0)
    assert keys[0, 0, :, 0].tolist() == [0, 1, 2, 3, 7, 8, 7] and values[0, 0, 4:, 0].tolist() == [0, 1, 0]
    assert (cache.length, cache.board, cache.get_seq_length()) == (4, 3, 4)
    keys, _ = cache.update(rows(9.0, 1), rows(0.0, 1), 0)
    assert keys[0, 0, :, 0].tolist() == [0, 1, 2, 3, 9] and (cache.length, cache.board) == (5, 0)
    for forget in (lambda: cache.crop(4), lambda: cache.keep(2, [1]), cache.reset):
        with cache.on_board(0):
            cache.update(rows(0.0, 3), rows(0.0, 3), 0)
        assert cache.board == 3
        forget()
        assert cache.board == 0
    with pytest.raises(UserError, match="room for 10 positions"), cache.on_board(9):
        cache.update(rows(0.0, 2), rows(0.0, 2), 0)
    assert cache.length == 0 and cache.layers[0].start is None
