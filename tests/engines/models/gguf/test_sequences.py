"""Text and trees in llama.cpp's cells, against a model of what it does: each row sees its own path in order."""

import numpy as np
import pytest

from engines import UserError
from engines.models.gguf.sequences import GRAVE, SequenceCache
from tests.engines.models.gguf.walks import path_of, walk
from tests.engines.refusals import refuses

MUCH = 1024  # cells: all that is dropped keeps its own


class Cells:
    """What llama.cpp does with cells, its checks included. A row's "logits" are the tokens that it sees, in order."""

    def __init__(self, cells):
        self.cells, self.head, self.gathered = cells, 0, 0
        self.held = [None] * cells  # (token, position, sequences)

    def _members(self, sequence):
        return [cell for cell in self.held if cell and sequence in cell[2]]

    def feed(self, tokens, positions, sequences, last_only=False):
        for sequence in {s for own in sequences for s in own}:
            fed = [p for p, own in zip(positions, sequences, strict=True) if sequence in own]
            held = max((cell[1] for cell in self._members(sequence)), default=-1)
            assert held < 0 or min(fed) == held + 1, "llama.cpp refuses a gap"
            assert sorted(fed) == list(range(min(fed), max(fed) + 1)), "llama.cpp refuses positions that do not follow"
        rows = []
        for token, position, own in zip(tokens, positions, sequences, strict=True):
            at = next(i % self.cells for i in range(self.head, self.head + self.cells) if not self.held[i % self.cells])
            self.held[at], self.head = (token, position, set(own)), at + 1
        for position, (sequence, *_) in zip(positions, sequences, strict=True):
            rows.append([cell[0] for cell in self._members(sequence) if cell[1] <= position])
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
                    self.held[i], self.head = None, min(self.head, i)

    def gather(self, sequence):
        kept = self._members(sequence)
        self.held = [*kept, *[None] * (self.cells - len(kept))]
        self.head, self.gathered = len(kept), self.gathered + 1


def tokens_seen(row):
    return [int(token) for token in row if token >= 0]


def chain(cache, tokens):
    held = cache.length
    depth = len(path_of(cache, held - 1))
    return cache.feed(tokens, [*range(held - 1, held + len(tokens) - 1)], [*range(depth, depth + len(tokens))])


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("cells", [48, MUCH], ids=["little room", "much room"])
def test_whatever_is_fed_kept_and_cropped_a_row_sees_its_path_in_order(seed, cells):
    in_order = sorted if cells != MUCH else list
    for z, paths in walk(SequenceCache(Cells(cells), 40), seed, turns=60, most=8, words=10**6):
        assert [in_order(tokens_seen(row)) for row in z] == [in_order(path) for path in paths]


def test_cells_stay_in_the_order_of_the_text_and_move_together_when_room_is_short():
    model = Cells(44)
    cache, text = SequenceCache(model, 40), [1, 2, 3]
    chain(cache, text)
    for turn in range(12):
        n, fed = cache.length, [10 * turn + 10 + i for i in range(5)]
        cache.feed(fed, [n - 1, n - 1, n, n + 1, n + 3], [n, n, n + 1, n + 1, n + 2])
        cache.keep(n, [1, 3])
        text += [fed[1], fed[3]]
        assert [cell[0] for cell in model.held if cell and cell[2] - {GRAVE}] == text
    assert model.gathered > 0, "and there was not room for all that was dropped"


def test_what_cannot_be_kept_or_fed_is_refused():
    cache = SequenceCache(Cells(1024), 305)
    chain(cache, [1, 2])
    cache.feed([3, 4], [1, 2], [2, 3])
    refuses(ValueError, "row 3 was kept and its parent 2 was not", cache.keep, 2, [1])
    refuses(ValueError, "holds 4 positions", cache.keep, 2, [2])
    refuses(ValueError, "cannot be cropped to 5", cache.crop, 5)
    refuses(UserError, "more than 254 ends", cache.feed, list(range(2, 302)), [0] * 300, [1] * 300)
    refuses(UserError, "room for 305 positions; 4 are used and 302 more were fed", chain, cache, [9] * 302)
    assert tokens_seen(chain(cache, [9])[0]) == [1, 2, 3, 4, 9], "and nothing is lost"


def test_a_refused_call_leaves_the_cache_as_it_was():
    model = Cells(256)
    cache = SequenceCache(model, 64)
    chain(cache, [1, 2])
    works = model.feed

    def says_no(*given):
        raise UserError("no")

    model.feed = says_no
    refuses(UserError, "no", cache.feed, [3, 4], [1, 1], [2, 2])
    model.feed = works
    z = cache.feed([5, 6], [1, 1], [2, 2])
    assert list(map(tokens_seen, z)) == [[1, 2, 5], [1, 2, 6]]
