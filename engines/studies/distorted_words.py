"""Where readers of word images fail (arXiv:2307.12270): held-out words are drawn ever more distorted, and read in one
pass and letter by letter. Each cell is a run of the method; time is the model's, encoding of the picture included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from engines.core.errors import UserError
from engines.core.params import Choice, Int, Params, Text
from engines.core.statistics import wilson
from engines.core.study import Axis, Column, Figure, Progress, Series, Study, Table, study
from engines.methods.multimodal._word import Sight
from engines.methods.multimodal.cppd import decode as once
from engines.methods.multimodal.word_by_letter import decode as letters
from engines.tasks.word_images import words

if TYPE_CHECKING:
    from engines.core.trace import ModelRecord, Trace

LEVELS: dict[str, tuple[float, ...]] = {
    "rotation": (0, 5, 10, 15, 20, 30),
    "blur": (0, 0.5, 1, 1.5, 2, 3),
    "noise": (0, 0.1, 0.2, 0.3, 0.4, 0.6),
    "contrast": (1, 0.4, 0.2, 0.1, 0.05),
}
UNITS = {"rotation": "degrees", "blur": "pixels", "noise": "of the range", "contrast": "of ink against paper"}
ONCE, LETTERS = once.info.slug, letters.info.slug


@dataclass(frozen=True)
class Level:
    """One strength of a distortion: the words, and the runs of each method on them."""

    value: float
    words: Sequence[str]
    runs: dict[str, list[Trace]]

    def right(self, slug: str) -> float:
        """Share of words read wholly right."""
        return self._share(trace.text == word for trace, word in zip(self.runs[slug], self.words, strict=True))

    def interval(self, slug: str) -> tuple[float, float]:
        """The 95 % interval (Wilson) of that share."""
        return wilson(round(self.right(slug) * len(self.words)), len(self.words))

    def counted(self) -> float:
        """Share of words all of whose letters were counted right."""
        seen = [trace.steps[0].record("sight", Sight) for trace in self.runs[ONCE]]
        return self._share(s is not None and s.counts == Counter(w) for s, w in zip(seen, self.words, strict=True))

    def placed(self) -> float:
        """Share of words whose length the places tell."""
        seen = [trace.steps[0].record("sight", Sight) for trace in self.runs[ONCE]]
        return self._share(
            s is not None and [p > 0.5 for p in s.filled] == [i <= len(w) for i in range(len(s.filled))]
            for s, w in zip(seen, self.words, strict=True)
        )

    def _share(self, hits: object) -> float:
        found = list(hits)  # type: ignore[call-overload]
        return sum(found) / len(found)

    def ms(self, slug: str) -> float:
        """Middle time of the model's calls for a word."""
        return 1e3 * median(trace.totals.model_seconds for trace in self.runs[slug])

    def calls(self, slug: str) -> float:
        """Forwards for a word, on average."""
        return sum(trace.totals.forwards for trace in self.runs[slug]) / len(self.words)


@study(
    "distorted-words",
    "Where readers of word images fail",
    "arXiv:2307.12270",
    summary="Share of held-out words read right, in one pass and letter by letter, as the picture is turned, blurred, "
    "grained or paled; forwards and milliseconds of both.",
    inputs=[
        Choice("distortion", "rotation", tuple(LEVELS), help="What is done to the picture, ever more of it."),
        Text("model", "tiny-reader", help="A reader of word images."),
        Int("words", 60, 10, 400, help="Held-out words, evenly out of the alphabet."),
        Int("seed", 0, 0, 10_000, help="Of the noise."),
    ],
    departures="Words of 2 to 10 small letters in the plain cut of DejaVu Sans, drawn by this program; the paper reads "
    "photographs.",
    runs_models=True,
)
def distorted_words(p: Params, progress: Progress) -> Study:
    """Both methods on the same pictures, in turns."""
    from engines import run
    from engines.models.zoo import load_model

    model = load_model(p.model)
    if model.record.kind != "reader":
        raise UserError(f"'{p.model}' is a {model.record.kind} model; give a reader of word images, as tiny-reader.")
    held_out = words()[1]
    chosen = [held_out[i * len(held_out) // p.words] for i in range(min(p.words, len(held_out)))]
    levels = list[Level]()
    for value in LEVELS[p.distortion]:
        runs: dict[str, list[Trace]] = {ONCE: [], LETTERS: []}
        for i, word in enumerate(chosen):
            progress(len(levels) * len(chosen) + i, len(LEVELS[p.distortion]) * len(chosen))
            for slug in (ONCE, LETTERS) if i % 2 else (LETTERS, ONCE):
                given = {p.distortion: float(value)}
                runs[slug].append(run(slug, model, word, params=given, seed=p.seed + i))
        levels.append(Level(value, chosen, runs))
    return told(p.distortion, levels, model.record)


def bounds(levels: Sequence[Level], slug: str | None) -> dict[str, list[float]]:
    """Both ends of each level's interval, for a curve; none for what is not a method."""
    if slug is None:
        return {}
    low, high = zip(*(level.interval(slug) for level in levels), strict=True)
    return {"low": list(low), "high": list(high)}


def told(distortion: str, levels: Sequence[Level], record: ModelRecord) -> Study:
    """The table and the curves."""
    columns = [
        Column(distortion, UNITS[distortion], "given"),
        Column("read right in one pass", "", "measured", 3),
        Column("read right letter by letter", "", "measured", 3),
        Column("all letters counted right", "", "measured", 3),
        Column("length told right", "", "measured", 3),
        Column("one pass, middle", "ms", "measured", 2),
        Column("letter by letter, middle", "ms", "measured", 2),
        Column("forwards letter by letter", "", "measured", 2),
        Column("one pass from", "", "derived", 3),
        Column("one pass to", "", "derived", 3),
        Column("by letter from", "", "derived", 3),
        Column("by letter to", "", "derived", 3),
    ]
    rows: list[list[str | float | int | bool | None]] = [
        [
            one.value,
            one.right(ONCE),
            one.right(LETTERS),
            one.counted(),
            one.placed(),
            one.ms(ONCE),
            one.ms(LETTERS),
            one.calls(LETTERS),
            *one.interval(ONCE),
            *one.interval(LETTERS),
        ]
        for one in levels
    ]
    x = [float(one.value) for one in levels]
    curves = [
        Series(name, x, [float(row[at] or 0) for row in rows], "measured", **bounds(levels, slug))
        for at, name, slug in ((1, "in one pass", ONCE), (2, "letter by letter", LETTERS), (3, "letters counted", None))
    ]
    return Study(
        tables=[Table("levels", f"{len(levels[0].words)} held-out words", columns, rows)],
        figures=[Figure("right", "Share of words", Axis(f"{distortion}, {UNITS[distortion]}"), Axis("share"), curves)],
        notes=[
            "One forward reads a word in one pass, whatever its length. Milliseconds hold the encoder too, which both "
            "ask once, so their ratio is smaller than that of the forwards.",
            "From and to: 95 % intervals over the words (Wilson). The two ways are not told apart where they overlap.",
        ],
        models=[record],
    )
