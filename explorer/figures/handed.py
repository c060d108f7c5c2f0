"""What the player is handed beside a trace, since it draws figures and computes none: of a run by itself (`of_run`, and
`Counting` while it is made), and of each two runs that it may show together (`of_pairs`).

Figures over the steps are lists with a value before the first step, then after each one. A list of nothing but zeros is
left out."""

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from itertools import permutations
from typing import Any

import msgspec

from engines import Alternatives, Commits, Header, Step, Trace
from explorer.figures.acceptance import drafts
from explorer.figures.compare import control_of, difference, main_model, saved_at_end, speed
from explorer.figures.hindsight import hindsight
from explorer.figures.history import TOKENS, Tally
from explorer.figures.names import LONGEST, settings, title_of
from explorer.figures.noise import too_busy
from explorer.figures.revisions import revisions
from explorer.figures.samples import Samples
from explorer.figures.verdict import judge, marks
from explorer.figures.work import of_step, timed

CAUSES = {"bonus": ("bonus",), "correction": ("corrections",)}  # of a write: what its token is counted as
COUNTS = (TOKENS, "masks", "end_tokens", "padding", "bonus", "corrections")


class Counting:
    """Counts of a run while it is made, step by step, for a stream."""

    def __init__(self, header: Header) -> None:
        self._tally, self._samples = Tally(header), Samples(header)
        self._seconds, self._done, self._timed = 0.0, -1, timed(header)

    def over(self, steps: Iterable[Step]) -> dict[str, Any]:
        """The figures of the next steps: {from, counts: name -> one value a step, gained, work: track -> spells}.
        `from`: steps before them; -1 where the values before the first step come first. gained: tokens in all samples,
        of all steps so far where there are several."""
        first, rows = self._done, list[list[int]]()
        if self._done < 0:
            rows.append(self._row())
            self._done = 0
        work: dict[str, list[tuple[float, float]]] = {}
        for step in steps:
            self._tally.write(step.commits, _caused)
            self._samples.add(step)
            rows.append(self._row())
            if self._timed:
                for track, spells in of_step(step, self._seconds).items():
                    work.setdefault(track, []).extend((round(a, 6), round(b, 6)) for a, b in spells)
            self._seconds += step.model_seconds + step.method_seconds
            self._done += 1
        counts = dict(zip(COUNTS, map(list, zip(*rows, strict=True)), strict=True)) if rows else {}
        made: dict[str, Any] = {"from": first, "counts": {name: row for name, row in counts.items() if any(row)}}
        if self._samples.several:
            made["gained"] = self._samples.grown
        return made | ({"work": work} if work else {})

    def _row(self) -> list[int]:
        tally = self._tally
        tokens, every, ends = tally.count(TOKENS), tally.count(TOKENS, all_of_it=True), int(tally.end is not None)
        masks = tally.width - every
        return [tokens, masks, ends, every - tokens - ends, tally.count("bonus"), tally.count("corrections")]


def _caused(commits: Commits, i: int) -> tuple[str, ...]:
    return CAUSES.get(commits.causes[i], ())


def key(trace: Trace) -> str:
    """A name for a run that no other one has, with which the player finds its pairs."""
    header = trace.header
    origin = header.started_at, header.method, header.prompt, header.seed, header.params, len(trace.steps)
    models = [(model.name, model.sha256) for model in header.models]
    made = msgspec.json.encode((origin, models, trace.end))
    return blake2b(made, digest_size=6).hexdigest()


def shown(trace: Trace, others: Iterable[Trace] = ()) -> str:
    """A trace with its figures, as JSON for the player: {header, pieces, steps, end, figures}. others: runs that it may
    be shown with."""
    figures = msgspec.json.encode(of_run(trace, others)).decode()
    return f'{trace.to_json()[:-1]},"figures":{figures}}}'


def of_run(trace: Trace, others: Iterable[Trace] = ()) -> dict[str, Any]:
    """The figures of a run that is over: {key, from, counts, gained, work, later, settings, drafts, stops, hindsight,
    verdict, marks, pairs}. later: of the tokens that stand after each step, how many become what, and how many are
    still missing (`revisions`). drafts: accepted ones, and all. stops: of each step what its method would have decided
    with other values of what its pictures move (`engines.Alternatives`)."""
    sums, asked = trace.totals, Alternatives(trace.header)
    made = Counting(trace.header).over(trace.steps)
    ended = (sums.tokens, sums.masks_left, sums.end_tokens, sums.padding)
    counts = {name: made["counts"].get(name, [0] * (len(trace.steps) + 1)) for name in COUNTS}
    for name, n in zip(COUNTS, ended, strict=False):
        counts[name][-1] = n  # of the output, which may be shorter than the board
    lens, mark, stops = hindsight(trace), judge(trace), [asked.of(step) for step in trace.steps]
    verified = drafts(trace)
    pairs = {both: comparison for other in others for both, comparison in of_pairs([trace, other]).items()}
    figures: dict[str, Any] = {
        "key": key(trace),
        **made,
        "counts": _filled(counts),
        "later": _filled(revisions(trace)),
        "settings": {name: value[:LONGEST] for name, value in settings(trace).items()},
    }
    comparisons = {"verdict": mark, "marks": mark and marks(trace), "stops": any(stops) and stops, "pairs": pairs}
    optional = {"hindsight": lens.looked_ahead and lens.columns(), "drafts": any(verified) and verified, **comparisons}
    return figures | {name: figure for name, figure in optional.items() if figure}


def _filled(lists: Mapping[str, list[int]]) -> dict[str, list[int]]:
    return {name: row for name, row in lists.items() if any(row)}


def of_pairs(traces: Iterable[Trace]) -> dict[str, dict[str, Any]]:
    """The keys of a run and of one that it is held against, with a space between, -> what is said of the two."""
    named = [(key(trace), trace) for trace in traces]
    return {
        f"{ours} {theirs}": comparison
        for (ours, trace), (theirs, other) in permutations(named, 2)
        if (comparison := of_pair(trace, other))
    }


def of_pair(trace: Trace, other: Trace) -> dict[str, Any]:
    """Of runs of one title and model {apart: names of settings in which they differ}; of runs of one prompt also
    {difference: of their texts, control: whether the other is this one's, model: whether both have the same one, speed:
    of this one over the other's, busy: whether the machine was too busy for a ratio, end: calls of the other
    that this one's rule for the end saves, and all of them}. What is false or none is left out."""
    figures: dict[str, Any] = {}
    same_model = main_model(trace) == main_model(other)
    if same_model and title_of(trace) == title_of(other):
        ours, theirs = settings(trace), settings(other)
        figures["apart"] = [name for name, value in ours.items() if theirs.get(name) != value]
    if trace.header.prompt and trace.header.prompt == other.header.prompt:
        figures |= {
            "difference": difference(trace, other),
            "control": control_of(trace, {0: other}) is other,
            "model": same_model,
            "speed": speed(trace, other),
            "busy": too_busy(trace, other, same_model=same_model),
            "end": saved_at_end(trace, other),
        }
    return {name: figure for name, figure in figures.items() if figure}
