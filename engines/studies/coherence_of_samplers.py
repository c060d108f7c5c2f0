"""How coherent sampled text stays as the temperature rises: mean log-likelihood at temperature 1 of what seven samplers
wrote at other ones (the proxy of arXiv:2509.02510, figure 3)."""

from __future__ import annotations

from engines.core.errors import UserError
from engines.core.params import Int, Params, Text
from engines.core.study import Axis, Column, Figure, Progress, Receipt, Series, Study, Table, study
from engines.core.trace import ModelRecord
from engines.studies._coherence import TEMPERATURES, Coherence, measure


@study(
    "coherence-of-samplers",
    "Coherence of samplers by temperature",
    "arXiv:2509.02510",
    summary="What samplers wrote at each temperature, as likely as the model itself finds it at temperature 1.",
    inputs=[
        Text("model", "smollm2", help="The model that writes and judges: any causal one."),
        Int("prompts", 5, 5, 20, help="Openings of the fixed list, in its order; intervals are over them."),
        Int("tokens", 24, 4, 200, help="Tokens of a text, fewer where it ends by itself."),
        Int("seed", 0, 0, 10_000, help="Of every text; the samplers of a prompt draw with the same."),
    ],
    departures="SmolLM2 and twenty openings of our own. How likely a text is, is not how good: there is no judge here.",
    runs_models=True,
)
def coherence_of_samplers(p: Params, progress: Progress) -> Study:
    """Write, score, and tell."""
    from engines.models.zoo import load_model

    model = load_model(p.model)
    if model.record.kind != "causal":
        raise UserError(
            f"'{p.model}' is a {model.record.kind} model; samplers write from left to right: give a causal one."
        )
    return told(measure(model, p.prompts, p.tokens, p.seed, progress), model.record)


def told(found: list[Coherence], record: ModelRecord) -> Study:
    """The record: a row and a point for each sampler at each temperature."""
    rows: list[list[str | float | int | bool | None]] = [
        [one.lane[0], one.lane[1], one.nats, one.low, one.high, one.kept, one.mass, one.tokens] for one in found
    ]
    columns = [
        Column("sampler", "", "given"),
        Column("temperature", "", "given", 1),
        Column("log-likelihood at T = 1", "nats per token", "measured", 2),
        Column("from", "nats per token", "derived", 2),
        Column("to", "nats per token", "derived", 2),
        Column("kept, median", "tokens", "measured"),
        Column("kept mass, mean", "", "measured", 3),
        Column("written", "tokens", "measured"),
    ]
    names = list(dict.fromkeys(one.lane[0] for one in found))
    lines = [
        Series(name, list(TEMPERATURES), [one.nats for one in found if one.lane[0] == name], "measured")
        for name in names
    ]
    hot = max(TEMPERATURES)
    at = {one.lane[0]: one.nats for one in found if one.lane[1] == hot}
    best = max(at, key=lambda name: at[name])
    gap = at[best] - at["plain"]
    return Study(
        tables=[Table("coherence", "Mean over the prompts with its 95 % interval", columns, rows)],
        figures=[
            Figure(
                "coherence",
                "How likely the model finds at T = 1 what was written at T",
                Axis("temperature"),
                Axis("log-likelihood", "nats per token"),
                lines,
                note="Higher is more coherent for the model itself; greedy text would be highest, and dull.",
            )
        ],
        receipts=[
            Receipt(
                f"{best} over plain at T = {hot:g}",
                "nats of the sampler - nats of plain",
                {best: at[best], "plain": at["plain"]},
                gap,
                "nats",
            )
        ],
        models=[record],
    )
