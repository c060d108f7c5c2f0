"""Speed that stays against bytes that are saved (SpecMemo, arXiv:2506.01986): the same prompts with trees of several
sizes in a lean allocation, and with the largest one in the reference's, in turns on this machine.

Bytes are the peak of the run's own account beside the weights, of buffers that were really allocated. Two budgets are
marked: the least one with any speculation, M(2), and the least one that keeps a share of the best lean speed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

from engines.core.errors import UserError
from engines.core.params import Float, Int, Params, Text
from engines.core.study import Axis, Column, Figure, Progress, Receipt, Series, Study, Table, study
from engines.methods.system.specmemo import decode
from engines.methods.system.specmemo.plan import MB, REFERENCE, TREES

if TYPE_CHECKING:
    from engines.core.trace import Trace

PROMPTS = "add: 457 + 86 | sort: Zoe, Mia, Leo, Ada, Kim | story: Mia, boat"


@dataclass
class Setting:
    """What the runs of one allocation and tree size T gave: tokens and seconds of each repeat behind the first step of
    every run, steps, and peaks in bytes of the account beside the weights and of the process."""

    allocation: str
    T: int
    tokens: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    steps: int = 0
    peak: int = 0
    process: int = 0
    weights: int = 0

    def add(self, traces: Sequence[Trace]) -> None:
        """The runs of one repeat, one of each prompt."""
        steps = [step for trace in traces for step in trace.steps[1:]]
        self.tokens.append(sum(len(branch.tokens) for step in steps for branch in step.branches))
        self.seconds.append(sum(step.model_seconds + step.method_seconds for step in steps))
        self.steps += len(steps)
        for step in (step for trace in traces for step in trace.steps):
            sizes = {one.track: int(one.end - one.start) for one in step.intervals}
            self.weights = sizes["arena: weights"]
            self.peak = max(self.peak, int(step.facts["accounted"]) - self.weights)
            self.process = max(self.process, sizes["process: resident memory"])

    @property
    def speed(self) -> float:
        """Tokens per second, the middle repeat."""
        return median(n / s for n, s in zip(self.tokens, self.seconds, strict=True))


@study(
    "memory-budget",
    "Speed kept against bytes saved",
    "arXiv:2506.01986",
    summary="Tokens per second and accounted bytes of tree speculation, lean with 1 to 32 nodes and as the reference "
    "allocates, both measured, and the budgets that follow.",
    inputs=[
        Text("model", "tiny-ar-l", help="A causal model."),
        Text("prompts", PROMPTS, help="Prompts to answer, with | between them."),
        Int("tokens", 32, 8, 256, help="Tokens written behind each prompt."),
        Int("batch", 1, 1, 8, symbol="B", help="Sequences of each prompt that share every forward."),
        Int("nodes", 16, 2, 32, help="Nodes of the tree in the reference's allocation."),
        Float("share", 0.96, 0.5, 1.0, step=0.01, symbol="ρ", help="Speed that a budget is to keep."),
        Int("repeats", 3, 1, 10, help="Turns; the middle one counts."),
    ],
    departures="The memory formula of the paper was not available: the account is ours. The reference reserves all "
    "positions that the model has. Sequences of a batch answer one prompt, alike at temperature 0.",
    runs_models=True,
)
def memory_budget(p: Params, progress: Progress) -> Study:
    """Run every setting in turns, so that a slow moment hits all of them."""
    from engines import load_model, run

    model = load_model(p.model)
    if model.record.kind != "causal":
        raise UserError(f"'{p.model}' is a {model.record.kind} model; a tree is verified by a causal one: give that.")
    prompts = [text.strip() for text in p.prompts.split("|") if text.strip()]
    if not prompts:
        raise UserError("no prompt was given; write one or several with | between them.")
    settings = [*(Setting("lean", T) for T in TREES), Setting(REFERENCE, p.nodes)]
    for turn in range(p.repeats):
        for done, one in enumerate(settings):
            progress(turn * len(settings) + done, p.repeats * len(settings))
            given = {"max_new_tokens": p.tokens, "batch": p.batch, "nodes": one.T, "allocation": one.allocation}
            one.add([run(decode.info.slug, model, text, params=given, detail="light") for text in prompts])
    if not all(all(one.tokens) for one in settings):
        raise UserError("every answer ended with its first step, so nothing could be timed; give other prompts.")
    return told(settings, p.share, model.record)


def told(settings: Sequence[Setting], share: float, record: Any) -> Study:
    """The table, speed over bytes, and both budgets with their numbers."""
    lean, whole = settings[:-1], settings[-1]
    best = max(one.speed for one in lean)
    enough = next(one for one in lean if one.speed >= share * best)
    table: list[list[str | float | int | bool | None]] = [
        [
            one.allocation,
            one.T,
            sum(one.tokens) / one.steps,
            one.speed,
            one.speed / whole.speed,
            one.peak / MB,
            1 - one.peak / whole.peak,
            one.process / MB,
        ]
        for one in settings
    ]
    columns = [
        Column("allocation", "", "given"),
        Column("T", "nodes", "given"),
        Column("a step writes", "tokens", "measured", 2),
        Column("speed", "tokens/s", "measured", 1),
        Column("kept of the reference's speed", "", "derived", 3),
        Column("bytes beside the weights", "MB", "measured", 2),
        Column("saved of the reference's bytes", "", "derived", 3),
        Column("process, at its largest so far", "MB", "measured", 0),
    ]
    stairs = Series(
        "lean",
        [one.peak / MB for one in lean],
        [max(other.speed for other in lean if other.peak <= one.peak) for one in lean],
        "derived",
        "steps",
    )
    points = Series(
        "as run", [one.peak / MB for one in settings], [one.speed for one in settings], "measured", "points"
    )
    return Study(
        tables=[Table("settings", "The same prompts in every setting", columns, table)],
        figures=[
            Figure(
                "speed", "Speed by budget", Axis("beside the weights", "MB", True), Axis("tokens/s"), [stairs, points]
            )
        ],
        receipts=[
            mark("least budget with speculation, M(2)", lean[1], whole, {}),
            mark(f"least budget that keeps {share:g} of the best lean speed", enough, whole, {"best tokens/s": best}),
        ],
        notes=[
            "The process holds python, libraries and the weights as the kernels lay them out, and what it once held it "
            "seldom gives back: it is a witness that nothing large is forgotten, not a measure of what is saved.",
        ],
        models=[record],
    )


def mark(name: str, one: Setting, whole: Setting, more: dict[str, float | str]) -> Receipt:
    """A budget with its parts and what it keeps."""
    given: dict[str, float | str] = {"weights in MB": one.weights / MB, "beside them in MB": one.peak / MB, "T": one.T}
    return Receipt(
        name,
        "weights + peak beside them",
        {**given, **more, "tokens/s": one.speed, "reference tokens/s": whole.speed, "reference MB": whole.peak / MB},
        (one.weights + one.peak) / MB,
        "MB",
        "measured",
    )
