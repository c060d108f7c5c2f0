"""What looks at the picture of a scene: where words are, and word by word a caption of what is seen.

Shapes: n words fed, C words of captions and the end mark."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from engines.core.kinds.base import Counted, Extended, Ids, Kind, KVCache, Model
from engines.core.lazy import Tensor


@dataclass
class Looked:
    """What was made of one picture: mask [128, 256], the probability that a pixel belongs to a word; features, the
    captioner's, for its cache."""

    mask: Tensor
    features: Any


@runtime_checkable
class SceneLM(Model, Protocol):
    """Looks at the picture of a scene. Its tokens are words of captions; `start_id` is fed first."""

    start_id: int
    longest: int
    eye_layers: int
    num_layers: int

    def look(self, picture: Any) -> Looked:
        """Run both eyes over a picture, uint8 [128, 256, 3]."""

    def new_cache(self, seen: Looked) -> KVCache:
        """A cache of the caption's decoder."""

    def extend(self, tokens: Ids, cache: KVCache) -> Extended:
        """Feed n tokens behind the cache, which then holds n more rows; logits [n, C]."""


class CountedScene(Counted):
    """The same, seen through the meter. A look is a forward: it ends in the logits of a mask."""

    start_id: int
    longest: int

    def look(self, picture: Any) -> Looked:
        """See `SceneLM`. One row: the picture."""
        return self._call(1, lambda: self._model.look(picture), self._model.eye_layers)

    def extend(self, tokens: Ids, cache: KVCache) -> Extended:
        """See `SceneLM`. What a person forbids concerns the board of the reader, and no caption."""
        return self._call(len(tokens), lambda: self._model.extend(tokens, cache))


KIND = Kind("scene", SceneLM, CountedScene, "tiny-scenes", role="scene")
