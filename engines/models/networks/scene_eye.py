"""Two networks that look at a picture of a scene: a U-Net whose skips are gated by attention (Oktay et al.,
arXiv:1804.03999) tells where words are, and a captioner, convolutions with a small autoregressive decoder, what is
seen. They share nothing but the picture.

Shapes: B pictures [B, 3, 128, 256] with values from -1 to 1, halved before anything else; V = 32 features, d width."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from engines.models.networks.word_reader import Writer

HEIGHT, WIDTH, FEATURES = 128, 256, 32
FOLD = 2  # pixels of a side that the segmenter folds into channels, of the halved picture
SCALE = 2 * FOLD  # pixels of a side of the picture for one of the segmenter's
FIELDS = ("words", "longest", "hidden_size", "heads", "channels")  # of config.json
SPECIAL = 1  # token 0 is the end mark


def convolved(before: int, after: int, stride: int = 1) -> nn.Sequential:
    """A 3 x 3 convolution with its norm."""
    return nn.Sequential(
        nn.Conv2d(before, after, 3, stride, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU(inplace=True)
    )


class Gate(nn.Module):
    """What of a skip passes: each pixel by sigmoid(w relu(W_x x + W_g g)), g the coarser level already scaled up."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        half = channels // 2
        self.x, self.g, self.w = nn.Conv2d(channels, half, 1), nn.Conv2d(channels, half, 1), nn.Conv2d(half, 1, 1)

    def forward(self, x: Tensor, g: Tensor) -> Tensor:
        """x, g [B, c, h, w]."""
        return x * self.w((self.x(x) + self.g(g)).relu()).sigmoid()


class Segmenter(nn.Module):
    """Levels of `channels`, two convolutions down and one up at each."""

    def __init__(self, channels: list[int]) -> None:
        super().__init__()
        pairs = list(zip([3 * FOLD**2, *channels[:-1]], channels, strict=True))
        self.down = nn.ModuleList(
            nn.Sequential(convolved(a, b, 1 + (i > 0)), convolved(b, b)) for i, (a, b) in enumerate(pairs)
        )
        back = list(zip(channels[:0:-1], channels[-2::-1], strict=True))
        self.narrow = nn.ModuleList(nn.Conv2d(a, b, 1) for a, b in back)
        self.gates = nn.ModuleList(Gate(b) for _, b in back)
        self.up = nn.ModuleList(convolved(2 * b, b) for _, b in back)
        self.last = nn.Conv2d(channels[0], 1, 1)

    def forward(self, pictures: Tensor) -> Tensor:
        """Logits [B, 32, 64] of a word being there."""
        x, skips = F.pixel_unshuffle(F.avg_pool2d(pictures, 2), FOLD), list[Tensor]()
        for level in self.down:
            x = level(x)
            skips.append(x)
        for narrow, gate, up, skip in zip(self.narrow, self.gates, self.up, skips[-2::-1], strict=True):
            g = F.interpolate(narrow(x), scale_factor=2, mode="nearest")
            x = up(torch.cat([gate(skip, g), g], 1))
        return self.last(x)[:, 0]


class Captioner(nn.Module):
    """Convolutions to 4 x 8 features, and a decoder of two layers over the words of captions."""

    def __init__(self, d: int, heads: int, classes: int, longest: int) -> None:
        super().__init__()
        plan = [(3, d // 6), (d // 6, d // 3), (d // 3, 2 * d // 3), (2 * d // 3, d)]
        self.convolutions = nn.Sequential(*(convolved(a, b, 2) for a, b in plan))
        self.norm = nn.LayerNorm(d)
        self.writer = Writer(d, heads, classes, longest, FEATURES)

    def features(self, pictures: Tensor) -> Tensor:
        """[B, V, d]."""
        return self.norm(self.convolutions(F.avg_pool2d(pictures, 2)).flatten(2).transpose(1, 2))


class SceneEye(nn.Module):
    """Both. words: of the captions; token i + 1 is word i."""

    def __init__(self, words: list[str], longest: int, hidden_size: int, heads: int, channels: list[int]) -> None:
        super().__init__()
        self.words, self.longest = list(words), longest
        self.segmenter = Segmenter(channels)
        self.captioner = Captioner(hidden_size, heads, len(words) + SPECIAL, longest)

    @property
    def dtype(self) -> torch.dtype:
        """Of the weights."""
        return self.segmenter.last.weight.dtype

    @property
    def device(self) -> torch.device:
        """Where the weights lie."""
        return self.segmenter.last.weight.device

    def scaled(self, pictures: Tensor) -> Tensor:
        """uint8 [B, 128, 256, 3] as the networks read it."""
        return pictures.to(self.device, self.dtype).permute(0, 3, 1, 2) / 127.5 - 1

    def mask(self, logits: Tensor) -> Tensor:
        """Probabilities [B, 128, 256] from logits [B, 32, 64]."""
        return F.interpolate(logits.sigmoid()[:, None], scale_factor=SCALE, mode="bilinear")[:, 0]


def build(config: Mapping[str, Any]) -> SceneEye:
    """The network that a config.json describes."""
    return SceneEye(*(config[name] for name in FIELDS))
