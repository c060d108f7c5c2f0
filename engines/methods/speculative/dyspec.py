"""DySpec: a draft tree that grows where the drafter expects to be read (Xiong et al., arXiv:2410.11744).

A draft's own probability predicts well whether it will be accepted. So each next sample is drawn where the estimated
chance v that the target ever looks there is largest: as a first child below a fresh node, or as one more sibling where
those before it may all be refused. A sure drafter gives a long chain, an unsure one a bush, at the same number of rows.

Corrected against the print: algorithm 2 runs its inner loop while v < t (it must be v > t); algorithm 3 draws the test
variable from a normal distribution (uniform), ends at a leaf without a token (one is drawn from the target), and tests
with a draft distribution that was shrunk while drafting (a copy is kept).

Ours: a node is read by the drafter only when something is drawn below it, so the last layer costs no forward; the
number of rows and the depth are limited, by not drawing rather than by cutting; within a layer the most promising nodes
draw first.

Letters: m budget, t threshold, v value of a slot (a node where the next child would be drawn), R what is left of the
node's distribution q [V]."""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

from engines.kit import (
    Choice,
    Float,
    Int,
    Params,
    Recorder,
    Roles,
    Steps,
    Tensor,
    draw,
    without,
)
from engines.methods.speculative._turn import VERBS, Drafter, Target, Turn, draft_temperature, drafting, temperature
from engines.methods.speculative._verify import Draft

MOST = 48  # rows that any setting drafts
EMPTY = 1e-9  # a residual with less mass than this has nothing left to draw

Distributions = Callable[[list[int]], "Tensor"]  # rows -> q [k, V], one forward
Pick = Callable[[int, int, "Tensor"], int]  # row, number of its children so far, R [V] -> a token drawn from R


@drafting(
    "dyspec",
    title="DySpec",
    paper="arXiv:2410.11744",
    summary="The draft tree takes a new shape each round: the next sample goes where the drafter thinks the target is "
    "most likely to look.",
    needs={"target": "causal", "draft": "causal"},
    params=[
        Int("budget", 12, 1, MOST, symbol="m", source="64 in the paper"),
        Choice("construction", "threshold", ["threshold", "greedy"]),
        Float("threshold", 0.0, 0.0, 0.5, step=0.005, symbol="t", source="paper"),
        Int("depth", 8, 1, 16, symbol="D", source="ours, no limit in the paper"),
        temperature(),
        draft_temperature(0.6, source="paper"),
    ],
    signature="tree",
    emits={"intervals"},
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """Grow a tree (algorithm 1 or 2), verify it (algorithm 3), settle both caches."""
    target = Target(models.target, prompt, p, rows=1 + MOST)
    drafter = Drafter(models.draft, prompt, p, rows=MOST, vocab_size=models.target.vocab_size)
    ids = prompt
    while target.unfinished(ids):
        draft = Draft(ids[-1])

        def distributions(rows: list[int]) -> Tensor:
            return drafter.distribution(drafter.behind(ids, draft, rows).logits)

        growth = Growth(draft, distributions, lambda row, k, R: draw(R, run.rng))
        deepest = min(p.depth, target.room(ids))
        if p.construction == "greedy":
            greedy(growth, p.budget, deepest)
        else:
            layers(growth, p.budget, deepest, p.threshold or 1 / p.budget)
        draft.values, draft.value_is = [None, *growth.value[1:]], ("value of its slot", "slot")
        iteration = target.verify(ids, draft, run.rng)
        drafter.settle(iteration.verdict.path)
        edit = yield run.step(
            **iteration.groups(),
            intervals=run.calls(VERBS),
            facts=iteration.facts(**growth.facts()),
            note=note(iteration, growth),
        )
        ids = run.apply_edit(edit, iteration.ids, target.cache, drafter.cache)


class Growth:
    """A tree while it grows. value: the slot that each row filled (the root's: 1); reach: the estimated chance that the
    row is accepted.

    What is drawn stays, and whether to draw is decided by v, the depth and the number of rows, never by the token: that
    keeps the distribution."""

    def __init__(self, draft: Draft, distributions: Distributions, pick: Pick) -> None:
        self.draft, self.value, self.reach, self.depth = draft, [1.0], [1.0], [0]
        self._distributions, self._pick = distributions, pick
        self._left: dict[int, Tensor] = {}
        self._children: dict[int, int] = {}

    @property
    def drafted(self) -> int:
        """Rows below the root."""
        return len(self.draft) - 1

    def read(self, rows: list[int]) -> None:
        """One forward of the drafter for rows that were not read yet."""
        for row, q in zip(rows, self._distributions(rows).double(), strict=True):
            self.draft.distributions[row] = self._left[row] = q / q.sum()

    def sample(self, row: int, v: float) -> tuple[int, float]:
        """Fill the slot below `row`: (the child, the value of the slot beside it). reach[child] is the slot below it;
        the two add up to v.

        Nothing is left of a distribution when its residual is empty: the slot beside is then worth 0.
        """
        if row not in self._left:
            self.read([row])
        R, k = self._left[row], self._children.get(row, 0)
        y = self._pick(row, k, R)
        chance = float(R[y])
        rest = without(R, y) if 1 - chance > EMPTY else None
        self._left[row], self._children[row] = R if rest is None else rest, k + 1
        child = self.draft.add(row, y, chance=float(self.draft.distributions[row][y]))
        self.value.append(v)
        self.reach.append(v * chance)
        self.depth.append(self.depth[row] + 1)
        return child, 0.0 if rest is None else v * (1 - chance)

    def facts(self) -> dict[str, float]:
        """The shape of the tree, and the drafter's own forecast of how many rows will be accepted: the sum of their
        reach."""
        widest = max((self.depth.count(d) for d in set(self.depth) - {0}), default=0)
        return {
            "estimated_accept": sum(self.reach[1:]),
            "layers": max(self.depth),
            "widest": widest,
            "least_slot": min(self.value),
        }


def greedy(growth: Growth, m: int, deepest: int) -> list[float]:
    """Algorithm 1: fill the most valuable slot, m times; of equal ones the slot that opened first, beside before below.
    Returns the slots left open."""
    order = count()
    heap = [(-1.0, next(order), 0)] if deepest > 0 else []  # (-v, when it opened, row)
    while heap and growth.drafted < m:
        v, _, row = heappop(heap)
        child, beside = growth.sample(row, -v)
        if beside > 0:
            heappush(heap, (-beside, next(order), row))
        if growth.depth[child] < deepest:
            heappush(heap, (-growth.reach[child], next(order), child))
    return sorted((-v for v, _, _ in heap), reverse=True)


def layers(growth: Growth, m: int, deepest: int, t: float) -> None:
    """Algorithm 2: layer by layer, one forward of the drafter each, fill all slots above t, at most m."""
    layer = [0]
    while layer and growth.drafted < m and growth.depth[layer[0]] < deepest:
        layer = sorted(layer, key=lambda row: -growth.reach[row])[: m - growth.drafted]
        growth.read(layer)
        below = []
        for row in layer:
            v = growth.reach[row]
            while v > t and growth.drafted < m:
                child, v = growth.sample(row, v)
                if growth.reach[child] > t:
                    below.append(child)
        layer = below


def note(iteration: Turn, growth: Growth) -> str:
    """One sentence on the round."""
    facts = growth.facts()
    if not growth.drafted:
        return iteration.note()
    shape = (
        f"a chain of {growth.drafted}"
        if facts["widest"] == 1
        else f"a tree {facts['widest']} wide and {facts['layers']} deep"
    )
    return (
        f"{iteration.note()[:-1]}; the drafter grew {shape} and expected {facts['estimated_accept']:.1f} to "
        "be accepted."
    )
