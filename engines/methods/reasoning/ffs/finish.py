"""Rules over traces of which some came to their end: the first to finish, and a vote of the shortest (FFS-k@N of
github.com/Aradhye2002/art_of_tts, `ffs_k`)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from engines.methods.reasoning._votes import Tally, Vote


@dataclass(frozen=True)
class Trace:
    """A trace of thought: its tokens behind the prompt, its answer, None where it was cut or gives none, and whether it
    came to its end, as every one with an answer did."""

    length: int
    answer: str | None
    ended: bool = False


def first(traces: Sequence[Trace]) -> int | None:
    """The number of the shortest trace that came to its end, whether its answer can be read or not, the lower one of
    equals; None where none did."""
    ended = [(trace.length, i) for i, trace in enumerate(traces) if trace.ended or trace.answer is not None]
    return min(ended)[1] if ended else None


def cutoff(traces: Sequence[Trace], k: int) -> int:
    """The length of the k-th shortest answered trace; that of the longest trace where fewer are answered, since all
    were waited for then."""
    lengths = sorted(trace.length for trace in traces if trace.answer is not None)
    return lengths[k - 1] if len(lengths) >= k else max(trace.length for trace in traces)


def votes(traces: Sequence[Trace], k: int) -> Counter[str]:
    """What the answered traces say that are no longer than the k-th shortest, in the order in which they were met."""
    line = cutoff(traces, k)
    return Counter(trace.answer for trace in traces if trace.answer is not None and trace.length <= line)


def chosen(counts: Counter[str]) -> str | None:
    """The answer of most, of equally many the one met first; None without a vote."""
    return counts.most_common(1)[0][0] if counts else None


def election(ids: Sequence[int], traces: Sequence[Trace], winner: int | None, k: int) -> Vote:
    """What the rules make of the same traces: the one that decides first, which says nothing where its answer cannot be
    read, then a vote of all that ended and the longest of them. Every answered trace has the weight 1."""
    answers = list(dict.fromkeys(trace.answer for trace in traces if trace.answer is not None))
    of = [-1 if trace.answer is None else answers.index(trace.answer) for trace in traces]
    ended = [i for i, place in enumerate(of) if place >= 0]
    line = cutoff(traces, k)
    shortest = [i for i in ended if traces[i].length <= line]
    rules: dict[str, list[int]] = {
        "first to finish" if k == 1 else f"shortest {k}": ([] if winner is None else [winner]) if k == 1 else shortest,
        "all that ended": ended,
        "longest": sorted(ended, key=lambda i: -traces[i].length)[:1],
    }
    return Vote(
        voters=list(ids),
        of=of,
        answers=answers,
        weights=[float(place >= 0) for place in of],
        tallies=[_tally(rule, voters, of, len(answers)) for rule, voters in rules.items()],
        mean=1.0 if ended else 0.0,
    )


def _tally(rule: str, voters: Sequence[int], of: Sequence[int], answers: int) -> Tally:
    shares = [float(i in voters) for i in range(len(of))]
    counts = [sum(of[i] == answer for i in voters) for answer in range(answers)]
    best = max(counts, default=0)
    if not best:  # nobody, or nobody with an answer
        return Tally(rule, shares)
    return Tally(rule, shares, counts.index(best), best / len(voters), counts.count(best) > 1)
