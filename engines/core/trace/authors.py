"""Who proposed a token, from why it was written: a commit keeps its author, so that colour can stay on it."""

from collections.abc import Iterator, Sequence

PERSON = frozenset({"forced", "remasked", "withdrawn"})
BY_CAUSE = {"boosted": "credit", "filter": "filter", "constraint": "constraint", "reference": "reference"}


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
    """The sources of a tree's accepted rows in the order of its rows, that of the text; none where it names none."""
    return [source for fate, source in zip(why, sources, strict=False) if fate == "accepted"]
