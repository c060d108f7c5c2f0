"""What a drafter would have said along a text that is known: for each place of it a draft of k tokens, each behind the
text's own tokens. Where the first j - 1 are the text's, that is the draft itself, so accepted lengths are exact.

All places go through the drafter together: rows of the text as they are read in a run, and behind each place rows of
its own, which see the text up to there and their own line.

Shapes: T tokens of a text, P places (a place t has the state t and the newest token t + 1), k depth, v draft
vocabulary."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from engines.models.adapters.layered import RAW

CHUNK = 512  # rows of blocks that go through a drafter at once
Logits = Iterator[
    tuple[int, list[int], Tensor]
]  # depth from 1, places t, logits [len(places), v] of token t + 1 + depth


def states_of(target: Any, ids: Sequence[int]) -> dict[int, Tensor]:
    """The streams [T, d] of a text behind 0 ... L layers and behind the final norm, as `extend` numbers them."""
    n = target.num_layers
    out = target.extend(list(ids), target.new_cache(len(ids)), hidden=(*range(n + 1), RAW), last_only=True)
    return dict(out.hidden)


def forced(drafter: Any, ids: Sequence[int], hidden: Mapping[int, Tensor], first: int, k: int) -> Logits:
    """Logits along a text, from place `first` on, to depth k. drafter: counted; hidden: see `states_of`."""
    ways: dict[str, Callable[..., Logits]] = {
        "parallel-eagle": _masks,
        "dflash-block": _blocks,
        "medusa-heads": _heads,
        "hydra-heads": _sequential,
    }
    return ways.get(drafter.format, _rows)(drafter, list(ids), drafter.states(hidden), first, k)


def _rows(drafter: Any, ids: list[int], S: Tensor, first: int, k: int) -> Logits:
    """From row to row: each place goes on from its own output and the text's next token."""
    n, pasts, device = len(ids) - 1, drafter.pasts(), S.device
    true, own = torch.ones(n, n, dtype=torch.bool, device=device).tril(), torch.eye(n, dtype=torch.bool, device=device)
    at = torch.arange(n, device=device)
    out = drafter.rows(drafter.embed(ids[1:]), drafter.project(S[:n]), pasts, at, true)
    for j in range(k):
        places = list(range(first, n - 1 - j))
        if not places:
            return
        yield j + 1, places, drafter.logits(drafter.spoken(out[places]), [0] * len(places))
        if j < k - 1:
            ahead = [ids[min(t + 2 + j, n)] for t in range(n)]
            sees = torch.cat([true, *[own] * (j + 1)], 1)
            out = drafter.rows(drafter.embed(ahead), drafter.fed_back(out), pasts, at + j + 1, sees)


def _masks(drafter: Any, ids: list[int], S: Tensor, first: int, k: int) -> Logits:
    """P-EAGLE: behind each place k - 1 rows of mask and learned state."""
    n, device = len(ids) - 1, S.device
    places, width = list(range(first, n - 1)), k - 1
    s = drafter.project(torch.cat([S[:n], drafter.mask_hidden]))
    e = drafter.embed([*ids[1:], drafter.mask_id])
    text, states = torch.ones(n, n, dtype=torch.bool, device=device).tril(), []
    for part in _parts(places, width):
        rows = len(part) * width
        line = torch.block_diag(*[torch.ones(width, width).tril()] * len(part)).bool().to(device)
        before = _before(n, part, width, device)
        above = torch.cat([text, torch.zeros(n, rows, dtype=torch.bool, device=device)], 1)
        sees = torch.cat([above, torch.cat([before, line], 1)])
        at = [*range(n), *(t + 1 + i for t in part for i in range(width))]
        pick = [*range(n), *[n] * rows]
        out = drafter.rows(e[pick], s[pick], drafter.pasts(), torch.tensor(at, device=device), sees)
        states.append(torch.cat([out[part][:, None], out[n:].view(len(part), width, -1)], 1))
    yield from _by_depth(drafter, places, torch.cat(states), n, k) if states else ()


def _blocks(drafter: Any, ids: list[int], S: Tensor, first: int, k: int) -> Logits:
    """DFlash: at each place a block [newest token, masks] that sees the states up to there and itself."""
    n, device, b = len(ids) - 1, S.device, k + 1
    places, states = list(range(first, n - 1)), []
    for part in _parts(places, b):
        pasts = drafter.pasts()
        drafter.read(S[:n], pasts)
        x = drafter.embed([token for t in part for token in (ids[t + 1], *[drafter.mask_id] * k)])
        at = torch.tensor([t + 1 + i for t in part for i in range(b)], device=device)
        block = torch.block_diag(*[torch.ones(b, b)] * len(part)).bool().to(device)
        before = _before(n, part, b, device)
        x = drafter.through(x, pasts, at, torch.cat([before, block], 1))
        states.append(drafter.stack[0].norm(x, drafter.out_norm).view(len(part), b, -1)[:, 1:])
    yield from _by_depth(drafter, places, torch.cat(states), n, k, spoken=lambda h: h) if states else ()


def _by_depth(
    drafter: Any, places: list[int], out: Tensor, n: int, k: int, spoken: Callable[[Tensor], Tensor] | None = None
) -> Logits:
    """Logits depth by depth of outputs [P, k, d]."""
    speak = spoken or drafter.spoken
    for j, there, at in _there(places, n, k):
        yield j + 1, at, drafter.logits(speak(out[there, j]), [0] * len(there))


def _there(places: list[int], n: int, k: int) -> Iterator[tuple[int, list[int], list[int]]]:
    """By depth the indices of the places that the text reaches to, and those places."""
    for j in range(k):
        if there := [i for i, t in enumerate(places) if t + 2 + j <= n]:
            yield j, there, [places[i] for i in there]


def _heads(drafter: Any, ids: list[int], S: Tensor, first: int, k: int) -> Logits:
    """Medusa: K heads on the state of each place."""
    n, places = len(ids) - 1, list(range(first, len(ids) - 2))
    per_place = [drafter.guess(drafter, S[t], 0, k) for t in places]
    for j, there, at in _there(places, n, min(k, drafter.heads)):
        yield j + 1, at, torch.stack([per_place[i][j] for i in there])


def _sequential(drafter: Any, ids: list[int], S: Tensor, first: int, k: int) -> Logits:
    """Hydra: head i behind the text's own tokens; Hydra++'s prefix layer reads the text once."""
    n, pasts = len(ids) - 1, drafter.pasts()
    places = list(range(first, n - 1))
    if first and drafter.prefix:
        drafter.state(drafter, S[:first], pasts)
    states = [drafter.state(drafter, S[t : t + 1], pasts) for t in places]
    for j, there, at in _there(places, n, min(k, drafter.heads)):
        texts = ([ids[t + 1 : t + 2 + j]] for t in at)
        rows = [drafter.guess(drafter, j, states[i], text, 0) for i, text in zip(there, texts, strict=True)]
        yield j + 1, at, torch.cat(rows)


def _before(n: int, places: list[int], width: int, device: Any) -> Tensor:
    """Boolean [len(places) * width, n]: rows of a place see the text up to its state."""
    ends = torch.tensor(places, device=device).repeat_interleave(width)
    return torch.arange(n, device=device)[None] <= ends[:, None]


def _parts(places: list[int], width: int) -> Iterator[list[int]]:
    """Places in parts whose rows go through together."""
    size = max(1, CHUNK // max(1, width))
    return (places[i : i + size] for i in range(0, len(places), size))
