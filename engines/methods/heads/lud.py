"""Lexical Unit Decoding (Sun et al., arXiv:2405.15208; no code is public).

A language model is often sure of several tokens in a row. LUD tunes the model to say such a run, a lexical unit, at
once: k - 1 pads stand behind the text, the model says one token at the last real row and one at each pad, and as many
leading ones as are confident are written. Nothing verifies them, so the text is not that of the untouched model, nor
that of the tuned one writing token by token.

The abstract and a summary of the method give window, pads, threshold and the marking of the training text; the rest is
our design: adapters of low rank in place of tuning all weights, the rule against repetitions, thresholds and window.
Confidence above temperature 0 is the probability of the token drawn. Whether the tuned model would have written a
parallel token by itself is read off the next forward, which feeds it as text; it is recorded and changes nothing.

Letters: k window, c_j confidence of its j-th token, beta the line, n longest repetition, l tokens written in a step, c
rows of text that are fed, d hidden size."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from engines.core.kinds.base import Parents
from engines.core.trace import Count
from engines.kit import (
    Alternatives,
    Bool,
    Float,
    Generator,
    Int,
    KVCache,
    Params,
    Position,
    Probability,
    Record,
    Recorder,
    Roles,
    Span,
    Steps,
    Stops,
    Taps,
    Tensor,
    UserError,
    distribution,
    draw,
    many,
    max_new_tokens,
    method,
    part,
    slider,
    token_probability,
    torch,
)

if TYPE_CHECKING:
    from engines.models.networks.lora import LoRA

STOPS = {
    "threshold": "the next is below the threshold",
    "repeat": "the next would repeat an n-gram",
    "window": "the whole window",
    "end": "the last is the end mark",
}


class Unit(Record):
    """The confidences of a window, of which a unit is written."""

    start: Position
    beta: float
    sure: list[Probability]
    written: Count

    def alternatives(self, _: Alternatives) -> dict[str, Stops]:
        """How many are written with another threshold; no more where a repeat or an end mark ended the unit."""
        ended = self.written < accepted(self.sure, self.beta)
        sure = self.sure[: self.written] if ended else self.sure
        return {"beta": Stops.over(slider(0, 1.05, 0.01, self.beta), partial(accepted, sure))}


@method(
    "lud",
    title="Lexical Unit Decoding",
    own="after the abstract, own training",
    paper="arXiv:2405.15208",
    summary="A tuned model writes a run of tokens at once while it is confident of each; nothing verifies them.",
    needs={"target": "layered", "units": part("lexical-units")},
    params=[
        max_new_tokens(64),
        Int("k", 4, 1, 16, symbol="k", source="ours"),
        Float("beta", 0.8, 0.0, 1.05, step=0.05, symbol="β", source="ours"),
        Int("n", 3, 0, 4, symbol="n"),
        Float("temperature", 0.0, 0.0, 2.0, step=0.05, symbol="T"),
        Bool("tuned", True),
    ],
    signature="units",
    emits={"commits", "scores", "candidates", "spans", "facts", "note"},
    lanes={"confidence": "probability", "one by one": "probability"},
    records={"unit": Unit},
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """One forward per step: the last unit (at first the prompt) as text, then k - 1 pads. The cache then holds the text
    but the new unit, whose rows in the next forward say what the model wants one by one."""
    from engines.models.networks.lora import lora_of  # it needs torch, which listing methods does not load

    model, lora = models.target, lora_of(models.units).to(models.target.record.device)
    check_window(models.units, p.k)
    ids, end, late = prompt, len(prompt) + p.max_new_tokens, 0  # late: tokens of the last unit that a pad said
    cache = model.new_cache(end + models.units.card["window"])
    while len(ids) < end and not (len(ids) > len(prompt) and ids[-1] in model.eos_ids):
        check_window(models.units, p.k)  # a person may have changed it
        fed, start, k = ids[cache.length :], len(ids), min(p.k, end - len(ids))
        h = forward(model, cache, fed, k - 1, lora, everywhere=p.tuned)  # [fed + k - 1, d]
        cache.crop(start)  # what the pads left behind is not text
        z = model.unembed(h[len(fed) - 1 - late :], predicts=start - late)  # [late + k, V]
        read, window = z[:late], z[late:]
        x, c = predictions(window, p.temperature, run.rng)
        l, stop = unit_length(ids, x, c, p.beta, p.n, model.eos_ids)  # noqa: E741 - the paper's letter
        before, at = list(range(start - late, start)), list(range(start, start + k))
        confirmed = token_probability(read, torch.tensor(ids[start - late :], device=z.device)) if late else read[:, 0]
        agreed = sum(a == b for a, b in zip(read.argmax(-1).tolist(), ids[start - late :], strict=True))
        edit = yield run.step(
            commits=(at[:l], x[:l], ["sampled" if p.temperature else "greedy", *["unit"] * (l - 1)], c[:l]),
            scores=lambda: {"confidence": (at, torch.tensor(c)), "one by one": (before, confirmed)},
            thresholds={"confidence": min(p.beta, 1.0)},
            candidates=lambda: ([*before, *at], z),
            spans=[Span("unit", start, start + l, stop)],
            records={"unit": lambda: Unit(start, p.beta, c, l)},
            facts={"rows": len(h), "foreseen": k, "written": l, "checked": late, "agreed": agreed},
            note=note(l, k, stop, late, agreed),
        )
        text = [*ids, *x[:l]]
        ids = run.apply_edit(edit, text, cache)
        late = l - 1 if ids == text else 0


def predictions(z: Tensor, temperature: float, rng: Generator) -> tuple[list[int], list[float]]:
    """Of each row of logits z [k, V] the token, the likeliest or a drawn one, and its probability."""
    q = distribution(z.double(), temperature or 1.0)
    x = [draw(row, rng) for row in q] if temperature else z.argmax(-1).tolist()
    return x, q.gather(-1, torch.tensor(x, device=z.device)[:, None])[:, 0].tolist()


def unit_length(
    ids: Sequence[int], x: Sequence[int], c: Sequence[float], beta: float, n: int, ends: frozenset[int]
) -> tuple[int, str]:
    """(l, why the unit ends): the tokens x with confidence c that are written behind ids."""
    l, stop = accepted(c, beta), "threshold"  # noqa: E741 - the paper's letter
    for j in range(l):
        if j and repeats([*ids, *x[:j]], x[j], n):
            return j, "repeat"
        if x[j] in ends:
            return j + 1, "end"
    return l, "window" if l == len(x) else stop


def note(l: int, k: int, stop: str, late: int, agreed: int) -> str:  # noqa: E741 - the paper's letter
    """One sentence on the step."""
    seen = (
        f" Of the last unit's {many(late, 'unverified token')}, {agreed} agree with autoregressive decoding."
        if late
        else ""
    )
    return f"{l} of {many(k, 'predicted token')} written, {STOPS[stop]}.{seen}"


def marked(p: Sequence[float], alpha: float, most: int | None = None) -> list[tuple[int, int]]:
    """(start, length) of the units of a text whose tokens the model gave the probabilities p: a token at least alpha
    likely joins the unit of the one before it, as long as that has fewer than `most`."""
    units: list[tuple[int, int]] = []
    for i, chance in enumerate(p):
        if units and chance >= alpha and (most is None or units[-1][1] < most):
            units[-1] = (units[-1][0], units[-1][1] + 1)
        else:
            units.append((i, 1))
    return units


def accepted(c: Sequence[float], beta: float) -> int:
    """How many leading tokens of a window are written: those with a confidence of at least beta, at least one."""
    sure = next((j for j, chance in enumerate(c) if chance < beta), len(c))
    return max(1, sure)


def repeats(ids: Sequence[int], token: int, n: int) -> bool:
    """Whether behind ids this token would say the last m tokens once more, for some m from 1 to n."""
    text = [*ids, token]
    return any(len(text) >= 2 * m and text[-m:] == text[-2 * m : -m] for m in range(1, n + 1))


def check_window(part: Any, k: int) -> None:
    """Raises UserError for a window that the pads were not trained for."""
    most = int(part.card.get("window", k))
    if k > most:
        raise UserError(f"k {k} was given and {part.name} was trained for windows of up to {most}; choose 1 to {most}.")


def forward(
    model: Any,
    cache: KVCache,
    tokens: Sequence[int],
    pads: int,
    lora: LoRA,
    *,
    everywhere: bool,
    parents: Parents = None,
) -> Tensor:
    """States [c + pads, d] behind all layers of c tokens and the pads behind them, a chain without parents. The
    adapters change all rows, or the pads only."""
    c = len(tokens)
    x = model.embed(tokens)
    x = torch.cat([x, lora.pad.to(x).expand(pads, -1)])
    on = torch.ones(c + pads, 1, device=x.device)
    on[:c] = float(everywhere)
    taps = Taps(linear=lambda layer, name, x, y: y + (lora.added(layer, name, x) * on).to(y.dtype))
    changed = everywhere or pads
    return model.layers(x, cache, 0, model.num_layers, parents=parents, taps=taps if changed else None)
