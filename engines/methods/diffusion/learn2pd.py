"""Learn2PD with EoTP: learning to parallel, adaptive parallel decoding (arXiv:2509.25188; code
ims-kdks/Learning-to-Parallel-Decoding, no licence file).

A tiny filter network, trained on the confidences of one model, reads those of the current block and says of each
proposal whether it is final already: what it accepts is committed, and always the most confident one. It imitates an
oracle that knows the text that one token per forward would give. Apart from that, end-of-text prediction (EoTP) cuts
the board behind a proposed end mark, so that padding is never decoded.

What the published filter learned is close to one threshold: at its default, 0.96, it accepts what has a confidence of
about 0.80 (measured on the authors' checkpoint), so a fair comparison puts Fast-dLLM with threshold 0.8 beside it. And
what EoTP saves is not the filter's: switch one of them off to see which.

With a cache (Fast-dLLM's, see `_forward`) only the block's end marks are looked at, so EoTP cuts inside of it, and a
cut leaves what is stored of the positions before it as it is.

Follows `llada/generate.py` @ 342293ce, where a *proposed* end mark cuts at any confidence; the paper speaks of a
decoded one. The abstract and the code were read, not the whole paper. We depart in these points: the mask token is
never proposed; every end mark of the model counts (the code knows one); of equally confident end marks the first one
cuts; the plan is one token per forward (S = G, as in all scripts); the last block may be shorter; the oracle, which
belongs to the training, can be watched (its reference is decoded without a cache); what a cut removed is not looked at
again, where the official dual cache keeps its keys and values. Filters are read from safetensors; the authors' file is
converted once, see `engines/models/filters.py`."""

from __future__ import annotations

from collections.abc import Generator
from functools import cache
from typing import TYPE_CHECKING

from engines.kit import (
    Bool,
    Choice,
    Edit,
    Float,
    Int,
    LaneInfo,
    MaskedLM,
    Params,
    Recorder,
    Span,
    Step,
    Steps,
    Text,
    UserError,
    block_of,
    gumbel_argmax,
    mask_positions,
    max_new_tokens,
    method,
    token_probability,
    torch,
)
from engines.methods.diffusion._forward import CACHE, Forward
from engines.models.filters import BlockFilter, filter_of, read_filter

if TYPE_CHECKING:
    from torch import Tensor


def check(p: Params) -> None:
    """A filter file fits its block; the oracle decides by a greedy text, which drawn proposals need not meet."""
    if p.filter and p.accept_thres < 1 and p.block_length > (g := read_filter(p.filter)).size:
        raise UserError(
            f"block_length={p.block_length} is longer than the {g.size} inputs of the filter {g.name}; use {g.size}, "
            "or train one for it."
        )
    if p.oracle == "commit" and p.temperature > 0:
        raise UserError(
            f"oracle=commit compares with a greedy text and temperature={p.temperature:g} draws; set temperature=0, "
            "or oracle=show."
        )


@method(
    "learn2pd",
    title="Learn2PD + EoTP",
    family="diffusion",
    paper="arXiv:2509.25188",
    code="https://github.com/ims-kdks/Learning-to-Parallel-Decoding",
    summary="A tiny trained filter says which proposals are final already, and the board is cut behind the end mark. "
    "Compare with a plain threshold of 0.8.",
    needs="masked",
    params=[
        max_new_tokens(),
        Int(
            "block_length",
            16,
            1,
            1024,
            symbol="b",
            sees="At most the filter's inputs; a shorter block is filled up with zeros.",
            source="32 official",
        ),
        Float(
            "accept_thres",
            0.96,
            -0.01,
            1.0,
            sees="Lower accepts more per forward; 1 is the plan alone, one token each, below 0 whole blocks.",
            source="GSM8K",
        ),
        Bool("eotp", True, sees="Cut the board behind a proposed end mark: padding is never decoded, and never fed."),
        Float(
            "eotp_min_conf",
            0.0,
            0.0,
            1.01,
            sees="End marks less confident than this do not cut unless the filter accepts them; the code cuts at any.",
        ),
        Text(
            "filter",
            "",
            sees="A filter file of your own (safetensors); empty: the one that was trained for this model.",
            file=True,
        ),
        Choice(
            "oracle",
            "off",
            ["off", "show", "commit"],
            sees="Decode a reference first, one token per forward, counted apart: show what a perfect filter would "
            "commit, or let it decide.",
        ),
        Float(
            "temperature",
            0.0,
            0.0,
            2.0,
            step=0.05,
            symbol="τ",
            sees="Above 0 the proposals are drawn instead of being the most likely.",
        ),
        CACHE,
    ],
    signature="bars",
    emits={"commits", "scores", "candidates", "spans", "facts", "note"},
    lanes={
        "filter": LaneInfo(
            "probability",
            "What the filter says of each proposal in the block: the probability that it is final. Above the line it "
            "is committed.",
        ),
        "confidence": LaneInfo(
            "probability",
            "Probability of the proposal: of the whole block, which the filter reads, and of every mask behind it.",
        ),
        "oracle": LaneInfo(
            "probability",
            "1 where the proposal equals the reference, so that a perfect filter would commit it; 0 elsewhere.",
        ),
    },
    departures="The mask token is never proposed; every end mark cuts, the first of equally confident ones; one token "
    "per forward is planned (S = G); "
    "with a cache, shifted models are fed the position before the block too.",
    check=check,
)
def decode(model: MaskedLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """Card steps 1-5. c and q are confidence and filter output of the block, y is the reference, E the end marks among
    the proposals, e the last position."""
    x = run.canvas(p.max_new_tokens, model.record.device)  # [L]; L falls with every cut
    x, y = (yield from reference(model, x, p, run)) if p.oracle != "off" else (x, None)  # [L], [G + prompt]
    before: tuple[int, list[int]] = (-1, [])  # the block and its proposals one forward ago
    # Once per run, and again where an edit names another file.
    filter_at = cache(lambda path: read_filter(path) if path else filter_of(model.record))
    forward = Forward(model)
    while len(masks := mask_positions(x, model.mask_id)):
        L = len(x)
        a, b = block_of(int(masks[0]), len(prompt), p.block_length, L)
        distributions = forward(x, masks, (a, b), p.cache)
        masks, z, first = masks[masks < distributions.end], distributions.z, distributions.start
        x0 = x.clone()  # [L]; the proposals, where something was fed
        x0[first : distributions.end] = gumbel_argmax(
            z, p.temperature, run.rng, torch.arange(first, distributions.end), L
        )
        z_masks, conf = z[masks - first], token_probability(z[masks - first], x0[masks], torch.float32)  # [m, V], [m]
        hidden, c = (
            x[a:b] == model.mask_id,
            token_probability(z[a - first : b - first], x0[a:b], torch.float32),
        )  # [b], [b]
        right = x0[a:b] == y[a:b] if y is not None else None  # [b]
        E = torch.isin(x0[masks], torch.tensor(sorted(model.eos_ids), dtype=x.dtype, device=x.device))  # [m]
        E &= masks < (L if p.cache == "none" else b)
        g, q, now = None, None, (a, x0[a:b].tolist())
        if right is not None and p.oracle == "commit":
            accept, cause = hidden & right, "oracle"
            if now == before:  # stuck: what is proposed stays wrong, so the reference is copied
                accept, cause, x0[a:b] = hidden, "reference", torch.where(hidden, y[a:b], x0[a:b])
            ready = accept
        else:
            g = filter_at(p.filter) if p.accept_thres < 1 else None
            q = g(c) if g else None  # [b]
            accept = hidden & (q > p.accept_thres) if q is not None else torch.zeros_like(hidden)  # [b]
            ready, cause = accept | is_best(c, hidden), "filter"
        cut = end_of_text(masks, conf, E, a + accept.nonzero()[:, 0], p.eotp_min_conf) if p.eotp else None
        e, sure = cut or (L - 1, 0.0)
        chosen = a + ready.nonzero()[:, 0]
        x[chosen] = x0[chosen]
        x = x[: e + 1]
        causes = [cause if yes else "top1" for yes in accept[chosen - a].tolist()]
        edit = yield run.step(
            commits=with_cut(chosen.tolist(), x0[chosen].tolist(), causes, c[chosen - a].tolist(), e + 1, L),
            scores=lambda: {
                **({"filter": (range(a, b), q)} if q is not None else {}),
                "confidence": ([*range(a, b), *masks[masks >= b].tolist()], torch.cat([c, conf[masks >= b]])),
                **({"oracle": (range(a, b), right)} if right is not None else {}),
            },
            thresholds={"filter": p.accept_thres},
            candidates=lambda: (masks, z_masks),
            spans=[
                Span("block", a, b),
                *distributions.spans,
                *([Span("cut", e + 1, L, f"cut at {sure:.2f}")] if e + 1 < L else []),
            ],
            facts=facts(int(E.sum()), L - 1 - e, sure, hidden, ready, right, cause == "filter"),
            note=note(causes, int(hidden.sum()), L - 1 - e, sure, g if before[0] < 0 else None) + distributions.note,
        )
        before = now
        x = run.apply_edit(edit, x)


def reference(
    model: MaskedLM, x: Tensor, p: Params, run: Recorder
) -> Generator[Step, Edit | None, tuple[Tensor, Tensor]]:
    """What one token per forward writes, greedily: (board [L] after edits, reference [L]). Its steps write nothing on
    the board and are counted apart."""
    y = x.clone()
    while len(masks := mask_positions(y, model.mask_id)):
        a, b = block_of(int(masks[0]), run.prompt_length, p.block_length, len(y))
        inside = masks[masks < b]  # [m]
        z = model(y)[inside]  # [m, V]
        tokens = z.argmax(-1)
        conf = token_probability(z, tokens, torch.float32)
        best = int(conf.argmax())
        y[inside[best]] = tokens[best]
        run.count_as("reference")
        edit = yield run.step(
            scores=lambda: {"confidence": (inside, conf)},
            candidates=lambda: (inside, z),
            spans=[Span("block", a, b)],
            note=f"The reference is decoded first, one token per forward, and not shown: {len(masks) - 1} to go.",
        )
        x = run.apply_edit(edit, x)
        y = torch.where(x == model.mask_id, y, x)
    return x, y


def is_best(c: Tensor, hidden: Tensor) -> Tensor:
    """True at the most confident masked position of a block; c, hidden [b] -> [b]. The plan commits it whatever the
    filter says."""
    best = torch.zeros_like(hidden)
    best[torch.where(hidden, c, -1.0).argmax()] = True
    return best


def end_of_text(masks: Tensor, conf: Tensor, E: Tensor, accepted: Tensor, least: float) -> tuple[int, float] | None:
    """EoTP: the last position to keep, and the confidence of the end mark that stands there. masks, conf, E [m];
    accepted: positions in the block.

    The first accepted end mark cuts; without one, the most confident proposed end mark does, however unsure it is, if
    it reaches `least`."""
    taken = E & torch.isin(masks, accepted)
    if taken.any():
        i = int(taken.int().argmax())
    elif len(found := (E & (conf >= least)).nonzero()[:, 0]):
        i = int(found[conf[found].argmax()])
    else:
        return None
    return int(masks[i]), float(conf[i])


def with_cut(
    positions: list[int], tokens: list[int], causes: list[str], chances: list[float], end: int, L: int
) -> tuple[list[int], list[int], list[str], list[float | None]]:
    """A step's commits without those from `end` on, and -1 there if the board of L positions now ends before."""
    known = [
        None if cause == "reference" else chance for cause, chance in zip(causes, chances, strict=True)
    ]  # the model proposed something else
    kept = sum(q < end for q in positions)  # they rise
    cut = end < L
    return (
        positions[:kept] + [end] * cut,
        tokens[:kept] + [-1] * cut,
        causes[:kept] + ["cut"] * cut,
        known[:kept] + [None] * cut,
    )


def facts(
    ends: int, cut: int, sure: float, hidden: Tensor, ready: Tensor, right: Tensor | None, judged: bool
) -> dict[str, float]:
    """Counts of one forward: end marks proposed, positions cut off, and, where the right tokens are known, how many
    masks are right, how many of them were not committed, and how many of those that the filter accepted are wrong."""
    found: dict[str, float] = {"eos_proposed": ends}
    if cut:
        found |= {"cut": cut, "cut_confidence": sure}
    if right is not None:
        found |= {"oracle": int((hidden & right).sum()), "missed": int((hidden & right & ~ready).sum())}
        if judged:
            found["wrong"] = int((ready & ~right).sum())
    return found


def note(causes: list[str], masks: int, cut: int, sure: float, g: BlockFilter | None) -> str:
    """A sentence on what decided, one on the cut, and at the first step one on the filter that is used."""
    n, of = len(causes), f"of {masks} mask{'' if masks == 1 else 's'} in the block"
    if "reference" in causes:
        said = f"The proposals did not change and stay wrong: the reference is copied into the {n} masks left."
    elif "oracle" in causes or not causes:
        said = f"{n} {of} are proposed as the reference has them: a perfect filter accepts just these."
    elif causes == ["top1"]:
        said = "Nothing is accepted, so the most confident one alone is written."
    else:
        said = f"The filter accepts {causes.count('filter')} {of}" + (
            ", and the most confident one is written too." if "top1" in causes else "."
        )
    behind = "the position behind it is" if cut == 1 else f"the {cut} positions behind it are"
    return (
        said
        + (f" An end mark is proposed with {sure:.0%}: {behind} cut off." if cut else "")
        + (f" The filter is {g.name}, sha256 {g.sha256[:12]}." if g else "")
    )


if __name__ == "__main__":
    from engines.kit import show

    show("learn2pd", "tiny-dlm", "add: 457 + 286")
