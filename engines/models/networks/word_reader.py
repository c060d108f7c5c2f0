"""A reader of word images: one encoder and two decoders behind it, CPPD's and an autoregressive one (NRTR's kind, two
layers), so that both see the same features.

Shapes: B images of 32 x 128, V = 32 features, one for every four columns of pixels, d width, h heads, C classes, P
places, n characters fed."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from engines.models.networks.cppd import CPPD, MLP, Attention, waves

HEIGHT, WIDTH = 32, 128  # pixels of an image
FEATURES = 32  # of an image, from left to right
FIELDS = ("letters", "longest", "hidden_size", "heads")  # of config.json
Past = tuple[Tensor, Tensor]  # keys and values [B, h, n, d / h]


class Encoder(nn.Module):
    """Four convolutions with strides, one that joins the two rows left, and one layer of self-attention: [B, 1, 32,
    128] to [B, V, d]."""

    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        plan = [(1, d // 3, 2), (d // 3, 2 * d // 3, 2), (2 * d // 3, d, (2, 1)), (d, d, (2, 1))]
        self.convolutions = nn.Sequential(
            *(
                nn.Sequential(
                    nn.Conv2d(before, after, 3, stride, padding=1, bias=False), nn.BatchNorm2d(after), nn.GELU()
                )
                for before, after, stride in plan
            ),
            nn.Conv2d(d, d, (2, 1)),
        )
        self.position = waves(FEATURES, d)
        self.attention, self.mlp = Attention(d, heads), MLP(d)
        self.norm, self.mlp_norm, self.last_norm = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, images: Tensor) -> Tensor:
        """Images with values from -1 to 1."""
        x = self.convolutions(images).flatten(2).transpose(1, 2) + self.position
        read = self.norm(x)
        x = x + self.attention(read, self.attention.keys_values(read))[0]
        x = x + self.mlp(self.mlp_norm(x))
        return self.last_norm(x)


class WritingLayer(nn.Module):
    """Causal self-attention, cross attention to the image, MLP."""

    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.own, self.cross, self.mlp = Attention(d, heads), Attention(d, heads), MLP(d)
        self.own_norm, self.cross_norm, self.mlp_norm = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, x: Tensor, past: Past, image: Past) -> tuple[Tensor, Past, Tensor]:
        """(x [B, n, d] behind `past`, past with x, attention [B, h, n, V] over the image)."""
        read = self.own_norm(x)
        keys, values = (torch.cat(pair, 2) for pair in zip(past, self.own.keys_values(read), strict=True))
        n, m = x.shape[1], keys.shape[2]
        later = torch.ones(n, m, dtype=torch.bool, device=x.device).triu(m - n + 1)
        x = x + self.own(read, (keys, values), later)[0]
        attended, taken = self.cross(self.cross_norm(x), image)
        x = x + attended
        return x + self.mlp(self.mlp_norm(x)), (keys, values), taken


class Writer(nn.Module):
    """The autoregressive decoder: a begin mark (class C) and the characters so far, one more at a time."""

    def __init__(self, d: int, heads: int, classes: int, longest: int, features: int) -> None:
        super().__init__()
        self.begin = classes
        self.characters = nn.Embedding(classes + 1, d)
        self.position, self.image_position = waves(longest + 1, d), waves(features, d)
        self.layers = nn.ModuleList(WritingLayer(d, heads) for _ in range(2))
        self.norm, self.character = nn.LayerNorm(d), nn.Linear(d, classes)

    def image(self, x: Tensor) -> list[Past]:
        """Keys and values of the features x [B, V, d], a pair for each layer; once per image."""
        return [layer.cross.keys_values(x + self.image_position) for layer in self.layers]

    def nothing(self, like: Tensor) -> list[Past]:
        """A past of no characters, for features like these [B, V, d]."""
        h = self.layers[0].own.heads
        empty = like.new_zeros(len(like), h, 0, like.shape[-1] // h)
        return [(empty, empty) for _ in self.layers]

    def forward(self, ids: Tensor, past: list[Past], image: list[Past]) -> tuple[Tensor, list[Past], Tensor]:
        """(logits [B, n, C] behind each of ids [B, n], past with them, attention [B, h, n, V] of the last layer)."""
        first = past[0][0].shape[2]
        x, after = self.characters(ids) + self.position[:, first : first + ids.shape[1]], []
        taken = x  # there is at least one layer
        for layer, before, seen in zip(self.layers, past, image, strict=True):
            x, kept, taken = layer(x, before, seen)
            after.append(kept)
        return self.character(self.norm(x)), after, taken


class WordReader(nn.Module):
    """Encoder, CPPD's decoder and the autoregressive one."""

    def __init__(self, letters: str, longest: int, hidden_size: int, heads: int) -> None:
        super().__init__()
        self.letters, self.longest, classes, features = letters, longest, len(letters) + 1, FEATURES
        self.encoder = Encoder(hidden_size, heads)
        self.parallel = CPPD(hidden_size, heads, classes, longest, features)
        self.writer = Writer(hidden_size, heads, classes, longest, features)

    @property
    def dtype(self) -> torch.dtype:
        """Of the weights."""
        return self.encoder.position.dtype

    @property
    def device(self) -> torch.device:
        """Where the weights lie."""
        return self.encoder.position.device

    def features(self, images: Tensor) -> Tensor:
        """What the encoder makes of grey images, uint8 [B, 32, 128]: [B, V, d]."""
        return self.encoder((images.to(self.device, self.dtype) / 127.5 - 1)[:, None])


def build(config: Mapping[str, Any]) -> WordReader:
    """The network that a config.json describes."""
    return WordReader(*(config[name] for name in FIELDS))
