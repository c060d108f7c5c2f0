"""Lean Attention: the attention of one decode step, cut evenly across the borders between heads (Sanovar et al.,
arXiv:2405.10480).

One token attends to a long context with a few heads: too few to fill a GPU, if each head is one worker's. So the
context of every head is cut into equal tiles, the tiles of all heads are put end to end on one line, and the line is
cut into as many equal pieces as there are workers. A piece may end in the middle of a head and go on in the next: the
softmax of a part is a triple (maximum, sum, output) that merges with others to the exact result.

Every layer of every token is really computed this way, by this schedule or one of the two that it is compared with, and
the text is the library's own. Two clocks, never mixed: tile units (a tile is 1, nothing else costs), modelled for any
number of workers; and the seconds of the shown layer's pieces in one or several threads of this machine. We depart in:
the prompt is read by the library's attention (the paper is about decoding); threads of a CPU stand for workers of a
GPU, and a second launch stands for FlashDecoding's second kernel; ranges follow the published host code.

Letters: L layers, H heads that have keys of their own, N context, b tokens of a tile, t tiles of a head, T of all, W
slots for workers, G workers, V vocabulary."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

from engines.kit import (
    AttentionInputs,
    Choice,
    Float,
    Int,
    Interval,
    Params,
    Recorder,
    Steps,
    Taps,
    Tensor,
    UserError,
    many,
    max_new_tokens,
    method,
    torch,
)
from engines.methods.baselines._plain import chosen, token_groups
from engines.methods.system.lean_attention import partition
from engines.methods.system.lean_attention.attention import Work, softmax_state

PURE, OFFICIAL = "stream-k", "as published"
MOST = 256  # workers


@method(
    "lean-attention",
    title="Lean Attention",
    paper="arXiv:2405.10480",
    summary="The attention of a step as one sequence of tiles, cut evenly among the workers, across the heads.",
    needs="layered",
    params=[
        max_new_tokens(32),
        Choice("schedule", partition.SCHEDULES[0], list(partition.SCHEDULES), source="lean"),
        Int("workers", 8, 1, MOST, symbol="W", source="216 on an A100"),
        Int("tile", 16, 16, 512, symbol="b", source="256 in the published code"),
        Choice("grid", PURE, [PURE, OFFICIAL], source="as published"),
        Int("threads", 1, 1, 4),
        Int("layer", 1, 1, 128),
        Float("temperature", 0.0, 0.0, 2.0, step=0.05, symbol="T"),
    ],
    records={"tiling": partition.Tiling},
    signature="workers",
    emits={"commits", "scores", "candidates", "intervals", "facts", "note"},
    lanes={"confidence": "probability", "entropy": "nats"},
    baseline="greedy",
    lossless=True,
)
def decode(model: Any, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """One token per step: what the cache lacks but the last token by the library's attention, that one by ours."""
    L, ids, end = model.num_layers, prompt, len(prompt) + p.max_new_tokens
    cache = model.new_cache(end)
    while len(ids) < end and not (len(ids) > len(prompt) and ids[-1] in model.eos_ids):
        check(p, L)
        if missed := ids[cache.length : -1]:
            model.layers(model.embed(missed), cache, 0, L)
        with ThreadPoolExecutor(p.threads) if p.threads > 1 else nullcontext() as pool:
            layers = Layers(p, pool)
            h = model.layers(model.embed(ids[-1:]), cache, 0, L, taps=Taps(attention=layers.attend))
        z = model.unembed(h, predicts=len(ids))  # [1, V]
        token = chosen(z, p.temperature, run.rng)
        facts, lanes = describe(layers, p, run)
        edit = yield run.step(
            **token_groups(len(ids), token, z, p.temperature, torch.float32),
            records={"tiling": partition.Tiling(len(layers.t), round(facts["context"]), p.tile, p.workers)},
            intervals=lanes,
            facts=facts,
            note=f"{many(round(facts['tiles']), 'tile')} of {many(p.tile, 'token')}, "
            f"{many(round(facts['workers']), 'worker')}; "
            f"merged from {many(round(facts['pieces']), 'piece')} in each of {many(L, 'layer')}.",
        )
        ids = run.apply_edit(edit, [*ids, token], cache)


def check(p: Params, L: int) -> None:
    """Raises UserError for a layer that the model does not have, and for slots that are not two on each processor."""
    if p.layer > L:
        raise UserError(f"layer={p.layer} was asked for and the model has {L}; give one from 1 to {L}.")
    if p.grid == OFFICIAL and p.workers % 2:
        raise UserError(
            f"workers={p.workers} and the published grid do not go together: it runs two workers on each processor; "
            "give an even number."
        )


class Layers:
    """The attention of every layer of one token, by one plan: all layers have the same heads and context."""

    def __init__(self, p: Params, pool: ThreadPoolExecutor | None) -> None:
        self.p, self.pool = p, pool
        self.pieces: list[partition.Piece] = []
        self.shown: Work | None = None  # the layer whose pieces are recorded

    def attend(self, given: AttentionInputs) -> Tensor:
        """The output of a layer's attention [h, 1, e]."""
        if not self.pieces:
            self.t = [partition.tiles(given.keys.shape[1], self.p.tile)] * len(given.keys)
            self.pieces = self.plan(self.p.schedule)
        work = Work(given, self.pieces, self.p.tile)
        out = work.run(self.p.schedule, self.p.threads, self.pool)
        if given.layer == self.p.layer - 1:
            self.shown = work
        return out

    def plan(self, kind: str) -> list[partition.Piece]:
        """All pieces of a layer by that schedule."""
        return partition.schedule(kind, self.t, self.p.workers, self.p.grid == OFFICIAL)


def describe(layers: Layers, p: Params, run: Recorder) -> tuple[dict[str, float], list[Interval]]:
    """(facts, lanes): the plan of all three schedules in tile units, modelled; what the shown layer's threads did,
    measured; and how far its output is from softmax in float64."""
    work = layers.shown
    assert work is not None
    plans = {kind: layers.plan(kind) for kind in partition.SCHEDULES}
    longest = {f"makespan_{kind.replace('-', '_')}": partition.makespan(pieces) for kind, pieces in plans.items()}
    pieces, T = layers.pieces, sum(layers.t)
    facts: dict[str, float] = {
        "context": work.K.shape[1],
        "slots": p.workers,
        "tiles": T,
        "tiles_per_head": layers.t[0],
        "workers": len({piece.worker for piece in pieces}),
        "pieces": len(pieces),
        "merges": len(pieces) - len(layers.t),
        **longest,
        "busy": T / (p.workers * partition.makespan(pieces)),
        "max_error": work.error(),
    }
    if run.detail == "none":
        return facts, []
    lanes = [
        interval
        for kind, plan in plans.items()
        for interval in intervals_of(kind, plan, work.triples if kind == p.schedule else {})
    ]
    threads = [
        interval
        for t in work.times
        for interval in run.interval(f"thread {t.thread + 1}", t.began, t.ended, t.label, {"mark": t.mark}, t.kind)
    ]
    return facts, lanes + threads


def intervals_of(
    kind: str, pieces: Sequence[partition.Piece], triples: Mapping[partition.Piece, Any]
) -> list[Interval]:
    """A plan as intervals in tile units; of the one that was carried out with what each piece found."""
    return [
        Interval(
            f"{kind}: {piece.worker + 1}",
            start,
            end,
            f"head {piece.problem + 1}, tiles {piece.first + 1}–{piece.end}"
            + (f", {softmax_state(triples, piece)}" if piece in triples else ""),
            measured=False,
            unit="tiles",
            about={"way": kind, "worker": piece.worker + 1, "head": piece.problem + 1, "first": piece.first + 1}
            | {"last": piece.end}
            | ({"found": softmax_state(triples, piece)} if piece in triples else {}),
            kind="tiles",
        )
        for piece, (start, end) in zip(pieces, partition.timeline(pieces), strict=True)
    ]
