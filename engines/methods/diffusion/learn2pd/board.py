"""What Learn2PD's filter and its oracle share (arXiv:2509.25188): what a forward proposes, where the board is cut, and
the record.

Letters: L positions of the board, m masks that were fed, b positions of a block, V vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from engines.kit import (
    Alternatives,
    Bool,
    Float,
    Int,
    MaskedLM,
    Params,
    Position,
    Probability,
    Record,
    Recorder,
    Span,
    Step,
    Stops,
    Tensor,
    Text,
    TokenId,
    UserError,
    block_of,
    exact,
    gumbel_argmax,
    many,
    mask_positions,
    slider,
    token_probability,
    torch,
)
from engines.methods.diffusion._forward import CACHE, Forward
from engines.models.parts.filters import BlockFilter, read_filter

SHARED = [
    Int("block_length", 16, 1, 1024, symbol="b", source="32 official"),
    Float("accept_thres", 0.96, -0.01, 1.0, source="GSM8K"),
    Bool("eotp", True, fair=False),
    Float("eotp_min_conf", 0.0, 0.0, 1.01),
    Text("filter", "", file=True),
    Float("temperature", 0.0, 0.0, 2.0, step=0.05, symbol="τ"),
    CACHE,
]
LANES = {"filter": "probability", "confidence": "probability"}


def check_filter(p: Params) -> None:
    """A filter file fits its block."""
    if p.filter and p.accept_thres < 1 and p.block_length > (g := read_filter(p.filter)).size:
        raise UserError(
            f"block_length={p.block_length} is longer than the {g.size} inputs of the filter {g.name}; use {g.size}, "
            "or train one for it."
        )


class Proposed(NamedTuple):
    """What a forward proposes. [a, b) the block, masks [m] with their logits z [m, V] and confidences conf [m], x0 [L]
    the proposals; in the block hidden [b]: masks, c [b]: confidences; E [m]: masks where an end mark is proposed."""

    a: int
    b: int
    masks: Tensor
    z: Tensor
    conf: Tensor
    x0: Tensor
    hidden: Tensor
    c: Tensor
    E: Tensor
    spans: list[Span]
    note: str

    @classmethod
    def of(cls, model: MaskedLM, forward: Forward, x: Tensor, p: Params, run: Recorder) -> Proposed:
        """One forward on the board x [L]."""
        L, masks = len(x), mask_positions(x, model.mask_id)
        a, b = block_of(int(masks[0]), run.prompt_length, p.block_length, L)
        distributions = forward(x, masks, (a, b), p.cache)
        masks, z, first = masks[masks < distributions.end], distributions.z, distributions.start
        x0 = x.clone()  # where nothing was fed it proposes nothing
        x0[first : distributions.end] = gumbel_argmax(
            z, p.temperature, run.rng, torch.arange(first, distributions.end), L
        )
        conf = token_probability(z[masks - first], x0[masks], torch.float32)
        c = token_probability(z[a - first : b - first], x0[a:b], torch.float32)
        E = torch.isin(x0[masks], torch.tensor(sorted(model.eos_ids), dtype=x.dtype, device=x.device))
        E &= masks < (L if p.cache == "none" else b)
        hidden = x[a:b] == model.mask_id
        return cls(a, b, masks, z[masks - first], conf, x0, hidden, c, E, distributions.spans, distributions.note)

    def confidences(self) -> tuple[list[int], Tensor]:
        """Of the whole block, which the filter reads, and of every mask behind it."""
        behind = self.masks >= self.b
        return [*range(self.a, self.b), *self.masks[behind].tolist()], torch.cat([self.c, self.conf[behind]])

    def cut(self, accept: Tensor, p: Params, L: int) -> tuple[int, float]:
        """EoTP: (the last position to keep, how confident the end mark there is); the board as it is where none cuts.
        accept [b]."""
        accepted = self.a + accept.nonzero()[:, 0]
        first_end = end_of_text(self.masks, self.conf, self.E, accepted, p.eotp_min_conf) if p.eotp else None
        return first_end or (L - 1, 0.0)


class Judged(NamedTuple):
    """What is decided of a block: q [b] what the filter g says, none where the schedule alone decides; accept [b] the
    positions that it, or the oracle, takes; ready [b] those that are written."""

    g: BlockFilter | None
    q: Tensor | None
    accept: Tensor
    ready: Tensor

    @classmethod
    def by_filter(cls, f: Proposed, g: BlockFilter | None, threshold: float) -> Judged:
        """What the filter accepts, and the most confident one."""
        q = g(f.c) if g else None  # [b]
        accept = f.hidden & (q > threshold) if q is not None else torch.zeros_like(f.hidden)
        yes = with_best(accept.tolist(), f.c.tolist(), f.hidden.tolist())
        return cls(g, q, accept, torch.tensor(yes, device=accept.device))


def commit(
    x: Tensor,
    f: Proposed,
    judged: Judged,
    p: Params,
    run: Recorder,
    *,
    first: bool,
    cause: str = "filter",
    right: Tensor | None = None,
    agree: Tensor | None = None,
) -> tuple[Tensor, Step]:
    """Write what was decided onto the board x [L] and cut it behind the end of the text: the board, and the step that
    says so. right [b]: where the proposals are the reference's, if there is one; agree [b]: the same, as it is shown;
    first: the step names the filter."""
    g, q, accept, ready = judged
    L, (e, sure) = len(x), f.cut(accept, p, len(x))
    chosen = f.a + ready.nonzero()[:, 0]
    x[chosen] = f.x0[chosen]
    off = [Span("cut", e + 1, L, f"cut at {sure:.2f}")] if e + 1 < L else []
    causes = [cause if yes else "top1" for yes in accept[chosen - f.a].tolist()]
    step = run.step(
        records={"filtering": lambda: filtering(f, q, p.accept_thres, e, sure, L, agree)},
        commits=with_cut(chosen.tolist(), f.x0[chosen].tolist(), causes, f.c[chosen - f.a].tolist(), e + 1, L),
        scores=lambda: {
            **({"filter": (range(f.a, f.b), q)} if q is not None else {}),
            "confidence": f.confidences(),
            **({"oracle": (range(f.a, f.b), right)} if right is not None else {}),
        },
        thresholds={"filter": p.accept_thres},
        candidates=lambda: (f.masks, f.z),
        spans=[Span("block", f.a, f.b), *f.spans, *off],
        facts=facts(int(f.E.sum()), L - 1 - e, sure, f.hidden, ready, right, cause == "filter"),
        note=note(causes, int(f.hidden.sum()), L - 1 - e, sure, g if first else None) + f.note,
    )
    return x[: e + 1], step


def with_best(accept: Sequence[bool], c: Sequence[float], hidden: Sequence[bool]) -> list[bool]:
    """What is accepted of a block, and its most confident masked position, which the plan commits whatever the filter
    says; all [b]."""
    best = max(range(len(c)), key=lambda i: c[i] if hidden[i] else -1.0)
    return [yes or i == best for i, yes in enumerate(accept)]


def end_of_text(masks: Tensor, conf: Tensor, E: Tensor, accepted: Tensor, least: float) -> tuple[int, float] | None:
    """EoTP: the last position to keep, and the confidence of the end mark that stands there. masks, conf, E [m];
    accepted: positions in the block.

    The first accepted end mark cuts; without one, the most confident proposed end mark does, however unsure it is, if
    it reaches `least`."""
    taken = E & torch.isin(masks, accepted)
    if taken.any():
        i = int(taken.int().argmax())
    elif len(ends := (E & (conf >= least)).nonzero()[:, 0]):
        i = int(ends[conf[ends].argmax()])
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
    counts: dict[str, float] = {"eos_proposed": ends}
    if cut:
        counts |= {"cut": cut, "cut_confidence": sure}
    if right is not None:
        counts |= {"oracle": int((hidden & right).sum()), "missed": int((hidden & right & ~ready).sum())}
        if judged:
            counts["wrong"] = int((ready & ~right).sum())
    return counts


def note(causes: list[str], masks: int, cut: int, sure: float, g: BlockFilter | None) -> str:
    """A sentence on what decided, one on the cut, and at the first step one on the filter that is used."""
    n, of = len(causes), f"of {masks} mask{'' if masks == 1 else 's'} in the block"
    if "reference" in causes:
        sentence = f"The proposals stay as they are and wrong: the reference is copied into the last {many(n, 'mask')}."
    elif "oracle" in causes or not causes:
        sentence = f"The proposals for {n} {of} match the reference: a perfect filter accepts exactly these."
    elif causes == ["top1"]:
        sentence = "Nothing is accepted, so only the most confident one is written."
    else:
        sentence = f"The filter accepts {causes.count('filter')} {of}" + (
            ", and the most confident one is written too." if "top1" in causes else "."
        )
    behind = "the position after it is" if cut == 1 else f"the {cut} positions after it are"
    return (
        sentence
        + (f" An end mark is proposed with {sure:.0%}: {behind} cut off." if cut else "")
        + (f" The filter is {g.name}, sha256 {g.sha256[:12]}." if g else "")
    )


PLAIN = 0.8  # what the published filter amounts to


class Filtering(Record):
    """The confidences of a block, which the filter reads, and what it says of each proposal."""

    start: Position  # of the block
    masked: list[bool]
    tokens: list[TokenId]
    confidence: list[Probability]
    filter: list[Probability]  # none where the schedule alone decides
    threshold: float
    end: int  # of the board, after the cut
    length: int  # before it
    end_confidence: Probability  # of the end mark that cuts; 0 where none does
    oracle: list[bool] = []  # where the proposals are the reference's, if there is one

    def alternatives(self, _: Alternatives) -> dict[str, Stops]:
        """Which positions of the block another threshold of the filter writes, and which one on the confidence does, of
        those that were not cut off."""
        kept = self.end - self.start

        def select(values: Sequence[float], accepted: Callable[[float], bool]) -> list[int]:
            accept = [hidden and accepted(v) for v, hidden in zip(values, self.masked, strict=True)]
            return [i for i, yes in enumerate(with_best(accept, self.confidence, self.masked)[:kept]) if yes]

        q = self.filter or [-1.0] * len(self.masked)
        tau = Stops.over(slider(0, 1, 0.01, self.threshold), lambda tau: select(q, lambda v: v > tau))
        if self.oracle and not self.filter:
            tau = Stops([0], [[i for i, yes in enumerate(self.oracle[:kept]) if yes and self.masked[i]]])
        theta = slider(0, 1, 0.01, PLAIN)
        return {"tau": tau, "theta": Stops.over(theta, lambda theta: select(self.confidence, lambda v: v >= theta))}


def filtering(
    f: Proposed, q: Tensor | None, threshold: float, e: int, sure: float, L: int, right: Tensor | None
) -> Filtering:
    """The record of one forward; q and right [b], e the last position that is kept of L."""
    return Filtering(
        f.a,
        f.hidden.tolist(),
        f.x0[f.a : f.b].tolist(),
        exact(f.c),
        [] if q is None else exact(q),
        threshold,
        e + 1,
        L,
        sure,
        [] if right is None else right.tolist(),
    )
