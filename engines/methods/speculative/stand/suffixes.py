"""Which suffix each token of a sample was drafted after, and what the store held after it."""

from engines.kit import Probability, Record, TokenId, children
from engines.methods.speculative._turn import Turn
from engines.methods.speculative.stand.store import Grown

SHOWN, DIGITS = 6, 6  # tokens recorded per key, beside those drawn; digits of their probabilities


class Key(Record):
    """A suffix that was found in the store, and the distribution remembered after it. count: distributions merged
    into it; tokens, q: the most likely ones and those drawn, with the probability that they were drawn from; drawn: in
    the order of their draws; why: what became of each, accepted, mismatch or unreached."""

    key: list[TokenId]
    count: int
    tokens: list[TokenId]
    q: list[Probability]
    drawn: list[TokenId]
    why: list[str]


class SampleStep(Record):
    """What a step wrote of a sample. length: of the sample after it; suffix: of each token the tokens of the key that
    it was drafted after, 0 of the target's own; keys: those along the path that was kept."""

    sample: int
    length: int
    drafted: int
    tokens: list[TokenId]
    suffix: list[int]
    keys: list[Key]


class Suffixes(Record):
    """The samples that a step wrote to, and the stored suffixes that their drafts came from."""

    samples: list[SampleStep]


def sample_step(sample: int, prompt: int, iteration: Turn, tree: Grown) -> SampleStep:
    """What a round wrote of a sample. prompt: tokens in front of it."""
    draft, path, tested = tree.draft, iteration.verdict.path, {test.row for test in iteration.verdict.tests}
    orders = [tree.orders[draft.parents[row]] for row in path[1:]]
    below, keys = children(draft.parents), list[Key]()
    for row in path:
        if (hit := tree.hits.get(row)) is None:
            continue
        text = [*iteration.before, *draft.path(row)]
        drawn = [draft.tokens[child] for child in below[row]]
        order = sorted(range(len(hit.tokens)), key=lambda i: (-float(hit.q[i]), hit.tokens[i]))
        listed = [i for rank, i in enumerate(order) if rank < SHOWN or hit.tokens[i] in drawn]
        q = [round(float(hit.q[i]), DIGITS) for i in listed]
        why = ["accepted" if child in path else "mismatch" if child in tested else "unreached" for child in below[row]]
        keys.append(Key(text[-hit.n :], hit.count, [hit.tokens[i] for i in listed], q, drawn, why))
    suffix = [*orders, 0][: len(iteration.gained)]
    return SampleStep(sample, len(iteration.ids) - prompt, len(draft) - 1, [*iteration.gained], suffix, keys)
