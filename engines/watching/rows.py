"""How the rows of a forward hang together, and which of them a cache kept: from position ids, masks, and the keys in
the cache themselves.

Shapes: B sequences, n rows fed, K columns of a mask or rows of a cache, h key-value heads, d head size."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from engines.core.lazy import Tensor, torch
from engines.watching.arguments import Unreadable, given_to_decoder, keys_of
from engines.watching.hooks import Call
from engines.watching.packed import seen_by

PADDING = (
    "The calls gave a mask of two dimensions, which tells padding and nothing of blocks: unless the module makes "
    "its block mask itself, its rows saw the whole window, or only what stands before them; give a model of blocks "
    "attention_mask [1, 1, n, n], true where j // B <= i // B."
)
SECOND_LOOK = (
    "Behind the board stood rows with position ids of the board, a second look at its places; they are computed and "
    "are no part of it."
)
MOST_ROWS = 512  # of a forward whose keys are held against the next cache


def parents_of(call: Call, root: int) -> list[int] | None:
    """The parent of each of n rows of the first sequence, those up to the root a chain: by a mask [B, 1, n, K] the
    nearest row that it sees, else a chain where the position ids rise by one. None where neither says it."""
    mask: Any = given_to_decoder(call.given, "attention_mask")
    chain = list(range(-1, call.n - 1))
    if root == call.n - 1:
        return chain
    if torch.is_tensor(mask) and mask.ndim == 4 and mask.shape[-2] == call.n and mask.shape[-1] >= call.n:
        behind = _by_mask(mask[0, 0, root:, root - call.n :])
        return None if behind is None else [*chain[:root], *(root + parent for parent in behind)]
    if mask is not None and not torch.is_tensor(mask):
        return None
    if call.positions is not None and not bool((call.positions[0, root:].diff() == 1).all()):
        return None
    return chain


def _by_mask(mask: Tensor) -> list[int] | None:
    """mask [n, n]: True, or a number that is not hugely negative, where row i sees row j."""
    seen = seen_by(mask)
    depths = seen.sum(1)
    parents = []
    for row in range(len(depths)):
        above = np.flatnonzero(seen[row, :row])
        parent = int(above[depths[above].argmax()]) if len(above) else -1
        if seen[row, row + 1 :].any() or len(above) != depths[row] - 1 or (parent < 0) != (row == 0):
            return None  # later rows are seen, or rows hang on something that was not fed here
        parents.append(parent)
    return parents


class Fingerprint:
    """The keys that one forward put into a cache, last layer, first head: they depend on everything before a row, so
    equal keys are the same row behind the same text."""

    def __init__(self, keys: Tensor, past: int) -> None:
        self.keys, self.past = keys, past  # [B, n, d]

    def kept(self, cache: Any, now: int) -> list[int] | None:
        """The rows of the forward that stand at the end of the cache, in their order; None where that cannot be seen.
        now: rows in the cache."""
        keys = keys_of(cache)
        if keys is None or keys.shape[0] != len(self.keys):
            return None
        last = newest(keys, now)
        newest_keys = keys[0, 0, max(0, last + 1 - self.keys.shape[1]) : last + 1]  # [k, d]
        same = (newest_keys[:, None] == self.keys[0][None].to(newest_keys.device)).all(-1)  # [k, n]
        rows: list[int] = []
        for hits in same.cpu().flip(0):
            if not bool(hits.any()):
                break
            rows.insert(0, int(hits.int().argmax()))
        return rows if len(rows) >= now - self.past else None

    def last(self, cache: Any, now: int) -> int | None:
        """The row of the forward that is the newest of `now` rows in the cache; None where it is none of them."""
        keys = keys_of(cache)
        if keys is None:
            return None
        same = (self.keys[0].to(keys.device) == keys[0, 0, newest(keys, now)]).all(-1).nonzero()
        return int(same[-1]) if len(same) else None

    def parents(self, cache: Any) -> list[int] | None:
        """Which sequence each sequence of the cache [B] was after that forward: itself where it can be; None where the
        keys cannot be seen. Raises Unreadable where they are those of no sequence."""
        keys, end = keys_of(cache), self.past + self.keys.shape[1]
        if keys is None or keys.shape[0] != len(self.keys):
            return None
        now = keys[:, 0, newest(keys, end)]  # [B, d]
        same = (now[:, None] == self.keys[:, -1][None].to(now.device)).all(-1)  # [B now, B then]
        if not bool(same.any(1).all()):
            if keys.shape[-2] < end:
                return None
            raise Unreadable(
                "the cache no longer holds the rows that the last forward put into it, so which sequence each one goes "
                "on with cannot be seen."
            )
        return [b if bool(row[b]) else int(row.int().argmax()) for b, row in enumerate(same)]


def newest(keys: Tensor, end: int) -> int:
    """Where the newest of `end` rows stands among the keys [B, h, K, d]: at their end where they are fewer, of a window
    or of what a cache has not packed yet."""
    return min(end, keys.shape[-2]) - 1


def fingerprint(call: Call, cache: Any) -> Fingerprint | None:
    """That of a forward that has just ended, of its newest rows as far as they are held; None where its keys cannot be
    seen."""
    keys, past = keys_of(cache), call.past
    if keys is None or past is None or not keys.shape[-2] or keys.shape[0] != call.batch:
        return None
    last, n = newest(keys, past + call.n), min(call.n, MOST_ROWS, keys.shape[-2])
    return Fingerprint(keys[:, 0, last + 1 - n : last + 1].clone(), past + call.n - n)


def fitting(board: np.ndarray, part: np.ndarray, mask_id: int) -> list[int]:
    """The places of a board [L] where a part [n] can stand: what is written there is the same, masks may be filled."""
    if len(part) > len(board):
        return []
    windows = np.lib.stride_tricks.sliding_window_view(board, len(part))
    return np.flatnonzero(((windows == part) | (windows == mask_id)).all(1)).tolist()


def padding(call: Call) -> bool:
    """Whether a call gave a mask that says what is padding, [B, n]."""
    mask = call.given.get("attention_mask")
    return mask is not None and torch.is_tensor(mask) and mask.ndim == 2


def first_look(call: Call, row: int) -> int:
    """How many rows of a call [B, n] with position ids come before those whose places all were fed by earlier ones: a
    copy of a block, looked at once more. Padding has one position throughout, or is named by the mask."""
    assert call.positions is not None
    places = call.positions[row].tolist()
    starts = [0, *(i for i in range(1, call.n) if places[i] != places[i - 1] + 1), call.n]
    mask: Any = call.given.get("attention_mask")
    hidden = ~mask[row].bool().cpu() if padding(call) and mask.shape == (call.batch, call.n) else None
    for i, (start, end) in enumerate(pairwise(starts)):
        before = [places[a:b] for a, b in pairwise(starts[: i + 1]) if b - a > 1]
        shown = hidden is None or not bool(hidden[start:end].any())
        if shown and any(set(places[start:end]) <= set(run) for run in before):
            return start
    return call.n


def guidance(rows: np.ndarray, mask_id: int) -> list[tuple[int, int | None]]:
    """(row, its blind row or None) of every prompt in a first call [B, n]: a blind row is another one with more
    masks."""
    half = len(rows) // 2
    if len(rows) % 2 == 0:
        for first, second in ((0, half), (half, 0)):
            pairs = list(zip(rows[first : first + half], rows[second : second + half], strict=True))
            if all(_hidden(seen, blind, mask_id) for seen, blind in pairs):
                return [(first + i, second + i) for i in range(half)]
    return [(row, None) for row in range(len(rows))]


def _hidden(seen: np.ndarray, blind: np.ndarray, mask_id: int) -> bool:
    other = seen != blind
    return bool(other.any() and (blind[other] == mask_id).all())


def grown(before: int, now: int, alike: bool) -> str:
    """What is said where a batch has another number of rows than before. alike: whether all of them begin with one
    text."""
    return f"the loop fed {before} rows and then {now}, so they cannot be followed" + (
        ": candidates of one text that are tried side by side." if alike else "; decode the prompts one by one."
    )


def row_of(place: int, start: int, shift: bool) -> int:
    """The row of a forward from `start` on that is the distribution of a place; -1 where it stands before what was
    fed. The first row of a board keeps its own."""
    return place - start if not shift or place == 0 else place - start - 1


def rivals(logits: Tensor, places: Sequence[int], board: np.ndarray, start: int, shift: bool) -> set[int]:
    """The rows of logits [n, V], of a forward from `start` on, that would write another token than stands at one of
    these places of the board: it may be replaced."""
    rows = [row_of(place, start, shift) for place in places]
    likeliest = logits[rows].argmax(-1).tolist() if rows else []
    pairs = zip(rows, places, likeliest, strict=True)
    return {row for row, place, token in pairs if row >= 0 and token != board[place]}
