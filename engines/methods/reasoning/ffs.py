"""First Finish Search (Agarwal, Sengupta and Chakraborty, arXiv:2505.18149; no official code of this paper was found).

Start n independent samples of one question and return the first that comes to its end; all others are dropped at that
moment. Waiting costs the smallest of n lengths, writing n times that.

FFS-k@N of the authors' later code (github.com/Aradhye2002/art_of_tts, `ffs_k`): wait for the k shortest traces and
write the answer that most of them give, ties to the answer met first; every trace that ends as early as the k-th has a
vote. k = 1 is First Finish Search, k = n a majority vote over all.

At k = 1 the first end mark wins, whether an answer can be read before it or not; above 1 only answers are counted.

Ours: paths that end in the same step are as short as each other, and the lower number wins; a path that is cut at
max_new_tokens never wins and has no vote; if none comes to its end, the first path is written and said to have no
answer. `let_finish` lets all paths go on behind the winner, to see what a vote would have said: that changes no output.

Letters: n paths, k votes, V vocabulary."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from engines.kit import (
    Bool,
    CausalLM,
    Choice,
    Float,
    Int,
    Params,
    Path,
    Paths,
    Recorder,
    Steps,
    UserError,
    distribution,
    draw,
    entropy,
    many,
    max_new_tokens,
    method,
)
from engines.methods.reasoning._votes import Tally, Vote, answer_of


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


MOST = 64


@method(
    "ffs",
    title="First Finish Search",
    own="after the abstract",
    paper="arXiv:2505.18149",
    summary="Starts several samples of one question and returns the first that finishes.",
    needs="causal",
    params=[
        max_new_tokens(96),
        Int("n", 8, 1, MOST, neutral=1, source="8 in the authors' later code"),
        Float(
            "temperature",
            1.0,
            0.0,
            2.0,
            step=0.05,
            symbol="T",
            source="0.6 in the authors' later code; the tiny reasoner was measured at 1",
        ),
        Int("k", 1, 1, MOST, source="paper: 1; FFS-k in the authors' later code"),
        Bool("let_finish", False, source="ours"),
        Choice("answer", "auto", ["auto", "marked", "last number", "last line"], source="ours"),
    ],
    signature="paths",
    emits={"commits", "scores", "candidates", "branches", "facts", "note"},
    records={"vote": Vote},
    lanes={"confidence": "probability", "entropy": "nats"},
    baseline="temperature",
    paths={"let_finish": True, "k": 3},
)
def decode(model: CausalLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """One token of every living path per step. The board shows the first path until there is a winner."""
    if p.k > p.n:
        raise UserError(f"k={p.k} paths are waited for and n={p.n} run; give a k of at most n.")
    start, end = len(prompt), len(prompt) + p.max_new_tokens
    paths = Paths(model, prompt, rows=p.n * (p.max_new_tokens + 1), rng=run.rng)
    shown, finish, winner = paths.add(), Finish(model, paths, start, p), None
    for _ in range(p.n - 1):
        paths.add()
    while living := paths.living:
        paths.feed()
        z = paths.paths[0].logits[None] if paths.paths[0] in living else None  # [1, V]
        for path in living:
            paths.write(path, [draw(distribution(path.logits, p.temperature), path.rng)])
            if finish.ended(path):
                paths.drop(path, "finished")
            elif path.length >= end:
                paths.drop(path)
        if winner is None and (winner := finish.winner()):
            shown = winner
            paths.drop(shown, "chosen")
            for path in [] if p.let_finish else paths.living:
                paths.drop(path)
        at, token = [paths.paths[0].length - 1], paths.paths[0].tip.token
        edit = yield run.step(
            commits=paths.commits(run.board, shown),
            scores=(
                lambda: {"confidence": (at, z.double().softmax(-1)[:, token]), "entropy": (at, entropy(z.double()))}
            )
            if z is not None
            else None,
            candidates=(lambda: (at, z)) if z is not None else None,
            branches=paths.branches(),
            records={} if paths.living else {"vote": lambda: finish.vote(winner)},
            facts=finish.facts(),
            note=finish.note_of(winner, len(living)),
        )
        paths.apply_edit(run, edit, shown)


class Finish:
    """Which paths came to their end, and who wins."""

    def __init__(self, model: CausalLM, paths: Paths, start: int, p: Params) -> None:
        self.model, self.paths, self.start, self.p = model, paths, start, p

    def ended(self, path: Path) -> bool:
        """Whether a path ends with an end mark."""
        return path.length > self.start and path.tip.token in self.model.eos_ids

    def traces(self) -> list[Trace]:
        """All paths as the rules see them: one that goes on, was cut or says nothing has no answer."""
        return [Trace(path.length - self.start, self.answer(path), self.ended(path)) for path in self.paths.paths]

    def answer(self, path: Path) -> str | None:
        """What a path that ended answers; None for one that did not, or whose answer cannot be read."""
        if not self.ended(path):
            return None
        text = self.model.tokenizer.decode(self.paths.read(path)[self.start : -1])
        return answer_of(text, self.p.answer) or None

    def winner(self) -> Path | None:
        """The first to finish, whatever it says; for k > 1 the shortest with the answer of most, once k are answered or
        no path is left."""
        traces = self.traces()
        if self.p.k == 1:
            return None if (number := first(traces)) is None else self.paths.paths[number]
        answered = sum(trace.answer is not None for trace in traces)
        if not answered or (answered < self.p.k and self.paths.living):
            return None
        best = chosen(votes(traces, self.p.k))
        voted = [(trace, path) for trace, path in zip(traces, self.paths.paths, strict=True) if trace.answer == best]
        return min(voted, key=lambda pair: pair[0].length)[1]

    def vote(self, winner: Path | None) -> Vote:
        """What the rules make of all paths, at the end."""
        ids = [path.id for path in self.paths.paths]
        return election(ids, self.traces(), None if winner is None else ids.index(winner.id), self.p.k)

    def facts(self) -> dict[str, float]:
        """Counters of the step: tokens are those of all paths, sequential_tokens those of the longest so far."""
        traces = self.traces()
        return {
            "paths_living": len(self.paths.living),
            "paths_answered": sum(trace.answer is not None for trace in traces),
            "sequential_tokens": max(trace.length for trace in traces),
            "tokens_of_all_paths": sum(trace.length for trace in traces),
        }

    def note_of(self, winner: Path | None, n: int) -> str:
        """The step in a sentence or two."""
        ended = sum(map(self.ended, self.paths.paths))
        if winner is None:
            if self.paths.living:
                return f"{many(n, 'path')} extended by a token in one forward; {ended} finished."
            answered = " with an answer" if self.p.k > 1 else ""
            return f"No path finished{answered}, so none wins; the first one is shown."
        n = winner.length - self.start - 1
        sentence = f"Path {winner.id} wins with {many(n, 'token')} and its end mark"
        sentence += "" if self.answer(winner) else ", and no answer can be read in it"
        if self.paths.living:
            return f"{sentence}; {many(len(self.paths.living), 'other')} still running, for comparison."
        stopped = self.p.n - ended
        sentence += f"; {stopped} of {self.p.n} paths were stopped or cut." if stopped else "; all finished."
        tally = votes(self.traces(), self.p.n)
        if tally and (self.p.let_finish or self.p.k > 1):
            counts = ", ".join(f"'{answer}' {count}×" for answer, count in tally.most_common())
            sentence += f" Votes of all finished paths: {counts}."
        return sentence
