"""The tests of siblings one after the other, with what each refusal leaves of both distributions."""

from __future__ import annotations

from collections.abc import Sequence

from engines.kit import Probability, Record, TokenId, distribution, residual, torch, without
from engines.methods.speculative._turn import Turn
from engines.methods.speculative._verify import children

SHOWN = 6  # tokens that have a column, beside those drawn


class Draw(Record):
    """One sibling and the test that it met. target, draft: what was left of p and q when it was tested, at the node's
    tokens."""

    token: TokenId
    chance: Probability
    drawn: Probability | None  # the uniform; None where nothing is drawn
    accepted: bool
    target: list[Probability]
    draft: list[Probability]


class Node(Record):
    """A node whose children were tested, in their order. left: what of p the next token was drawn from, where all of
    them were refused."""

    after: TokenId
    tokens: list[TokenId]  # drawn ones first, then the likeliest of p
    draws: list[Draw]
    left: list[Probability] = []


class Draws(Record):
    """Siblings tested one after the other, node by node along the path that was kept."""

    nodes: list[Node]


def draws_of(iteration: Turn, temperature: float) -> Draws:
    """The tests of a verified tree. Where nothing is drawn p has all its weight on the first choice."""
    draft, tests = iteration.draft, {test.row: test for test in iteration.verdict.tests}
    nodes = []
    for row in iteration.verdict.path:
        tested = [child for child in children(draft.parents)[row] if child in tests]
        if not tested or row >= len(iteration.z):
            continue
        z = iteration.z[row].double()
        p = distribution(z, temperature) if temperature else torch.nn.functional.one_hot(z.argmax(), len(z)).double()
        q = draft.distributions.get(row)
        q = p if q is None else q.to(p.device).double()
        drawn = list(dict.fromkeys(draft.tokens[child] for child in tested))
        best = [token for token in p.topk(min(SHOWN, len(p))).indices.tolist() if token not in drawn]
        tokens, r, d = [*drawn, *best[: max(2, SHOWN - len(drawn))]], p, q
        draws: list[Draw] = []
        for child in tested:
            test, token = tests[child], draft.tokens[child]
            draws.append(Draw(token, test.chance, test.u, test.accepted, _at(r, tokens), _at(d, tokens)))
            if test.accepted or not temperature:
                continue
            left = residual(r, d)
            r = r if left is None else left
            rest = d if draft.replacement else without(d, token)
            d = d if rest is None else rest
        nodes.append(Node(draft.tokens[row], tokens, draws, [] if draws[-1].accepted else _at(r, tokens)))
    return Draws(nodes)


def _at(p: torch.Tensor, tokens: Sequence[int]) -> list[float]:
    return [round(float(p[token]), 6) for token in tokens]
