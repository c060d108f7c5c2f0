"""What two readers of a text give the same drafted tokens, as a record."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from engines.core.alternatives import Alternatives, Stops
from engines.core.lazy import Tensor
from engines.core.packing import floats
from engines.core.trace import Count, Index, Packed, PackedTokens, Record, pack_exact

STRENGTHS = (0, 0.5, 1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 40, 50)  # eta, as a person may try it


class Opinions(Record):
    """What two readers of a text give the same tokens.

    Some tokens behind drafted ones, and what two readers give them, so that a rule that mixes the readers can be
    tried again with another strength.

    `rows` [n]: rows of the step's tree that are tested there. `tokens` [n, k]: first the drafted token, then others in
    the order of what the second reader gives them; -1 fills up. `first`, `second` [n, k]: probabilities, in the order
    of `names`; together they may be less than 1, for not all tokens are listed. `unlisted` [n]: tokens that the rule
    moves and the list has no room for. `rule`: the numbers of the rule that was used, by name."""

    rows: list[Index]
    tokens: PackedTokens
    first: Packed
    second: Packed
    names: list[str]
    unlisted: list[Count] = []
    rule: dict[str, float] = {}

    def alternatives(self, run: Alternatives) -> dict[str, Stops]:
        """With another strength what becomes of each drafted token, and the moved probabilities of those listed there;
        all others are taken not to move."""
        if not {"eta", "alpha", "temperature"} <= self.rule.keys():
            return {}
        ids, first, second = (packed.array() for packed in (self.tokens, self.first, self.second))
        tree, alpha = run.steps[-1].tree, self.rule["alpha"]
        listed = [(p[row >= 0], q[row >= 0]) for row, p, q in zip(ids, first, second, strict=True)]
        drawn = [tree.uniforms[row] if tree and tree.uniforms else None for row in self.rows]

        def at(eta: float) -> tuple[list[str], list[list[float]]]:
            moved = [leaning(p, q, eta, alpha) for p, q in listed]
            given = [(p, q, m, u) for (p, q), m, u in zip(listed, moved, drawn, strict=True)]
            return fates(given, greedy=self.rule["temperature"] == 0), [m.round(5).tolist() for m in moved]

        return {"eta": Stops.over(sorted({*STRENGTHS, self.rule["eta"]}), at)}


def leaning(p: np.ndarray, q: np.ndarray, eta: float, alpha: float) -> np.ndarray:
    """p' of some tokens with the probabilities p and q of both readers (see `Transfer`); the others do not move."""
    weights = np.where(q >= alpha * q.max(), p * np.exp(-eta * (p - q)), p)
    return np.asarray(weights / (weights.sum() + max(0.0, 1 - p.sum())))


def fates(given: Iterable[tuple[np.ndarray, np.ndarray, np.ndarray, float | None]], *, greedy: bool) -> list[str]:
    """What becomes of each drafted token, the first of those with p, q, p' and the number that was drawn: both (it
    stands with eta = 0, too), view (by the step alone), lost (by the step refused), refused, behind a refusal, or
    unknown, where no number was drawn."""
    outcomes, is_open = list[str](), True
    for p, q, moved, u in given:
        if not is_open:
            outcomes.append("behind")
            continue
        if greedy:
            plain = bool(p[0] >= p.max())
            stands = plain or bool(moved[0] >= moved.max())
        else:
            plain, stands = (u is not None and bool(u < share[0] / q[0]) for share in (p, moved))
        is_open = stands
        known = greedy or u is not None
        outcomes.append(
            ("both" if plain else "view") if stands else "unknown" if not known else "lost" if plain else "refused"
        )
    return outcomes


def pack_opinions(
    listed: Sequence[Sequence[int]],
    first: Sequence[Tensor],
    second: Sequence[Tensor],
    names: Sequence[str],
    unlisted: Sequence[int],
    rule: Mapping[str, float],
) -> Opinions | None:
    """What two readers, distributions [V] of each drafted row, give its listed tokens, the drafted one first; None
    where nothing was drafted. The rows are those of a chain behind the root."""
    if not listed:
        return None
    k = max(map(len, listed))
    tokens = np.array([[*row, *[-1] * (k - len(row))] for row in listed])

    def shares(reader: Sequence[Tensor]) -> Packed:
        rows = [np.pad(floats(p[list(row)]), (0, k - len(row))) for p, row in zip(reader, listed, strict=True)]
        return pack_exact(np.stack(rows))

    rows = list(range(1, len(listed) + 1))
    return Opinions(rows, pack_exact(tokens), shares(first), shares(second), list(names), list(unlisted), dict(rule))
