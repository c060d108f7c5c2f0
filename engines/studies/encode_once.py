"""Time to the first token and for each later one, of an encoder-decoder and its decoder-only twin (Return of the
Encoder, arXiv:2501.16273): measured here for the trained pair and for wider pairs without training, which is enough
for time.

Both get the same input and write the same number of tokens, with a cache, on one thread, and nothing ends early."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from engines.core.errors import UserError
from engines.core.lazy import torch
from engines.core.params import Bool, Int, Params, Text
from engines.core.study import Axis, Column, Figure, Progress, Receipt, Series, Study, Table, study

TRAINED = ("tiny-encdec", "tiny-deconly")
ENCODER, DECODER, TWIN = 8, 3, 12  # layers
VOCABULARY, HEADS, LONGEST = 512, 8, 1024


class Times(NamedTuple):
    """Of one model and one length: milliseconds to the first token and for each later one, of processor and wall."""

    first: float
    later: float
    first_wall: float
    later_wall: float


class Row(NamedTuple):
    """One length on one pair. cache: bytes that keys and values take at the end."""

    pair: str
    n_in: int
    weights: int
    ours: Times
    twin: Times
    our_cache: int
    twin_cache: int


def check(p: Params) -> None:
    """Raises UserError for lengths that are none, and a width that the heads cannot share."""
    lengths(p.lengths)
    if p.width % (2 * HEADS):
        raise UserError(f"width={p.width} cannot be shared by {HEADS} heads; give a multiple of {2 * HEADS}.")


@study(
    "encode-once",
    "First and later tokens of two equal models",
    "arXiv:2501.16273",
    summary="Milliseconds to the first token and for each later one of an encoder-decoder and a decoder-only model of "
    "as many weights, measured on this machine: the trained pair, and a wider one without training.",
    inputs=[
        Text("lengths", "64, 256", help="Tokens of the input, with commas between them."),
        Int("width", 384, 96, 768, symbol="d", help="Of the untrained pair, a multiple of 16; 12 layers, or 8 + 3."),
        Int("new", 16, 2, 128, help="Tokens that are written, by both, whatever they are."),
        Int("turns", 3, 1, 20, help="Times that everything is repeated; the best counts."),
        Bool("trained", True, help="Also measure tiny-encdec and tiny-deconly, of width 96."),
    ],
    departures="One thread of this machine in float32. The wide pair is untrained and marked so: its weights are "
    "drawn, what it writes means nothing, and its time is what counts. The published extremes are of one NPU.",
    runs_models=True,
    check=check,
)
def encode_once(p: Params, progress: Progress) -> Study:
    """Measure both pairs at every length."""
    import engines

    asked, pairs = lengths(p.lengths), list[tuple[str, Any, Any]]()
    if p.trained:
        one, two = (engines.load_model(name, dtype="float32") for name in TRAINED)
        pairs.append(("trained, width 96", one, two))
    pairs.append((f"untrained, width {p.width}", *drawn(p.width)))
    rows, threads = list[Row](), torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for done, (name, one, two) in enumerate(pairs):
            for i, n in enumerate(asked):
                progress(done * len(asked) + i, len(pairs) * len(asked))
                if n + p.new <= min(one.max_positions, two.max_positions):
                    rows.append(measured(name, one, two, n, p.new, p.turns))
    finally:
        torch.set_num_threads(threads)
    if not rows:
        raise UserError(f"no length of {p.lengths} fits with {p.new} new tokens; the trained pair has 512 positions.")
    return told(rows, p, [one.record for pair in pairs[: int(p.trained)] for one in pair[1:]])


def lengths(text: str) -> list[int]:
    """The lengths, in order. Raises UserError for none, and for what is not a whole number of tokens up to LONGEST."""
    try:
        found = sorted({int(one) for one in text.split(",") if one.strip()})
    except ValueError:
        raise UserError(f"lengths='{text[:60]}' holds what is not a number; write whole numbers with commas.") from None
    if not found or not all(4 <= n <= LONGEST for n in found) or len(found) > 8:
        raise UserError(f"lengths='{text[:60]}' does not fit; give 1 to 8 numbers from 4 to {LONGEST}.")
    return found


def drawn(width: int) -> tuple[Any, Any]:
    """An untrained pair of that width behind the adapters."""
    from engines.core.trace import ModelRecord
    from engines.models.adapters.layered import HFLayeredLM
    from engines.models.adapters.seq2seq import MuSeq2SeqLM
    from engines.models.networks.mu import MuConfig, MuForSeq2Seq
    from engines.models.networks.plain_decoder import PlainDecoderConfig, PlainDecoderForCausalLM
    from engines.models.tokens import IdTokenizer

    size: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": width,
        "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS,
        "max_position_embeddings": 2 * LONGEST,
        "tie_word_embeddings": True,
    }
    with torch.random.fork_rng():
        torch.manual_seed(0)
        one = MuForSeq2Seq(MuConfig(encoder_layers=ENCODER, decoder_layers=DECODER, **size))
        two = PlainDecoderForCausalLM(PlainDecoderConfig(num_hidden_layers=TWIN, **size))
    ids = IdTokenizer(VOCABULARY)
    return (
        MuSeq2SeqLM(one, ids, ModelRecord("model", "untrained", "seq2seq")),
        HFLayeredLM(two, ids, ModelRecord("twin", "untrained", "causal")),
    )


def measured(pair: str, one: Any, two: Any, n_in: int, new: int, turns: int) -> Row:
    """Both on one input, the best of several turns."""
    prompt = [5 + i % 200 for i in range(n_in)]

    def first_of_one() -> tuple[Any, Any]:
        cache = one.new_cache(one.encode(prompt), n_in + new)
        return cache, one.extend([one.start_id], cache, last_only=True).logits

    def first_of_two() -> tuple[Any, Any]:
        cache = two.new_cache(n_in + new)
        return cache, two.extend(prompt, cache, last_only=True).logits

    ours = best([timed(one, first_of_one, new) for _ in range(turns + 1)][1:])  # the first turn makes buffers
    twin = best([timed(two, first_of_two, new) for _ in range(turns + 1)][1:])
    held = (one.position_bytes * (n_in + new), two.position_bytes * (n_in + new))
    return Row(pair, n_in, sum(one.weights.values()), ours, twin, *held)


def timed(model: Any, first: Callable[[], tuple[Any, Any]], new: int) -> Times:
    """One answer of `new` tokens, the first by `first`."""
    marks = [now()]
    cache, z = first()
    marks.append(now())
    for _ in range(new - 1):
        z = model.extend([int(z[-1].argmax())], cache, last_only=True).logits
    marks.append(now())
    (cpu, wall), (cpu_later, wall_later) = (
        tuple(1e3 * (b - a) for a, b in zip(*pair, strict=True))
        for pair in ((marks[0], marks[1]), (marks[1], marks[2]))
    )
    return Times(cpu, cpu_later / (new - 1), wall, wall_later / (new - 1))


def now() -> tuple[float, float]:
    """Processor and wall time."""
    return time.process_time(), time.perf_counter()


def best(turns: Sequence[Times]) -> Times:
    """The least of each."""
    return Times(*(min(column) for column in zip(*turns, strict=True)))


def told(rows: Sequence[Row], p: Params, models: list[Any]) -> Study:
    """Tables, a figure for either time, and what the arithmetic allows."""
    last = rows[-1]
    x: dict[str, list[Row]] = {}
    for row in rows:
        x.setdefault(row.pair, []).append(row)
    series = [
        Series(f"{who}, {pair}", [float(r.n_in) for r in some], [pick(r) for r in some], "measured")
        for pair, some in x.items()
        for who, pick in (("encoder-decoder", lambda r: r.ours.first), ("decoder-only", lambda r: r.twin.first))
    ]
    return Study(
        tables=[table("cpu", "Processor time", rows, 0), table("wall", "Wall time", rows, 2)],
        figures=[
            Figure("first", "To the first token", Axis("input", "tokens"), Axis("processor time", "ms"), series),
        ],
        receipts=[
            Receipt(
                f"first token at {last.n_in} tokens, {last.pair}",
                "encoder-decoder / decoder-only",
                {"encoder-decoder": last.ours.first, "decoder-only": last.twin.first},
                last.ours.first / last.twin.first,
                "",
                "measured",
            ),
            Receipt(
                "the arithmetic limit of a long input: layers that read it",
                "encoder layers / decoder-only layers",
                {"encoder": ENCODER, "decoder-only": TWIN},
                ENCODER / TWIN,
            ),
            Receipt(
                f"later tokens at {last.n_in} tokens, {last.pair}",
                "decoder-only / encoder-decoder",
                {"decoder-only": last.twin.later, "encoder-decoder": last.ours.later},
                last.twin.later / last.ours.later,
                "",
                "measured",
            ),
            Receipt(
                "the arithmetic limit: weights that a token reads, without the output layer",
                "12 * 12 d^2 / (3 * (16 - 2) d^2)",
                {"d": float(p.width)},
                144 / 42,
            ),
            Receipt(
                "keys and values",
                "2 * 12 * tokens * d / (2 * 3 * tokens * d)",
                {"decoder-only": last.twin_cache, "encoder-decoder": last.our_cache},
                last.twin_cache / last.our_cache,
            ),
        ],
        notes=[
            "Published: 47 % off the first token and 4.7 times the throughput, on one NPU. At equal weights the layers "
            "allow a third off and 3.4 times, since the decoder's matrices for keys and values of the input do not run "
            "for later tokens: 42 d^2 of 48 d^2 are read.",
        ],
        models=models,
    )


def table(name: str, title: str, rows: Sequence[Row], at: int) -> Table:
    """Milliseconds from column `at` of the times on."""
    columns = [
        Column("pair", "", "given"),
        Column("weights", "", "derived"),
        Column("input", "tokens", "given"),
        Column("first, encoder-decoder", "ms", "measured", 2),
        Column("first, decoder-only", "ms", "measured", 2),
        Column("change", "%", "derived", 0),
        Column("later, encoder-decoder", "ms", "measured", 2),
        Column("later, decoder-only", "ms", "measured", 2),
        Column("times faster", "", "derived", 2),
        Column("cache, encoder-decoder", "B", "derived"),
        Column("cache, decoder-only", "B", "derived"),
    ]
    cells: list[list[Any]] = []
    for r in rows:
        (a, b), (c, d) = ((r.ours[at + i], r.twin[at + i]) for i in range(2))
        change, faster = 100 * (a / b - 1), d / c
        cells.append([r.pair, r.weights, r.n_in, a, b, change, c, d, faster, r.our_cache, r.twin_cache])
    return Table(name, title, columns, cells, "The best of the turns, one thread, float32, no early end.")
