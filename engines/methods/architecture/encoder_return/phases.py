"""The phases of an answer, and what each of them costs: an encoder-decoder (encode, cross_kv, decode) and a
decoder-only model (prefill, decode) fed one token at a time, each layer's time noted.

Letters: n_in tokens of the input, n rows fed, t rows before them, L layers, d width of keys and values."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from engines.core.trace import Interval
from engines.kit import KVCache, Mark, Recorder, Taps, Tensor, torch


@dataclass
class Turn:
    """One token's worth of work: logits [V] of the next token, when each layer ran, weights that were read,
    multiplications and additions, and where the last layer looked, [h, n_in]."""

    z: Tensor
    marks: list[Mark] = field(default_factory=list)
    weights: int = 0
    flops: float = 0.0
    attention: Tensor | None = None


class EncoderDecoder:
    """Reads the input once through the encoder; then each token goes through the decoder alone."""

    name = "encoder-decoder"

    def __init__(self, model: Any, prompt: Sequence[int], capacity: int) -> None:
        self.model, self.prompt, self.capacity = model, list(prompt), capacity
        self.cache: KVCache | None = None
        self.encoded = 0  # layers of the encoder that ran, over the whole answer
        self.width = model.position_bytes // max(1, 2 * model.decoder_layers * itemsize(model))

    @property
    def crops(self) -> list[KVCache]:
        """The caches that follow the board."""
        return [self.cache] if self.cache is not None else []

    def bytes(self) -> int:
        """Keys and values that are held: of the input and of the rows fed, in the decoder's layers."""
        rows = len(self.prompt) + (self.cache.length - len(self.prompt) + 1 if self.cache else 0)
        return int(self.model.position_bytes * rows)

    def next(self, ids: Sequence[int]) -> Turn:
        """The logits behind the board `ids`, which begins with the input."""
        model, m = self.model, len(self.prompt)
        output, w, L = Turn(torch.empty(0)), model.weights, model.decoder_layers
        if self.cache is None:
            memory = model.encode(self.prompt, marks=output.marks)
            self.encoded += sum(mark.phase == "encode" for mark in output.marks)
            self.cache = model.new_cache(memory, self.capacity)
            output.weights += w["encode"] + w["cross_kv"]
            output.flops += 2 * m * (w["encode"] + w["cross_kv"]) + scores(model.encoder_layers, self.width, m * m)
        t = self.cache.length - m + 1
        fed = [model.start_id, *ids[m:]][t:]
        extended = model.extend(fed, self.cache, last_only=True, attention=True, marks=output.marks)
        output.z, output.attention = extended.logits[0], extended.attention[:, -1]
        output.weights += w["decode"] + w["unembed"]
        output.flops += 2 * len(fed) * w["decode"] + 2 * w["unembed"]
        output.flops += scores(L, self.width, seen(len(fed), t) + len(fed) * m)
        return output


class DecoderOnly:
    """Pushes the input through all layers, and then every token again."""

    name = "decoder-only"

    def __init__(self, model: Any, prompt: Sequence[int], capacity: int) -> None:
        self.model, self.prompt, self.cache = model, list(prompt), model.new_cache(capacity)
        self.width = model.position_bytes // max(1, 2 * model.num_layers * itemsize(model))

    def bytes(self) -> int:
        """Keys and values of all tokens in all layers."""
        return int(self.model.position_bytes * self.cache.length)

    def next(self, ids: Sequence[int]) -> Turn:
        """The logits behind the board `ids`."""
        model, t, borders = self.model, self.cache.length, list[float]()
        fed = ids[t:]
        taps = Taps(stream=lambda _layer, x: borders.append(now(x)))
        x = model.layers(model.embed(fed), self.cache, 0, model.num_layers, taps=taps)
        z = model.unembed(x[-1:])[0]
        output, w = Turn(z), model.weights
        phase = "decode" if t else "prefill"
        output.marks = [Mark(phase, i, a, b) for i, (a, b) in enumerate(pairwise(borders))]
        output.weights = w["layers"] + w["unembed"]
        output.flops = 2 * len(fed) * w["layers"] + 2 * w["unembed"]
        output.flops += scores(model.num_layers, self.width, seen(len(fed), t))
        return output


def scores(layers: int, width: int, pairs: int) -> float:
    """What attention itself takes over so many pairs of a row and what it sees: q k and p v, beside the matrices."""
    return 4.0 * layers * width * pairs


def seen(n: int, t: int) -> int:
    """Pairs of n rows behind t others with all that each of them sees."""
    return n * t + n * (n + 1) // 2


def itemsize(model: Any) -> int:
    """Bytes of a number of the model."""
    return int(getattr(torch, model.record.dtype).itemsize)


def now(x: Tensor) -> float:
    """The time at which these rows are there."""
    if x.is_cuda:
        torch.cuda.synchronize(x.device)
    return time.perf_counter()


def cells(side: EncoderDecoder | DecoderOnly, output: Turn, text: str, run: Recorder) -> list[Interval]:
    """A measured interval for each layer that ran, and one without length for the token that came of it."""
    intervals = [
        interval
        for m in output.marks
        for interval in run.interval(side.name, m.began, m.ended, f"{m.phase} {m.layer}", {"layer": m.layer}, m.phase)
    ]
    last = max((m.ended for m in output.marks), default=time.perf_counter())
    about = {"mark": text, "cache_bytes": side.bytes()}
    return [*intervals, *run.interval(side.name, last, last, f"token {text}", about, "token")]
