"""Text and trees in llama.cpp's cells, against a model of what llama.cpp does: each row has to see its own path, in the
order of its text."""

import random

import numpy as np
import pytest

from engines import UserError
from engines.models.gguf.sequences import GRAVE, SequenceCache

MUCH = 1024  # cells: all that is dropped keeps its own


class Cells:
    """What llama.cpp does with cells, its checks included. A row's "logits" are the tokens that it sees, in the order
    of the cells."""

    def __init__(self, cells):
        self.cells = cells
        self.held = [None] * cells  # (token, position, sequences)
        self.head = 0
        self.gathered = 0

    def _members(self, sequence):
        return [cell for cell in self.held if cell and sequence in cell[2]]

    def feed(self, tokens, positions, sequences, last_only=False):
        for sequence in {s for own in sequences for s in own}:
            fed = [p for p, own in zip(positions, sequences, strict=True) if sequence in own]
            held = max((cell[1] for cell in self._members(sequence)), default=-1)
            assert held < 0 or min(fed) == held + 1, "llama.cpp refuses a gap"
            assert sorted(fed) == list(range(min(fed), max(fed) + 1)), "llama.cpp refuses positions that do not follow"
        seen = []
        for token, position, own in zip(tokens, positions, sequences, strict=True):
            at = next(i % self.cells for i in range(self.head, self.head + self.cells) if not self.held[i % self.cells])
            self.held[at], self.head = (token, position, set(own)), at + 1
            seen.append((position, own[0]))
        rows = [
            [cell[0] for cell in self.held if cell and sequence in cell[2] and cell[1] <= position]
            for position, sequence in seen
        ]
        width = max(map(len, rows))
        z = np.array([[*row, *[-1] * (width - len(row))] for row in rows], dtype=np.float32)
        return z[-1:] if last_only else z

    def join(self, source, target, begin, end):
        for _, position, own in self._members(source):
            if position >= begin and (end < 0 or position < end):
                own.add(target)

    def leave(self, sequence, begin, end=-1):
        for i, cell in enumerate(self.held):
            if cell and sequence in cell[2] and cell[1] >= begin and (end < 0 or cell[1] < end):
                cell[2].discard(sequence)
                if not cell[2]:
                    self.held[i] = None
                    self.head = min(self.head, i)

    def gather(self, sequence):
        kept = self._members(sequence)
        self.held = [*kept, *[None] * (self.cells - len(kept))]
        self.head, self.gathered = len(kept), self.gathered + 1


def tokens_seen(row):
    return [int(token) for token in row if token >= 0]


def chain(cache, tokens):
    held = cache.length
    above = range(held - 1, held + len(tokens) - 1)
    depth = len(path_of(cache, held - 1))
    return cache.feed(tokens, list(above), list(range(depth, depth + len(tokens))))


def path_of(cache, row):
    path = []
    while row >= 0:
        path.insert(0, row)
        row = cache.parents[row]
    return path


def test_a_row_of_a_tree_sees_its_own_path():
    cache = SequenceCache(Cells(256), 64)
    chain(cache, [1, 2, 3])
    z = cache.feed([4, 5, 6, 7], [2, 3, 3, 5], [3, 4, 4, 5])
    assert list(map(tokens_seen, z)) == [[1, 2, 3, 4], [1, 2, 3, 4, 5], [1, 2, 3, 4, 6], [1, 2, 3, 4, 6, 7]]
    cache.keep(3, [0, 2, 3])  # the path 4 6 7
    assert cache.length == 6 and cache.parents == [-1, 0, 1, 2, 3, 4]
    assert tokens_seen(chain(cache, [8])[0]) == [1, 2, 3, 4, 6, 7, 8]


def test_a_later_call_goes_on_from_rows_of_a_tree():
    cache = SequenceCache(Cells(256), 64)
    chain(cache, [1, 2])
    cache.feed([3, 4], [1, 1], [2, 2])
    z = cache.feed([5, 6, 7], [2, 3, 3], [3, 3, 3])
    assert list(map(tokens_seen, z)) == [[1, 2, 3, 5], [1, 2, 4, 6], [1, 2, 4, 7]]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("cells", [48, MUCH], ids=["little room", "much room"])
def test_whatever_is_fed_kept_and_cropped_a_row_sees_its_path_in_order(seed, cells):
    rng, model = random.Random(seed), Cells(cells)
    cache, texts = SequenceCache(model, 40), []  # the token of each row
    for turn in range(60):
        n = min(rng.randint(1, 8), 40 - cache.length)
        fed = [100 * turn + i for i in range(n)]
        held, above, depths = cache.length, [], []
        for i in range(n):
            low = 0 if turn % 3 else held - 1 + i  # trees that grow anywhere, and chains
            row = rng.randint(min(low, held + i - 1), held + i - 1) if held + i else -1
            above.append(row)
            depths.append(0 if row < 0 else 1 + (cache.positions[row] if row < held else depths[row - held]))
        if n:
            z = cache.feed(fed, above, depths)
            texts += fed
            for i in range(n):
                expected = [texts[row] for row in path_of(cache, held + i)]
                got = tokens_seen(z[i])
                assert (got if cells == MUCH else sorted(got)) == (expected if cells == MUCH else sorted(expected))
        tip = rng.randrange(cache.length)
        path = path_of(cache, tip)
        if turn % 2:
            base = rng.randint(0, len(path))
            while path[:base] != list(range(base)):
                base -= 1
            rows = [row - base for row in path[base:]]
            cache.keep(base, rows)
            texts = [texts[row] for row in path]
        elif turn % 5 == 0:
            cache.crop(tip + 1)
            texts = texts[: tip + 1]


def test_cells_stay_in_the_order_of_the_text_and_move_together_when_room_is_short():
    model = Cells(44)
    cache, text = SequenceCache(model, 40), [1, 2, 3]
    chain(cache, text)
    for turn in range(12):
        held, token = cache.length, 10 * (turn + 1)
        cache.feed(
            [token, token + 1, token + 2, token + 3, token + 4],
            [held - 1, held - 1, held, held + 1, held + 3],
            [held, held, held + 1, held + 1, held + 2],
        )
        cache.keep(held, [1, 3])
        text += [token + 1, token + 3]
        assert [cell[0] for cell in model.held if cell and cell[2] - {GRAVE}] == text
    assert model.gathered > 0, "and there was not room for all that was dropped"


def test_what_cannot_be_kept_is_refused():
    cache = SequenceCache(Cells(256), 64)
    chain(cache, [1, 2])
    cache.feed([3, 4], [1, 2], [2, 3])
    with pytest.raises(ValueError, match="row 3 was kept and its parent 2 was not"):
        cache.keep(2, [1])
    with pytest.raises(ValueError, match="holds 4 positions"):
        cache.keep(2, [2])
    with pytest.raises(ValueError, match="cannot be cropped to 5"):
        cache.crop(5)


def test_more_ends_than_sequences_are_refused_and_nothing_is_lost():
    cache = SequenceCache(Cells(1024), 600)
    chain(cache, [1])
    with pytest.raises(UserError, match="more than 255 ends"):
        cache.feed(list(range(2, 302)), [0] * 300, [1] * 300)
    assert cache.length == 1
    assert tokens_seen(chain(cache, [9])[0]) == [1, 9]


def test_a_refused_call_leaves_the_cache_as_it_was():
    model = Cells(256)
    cache = SequenceCache(model, 64)
    chain(cache, [1, 2])
    works = model.feed

    def refuses(*given):
        raise UserError("no")

    model.feed = refuses
    with pytest.raises(UserError, match="no"):
        cache.feed([3, 4], [1, 1], [2, 2])
    model.feed = works
    z = cache.feed([5, 6], [1, 1], [2, 2])
    assert list(map(tokens_seen, z)) == [[1, 2, 5], [1, 2, 6]]


def test_rows_that_do_not_fit_are_refused():
    cache = SequenceCache(Cells(256), 4)
    chain(cache, [1, 2, 3])
    with pytest.raises(UserError, match="room for 4 positions; 3 are used and 2 more were fed"):
        chain(cache, [4, 5])
