"""LUD with verification: lexical units as drafts. Ours, on the idea of Lexical Unit Decoding (Sun et al.,
arXiv:2405.15208), whose text is verified by nothing.

Here the adapters change the rows of pads only, so every row of text is that of the untouched model (the adapters are
those of LUD, which learnt on rows that they all change). The unit foreseen
in one step is then a draft: the next forward feeds it as text and says, for nothing more, what the model wants behind
each of its tokens. What agrees is kept, the model adds one token, and the pads that stood behind the last token kept
have foreseen the next unit already. The text is the untouched model's.

Ours too: pads behind every drafted token, so that a refused draft does not leave a step without guesses.

Letters: k window, c_j confidence of its j-th token, beta the line, c rows of text that the cache lacked, d hidden
size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engines.kit import (
    Float,
    Generator,
    Int,
    Params,
    Recorder,
    Roles,
    Steps,
    Tensor,
    many,
    part,
)
from engines.methods.heads.lud import check_window, forward
from engines.methods.speculative._turn import Target, Turn, drafting
from engines.methods.speculative._verify import Draft

if TYPE_CHECKING:
    from engines.models.networks.lora import LoRA


@drafting(
    "lud-verified",
    title="LUD with verification (ours)",
    own="our extension of LUD",
    paper="arXiv:2405.15208",
    summary="The units that tuned pads predict are drafts: the next forward verifies them; the text is the model's.",
    needs={"target": "layered", "units": part("lexical-units")},
    params=[
        Int("k", 4, 1, 16, symbol="k", neutral=1, source="ours"),
        Float("beta", 0.5, 0.0, 1.05, step=0.05, symbol="β", neutral=1.05, source="ours"),
    ],
    signature="tree",
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """One forward per step. unit: the tokens that the pads behind the last token kept foresee, with their confidence;
    none at first and after a person's change."""
    from engines.models.networks.lora import lora_of  # it needs torch, which listing methods does not load

    model, lora = models.target, lora_of(models.units).to(models.target.record.device)
    window = int(models.units.card["window"])
    target, ids, unit = Target(model, prompt, p, rows=window * window), prompt, list[tuple[int, float]]()
    while target.unfinished(ids):
        check_window(models.units, p.k)
        places = (model.max_positions or target.end + window) - len(ids)  # behind the text, for rows
        unit = unit[: max(0, min(p.k - 1, target.room(ids), places))]
        draft = Draft.of([ids[-1], *(x for x, _ in unit)], range(-1, len(unit)), "draft")
        draft.chances[1:] = [chance for _, chance in unit]
        draft.tails = [max(0, min(p.k - 1, places - j)) for j in range(len(draft))]
        iteration, h = lay(target, ids, draft, lora, run.rng)  # h [pads, d]: those of the last row kept
        size = "" if len(ids) > len(prompt) else f" {models.units.parameters:,} trained parameters draft from here on."
        ahead = foreseen(model.unembed(h, predicts=len(iteration.ids), counts=False), p.beta) if len(h) else []
        edit = yield run.step(
            **iteration.groups(),
            facts=iteration.facts(pads=sum(draft.tails), foreseen=len(ahead)),
            note=f"{iteration.note()[:-1]}; {many(sum(draft.tails), 'pad row')} in the same forward.{size}",
        )
        ids = run.apply_edit(edit, iteration.ids, target.cache)
        unit = ahead if ids == iteration.ids else []


def foreseen(z: Tensor, beta: float) -> list[tuple[int, float]]:
    """The leading tokens at pads with logits z [k - 1, V] of whom each has a confidence of at least beta, with it."""
    c, x = z.double().softmax(-1).max(-1)
    unit = []
    for token, sure in zip(x.tolist(), c.tolist(), strict=True):
        if sure < beta:
            break
        unit.append((token, sure))
    return unit


def lay(target: Target, ids: list[int], draft: Draft, lora: LoRA, rng: Generator) -> tuple[Turn, Tensor]:
    """One forward over what the cache lacks of the text, the draft, and pads behind each of its rows; the walk; the
    cache then has the text but its last token. Returns the turn and the states [k - 1, d] of the pads behind the last
    row kept."""
    model: Any = target.model
    cache, base = target.cache, target.cache.length
    c, n, speaks = len(ids) - 1 - base, len(draft), target.speaks(ids, draft)
    pads = [(row, j) for row, k in enumerate(draft.tails) for j in range(k)]
    hang = [*target.hang(ids, draft.parents), *(c + n + r - 1 if j else c + row for r, (row, j) in enumerate(pads))]
    h = forward(model, cache, [*ids[base:-1], *draft.tokens], len(pads), lora, everywhere=False, parents=hang)
    iteration = target.judge(ids, draft, model.unembed(h[: c + n], predicts=speaks), rng)
    tail = [c + n + r for r, (row, _) in enumerate(pads) if row == iteration.verdict.path[-1]]
    return iteration, h[tail]
