"""Encoder-decoder: the prompt is read once, the answer is written left to right."""

from typing import Any, NamedTuple, Protocol, runtime_checkable

from engines.core.kinds.base import Counted, Extended, Ids, Kind, KVCache, Model


class Encoded(Protocol):
    """What an encoder made of a prompt of `length` tokens, once: its output, and the keys and values that the decoder's
    layers look up in it."""

    length: int


class Mark(NamedTuple):
    """When one layer ran: phase ("encode", "cross_kv", "prefill" or "decode"), its number, and the times at which it
    began and ended by `time.perf_counter`."""

    phase: str
    layer: int
    began: float
    ended: float


@runtime_checkable
class Seq2SeqLM(Model, Protocol):
    """Encoder-decoder: the prompt is read once, the decoder writes the answer left to right.

    A cache counts positions of the board, prompt included, as for `CausalLM`: the start token stands for the prompt's
    last token, so a fresh cache holds m - 1 positions, [start_id, *answer] is fed behind it, and row i predicts
    position cache.length + i + 1."""

    start_id: int
    encoder_layers: int
    decoder_layers: int

    def encode(self, prompt: Ids) -> Encoded:
        """Run the encoder over m prompt tokens."""

    def new_cache(self, memory: Encoded, capacity: int) -> KVCache:
        """A decoder cache for a board of up to `capacity` positions, prompt included. One memory may serve several
        caches."""

    def extend(
        self,
        tokens: Ids,
        cache: KVCache,
        *,
        last_only: bool = False,
        attention: bool = False,
        marks: list[Mark] | None = None,
    ) -> Extended:
        """Feed n answer tokens behind the cache, which then holds n more rows. last_only: logits [1, V] of the last
        row. attention: see `Extended`. marks: gets when each layer ran."""


class CountedSeq2Seq(Counted):
    """An encoder-decoder seen through the meter. Encoding a prompt takes time and work, but is no forward: it ends in
    no logits."""

    start_id: int
    encoder_layers: int
    decoder_layers: int

    def encode(self, prompt: Ids, *, marks: list[Mark] | None = None) -> Encoded:
        """See `Seq2SeqLM`."""
        work = len(prompt) * self.encoder_layers
        return self._call(len(prompt), lambda: self._model.encode(prompt, marks=marks), work, forward=False)

    def extend(self, tokens: Ids, cache: KVCache, **options: Any) -> Extended:
        """See `Seq2SeqLM`; a row never proposes a token forbidden at the position it predicts."""
        result: Extended = self._call(len(tokens), lambda: self._model.extend(tokens, cache, **options))
        self._allowed(result.logits, cache.length + 1 - len(result.logits))
        return result


KIND = Kind("seq2seq", Seq2SeqLM, CountedSeq2Seq, "tiny-encdec")
