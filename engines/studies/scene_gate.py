"""What a gate of context is worth (arXiv:2503.15639): scenes are drawn, each is read by the light chain and by the
heavy reader, and the line tau moves from always light to always heavy. Nothing is chosen on the scenes that are
shown."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engines.core.errors import UserError
from engines.core.params import Choice, Int, Params, Text
from engines.core.statistics import wilson
from engines.core.study import Axis, Column, Figure, Progress, Series, Study, Table, study
from engines.methods.multimodal._scene import Scene
from engines.methods.multimodal.context_str import MATCHINGS
from engines.methods.multimodal.context_str import decode as context
from engines.methods.multimodal.context_str.context import Scored, gate
from engines.tasks.scenes import KINDS, word_for

if TYPE_CHECKING:
    from engines.core.trace import ModelRecord, Trace

LINES = (0.0, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.01)
FIRST = 3_000_000_000  # scenes from here on were in no training, in no card, and chose nothing


@dataclass(frozen=True)
class Both:
    """A scene read both ways. C: the best score of its light readings; light, heavy: what is read; seconds of the chain
    up to the gate, and of the heavy reader behind it. fits: whether the word is of the scene's kind."""

    word: str
    kind: str
    C: float
    light: str
    heavy: str
    light_seconds: float
    heavy_seconds: float
    fits: bool

    def at(self, tau: float) -> str:
        """What is answered under this line."""
        return self.light if tau <= self.C else self.heavy

    def seconds(self, tau: float) -> float:
        """What that takes."""
        return self.light_seconds + (0.0 if tau <= self.C else self.heavy_seconds)


def scenes(n: int, distortion: str) -> list[tuple[str, dict[str, str | int | float]]]:
    """(word, parameters) of n scenes; distorted ones are as bad as the worst of the training, and worse."""
    made = list[tuple[str, dict[str, str | int | float]]]()
    for i in range(n):
        pick = random.Random(FIRST + i)
        kind = list(KINDS)[i % len(KINDS)]
        look: dict[str, str | int | float] = {"scene": kind, "chance": pick.randrange(10_000)}
        if distortion != "none":
            most = {"rotation": 12.0, "blur": 1.5, "noise": 0.1}
            look |= {
                name: round(pick.uniform(-high if name == "rotation" else 0, high), 2) for name, high in most.items()
            }
            look["contrast"] = round(pick.uniform(0.4, 1.0), 2)
        made.append((word_for(kind, pick), look))
    return made


@study(
    "scene-gate",
    "A gate of context for scene text",
    "arXiv:2503.15639",
    summary="Accuracy, mean time and share of scenes without the heavy reader, as the line moves from always light to "
    "always heavy.",
    inputs=[
        Int("scenes", 24, 12, 600, help="Scenes, of every kind in turn; one word of ten is of another kind."),
        Choice("distortion", "some", ("none", "some"), help="Rotation, blur, noise and contrast, as in the training."),
        Choice("matching", "by word", MATCHINGS, help="What the spelling of a reading is compared with."),
        Text("model", "tiny-reader", help="A reader of word images."),
    ],
    departures="Scenes drawn by this program with one word each, parts of our own, not the benchmarks of the paper.",
    runs_models=True,
)
def scene_gate(p: Params, progress: Progress) -> Study:
    """Each scene once through everything, the heavy reader too; every line is read off these runs."""
    from engines import run
    from engines.models.zoo import load_model

    model = load_model(p.model)
    if model.record.kind != "reader":
        raise UserError(f"'{p.model}' is a {model.record.kind} model; give a reader of word images, as tiny-reader.")
    found, models = list[Both](), list["ModelRecord"]()
    for i, (word, look) in enumerate(scenes(p.scenes, p.distortion)):
        progress(i, p.scenes)
        trace = run(context.info.slug, model, word, params={**look, "matching": p.matching, "tau": 1.01}, seed=i)
        found.append(both(word, str(look["scene"]), trace))
        models = list(trace.header.models)
    return told(found, models)


def both(word: str, kind: str, trace: Trace) -> Both:
    """What a run that went all the way tells of a scene: its gate knows which light reading would have been taken."""
    at = next(i for i, step in enumerate(trace.steps) if step.choice)
    scene, times = (
        trace.steps[at].record("scene", Scene),
        [step.model_seconds + step.method_seconds for step in trace.steps],
    )
    assert scene is not None
    T1, *T3 = (Scored(one.text, one.S or 0.0, one.L or 0.0, one.C or 0.0) for one in scene.readings)
    found = gate(T1, T3, 0.0)
    light, heavy = sum(times[: at + 1]), sum(times[at + 1 :])
    return Both(word, kind, found.value, found.answer, trace.text, light, heavy, word in KINDS[kind].words)


def told(found: Sequence[Both], models: Sequence[ModelRecord]) -> Study:
    """The table of lines, the curve, and the scenes that passed the gate with a wrong reading."""
    n = len(found)
    rows: list[list[str | float | int | bool | None]] = []
    for tau in LINES:
        light = [one for one in found if tau <= one.C]
        wrong = sum(one.light != one.word for one in light)
        right = sum(one.at(tau) == one.word for one in found)
        time = sum(one.seconds(tau) for one in found) / n * 1e3
        rows.append([tau, len(light) / n, right / n, time, wrong, *wilson(right, n)])
    columns = [
        Column("line τ", "", "given", 2),
        Column("without the heavy reader", "", "measured", 3),
        Column("words right", "", "measured", 3),
        Column("mean time of a scene", "ms", "measured", 0),
        Column("wrong readings that pass", "", "measured"),
        Column("right from", "", "derived", 3),
        Column("right to", "", "derived", 3),
    ]
    passed = [one for one in found if one.C >= 0.8 and one.light != one.word]
    kinds = [Column("word", "", "given"), Column("scene", "", "given"), Column("read as", "", "measured")]
    kinds += [Column("C", "", "measured", 2), Column("the heavy reader", "", "measured")]
    misled: list[list[str | float | int | bool | None]] = [
        [one.word, one.kind, one.light, one.C, one.heavy] for one in passed
    ]
    groups = [("of the scene's kind", True), ("of another kind, or one letter beside", False)]
    split: list[list[str | float | int | bool | None]] = []
    for name, fits in groups:
        some = [one for one in found if one.fits is fits]
        if some:
            m = len(some)
            split.append(
                [
                    name,
                    m,
                    sum(one.light == one.word for one in some) / m,
                    sum(one.heavy == one.word for one in some) / m,
                    sum(one.C >= 0.8 for one in some) / m,
                ]
            )
    by = [Column("words", "", "given"), Column("scenes", "", "given"), Column("light right", "", "measured", 3)]
    by += [Column("heavy right", "", "measured", 3), Column("pass at 0.8", "", "measured", 3)]
    curve = [
        Series(
            "words right",
            [float(row[3] or 0) for row in rows],
            [float(row[2] or 0) for row in rows],
            "measured",
            low=[float(row[5] or 0) for row in rows],
            high=[float(row[6] or 0) for row in rows],
        )
    ]
    axes = Axis("mean time of a scene, ms"), Axis("share of words")
    return Study(
        tables=[
            Table("lines", f"{n} scenes", columns, rows),
            Table("words", "By how the word fits its scene", by, split),
            Table("misled", "Wrong readings that pass at 0.8, because they fit", kinds, misled),
        ],
        figures=[Figure("gate", "Words right against time, for every line", *axes, curve)],
        notes=[
            f"Right from and to: the 95 % interval over {n} scenes (Wilson); where they overlap lines stay unordered.",
            "Times hold everything up to the answer, the caption and the language model too; the last line runs the "
            "heavy reader on every scene and still pays for the gate, which the heavy reader alone would not.",
        ],
        models=list(models),
    )
