"""A language model that sees a scene: a small Llama whose picture comes in as rows of its own, one for each patch, made
by two layers from the pixels (LLaVA's projector, arXiv 2310.03744, without a tower of vision before it).

On the board a picture begins with the token <scene>; the V places behind it hold the words of the description and then
<patch> up to the end. They say what is drawn and are not read: the embedding draws the picture from them, cuts it into
patches, and puts what the projector makes of each patch in the row of its place. A picture of a person's own stands
there as ids far above the vocabulary, one for each patch, which are its pixels (engines/tasks/blocks.py).

Shapes: B rows of ids, n places, V patches, d width, p pixels of a patch's side."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu
from transformers import LlamaConfig, LlamaForCausalLM

from engines.core.errors import UserError
from engines.core.picture import Pictured
from engines.models.tokenizers.scene_words import SPECIAL, WORDS
from engines.tasks.blocks import SCENES
from engines.tasks.grid_scenes import SIDE, Thing, drawn, scene_of

PAD, EOS, MASK, SCENE, PATCH, TEXT = map(WORDS.index, SPECIAL)
WORDS_OF_A_THING = len(Thing._fields)


class SceneTextConfig(LlamaConfig):
    """A Llama's config and: patch, pixels of a patch's side, which divides the picture's."""

    model_type = "scene_text"
    patch: int = 4

    def __post_init__(self, **more: Any) -> None:
        if (p := self.patch) < 1 or SIDE % p:
            raise ValueError(f"patches of {p} pixels do not fill a picture of {SIDE}; choose a divisor of {SIDE}")
        super().__post_init__(**more)

    @property
    def patches(self) -> int:
        """V, of a picture."""
        return (SIDE // self.patch) ** 2


@lru_cache(maxsize=64)
def picture(places: Sequence[int]) -> Tensor | None:
    """The picture, uint8 [24, 24, 3], of the V ids behind <scene>: their pixels, or the scene that they describe. None
    where they are neither."""
    if places and all(token in SCENES.ids for token in places):
        return torch.from_numpy(SCENES.pixels(places))
    used = len(places)
    while used and places[used - 1] == PATCH:
        used -= 1
    words = [WORDS[token] if 0 <= token < len(WORDS) else "?" for token in places[:used]]
    scene = scene_of(", ".join(" ".join(words[i : i + WORDS_OF_A_THING]) for i in range(0, used, WORDS_OF_A_THING)))
    return None if scene is None else torch.from_numpy(drawn(scene))


class SceneEmbedding(nn.Embedding):
    """Words by their ids; a picture by its pixels. Each place of the grid adds a learnt vector of its own."""

    def __init__(self, config: SceneTextConfig) -> None:
        d = config.hidden_size
        super().__init__(config.vocab_size, d, config.pad_token_id)
        self.p, self.V = config.patch, config.patches
        self.first, self.second = nn.Linear(3 * self.p**2, d), nn.Linear(d, d)
        self.place = nn.Parameter(torch.zeros(self.V, d))
        self.picture_ids = SCENES.ids if SCENES.count == self.V else range(0)

    def patches(self, pixels: Tensor) -> Tensor:
        """Pictures [B, 24, 24, 3] -> rows [B, V, d] of their patches in reading order."""
        n, p = SIDE // self.p, self.p
        x = (pixels.to(self.weight.device, self.weight.dtype) / 127.5 - 1).view(-1, n, p, n, p, 3)
        x = x.permute(0, 1, 3, 2, 4, 5).reshape(-1, self.V, 3 * p * p)
        return self.second(gelu(self.first(x) + self.place))

    def pictured(self, ids: Sequence[int]) -> Pictured | None:
        """The first picture among these ids."""
        for at, token in enumerate(ids):
            places = tuple(ids[at + 1 : at + 1 + self.V])
            if token == SCENE and len(places) == self.V and (pixels := picture(places)) is not None:
                text = " ".join(WORDS[i] for i in places if i < len(WORDS) and i != PATCH)
                return Pictured(at + 1, at + 1 + self.V, (SIDE // self.p, SIDE // self.p), pixels, text)
        return None

    def forward(self, ids: Tensor) -> Tensor:
        """ids [B, n] -> rows [B, n, d]. Ids behind <scene> that describe no scene are words like any other, and so is a
        <scene> that no whole picture follows, such as one that was drawn; blocks of a picture in no such place are
        <patch>. Raises UserError where the end of the ids cuts off a picture of blocks: its rows are made together."""
        x = super().forward(ids.where(ids < len(WORDS), PATCH))
        for row, at in (ids == SCENE).nonzero().tolist():
            first, last = at + 1, at + 1 + self.V
            places = tuple(ids[row, first:last].tolist())
            if len(places) < self.V and any(token >= len(WORDS) for token in places):
                raise UserError(
                    f"{len(places)} of the {self.V} positions of a picture were fed; feed the whole picture at once."
                )
            if len(places) == self.V and (pixels := picture(places)) is not None:
                x[row, first:last] = self.patches(pixels[None])[0]
        return x


class SceneTextForCausalLM(LlamaForCausalLM):
    """A Llama with that embedding; its output head shares the words' rows."""

    config_class = SceneTextConfig

    def __init__(self, config: SceneTextConfig) -> None:
        super().__init__(config)
        self.model.embed_tokens = SceneEmbedding(config)
        self.post_init()
