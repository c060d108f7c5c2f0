"""Our scene network behind `SceneLM`: from a folder with config.json and weights, with words of captions as tokens."""

from typing import Any

import torch

from engines.core.errors import UserError
from engines.core.kinds import Extended, KVCache
from engines.core.kinds.base import Ids, Tokenizer
from engines.core.kinds.scene import Looked
from engines.core.trace import ModelRecord
from engines.models.adapters.base import Warmed
from engines.models.adapters.reader import END, POSITIONS, SignTokenizer, WrittenCache, loading
from engines.models.networks.scene_eye import FIELDS, HEIGHT, SPECIAL, WIDTH, SceneEye, build


class CaptionTokenizer(SignTokenizer):
    """Its signs are the words of captions."""

    between = " "

    def encode_prompt(self, text: str) -> list[int]:
        """The words of a caption. Raises UserError for a word that no caption has."""
        return self.encode(text.strip().lower())

    def encode(self, text: str) -> list[int]:
        """Ids of words with blanks between them. Raises UserError for any other."""
        if bad := next((word for word in text.split() if word not in self.signs), None):
            raise UserError(f"this captioner has no word '{bad[:40]}'; its words are {', '.join(self.signs[:12])} ...")
        return [SPECIAL + self.signs.index(word) for word in text.split()]


class HFSceneEye(Warmed):
    """A `SceneEye` with its tokenizer: see `SceneLM`."""

    eos_ids = frozenset({END})

    def __init__(self, network: SceneEye, record: ModelRecord) -> None:
        self.network, self.record = network.eval().requires_grad_(False), record
        self.tokenizer: Tokenizer = CaptionTokenizer(network.words)
        writer = network.captioner.writer
        self.vocab_size, self.start_id, self.longest = len(network.words) + SPECIAL, writer.begin, network.longest
        self.max_positions = POSITIONS
        self.num_layers = len(writer.layers)
        self.eye_layers = sum(isinstance(module, torch.nn.Conv2d) for module in network.modules())

    def _first_calls(self) -> None:
        for _ in range(2):
            seen = self.look(torch.zeros(HEIGHT, WIDTH, 3, dtype=torch.uint8))
            self.extend([self.start_id], self.new_cache(seen))

    @torch.no_grad()
    def look(self, picture: Any) -> Looked:
        """See `SceneLM`. Raises ValueError for a picture of another shape or type."""
        pixels = torch.as_tensor(picture)
        if tuple(pixels.shape) != (HEIGHT, WIDTH, 3) or pixels.dtype != torch.uint8:
            raise ValueError(
                f"a picture of {HEIGHT} x {WIDTH} x 3 bytes is needed, not {tuple(pixels.shape)} of {pixels.dtype}"
            )
        x = self.network.scaled(pixels[None])
        mask = self.network.mask(self.network.segmenter(x))[0].float()
        return Looked(mask, self.network.captioner.features(x))

    @torch.no_grad()
    def new_cache(self, seen: Looked) -> WrittenCache:
        """See `SceneLM`."""
        writer = self.network.captioner.writer
        return WrittenCache(writer.nothing(seen.features), writer.image(seen.features), 0)

    @torch.no_grad()
    def extend(self, tokens: Ids, cache: KVCache) -> Extended:
        """See `SceneLM`. Raises ValueError for no token, or for more than a caption has."""
        assert isinstance(cache, WrittenCache)
        ids = torch.as_tensor(tokens, dtype=torch.long, device=cache.past[0][0].device).reshape(1, -1)
        if not 0 < ids.shape[1] <= self.longest + 1 - cache.length:
            raise ValueError(f"{ids.shape[1]} words do not fit behind {cache.length} of {self.longest + 1}")
        logits, cache.past, _ = self.network.captioner.writer(ids, cache.past, cache.image)
        return Extended(logits[0].float())


LOADED = (loading(build, FIELDS), HFSceneEye)  # how a network is read from its folder, and what stands around it
