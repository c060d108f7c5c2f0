"""A reader of word images: the picture is encoded once, then the word comes in one pass or letter by letter.

Shapes: V features of the picture, P places, C tokens (the end mark and the letters), m letters of the prompt."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from engines.core.kinds.base import Counted, Extended, Ids, Kind, KVCache, Model
from engines.core.lazy import Tensor


class Seen(Protocol):
    """What an encoder made of a picture, or of several at once: `length` features of each. prompt: tokens before the
    answer on the board."""

    length: int
    prompt: int


@dataclass
class Places:
    """One pass over a picture: logits [P, C], for each place the end mark or a letter; occupied [P], the probability
    that a place is filled; attention [h, P, V], where on the picture it was looked up, rows sum to 1."""

    logits: Tensor
    occupied: Tensor
    attention: Tensor


@runtime_checkable
class WordReaderLM(Model, Protocol):
    """Reads the picture of a word. The prompt's m tokens are the letters that the picture is drawn from, or its blocks,
    which are ids of `picture_ids`; the networks see the picture only.

    A cache counts positions of the board, prompt included, as for `CausalLM`: `start_id` stands for the prompt's last
    token, so a fresh cache holds m - 1 positions, [start_id, *answer] is fed behind it, and row i predicts position
    cache.length + i + 1."""

    start_id: int
    picture_ids: range
    places: int
    features: int
    encoder_layers: int
    num_layers: int

    def see(self, picture: Any, prompt: int) -> Seen:
        """Run the encoder over a picture, uint8 [32, 128] of greys, or over b of them at once, [b, 32, 128], behind a
        prompt of so many tokens."""

    def glance(self, seen: Seen) -> Places:
        """The whole word in one pass."""

    def glances(self, seen: Seen) -> list[Places]:
        """The words of all pictures that were seen at once, in one pass."""

    def counts(self, seen: Seen) -> list[int]:
        """How often each of the C tokens occurs, as the counting part tells it."""

    def pass_rows(self) -> int:
        """Rows times layers of one pass."""

    def new_cache(self, seen: Seen) -> KVCache:
        """A cache of the decoder that writes letter by letter; of b pictures it has b rows, which `take(rows)`
        reorders and repeats."""

    def extend(self, tokens: Ids, cache: KVCache) -> Extended:
        """Feed n tokens behind the cache, which then holds n more rows; with attention [h, n, V] over the picture.
        Tokens [b, n] go to the b rows of a cache, and logits [b, n, C] come back."""


class CountedReader(Counted):
    """A reader seen through the meter. Encoding a picture takes time and work, but no forward: it ends in no logits."""

    start_id: int
    places: int
    features: int

    def see(self, picture: Any, prompt: int) -> Seen:
        """See `WordReaderLM`."""
        rows = self.features * (picture.shape[0] if picture.ndim == 3 else 1)
        work = rows * self._model.encoder_layers
        return self._call(rows, lambda: self._model.see(picture, prompt), work, forward=False)

    def glance(self, seen: Seen) -> Places:
        """See `WordReaderLM`; no place proposes a token forbidden there."""
        places: Places = self._call(self.places, lambda: self._model.glance(seen), self._model.pass_rows())
        self._allowed(places.logits, seen.prompt)
        return places

    def glances(self, seen: Seen) -> list[Places]:
        """See `WordReaderLM`; one forward of many rows."""
        n = int(getattr(seen, "pictures", 1))
        work = self._model.pass_rows() * n
        places: list[Places] = self._call(self.places * n, lambda: self._model.glances(seen), work)
        for glance in places:
            self._allowed(glance.logits, seen.prompt)
        return places

    def counts(self, seen: Seen) -> list[int]:
        """See `WordReaderLM`. For the record: reading does without, so this is on no clock but the recording's."""
        return self._model.counts(seen)

    def extend(self, tokens: Ids, cache: KVCache) -> Extended:
        """See `WordReaderLM`; a row never proposes a token forbidden at the position it predicts."""
        fed = int(tokens.numel()) if hasattr(tokens, "numel") else len(tokens)
        result: Extended = self._call(fed, lambda: self._model.extend(tokens, cache))
        self._allowed(result.logits, cache.length + 1 - result.logits.shape[-2])
        return result


KIND = Kind("reader", WordReaderLM, CountedReader, "tiny-reader", role="reader")
