"""What the checkers share: how a case says what is given and what is expected, kinds of cases, numbers as tensors."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from engines.core.golden_cases import Case, Checker, NotCovered, checks, differ
from engines.core.lazy import Tensor, torch
from engines.core.sampling import accept_probability, residual, without
from engines.methods.speculative._verify import Draft, Verdict, verify
from engines.models.adapters.causal import tree_mask

Given = Mapping[str, Any]
Values = dict[str, Any]
Compute = Callable[[Given], Any]


def found(case: Case, *names: str) -> Any:
    """The field that a file has under one of these names."""
    return next(case[name] for name in names if name in case)


def given_of(case: Case) -> Given:
    return found(case, "inputs", "input", "in")


def wanted_of(case: Case) -> Given:
    return found(case, "expected", "expect", "out")


def computes(*topics: str, tolerance: float = 1e-9, partly: bool = False) -> Callable[[Compute], Compute]:
    """Register what computes all that the cases of these files expect. partly: they expect more than is computed."""

    def register(compute: Compute) -> Compute:
        def check(case: Case, _: Given, __: Path) -> str | None:
            got, expected = compute(given_of(case)), wanted_of(case)
            return differ("", got, {key: expected[key] for key in got} if partly else expected, tolerance)

        checks(*topics)(check)
        return compute

    return register


def by_kind(table: Mapping[str, Compute], case: Case) -> str | None:
    """Compute what the case's kind asks for and compare everything that is expected."""
    if case["kind"] not in table:
        raise NotCovered(f"cases of the kind '{case['kind']}' are not known")
    return differ("", table[case["kind"]](given_of(case)), wanted_of(case))


def kinds(*topics: str, **table: Compute) -> Checker:
    """Register a computation for each kind of case in these files."""
    return checks(*topics)(lambda case, _, __: by_kind(table, case))


def float64(values: Any) -> torch.Tensor:
    """Numbers as the files print them."""
    return torch.tensor(values, dtype=torch.float64)


def chain(tokens: Sequence[int]) -> Draft:
    """A draft of one branch, its root first."""
    return Draft.of(tokens, range(-1, len(tokens) - 1), "draft")


def walked(first_choices: Sequence[int], draft: Draft, eos: frozenset[int] = frozenset()) -> Verdict:
    """The greedy walk over a draft whose rows have these first choices."""
    z = torch.nn.functional.one_hot(torch.tensor(first_choices)).double()
    return verify(z, draft, 0.0, torch.Generator(), eos)


def sees(parents: Sequence[int]) -> torch.Tensor:
    """Boolean [n, n]: which rows of a tree each row sees, by the mask that models are given."""
    return tree_mask(parents, 0, torch.float32, torch.device("cpu"))[0, 0] == 0


def ancestors(mask: torch.Tensor) -> list[list[int]]:
    """What each row of a mask sees."""
    return [row.nonzero()[:, 0].tolist() for row in mask]


def leaf_paths(parents: Sequence[int]) -> list[list[int]]:
    """What the leaves of a tree see: the rows from the root to each, leaves by rising row."""
    return [line for row, line in enumerate(ancestors(sees(parents))) if row not in parents]


def recursive_rejection(
    p: Tensor, q: Tensor, candidates: list[int], *, replacement: bool = False
) -> tuple[list[float], Tensor | None]:
    """Accept probability of each candidate in draw order, given that those before it were refused, and the residual
    distribution after all.

    Without replacement the draft distribution loses each refused token, with replacement it stays q (SpecInfer). RSD
    (2402.14160), algorithm 2. The list ends at a candidate that is certain to be accepted; then there is no residual.
    """
    r: Tensor | None = p
    d: Tensor | None = q
    chances: list[float] = []
    for token in candidates:
        assert r is not None
        chances.append(1.0 if d is None else accept_probability(r, d, token))
        if chances[-1] >= 1.0 - 1e-12 or d is None:
            return chances, None
        r, d = residual(r, d), d if replacement else without(d, token)
        if r is None:
            return chances, None
    return chances, r
