"""Facts of a step as the trace holds them: packed scores and candidates."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from engines.core.kinds.layered import Routing as Routed
from engines.core.kinds.layered import SlotsRead
from engines.core.lazy import Tensor
from engines.core.method import LaneInfo
from engines.core.trace import Candidates, Commits, Lane, Record, Routing, pack, packed_record
from engines.core.trace.groups.commits import moved

RecordFacts = Record | None | Callable[[], Record | None]  # what a method gives for a record
CommitFacts = (  # positions, tokens, causes, probabilities, authors
    tuple[Any, Any, str | Sequence[str]]
    | tuple[Any, Any, str | Sequence[str], Any]
    | tuple[Any, Any, str | Sequence[str], Any, Sequence[str]]
)
TOP_K = 5  # candidates kept per position in focus
FOCUS_LIMIT = 128  # positions in focus kept per step
BOUNDS: dict[str, tuple[float | None, float | None]] = {
    "probability": (0.0, 1.0),
    "score": (None, None),
}  # of a lane's scale; others start at 0

# who proposed a token, from why it was written: a commit keeps its author, so that colour can stay on it
PERSON = frozenset({"forced", "remasked", "withdrawn"})
BY_CAUSE = {"boosted": "credit", "filter": "filter", "constraint": "constraint", "reference": "reference"}


def commits_of(
    facts: CommitFacts | None, forced: list[tuple[int, int, str]], removed: list[int], inserted: list[int]
) -> Commits | None:
    """What a method gave as written, after what a person forced since the last step; None where neither is."""
    if removed or inserted:  # a person changed the board as it was; what is removed in the same step is gone
        places = [(moved(position, removed, inserted), token, cause) for position, token, cause in forced]
        forced = [(position, token, cause) for position, token, cause in places if position is not None]
    positions, tokens, causes, chances, by = (*facts, None, None)[:5] if facts is not None else ([], [], [], None, ())
    at, ids = ints(positions), ints(tokens)
    if not (at or forced or removed or inserted):
        return None
    why = [causes] * len(at) if isinstance(causes, str) else list(causes)
    p: list[float | None] = []
    if chances is not None:
        known = chances.tolist() if hasattr(chances, "tolist") else chances
        p = [None if c is None else round(float(c), 6) for c in known]
    if forced:
        p = [*[None] * len(forced), *(p or [None] * len(at))]
    return Commits(
        [f[0] for f in forced] + at,
        [f[1] for f in forced] + ids,
        [f[2] for f in forced] + why,
        p,
        [*["person"] * len(forced), *by] if by else [],
        removed,
        inserted,
    )


def authors_of(causes: Sequence[str], role: str, accepted: Sequence[str] = (), drafter: str = "draft") -> list[str]:
    """The author of each commit, in their order.

    causes: as in `Commits`. role: the model that decided in this step; what no one else proposed is its own (a bonus
    token, a greedy one). accepted: where the accepted rows of the step's draft tree came from, from the root on.
    drafter: who proposed what was accepted, where that is not told; on a canvas the model itself.
    """
    drafted: Iterator[str] = iter(accepted)
    return [
        "person"
        if cause in PERSON
        else next(drafted, drafter) or drafter
        if cause == "accepted"
        else BY_CAUSE.get(cause, role)
        for cause in causes
    ]


def accepted_sources(why: Sequence[str], sources: Sequence[str]) -> list[str]:
    """The sources of a tree's accepted rows in the order of its rows, which is that of the text; none where the tree
    does not name them."""
    return [source for fate, source in zip(why, sources, strict=False) if fate == "accepted"]


def pack_scores(
    scores: Mapping[str, tuple[Any, Any]], declared: Mapping[str, LaneInfo], thresholds: Mapping[str, float]
) -> list[Lane]:
    """Lane name -> (positions [n], values [n]) as packed lanes; positions that are left out have no value."""
    lanes = []
    for name, (positions, values) in scores.items():
        at = ints(positions)
        if not at:
            continue
        start, row = min(at), floats(values)
        if max(at) - start + 1 != len(at):
            spread = np.full(max(at) - start + 1, np.nan, dtype=np.float32)
            spread[np.asarray(at) - start] = row
            row = spread
        unit = declared[name].unit
        low, high = BOUNDS.get(unit, (0.0, None))
        threshold = thresholds.get(name)
        lanes.append(Lane(name, unit, start, pack(row, low, high), None if threshold is None else float(threshold)))
    return lanes


def pack_candidates(positions: Any, logits: Tensor) -> Candidates | None:
    """The top tokens of each position in focus: logits [n, V]; None where there is no position."""
    at = ints(positions)[:FOCUS_LIMIT]
    if not at:
        return None
    z = logits[: len(at)].float()
    p, ids = z.softmax(-1).topk(min(TOP_K, z.shape[-1]))
    return Candidates(at, pack(ids.cpu().numpy()), pack(p.cpu().numpy(), 0.0, 1.0))


def pack_records(
    given: Mapping[str, RecordFacts], declared: Mapping[str, type[Record]], full: bool
) -> dict[str, dict[str, Any]]:
    """The records of a step, those that this detail keeps, as a step carries them. Raises ValueError for one that is
    not declared, or does not fit its declaration."""
    packed = dict[str, dict[str, Any]]()
    for name, fact in given.items():
        if name not in declared:
            raise ValueError(f"record '{name}' is not declared; add it to records={{'{name}': ...}} in @method(...)")
        if full or declared[name].KEPT_FROM == "light":
            value = fact() if callable(fact) else fact
            if value is not None:
                packed[name] = packed_record(name, value, declared[name])
    return packed


def ints(values: Any) -> list[int]:
    """A tensor or a sequence as whole numbers."""
    return values.tolist() if hasattr(values, "tolist") else list(values)


def floats(values: Any) -> np.ndarray:
    """A tensor or a sequence as float32."""
    return values.detach().float().cpu().numpy() if hasattr(values, "detach") else np.asarray(values, dtype=np.float32)


def exact(values: Tensor) -> list[float]:
    """Numbers of a record in nine digits, which tell any two float32 apart."""
    return [float(f"{value:.9g}") for value in values.tolist()]


def pack_routing(routings: Sequence[Routed], positions: Sequence[int], role: str = "") -> Routing | None:
    """What the routers of some layers decided for n rows, the heaviest expert of a row first; None where nothing was
    found. positions [n]: where the rows stand."""
    if not routings:
        return None
    k = max(1, max(int((routing.experts >= 0).sum(-1).max()) for routing in routings))
    chosen, weights = zip(*(_heaviest(routing, k) for routing in routings), strict=True)
    return Routing(
        kind="expert",
        positions=list(positions),
        layers=[routing.layer for routing in routings],
        chosen=pack(np.stack(chosen, 1)),
        weights=pack(np.stack(weights, 1), lo=0.0),
        units=routings[0].logits.shape[-1],
        role=role,
    )


def pack_slots(read: Sequence[SlotsRead], keys: int, positions: Sequence[int]) -> list[Routing]:
    """What the memories of some layers, each of keys x keys crossings, read for n rows: the crossings, best first, with
    the summed score times the pre-score as weight, and the rows and columns of keys that were their candidates; none
    where nothing was read."""
    if not read:
        return []
    layers, at = [reading.layer for reading in read], list(positions)

    def packed(units: Sequence[Tensor], n: int, role: str, weights: Sequence[Tensor] = ()) -> Routing:
        chosen = pack(np.stack([unit.cpu().numpy().astype(np.int32) for unit in units], 1))
        shares = pack(np.stack([floats(weight) for weight in weights], 1)) if weights else None
        return Routing("memory", at, layers, chosen, shares, units=n, role=role)

    weights = [reading.scores.sum(-1) * reading.pre_scores for reading in read]
    return [
        packed([reading.crossings for reading in read], keys**2, "", weights),
        packed([reading.rows for reading in read], keys, "rows"),
        packed([reading.columns for reading in read], keys, "columns"),
    ]


def pack_placement(
    devices: Sequence[np.ndarray], layers: Sequence[int], positions: Sequence[int], role: str = ""
) -> Routing:
    """On which device each of n positions is, for each of the layers [n]; under the role "experts" they are experts."""
    chosen = np.stack(devices, 1)[:, :, None].astype(np.int32)
    return Routing(
        kind="device",
        positions=list(positions),
        layers=list(layers),
        chosen=pack(chosen),
        units=int(chosen.max(initial=0)) + 1,
        role=role,
    )


def _heaviest(routing: Routed, k: int) -> tuple[np.ndarray, np.ndarray]:
    """(experts, weights) [n, k] of one layer; -1 and NaN where a row uses fewer."""
    weights = routing.weights.float().masked_fill(routing.experts < 0, -np.inf)
    k = min(k, weights.shape[-1])
    best, at = weights.topk(k, -1)
    return (
        routing.experts.gather(-1, at).cpu().numpy().astype(np.int32),
        best.masked_fill(best == -np.inf, np.nan).cpu().numpy(),
    )
