"""Attention-FFN disaggregation: attention with its cache in one process, the feed-forward layers in another, and a
pipeline of microbatches between them (Step-3, arXiv:2507.19427, section 5; communication library stepfun-ai/StepMesh).

Attention re-reads each request's own keys and values for every token, feed-forward layers re-read weights that all
requests share. On machines of their own each side keeps the batch that suits it. A token goes back and forth through
the layers; while one microbatch is on its way, or on the other side, the next one is computed.

Both processes are real and share memory; the feed-forward one holds no cache, the attention one no expert. Starts and
ends of all parts are read on one clock.

We depart from the paper in: one machine, two processes and no network, so handing over costs a tenth of a millisecond
in place of a stage of its own, and two microbatches fill what takes the paper three; numbers of four bytes both ways in
place of one out and two back; the B texts are continuations of one request; one that ends keeps its place.

Letters: m microbatches of b texts, B = m b, n positions in the cache, L layers, d hidden size."""

from engines.kit import (
    Choice,
    CountedSplit,
    Float,
    Int,
    Interval,
    Params,
    Recorder,
    Steps,
    many,
    max_new_tokens,
    method,
)
from engines.methods.baselines._plain import token_groups
from engines.methods.system.afd.batch import Batch, Part, catch_up, decode_rows, prefilled
from engines.methods.system.afd.feeding import Elsewhere, Here

TWO, ONE = "two processes", "one process"
NUMBER = 4  # bytes of a number that is handed over


@method(
    "afd",
    title="Attention-FFN disaggregation",
    paper="arXiv:2507.19427",
    code="https://github.com/stepfun-ai/StepMesh",
    summary="Attention with its cache in one process, the experts in another, microbatches going back and forth.",
    needs="split",
    params=[
        max_new_tokens(32),
        Int("microbatches", 3, 1, 4, symbol="m"),
        Int("texts", 4, 1, 32, symbol="b"),
        Choice("execution", TWO, [TWO, ONE]),
        Float("temperature", 0.0, 0.0, 2.0, step=0.05, symbol="T"),
    ],
    signature="pipeline",
    emits={"commits", "scores", "candidates", "branches", "intervals", "facts", "note"},
    lanes={"confidence": "probability", "entropy": "nats"},
    baseline="greedy",
    lossless=True,
    paths={},
)
def decode(model: CountedSplit, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """One token of every text per step. Before each the caches hold all tokens but the last."""
    m, b, end = p.microbatches, p.texts, len(prompt) + p.max_new_tokens
    batch = Batch(prompt, m * b, p.temperature, run)
    caches = prefilled(model, prompt, m, b, end)
    size, width = model.position_bytes, model.feed_forwards[0].weights["router"].shape[1]
    with Elsewhere(model, m, b) if p.execution == TWO else Here(model) as feeding:
        while batch.fates[0] == "alive":
            catch_up(model, batch, caches, b)
            z, parts = decode_rows(model, batch.tokens(batch.length - 1), caches, feeding)  # [B, V]
            n, wrote = batch.length, batch.living
            batch.write(z, end, model.eos_ids)
            token = batch.texts[0][-1]
            facts = {"processes": 1, "batch": m * b, "kv_bytes": size * n, "kv_bytes_read": m * b * size * n}
            note = (
                f"{wrote} of {many(m * b, 'sequence')} extended by one token; "
                f"{facts['kv_bytes_read']:,} bytes of KV cache read."
            )
            if p.execution == TWO:
                facts |= {"processes": 2, "handed_over": 2 * model.num_layers * m * b * width * NUMBER}
                note += f" {facts['handed_over']:,} bytes sent to the other process and back."
            edit = yield run.step(
                **token_groups(n, token, z[:1], p.temperature),
                branches=batch.branches(),
                intervals=bars(parts, run),
                facts=facts,
                note=note,
            )
            batch.apply_edit(run, edit, caches)


def bars(parts: list[Part], run: Recorder) -> list[Interval]:
    """What ran when, measured: a row for attention and one for the feed-forward half."""
    return [
        bar
        for part in sorted(parts, key=lambda part: (part.side, part.layer, part.microbatch))
        for bar in run.interval(
            part.side,
            part.began,
            part.ended,
            f"microbatch {part.microbatch + 1}, layer {part.layer + 1}",
            {"microbatch": part.microbatch + 1, "layer": part.layer + 1},
            "microbatch",
        )
    ]
