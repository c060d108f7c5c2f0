"""What confidence injection and early stopping are worth, each alone and together, and how hard the line of the probe
is to set (ConCISE, arXiv:2505.04881).

Early stopping changes nothing before the stop, so one run that never stops tells what every line would have done: the
text is cut behind the first answer whose probe lies above it. Injection changes what follows and is run by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from engines.core.errors import UserError
from engines.core.kinds.causal import CausalLM
from engines.core.params import Float, Int, Params, Text
from engines.core.statistics import wilson
from engines.core.study import Axis, Column, Figure, Progress, Receipt, Series, Study, Table, study
from engines.methods.reasoning._votes import answer_of
from engines.methods.reasoning.concise.thought import Marked, reading

LINES = [round(0.05 * i, 2) for i in range(21)]
MOST = 96  # tokens of a trace


@dataclass(frozen=True)
class Told:
    """A trace that was never stopped. probes: (tokens written when the answer stood there, confidence), in order;
    steps: (token at which each begins, whether it is a second look)."""

    answer: str
    tokens: list[str]
    probes: list[tuple[int, float]]
    steps: list[tuple[int, bool]]
    injected: list[int]

    def cut(self, line: float) -> int:
        """Tokens written where the text ends at this line; the mark of the end is not one."""
        return next((n for n, sure in self.probes if sure > line), len(self.tokens))

    def right(self, n: int) -> bool:
        """Whether its first n tokens say the right answer."""
        return answer_of("".join(self.tokens[:n]), "marked") == self.answer

    def looks(self, n: int) -> int:
        """Second looks that begin in them."""
        return sum(again for at, again in self.steps if at < n)


@study(
    "confident-steps",
    "What is doubt worth?",
    "arXiv:2505.04881",
    summary="Length and accuracy with confidence injection, early stopping, both, and after training on such traces; "
    "and over the line of the probe.",
    inputs=[
        Text("model", "tiny-reasoner", help="A model that writes marked steps."),
        Text("tuned", "tiny-reasoner-concise", help="The same, trained on brief traces and decoded plainly."),
        Int("problems", 200, 20, 400, help="Held-out problems, in the order of their generator."),
        Float("t_stop", 0.5, 0.0, 1.0, step=0.05, help="The line in the table; the figure shows all."),
        Float("temperature", 1.0, 0.1, 2.0, step=0.05, help="Of all traces."),
        Int("seed", 0, 0, 10_000, help="Problems and draws."),
    ],
    departures="The tiny reasoner learnt the traces of a synthetic overthinker, in which doubt comes with errors: that "
    "injection makes it right more often is a property of that data.",
    runs_models=True,
)
def confident_steps(p: Params, progress: Progress) -> Study:
    """Write every trace to its own end, then cut."""
    from engines.models.zoo import load_model
    from engines.tasks import CHAINS

    model, tuned = load_model(p.model), load_model(p.tuned) if p.tuned.strip() else None
    for one in (model, tuned):
        if one is not None and (one.record.kind != "causal" or not isinstance(reading(one), Marked)):
            raise UserError(
                f"'{one.record.name}' does not write marked steps; give tiny-reasoner or one trained like it."
            )
    problems = islice(CHAINS.generate("held-out", p.seed), p.problems)
    asked = [(one.prompt.removeprefix("chain: "), one.answer) for one in problems]
    wanted = [("plain", model, False), ("injection", model, True), *([("tuned", tuned, False)] if tuned else [])]
    found: dict[str, list[Told]] = {name: [] for name, _, _ in wanted}
    for done, (chain, answer) in enumerate(asked):
        progress(done, len(asked))
        for name, one, inject in wanted:
            found[name].append(told(one, chain, answer, inject, p.temperature, p.seed + done))
    return report(found, p.t_stop, [one.record for one in (model, tuned) if one is not None])


def told(model: CausalLM, chain: str, answer: str, inject: bool, temperature: float, seed: int) -> Told:
    """A trace of one problem, through the method's own run, never stopped."""
    from engines import run
    from engines.methods.reasoning.concise import decode

    params = {"inject": inject, "t_stop": 1.0, "temperature": temperature, "max_new_tokens": MOST}
    trace = run(decode.info.slug, model, chain, params=params, seed=seed, detail="light")
    start, texts = len(trace.header.prompt_ids), {piece.id: piece.text for piece in trace.pieces}
    ids = trace.output_ids[: -1 if trace.output_ids and trace.output_ids[-1] in trace.header.eos_ids else None]
    probes = [
        (step.commits.positions[0] - start, step.choice.value or 0.0)
        for step in trace.steps
        if step.choice and step.commits
    ]
    steps = [(span.start - start, span.kind == "reflection") for span in trace.steps[-1].spans]
    injected = [span.start - start for span in trace.steps[-1].spans if span.label]
    return Told(answer, [texts[token] for token in ids], probes, steps, injected)


def report(found: dict[str, list[Told]], line: float, records: list) -> Study:  # type: ignore[type-arg]
    """The table of the switches, and the figures over the line."""
    rows: list[list[str | float | int | bool | None]] = []
    for name, source, at in (
        ("plain", "plain", 1.0),
        ("injection", "injection", 1.0),
        (f"stop above {line:g}", "plain", line),
        ("both", "injection", line),
        ("trained on both, decoded plainly", "tuned", 1.0),
    ):
        if own := found.get(source):
            rows.append([name, *summary(own, at)])
    columns = [
        Column("switches", "", "given"),
        Column("right", "", "measured", 3),
        Column("from", "", "derived", 3),
        Column("to", "", "derived", 3),
        Column("written", "tokens", "measured", 1),
        Column("injected of them", "tokens", "measured", 2),
        Column("second looks", "", "measured", 2),
        Column("share of steps that are", "", "measured", 3),
        Column("probes", "", "measured", 2),
    ]
    length = {str(row[0]): float(str(row[4])) for row in rows}
    saved = Receipt(
        "saved", "1 - tokens with both / tokens of plain", {"both": length["both"], "plain": length["plain"]},
        1 - length["both"] / length["plain"],
    )  # fmt: skip
    return Study(
        tables=[Table("switches", "The same problems and seeds with each switch", columns, rows)],
        figures=[over_line(found, "tokens"), over_line(found, "right")],
        receipts=[saved],
        notes=[
            "The probe is the distribution behind the answer, so it costs no call of its own here.",
            "A trace that was cut off at its longest counts as it stands.",
        ],
        models=records,
    )


def summary(own: Sequence[Told], line: float) -> list[float | int | None]:
    """Right with its 95 % interval (Wilson), means of tokens, of injected ones, second looks, their share of the steps,
    and probes."""
    cuts = [one.cut(line) for one in own]
    right = sum(one.right(n) for one, n in zip(own, cuts, strict=True))
    looks = sum(one.looks(n) for one, n in zip(own, cuts, strict=True))
    steps = sum(sum(at < n for at, _ in one.steps) for one, n in zip(own, cuts, strict=True))
    put = [sum(at < n for at in one.injected) for one, n in zip(own, cuts, strict=True)]
    asked = [sum(at <= n for at, _ in one.probes) for one, n in zip(own, cuts, strict=True)]
    low, high = wilson(right, len(own))
    means = [float(np.mean(values)) for values in (cuts, put)]
    return [right / len(own), low, high, *means, looks / len(own), looks / max(1, steps), float(np.mean(asked))]


def over_line(found: dict[str, list[Told]], what: str) -> Figure:
    """Tokens or accuracy for every line of the probe; each point a cut of the same traces."""
    series = []
    for name in ("plain", "injection"):
        each = [summary(found[name], line) for line in LINES]
        values = [float(row[3 if what == "tokens" else 0] or 0) for row in each]
        bounds = {} if what == "tokens" else {
            "low": [float(row[1] or 0) for row in each], "high": [float(row[2] or 0) for row in each],
        }  # fmt: skip
        said = "stopping alone" if name == "plain" else "with injection"
        series.append(Series(said, LINES, values, "measured", **bounds))  # type: ignore[arg-type]
    title, axis = ("Where the line falls off a cliff", Axis("written", "tokens")) if what == "tokens" else (
        "And how often the answer is right", Axis("share right"),
    )  # fmt: skip
    note = "Below the cliff the text ends at its first answer; above it the probe is hardly ever sure enough."
    return Figure(what, title, Axis("t_stop", "probability"), axis, series, note=note if what == "tokens" else "")
