"""Golden cases of RSD and DySpec: the trees they draw from given noise, tapes of their verification, and the exact
distribution of a whole step."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from engines.core.golden_cases import Case, NotCovered, checks, differ
from engines.core.lazy import torch
from engines.core.sampling import inverse_cdf
from engines.core.trees import children
from engines.methods.speculative import dyspec, rsd
from engines.methods.speculative._verify import Draft

from .cases import Given, Values, float64, kinds, recursive_rejection
from .speculative import Context, Distribution, fan_distribution, key, mean_block, merge, row, spread, summary


def given_distributions(draft: Draft, table: Mapping[str, Sequence[str]]) -> Callable[[list[int]], torch.Tensor]:
    """What the drafter would say: rows of the tree -> [k, V]."""
    return lambda rows: torch.stack([row(table[key(draft.path(r))]) for r in rows])


def gumbel_topk(given: Given) -> Values:
    """Tokens without replacement in draw order."""
    tokens, scores = rsd.gumbel_topk(row(given["q"]), float64(given["u"]), given["k"])
    return {"order": tokens, "perturbed": scores}


def tape(draft: Draft, given: Given) -> Values:
    """Recursive rejection down the tree with its random numbers given: a uniform per node for the tests, v for the last
    token."""
    below, path, tests = children(draft.parents), [0], []
    while True:
        at, step = path[-1], None
        left: torch.Tensor | None = row(given["p"][key(draft.path(at))])
        if candidates := below[at]:
            tokens = [draft.tokens[c] for c in candidates]
            chances, left = recursive_rejection(left, draft.distributions[at].double(), tokens)
            for c, token, chance in zip(candidates, tokens, chances, strict=False):
                u = given["u_accept"][c]
                tests.append({"node": c, "token": token, "accept_prob": chance, "u": u, "accepted": u < chance})
                if u < chance:
                    step = c
                    break
        if step is None:
            assert left is not None
            written = [*draft.path(at), inverse_cdf(left, given["v_final"])]
            found = {"accepted_nodes": path[1:], "out_tokens": written, "tests": tests}
            return found | {"final_dist": left.tolist()}
        path.append(step)


def tree_case(given: Given, grow: Callable[[Draft, rsd.Distributions, rsd.Noise], dict[str, Any]]) -> Values:
    """Grow from the uniforms given per context and token, then verify by the tape."""
    draft = Draft(-1)
    distributions = given_distributions(draft, given["q"])
    grown = grow(draft, distributions, lambda r: float64(given["u_noise"][key(draft.path(r))]))
    return {"parents": draft.parents, "tokens": [None, *draft.tokens[1:]], **grown, **tape(draft, given)}


def rsd_c(given: Given) -> Values:

    def grow(draft: Draft, distributions: rsd.Distributions, noise: rsd.Noise) -> Values:
        perturbed = rsd.fan(draft, given["branch"], distributions, noise)
        below = children(draft.parents)
        return {
            "perturbed": perturbed,
            "rank": [0, *(below[parent].index(r) for r, parent in enumerate(draft.parents) if r)],
        }

    return tree_case(given, grow)


def rsd_s(given: Given) -> Values:

    def grow(draft: Draft, distributions: rsd.Distributions, noise: rsd.Noise) -> Values:
        phi, psi = rsd.beams(draft, given["width"], given["length"], distributions, noise)
        depths = draft.depths()
        levels = [[r for r, depth in enumerate(depths) if depth == level] for level in range(max(depths) + 1)]
        return {"phi": phi, "psi": psi, "levels": levels}

    return tree_case(given, grow)


def rsd_c_distribution(given: Given) -> Values:
    """The distribution of one step, and tokens per step beside the i.i.d. tree of the same shape and the chain of the
    same depth."""
    distribution = fan_distribution(given, given["branch"], replacement=False)
    return {
        **summary(distribution, given["vocab"]),
        "mean_block_wo": mean_block(distribution),
        "mean_block_iid": mean_block(fan_distribution(given, given["branch"], replacement=True)),
        "mean_block_chain": mean_block(fan_distribution(given, [1] * len(given["branch"]), replacement=False)),
    }


kinds("rsd", gumbel_topk=gumbel_topk, rsd_c=rsd_c, rsd_s=rsd_s, rsd_c_law=rsd_c_distribution)


NO_LIMIT = 1000


def greedy_tree(given: Given, threshold: float) -> Values:
    """The greedy tree, and whether the one built layer by layer with this threshold is the same."""

    def grown() -> tuple[dyspec.Growth, list[list[int]]]:
        draft, forwards = Draft(-1), []

        def distributions(rows: list[int]) -> torch.Tensor:
            forwards.append(rows)
            return given_distributions(draft, given["q"])(rows)

        def pick(r: int, k: int, R: torch.Tensor) -> int:
            return inverse_cdf(R, given["u"][f"{key(draft.path(r))}|{k}"])

        return dyspec.Growth(draft, distributions, pick), forwards

    (one, _), (other, forwards) = grown(), grown()
    left = dyspec.greedy(one, given["budget"], NO_LIMIT)
    dyspec.layers(other, NO_LIMIT, NO_LIMIT, threshold)
    paths, others = ([g.draft.path(r) for r in range(1, len(g.draft))] for g in (one, other))
    same = sorted(paths) == sorted(others)
    return {
        "parents": one.draft.parents,
        "tokens": [None, *one.draft.tokens[1:]],
        "slot_value": [None, *one.value[1:]],
        "next_slots": left[:4],
        "sum_slot_value": sum(one.value[1:]),
        "same_tree_by_threshold": {"threshold": threshold, "layers_with_draft_forward": len(forwards) if same else -1},
    }


class Undecided(Exception):
    """A build has come to a draw that its script does not say."""


def every_tree(table: Mapping[str, Sequence[str]], budget: int) -> Iterator[tuple[Draft, float]]:
    """All trees that the greedy construction can draw, with their probabilities."""
    scripts: list[tuple[Context, float]] = [((), 1.0)]
    while scripts:
        script, chance = scripts.pop()
        draft, said, open_distribution = Draft(-1), iter(script), []

        def pick(
            r: int,
            k: int,
            R: torch.Tensor,
            said: Iterator[int] = said,
            open_distribution: list[float] = open_distribution,
        ) -> int:
            if (token := next(said, None)) is None:
                open_distribution += R.tolist()
                raise Undecided
            return token

        try:
            dyspec.greedy(dyspec.Growth(draft, given_distributions(draft, table), pick), budget, NO_LIMIT)
            yield draft, chance
        except Undecided:
            scripts += [((*script, t), chance * c) for t, c in enumerate(open_distribution) if c > 0]


def adaptive_distribution(given: Given) -> Values:
    """The exact distribution of one step over all trees and all verifications."""
    total: Distribution = {}
    for draft, chance in every_tree(given["q"], given["budget"]):
        below, distributions = children(draft.parents), [{} for _ in range(len(draft))]
        for r in reversed(range(len(draft))):
            context = tuple(draft.path(r))
            drawn = [draft.tokens[c] for c in below[r]]
            distributions[r] = spread(
                row(given["p"][key(context)]),
                draft.distributions.get(r),
                context,
                drawn,
                [distributions[c] for c in below[r]],
            )
        merge(total, distributions[0], chance)
    return {**summary(total, given["vocab"]), "mean_block": mean_block(total)}


@checks("dyspec")
def check_dyspec(case: Case, data: Given, folder: Path) -> str | None:
    given, expected = case["input"], case["expect"]
    if case["kind"] == "greedy_tree":
        return differ("", greedy_tree(given, expected["same_tree_by_threshold"]["threshold"]), expected)
    if case["kind"] == "adaptive_law":
        return differ("", adaptive_distribution(given), expected)
    raise NotCovered
