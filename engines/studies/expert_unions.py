"""How many experts neighbouring tokens use together (BlockFFN, arXiv 2507.08771): sparsity by token and by chunk,
reuse, and what a chunk of verified tokens reads, for several mixtures side by side on the same prompts.

Every model answers greedily; the routing of prompt and answer, in all layers, is what is counted."""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, TypeAlias

from engines.core.errors import UserError
from engines.core.lazy import torch
from engines.core.params import Int, Params, Text
from engines.core.study import Axis, Column, Figure, Progress, Series, Study, Table, study
from engines.core.trace import Trace
from engines.kit import Taps
from engines.methods.architecture._routed import pattern
from engines.models.activation import cls, reuse, tls

if TYPE_CHECKING:
    from torch import Tensor

Layers: TypeAlias = "list[Tensor]"  # patterns [T, N], one for each sparse layer
MODELS = "tiny-moe | tiny-blockffn-plain | tiny-blockffn"
PROMPTS = (
    "python: class Robot(size: int, owner: str, label: str) | story: Mia, boat, lamp | "
    "read: Lola has a green picture. Lola lives in Athens. Who lives in Athens? | "
    "spell: the short bridge lifts the tablee."
)
WIDTHS, TURNS, GZIP = (1, 2, 4, 8, 16, 32), 9, b"\x1f\x8b"


@study(
    "expert-unions",
    "Experts that neighbouring tokens use together",
    "arXiv:2507.08771",
    summary="Sparsity by token and by chunk, reuse and what a chunk of verified tokens reads, measured on mixtures of "
    "experts that differ in their router and its losses only.",
    inputs=[
        Text("models", MODELS, help="Mixtures of experts, with | between them."),
        Text("prompts", PROMPTS, help="Prompts that each of them answers, with | between them."),
        Int("tokens", 48, 1, 256, help="Tokens written behind each prompt, at most."),
        Int("chunk", 8, 1, 256, symbol="L", help="Tokens of a chunk in the first and the last table."),
        Text("trace", "", help="A file of a recorded run; its routing is counted in place of the prompts.", file=True),
    ],
    departures="Models of 1.6 M parameters on tasks of this project; the perplexities of the paper are not comparable.",
    runs_models=True,
)
def expert_unions(p: Params, progress: Progress) -> Study:
    """Answer, count, time."""
    names = [name.strip() for name in p.models.split("|") if name.strip()]
    if not names:
        raise UserError("no model was given; write one or several with | between them, as tiny-moe | tiny-blockffn.")
    if p.trace:
        return told(p, {"recorded": [recorded(p.trace, names)]}, {}, [])
    from engines import load_model

    prompts = [text.strip() for text in p.prompts.split("|") if text.strip()]
    if not prompts:
        raise UserError("no prompt was given; write one or several with | between them.")
    found, times, models = dict[str, list[Layers]](), dict[str, tuple[float, float]](), list[Any]()
    for done, name in enumerate(names):
        progress(done, len(names))
        model: Any = load_model(name, kind="moe", dtype="float32")
        found[name] = [answered(model, model.tokenizer.encode_prompt(text), p.tokens) for text in prompts]
        models.append(model)
    for name, model in zip(names, models, strict=True):
        if (part := own_part(model)) is not None:
            times[name] = timed(part, p.chunk)
    return told(p, found, times, [model.record for model in models])


def answered(model: Any, prompt: Sequence[int], tokens: int) -> Layers:
    """The patterns of each sparse layer over a prompt and its greedy answer."""
    ids, cache, parts = list(prompt), model.new_cache(len(prompt) + tokens), list[Layers]()
    while len(ids) < len(prompt) + tokens and not (len(ids) > len(prompt) and ids[-1] in model.eos_ids):
        routed = list[Any]()
        x = model.embed(ids[cache.length :])
        x = model.layers(x, cache, 0, model.num_layers, taps=Taps(router=routed.append))
        ids.append(int(model.unembed(x[-1:]).argmax()))
        parts.append([pattern(one) for one in routed])
    return [torch.cat(layer) for layer in zip(*parts, strict=True)]


def recorded(file: str, names: Sequence[str]) -> Layers:
    """The patterns of each layer from a recorded run. Raises UserError for a run without routing, or one of a model
    that is not among those named."""
    try:
        data = Path(file).read_bytes()
        trace = Trace.from_json(gzip.decompress(data) if data[:2] == GZIP else data)
    except OSError as error:
        raise UserError(f"'{file[:200]}' cannot be read ({error.strerror}); give the file of a recorded run.") from None
    model = trace.header.models[0].name if trace.header.models else "no model"
    if model not in names:
        raise UserError(
            f"'{file[:200]}' was recorded with {model}, which is not among the models {', '.join(names)}; name it "
            "there, or give a run of one of them."
        )
    kept: dict[int, dict[int, set[int]]] = {}
    units = 0
    own = ("", trace.header.models[0].role)  # not what a twin of it chose
    for entry in (entry for step in trace.steps for entry in step.routing if entry.role in own):
        units, chosen = max(units, entry.units), entry.chosen.array()
        for i, position in enumerate(entry.positions):
            for j, layer in enumerate(entry.layers):
                kept.setdefault(layer, {})[position] = {int(unit) for unit in chosen[i, j] if unit >= 0}
    if not kept:
        raise UserError(f"'{file[:200]}' holds no routing; record a run on a mixture of experts, as tiny-blockffn.")
    return [
        torch.tensor([[unit in row for unit in range(units)] for _, row in sorted(rows.items())])
        for _, rows in sorted(kept.items())
    ]


def own_part(model: Any) -> Any | None:
    """The feed-forward part half-way up, where it can multiply some of its experts alone; None elsewhere."""
    layer = model.mixtures[len(model.mixtures) // 2].layer
    part = model.model.base_model.layers[layer].mlp
    return part if hasattr(part, "experts") and hasattr(part, "up") else None


def timed(part: Any, chunk: int) -> tuple[float, float]:
    """Middle microseconds that a chunk of rows takes through all experts and through its union, one after the other in
    turn."""
    x, turns = torch.randn(chunk, part.up.shape[1], generator=torch.Generator().manual_seed(0)), list[list[float]]()
    for _ in range(TURNS):
        marks = [time.perf_counter()]
        with torch.no_grad():
            part.experts(x, part.gate(x)[1], part.up, part.down)
            marks.append(time.perf_counter())
            part(x)
        marks.append(time.perf_counter())
        turns.append([1e6 * (b - a) for a, b in pairwise(marks)])
    dense, union = (median(times) for times in zip(*turns, strict=True))
    return dense, union


def told(
    p: Params, found: Mapping[str, Sequence[Layers]], times: Mapping[str, tuple[float, float]], models: list[Any]
) -> Study:
    """Both tables and the curve. Raises UserError for a chunk longer than every text."""
    longest = max(len(layers[0]) for texts in found.values() for layers in texts)
    if p.chunk > longest:
        raise UserError(
            f"a chunk of {p.chunk} tokens is longer than the longest text, which has {longest}; give a chunk of at "
            f"most {longest}, or more tokens."
        )
    counted = {name: [on for layers in texts for on in layers] for name, texts in found.items()}
    curve = {
        name: [(w, 1 - (mean(cls(on, w) for on in patterns) or 0.0)) for w in WIDTHS if w <= max(map(len, patterns))]
        for name, patterns in counted.items()
    }
    tables = [sparsity(p.chunk, found, counted, times)]
    rows: list[list[Any]] = [[name, w, share] for name, points in curve.items() for w, share in points]
    columns = [Column("model"), Column("tokens together", "", "given"), Column("experts read", "of all", "measured", 3)]
    tables.append(Table("unions", "Experts that so many neighbours read together", columns, rows))
    series = [
        Series(name, [float(w) for w, _ in points], [share for _, share in points], "measured")
        for name, points in curve.items()
    ]
    figure = Figure(
        "union", "Experts read by a chunk", Axis("tokens together", log=True), Axis("experts read", "of all"), series
    )
    note = "Means over layers and texts; chunks do not overlap, and a rest behind the last whole one does not count."
    return Study(tables=tables, figures=[figure], notes=[note], models=models)


def sparsity(
    chunk: int,
    found: Mapping[str, Sequence[Layers]],
    counted: Mapping[str, Sequence[Tensor]],
    times: Mapping[str, tuple[float, float]],
) -> Table:
    """A row for each model; beside sparsity what tells a collapse: experts ever used and reuse."""
    columns = [
        Column("model"),
        Column("tokens", "", "measured"),
        Column("TLS", "", "measured", 3),
        Column(f"CLS of {chunk}", "", "measured", 3),
        Column("reuse", "", "measured", 3),
        Column("experts ever used", "of all", "measured", 3),
        Column("all experts", "µs", "measured", 0),
        Column("the union alone", "µs", "measured", 0),
    ]
    rows: list[list[Any]] = []
    for name, patterns in counted.items():
        depth = len(found[name][0])
        ever = [torch.cat(list(patterns[layer::depth])).any(0).double().mean() for layer in range(depth)]
        rows.append(
            [
                name,
                sum(len(layers[0]) for layers in found[name]),
                mean(tls(on) for on in patterns),
                mean(cls(on, chunk) for on in patterns),
                mean(reuse(on) for on in patterns),
                mean(float(share) for share in ever),
                *times.get(name, (None, None)),
            ]
        )
    note = (
        f"Microseconds: one feed-forward part on {chunk} random rows, middle of {TURNS} turns; bytes are what counts."
    )
    return Table("sparsity", "Experts that are off, by token and by chunk", columns, rows, note=note)


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of those that there are; None where there is none."""
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
