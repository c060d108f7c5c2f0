"""What so many tokens together read of a memory and of a mixture (UltraMemV2, arXiv 2508.18756): different slots, bytes
beside the twins', where the lines cross, slots that nobody reads, and the people whose facts each model knows.

The models read the same ids; nothing is decoded, since a forward over a text reads for each token what decoding it
reads."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING, Any

from engines.core.errors import UserError
from engines.core.lazy import torch
from engines.core.params import Int, Params, Text
from engines.core.study import Axis, Column, Figure, Progress, Series, Study, Table, study
from engines.kit import Routing, SlotsRead, Taps
from engines.methods.architecture._routed import pattern
from engines.methods.architecture.ultramem_v2 import MATRICES

if TYPE_CHECKING:
    from torch import Tensor

WIDTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
PROMPTS = (
    "python: class Robot(size: int, owner: str, label: str) | story: Mia, boat, lamp | "
    "read: Lola has a green picture. Lola lives in Athens. Who lives in Athens? | "
    "spell: the short bridge lifts the tablee. | fact: Ada Raven | fact: Leo Willow"
)


@study(
    "slot-unions",
    "Slots and experts that neighbouring tokens read together",
    "arXiv:2508.18756",
    summary="Different slots of a memory that 1 to 32 tokens read together, and the bytes beside those of a mixture of "
    "experts and of a dense twin on the same text: where the lines cross.",
    inputs=[
        Text("model", "tiny-ultramem", help="A model with memory layers."),
        Text("mixture", "tiny-moe", help="A mixture of experts with the same tokenizer."),
        Text("dense", "tiny-ultramem-dense", help="A dense model with the same tokenizer."),
        Text(
            "prompts", PROMPTS, help="Prompts that the first model answers, with | between them; all read the answers."
        ),
        Int("tokens", 48, 1, 256, help="Tokens written behind each prompt, at most."),
    ],
    departures="Models of 1.0 to 1.9 M parameters; the three do not do equal work, the mixture does less.",
    runs_models=True,
)
def slot_unions(p: Params, progress: Progress) -> Study:
    """Answer with the first model, read with all."""
    from engines import load_model

    model: Any = load_model(p.model, kind="memory", dtype="float32")
    mixture: Any = load_model(p.mixture, kind="moe", dtype="float32")
    dense: Any = load_model(p.dense, kind="layered", dtype="float32")
    prompts = [text.strip() for text in p.prompts.split("|") if text.strip()]
    if not prompts:
        raise UserError("no prompt was given; write one or several with | between them.")
    slots: list[Tensor] = []
    experts: list[Tensor] = []
    for done, text in enumerate(prompts):
        progress(done, len(prompts))
        ids = answered(model, model.tokenizer.encode_prompt(text), p.tokens)
        read, routed = list[SlotsRead](), list[Routing]()
        forward(model, ids, Taps(memory=read.append))
        forward(mixture, ids, Taps(router=routed.append))
        slots.append(torch.stack([one.slots for one in read], 1))  # [T, L, m]
        experts.append(torch.stack([pattern(one) for one in routed], 1))  # [T, L, N]
    wide = mixture.model.config.hidden_size
    router = sum(4 * table.experts * wide for table in mixture.mixtures)
    records = [one.record for one in (model, mixture, dense)]
    return told(model, mixture, slots, experts, router, matrices(dense), records)


def answered(model: Any, prompt: Sequence[int], tokens: int) -> list[int]:
    """Ids of a prompt and its greedy answer."""
    ids, cache = list(prompt), model.new_cache(len(prompt) + tokens)
    while len(ids) < len(prompt) + tokens and not (len(ids) > len(prompt) and ids[-1] in model.eos_ids):
        ids.append(int(model.extend(ids[cache.length :], cache, last_only=True).logits.argmax()))
    return ids


def forward(model: Any, ids: Sequence[int], taps: Taps) -> None:
    """A whole text through all layers."""
    model.layers(model.embed(ids), model.new_cache(len(ids)), 0, model.num_layers, taps=taps)


def matrices(model: Any) -> int:
    """Bytes of the matrices of all feed-forward parts of a dense model."""
    sizes: list[int] = []

    def sized(_layer: int, name: str, x: Tensor, y: Tensor) -> None:
        sizes.append(x.shape[1] * y.shape[1] * x.element_size() if name in MATRICES else 0)

    forward(model, [next(iter(model.eos_ids))], Taps(linear=sized))
    return sum(sizes)


def chunks(rows: Tensor, width: int) -> Sequence[Tensor]:
    """Chunks of that many rows which do not overlap; a rest does not count."""
    return rows[: len(rows) // width * width].split(width) if len(rows) >= width else ()


def told(
    model: Any, mixture: Any, slots: list[Tensor], experts: list[Tensor], router: int, fixed: int, models: list[Any]
) -> Study:
    """The table, the curves and where they cross."""
    always = sum(table.always_bytes for table in model.memories)
    slot, expert = model.memories[0].slot_bytes, mixture.mixtures[0].expert_bytes
    rows: list[list[Any]] = []
    for width in WIDTHS:
        lit = [chunk for text in slots for chunk in chunks(text, width)]
        on = [chunk for text in experts for chunk in chunks(text, width)]
        if not lit:
            break
        L = lit[0].shape[1]
        union = fmean(sum(len(chunk[:, layer].unique()) for layer in range(L)) for chunk in lit)
        used = fmean(float(chunk.any(0).sum()) for chunk in on)
        rows.append([width, len(lit), union / L, used / L, always + slot * union, router + expert * used, fixed])
    columns = [
        Column("tokens together", "", "given"),
        Column("chunks", "", "measured"),
        Column("slots of a layer", "", "measured", 1),
        Column("experts of a layer", "", "measured", 1),
        *(Column(f"{name}, bytes", "", "measured", 0) for name in ("memory", "mixture", "dense twin")),
    ]
    series = [
        Series(name, [float(row[0]) for row in rows], [row[4 + i] / 1000 for row in rows], "measured")
        for i, name in enumerate(("memory", "mixture of experts", "dense twin"))
    ]
    axes = Axis("tokens together", log=True), Axis("read by a forward", "kB")
    figure = Figure("bytes", "Bytes of block weights read by a chunk", *axes, series)
    tables = [Table("unions", "What so many tokens read together", columns, rows), unread(model, slots)]
    return Study(tables=tables, figures=[figure], notes=[crossing(rows)], models=models)


def unread(model: Any, slots: list[Tensor]) -> Table:
    """Slots of each layer that some token of the texts read."""
    every = torch.cat(slots)
    rows: list[list[Any]] = [
        [table.layer, table.keys**2, len(every[:, i].unique()), len(every[:, i].unique()) / table.keys**2]
        for i, table in enumerate(model.memories)
    ]
    columns = [Column("layer", "", "given"), Column("slots it sees", "", "given"), Column("read", "", "measured")]
    note = f"On {len(every)} tokens; the card of the model says it for a longer text."
    return Table(
        "read", "Slots that these texts read at all", [*columns, Column("share", "", "measured", 3)], rows, note=note
    )


def crossing(rows: Sequence[Sequence[Any]]) -> str:
    """From how many tokens on the mixture reads more than the memory."""
    over = [(a[0], b[0]) for a, b in pairwise(rows) if a[5] <= a[4] and b[5] > b[4]]
    if over:
        return (
            f"The mixture reads less than the memory up to {over[0][0]} tokens together, and more from {over[0][1]} on."
        )
    more = "more" if rows[0][5] > rows[0][4] else "less"
    return f"The mixture reads {more} than the memory at every number of tokens here."
