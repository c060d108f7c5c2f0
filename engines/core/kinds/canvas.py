"""Canvas diffusion: a causal encoder reads the prompt and finished canvases, a bidirectional decoder reads a canvas of
tokens that holds no masks and says what each of them should be."""

from typing import Protocol, runtime_checkable

from engines.core.kinds.base import Counted, Ids, Kind, KVCache, Model
from engines.core.lazy import Tensor


@runtime_checkable
class CanvasLM(Model, Protocol):
    """Block diffusion over canvases of `canvas_length` positions, whose tokens are noise until they settle: any id of
    the vocabulary is a token, none stands for "not known yet".

    What was encoded stays as it is; the canvas stands behind it and is never stored until it is encoded itself.
    pad_id: what stands behind an end mark."""

    canvas_length: int
    pad_id: int

    def new_cache(self, capacity: int) -> KVCache:
        """An empty cache for up to `capacity` encoded positions. It can be cropped at any position."""

    def encode(self, tokens: Ids, cache: KVCache) -> Tensor:
        """Feed n tokens behind the cache, each of which sees those before it; the cache then holds n more. Returns the
        states [n, d] behind the last norm, which nothing needs for decoding."""

    def denoise(self, canvas: Ids, cache: KVCache, conditioning: Tensor | None = None) -> Tensor:
        """Feed a canvas [L] behind the cache, where every position sees all of the canvas and what was encoded;
        `cache` stays as it is.

        conditioning [L, V]: the logits of the step before, whose expected embeddings are added to the canvas's
        (self-conditioning); None at the first step. Returns logits [L, V]; row i is the distribution of position
        cache.length + i."""


class CountedCanvas(Counted):
    """A canvas model seen through the meter. Encoding takes time and work, but is no forward: no token comes of it."""

    canvas_length: int
    pad_id: int

    def encode(self, tokens: Ids, cache: KVCache) -> Tensor:
        """See `CanvasLM`."""
        return self._call(len(tokens), lambda: self._model.encode(tokens, cache), forward=False)

    def denoise(self, canvas: Ids, cache: KVCache, conditioning: Tensor | None = None) -> Tensor:
        """See `CanvasLM`; forbidden tokens get -inf in the rows of their positions."""
        logits = self._call(len(canvas), lambda: self._model.denoise(canvas, cache, conditioning))
        return self._allowed(logits, cache.length)


KIND = Kind("canvas", CanvasLM, CountedCanvas, example="tiny-canvas")
