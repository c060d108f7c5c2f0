"""How far the operators G of power-law graph attention depend on the text (arXiv:2502.13502): their spread and
determinants over prompts, trained and untrained; what a text costs when another G takes the place of its own; and the
four modes side by side, in text, logits and time.

KV and KV+G use the same G by construction, so they agree to the bit in any model, an untrained one too. What says
something is how far they are from the mode without caches, in which G is made again for every token."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, median
from typing import TYPE_CHECKING, Any

from engines.core.errors import UserError
from engines.core.params import Int, Params, Text
from engines.core.study import Axis, Column, Figure, Progress, Series, Study, Table, study
from engines.models import operators
from engines.studies import _operators as measured

if TYPE_CHECKING:
    from torch import Tensor

Rows = list[list[str | float | int | bool | None]]


@study(
    "kept-operators",
    "What a text loses when its attention operator is kept",
    "arXiv:2502.13502",
    summary="Spread of G over prompts, trained and untrained; loss with the G of other texts, the identity and noise; "
    "text, logits and milliseconds of the four ways to cache; and the spread while the model was trained.",
    inputs=[
        Text("model", "tiny-pldr", help="A model with power-law graph attention."),
        Int("prompts", 2, 1, 20, help="Held-out prompts of each task that the model knows."),
        Int("tokens", 24, 2, 96, help="Tokens that every mode writes behind each prompt, at most."),
        Int("seed", 3, 0, 10_000, help="Of the prompts, the untrained model and the noise."),
    ],
    departures="A model of 1.2 M parameters trained here on 2 M tokens; the paper's has 110 M and saw 8 billion. "
    "G differs at the 2nd digit in the first layer and at the 4th or 5th in the others, not at the 15th.",
    runs_models=True,
)
def kept_operators(p: Params, progress: Progress) -> Study:
    """Reads every text with each kind of G, then decodes its prompt in each mode. Raises UserError for another kind of
    model, or for one whose card names no task."""
    from engines.models.hub import assets, read_json
    from engines.models.zoo import list_models, load_model

    model: Any = load_model(p.model, kind="power-law")
    tasks = next((info.tasks for info in list_models() if info.name == model.record.name), ())
    if not tasks:
        raise UserError(f"the card of '{p.model}' names no task that it knows; choose tiny-pldr.")
    found = measured.texts(model, tasks, p.prompts, p.seed)
    G, fresh = measured.of_prompts(model, found), measured.untrained(model, p.seed)
    reads = list[dict[str, measured.Read]]()
    runs = list[dict[str, measured.Decoded]]()
    for i, one in enumerate(found):
        progress(i, len(found))
        given = measured.kinds(G, i, p.seed)
        reads.append({name: measured.read(model, one, kind) for name, kind in given.items()})
        in_turn = measured.in_turns(measured.MODES, i)
        runs.append({mode: measured.decode(model, one.prompt, mode, p.tokens) for mode in in_turn})
    curve = read_json(assets() / "models" / model.record.name / "card.json").get("curve") or []
    return Study(
        tables=[
            _layers(G, measured.of_prompts(fresh, found), runs),
            _sources(reads),
            _modes(runs),
        ],
        figures=[_growth(runs), *_training(curve)],
        notes=[
            f"{len(found)} held-out prompts of {len(tasks)} tasks, {sum(len(one.answer) for one in found)} tokens of "
            "reference answers. Their own G of the whole text has seen the answer that it helps to read, so that loss "
            "is a little too good; the one of the prompt alone has not.",
            "KV and KV+G agree to the bit by construction; only their difference from none speaks of the claim.",
        ],
        models=[model.record],
    )


def _layers(G: Tensor, fresh: Tensor, runs: Sequence[dict[str, measured.Decoded]]) -> Table:
    trained, before = operators.spread(G).tolist(), operators.spread(fresh).tolist()
    logdet = operators.logdet(G)  # [P, L, h]
    moved = [mean(row) for row in zip(*(run["none"].moved for run in runs), strict=True)]
    columns = [
        Column("layer", "", "given"),
        Column("spread of G over prompts", "", "measured", 4),
        Column("the same, untrained", "", "measured", 4),
        Column("G moved while decoding without cache", "", "measured", 4),
        Column("log |det G|", "", "measured", 2),
        Column("its standard deviation over prompts", "", "measured", 3),
        Column("its largest difference between two prompts", "", "measured", 3),
    ]
    rows: Rows = [
        [
            i,
            trained[i],
            before[i],
            moved[i],
            float(logdet[:, i].mean()),
            float(logdet[:, i].std(0).mean()) if len(G) > 1 else 0.0,
            float((logdet[:, i].amax(0) - logdet[:, i].amin(0)).max()),
        ]
        for i in range(len(trained))
    ]
    return Table("layers", "G over prompts, by layer", columns, rows, "Spread: RMS(G - mean) / RMS(G).")


def _sources(reads: Sequence[dict[str, measured.Read]]) -> Table:
    own = next(iter(reads[0]))
    columns = [
        Column("G", "", "given"),
        Column("loss", "nats per token", "measured", 4),
        Column("same first choice as with its own", "", "measured", 4),
        Column("largest difference of logits", "", "measured", 3),
    ]
    rows: Rows = []
    for name in reads[0]:
        nats = [float(one) for text in reads for one in text[name].nats]
        same = [bool(one) for text in reads for one in text[name].first == text[own].first]
        largest = max(float((text[name].logits - text[own].logits).abs().max()) for text in reads)
        rows.append([name, mean(nats), mean(same), largest])
    return Table("sources", "Answers read with each kind of G", columns, rows)


def _modes(runs: Sequence[dict[str, measured.Decoded]]) -> Table:
    columns = [
        Column("mode", "", "given"),
        Column("a token, middle", "ms", "measured", 2),
        Column("of it making G", "ms", "measured", 2),
        Column("texts as without cache", "", "measured", 3),
        Column("first other token, middle", "", "measured", 1),
        Column("largest difference of logits up to there", "", "measured", 3),
    ]
    rows: Rows = []
    for mode in measured.MODES:
        far = [measured.apart(run[mode], run["none"]) for run in runs]
        parted = [at + 1 for at, _ in far if at is not None]
        made = median(median(run[mode].made_ms[1:] or run[mode].made_ms) for run in runs)
        rows.append(
            [
                mode,
                median(run[mode].middle() for run in runs),
                made,
                1 - len(parted) / len(runs),
                median(parted) if parted else None,
                max(logits for _, logits in far),
            ]
        )
    return Table("modes", f"{len(runs)} prompts decoded in each mode", columns, rows)


def _growth(runs: Sequence[dict[str, measured.Decoded]]) -> Figure:
    longest = max(len(run[mode].ms) for run in runs for mode in measured.MODES)
    series = [
        Series(
            mode,
            [float(at + 1) for at in range(longest)],
            [
                median(one) if (one := [r[mode].ms[at] for r in runs if at < len(r[mode].ms)]) else None
                for at in range(longest)
            ],
            "measured",
        )
        for mode in measured.MODES
    ]
    return Figure("time", "Milliseconds of each token", Axis("token"), Axis("middle", "ms"), series)


def _training(curve: Sequence[dict[str, float]]) -> list[Figure]:
    """The curves of the card, which the training wrote; none without them."""
    if not curve:
        return []
    steps = [one["step"] for one in curve]
    named = {"own": "own G", "other": "G of other prompts", "identity": "identity"}
    return [
        Figure(
            "spread",
            "Spread of G over prompts while the model was trained",
            Axis("step"),
            Axis("RMS(G - mean) / RMS(G)"),
            [Series("mean of the layers", steps, [one["spread"] for one in curve], "measured")],
        ),
        Figure(
            "loss",
            "Loss with each kind of G while the model was trained",
            Axis("step"),
            Axis("loss", "nats per token"),
            [Series(title, steps, [one[name] for one in curve], "measured") for name, title in named.items()],
        ),
    ]
