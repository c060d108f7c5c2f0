"""The rule that makes drafting lossless: walk a draft tree, keep what the target would have written, emit one token
more.

At temperature 0 a child is kept if it is the target's first choice. Above, the children that were drawn from a
distribution q are tested one after another against a shrinking target residual and a shrinking draft distribution
(recursive rejection sampling; speculative sampling is the case of one child), and the children that were chosen without
chance are verified by one draw of the target, which one of them may match. Leviathan et al. 2211.17192, algorithm 1;
RSD 2402.14160, algorithm 2.

Letters: n rows of the tree, V vocabulary, z the target's logits, p its distribution, q the drafter's, r and d what is
left of both after refusals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from engines.kit import (
    Generator,
    GuessSource,
    Tensor,
    Tree,
    accept_probability,
    children,
    distribution,
    draw,
    residual,
    row_depths,
    token_probability,
    top_ids,
    torch,
    uniform,
    without,
)

FLOOR = -99.0  # log-probabilities in the record end here, so that the trace holds no infinities


@dataclass
class Draft:
    """A draft tree below the newest token of the text: row 0 is that token, parents stand before children, siblings in
    the order they were drawn.

    distributions: row -> q [V], the distribution that the row's children were drawn from, one after another without
    replacement; a row without one has children that were chosen without chance. A drawn child must stay: leaving one
    out because of its token breaks the distribution. replacement: siblings were drawn from the same q again and again
    (the i.i.d. tree of SpecInfer). chances: q(token | path) of each row, None where no distribution is known. source:
    what `add` notes where it is told nothing else. values: for the record, what a method chose its rows by, one per
    row; value_is: its name and kind; tails: the rows without a token behind each row; traced: what tells where
    tokens stood before they became rows, asked only where that is recorded, on the recording's clock."""

    root: int
    source: str = "draft"
    replacement: bool = False
    tokens: list[int] = field(init=False)
    parents: list[int] = field(init=False)
    sources: list[str] = field(init=False)
    chances: list[float | None] = field(init=False)
    distributions: dict[int, Tensor] = field(default_factory=dict)
    values: list[float | None] = field(default_factory=list)
    value_is: tuple[str, Literal["score", "chance", "slot", "pass"]] = ("", "score")
    tails: list[int] = field(default_factory=list)
    traced: list[Callable[[], Iterable[GuessSource]]] = field(default_factory=list)
    _taken: list[tuple[int, str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tokens, self.parents, self.sources, self.chances = [self.root], [-1], ["root"], [None]

    @classmethod
    def of(cls, tokens: Sequence[int], parents: Sequence[int], source: str) -> Draft:
        """A tree of deterministic candidates that is there as a whole."""
        draft = cls(tokens[0], source)
        for token, parent in zip(tokens[1:], parents[1:], strict=True):
            draft.add(parent, token)
        return draft

    def __len__(self) -> int:
        return len(self.tokens)

    def add(self, parent: int, token: int, chance: float | None = None, source: str | None = None) -> int:
        """A new row below `parent`. Returns its number."""
        self.tokens.append(token)
        self.parents.append(parent)
        self.sources.append(source or self.source)
        self.chances.append(chance)
        return len(self.tokens) - 1

    def taken(self, row: int, kind: str, label: str) -> None:
        """Note that a row is a guess of the source of this kind and label as a whole, such as a layer or a head."""
        self._taken.append((row, kind, label))

    def guessed_from(self) -> list[GuessSource]:
        """Where the rows' tokens stood, one entry for each source, whose tokens tell it apart from others found by the
        same key."""
        named = (GuessSource(kind, label, links=[(row, -1)]) for row, kind, label in self._taken)
        sources: dict[tuple[object, ...], GuessSource] = {}
        for source in (*named, *(source for trace in self.traced for source in trace())):
            known = sources.setdefault((source.kind, source.label, *source.key, None, *source.tokens), source)
            if known is not source:
                known.links += source.links
        return [*sources.values()]

    def depths(self) -> list[int]:
        """Depth of every row, 0 for the root."""
        return row_depths(self.parents)

    def path(self, row: int) -> list[int]:
        """The tokens from below the root down to `row`."""
        tokens: list[int] = []
        while row > 0:
            tokens.insert(0, self.tokens[row])
            row = self.parents[row]
        return tokens


@dataclass(frozen=True)
class Test:
    """One candidate looked at: its chance to be kept given the refusals before it, the uniform drawn (None at
    temperature 0 and for a point mass)."""

    row: int
    chance: float
    u: float | None
    accepted: bool


@dataclass(frozen=True)
class Verdict:
    """What became of a tree: the rows kept (0 first), the token emitted behind them and where it came from, and the
    tests in the order they were made.

    emitted is -1 and source "draft" where nothing of the target's own follows: the walk ended in a row that the target
    has not read, or at an end mark."""

    path: list[int]
    emitted: int
    source: str  # argmax, target (a fresh draw of p), residual or draft
    tests: list[Test]


def verify(z: Tensor, draft: Draft, temperature: float, rng: Generator, ends: frozenset[int] = frozenset()) -> Verdict:
    """Walk the tree with the target's logits z [n, V] of its rows. Random numbers: a uniform per test in visiting
    order, then the emitted token's.

    z may lack leaves at the end of the tree: they are tested by what stands above them, and a walk that ends there
    emits nothing. Nor does one that has kept one of the end marks `ends`: what was drafted behind it is not text."""
    below, path, tests = children(draft.parents), [0], []
    best = top_ids(z, 1)[:, 0].tolist() if temperature == 0 else []
    while True:
        row = path[-1]
        if row >= len(z) or (row and draft.tokens[row] in ends):
            return Verdict(path, -1, "draft", tests)
        q = draft.distributions.get(row)
        if temperature == 0:
            child, emitted, source = _greedy(best[row], below[row], draft, tests), best[row], "argmax"
        elif q is None or not below[row]:
            p = distribution(z[row].double(), temperature)
            emitted, source = draw(p, rng), "target"
            child = next((c for c in below[row] if draft.tokens[c] == emitted), None)
            tests += [Test(c, float(p[draft.tokens[c]]), None, c == child) for c in below[row]]
        else:
            child, r = _rejection(
                distribution(z[row].double(), temperature), q.to(z.device).double(), below[row], draft, rng, tests
            )
            emitted, source = (draw(r, rng), "residual") if child is None else (-1, "")
        if child is None:
            return Verdict(path, emitted, source, tests)
        path.append(child)


def _greedy(first_choice: int, candidates: Sequence[int], draft: Draft, tests: list[Test]) -> int | None:
    """The first child that carries the target's first choice."""
    for c in candidates:
        tests.append(Test(c, float(draft.tokens[c] == first_choice), None, draft.tokens[c] == first_choice))
        if tests[-1].accepted:
            return c
    return None


def _rejection(
    p: Tensor, q: Tensor, candidates: Sequence[int], draft: Draft, rng: Generator, tests: list[Test]
) -> tuple[int | None, Tensor]:
    """Test children drawn from q [V] in draw order: (the one kept, or None; what is left of p [V], the distribution to
    emit from)."""
    r, d = p, q
    for c in candidates:
        token = draft.tokens[c]
        chance = accept_probability(r, d, token)
        u = uniform(rng)
        tests.append(Test(c, chance, u, u < chance))
        if u < chance:
            return c, r
        left = residual(r, d)
        r = r if left is None else left  # None: r = d, whose tokens are never refused but for rounding
        rest = d if draft.replacement else without(d, token)
        if rest is None:  # the drafter has nothing left to draw, so there is no further child
            break
        d = rest
    return None, r


def emitted_tokens(draft: Draft, verdict: Verdict) -> list[int]:
    """The tokens that a walk adds to the text: the drafted ones that were kept, and the target's own behind them if
    there is one."""
    return [*(draft.tokens[row] for row in verdict.path[1:]), *([verdict.emitted] if verdict.emitted >= 0 else [])]


def record_tree(z: Tensor, draft: Draft, verdict: Verdict, start: int, ranks: Sequence[int] | None = None) -> Tree:
    """The record of a verified tree: z [n, V] the target's logits, start the root's position, ranks of the rows
    (default: order among siblings)."""
    tested, kept = {t.row: t for t in verdict.tests}, set(verdict.path)
    why = ["root"] + [
        "accepted" if r in kept else "mismatch" if r in tested else "unreached" for r in range(1, len(draft))
    ]
    log_p: list[float] = []
    if len(draft) > 1:
        at, tokens = draft.parents[1:], torch.tensor(draft.tokens[1:], device=z.device)
        log_p = token_probability(z[at], tokens, torch.float32).log().clamp(min=FLOOR).tolist()
    order = ranks if ranks is not None else _ranks(draft.parents)
    known = any(c is not None for c in draft.chances)
    return Tree(
        start=start,
        parents=list(draft.parents),
        tokens=list(draft.tokens),
        accepted=[row in kept for row in range(len(draft))],
        why=why,
        emitted=emitted_tokens(draft, verdict),
        sources=list(draft.sources),
        ranks=list(order),
        draft_logprobs=[None if c is None else max(FLOOR, _log(c)) for c in draft.chances] if known else [],
        target_logprobs=[None, *log_p],
        emitted_source=verdict.source,
        chances=[tested[r].chance if r in tested else None for r in range(len(draft))],
        uniforms=[tested[r].u if r in tested else None for r in range(len(draft))],
        values=list(draft.values),
        value_name=draft.value_is[0],
        value_kind=draft.value_is[1],
        tails=list(draft.tails),
        guessed_from=draft.guessed_from(),
    )


def _log(chance: float) -> float:
    return float(torch.tensor(chance, dtype=torch.float64).log())


def _ranks(parents: Sequence[int]) -> list[int]:
    """Order of every row among its siblings, -1 for the root."""
    seen: dict[int, int] = {}
    ranks = []
    for parent in parents:
        ranks.append(-1 if parent < 0 else seen.get(parent, 0))
        seen[parent] = seen.get(parent, 0) + 1
    return ranks
