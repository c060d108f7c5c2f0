"""CPPD's decoder: characters are counted, places are filled, and one attention joins the two, so that a whole word is
read in one pass (arXiv 2307.12270; Topdu/OpenOCR, openrec/modeling/decoders/cppd_decoder.py and openrec/losses).

Shapes: B images, V features of an image, d width, h heads, C classes of which 0 is the end mark, M letters of the
longest word, P = M + 1 places, n queries, m keys."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

IGNORED = 100  # the label of a place behind the end mark


def waves(n: int, d: int) -> nn.Parameter:
    """A learnable position [1, n, d] that begins as sines and cosines of n places, where the published code begins
    near nothing: that a network this small learns the order sooner this way was only seen in unfinished trainings."""
    turns = torch.arange(n)[:, None] / n * torch.linspace(0.5, n / 2, d // 2) * torch.pi
    return nn.Parameter(torch.cat([turns.sin(), turns.cos()], 1)[None])


class Attention(nn.Module):
    """Queries [B, n, d] look up [B, m, d]. scaled: whether scores are divided by sqrt(d / h)."""

    def __init__(self, d: int, heads: int, scaled: bool = True) -> None:
        super().__init__()
        self.q, self.kv, self.out = nn.Linear(d, d), nn.Linear(d, 2 * d), nn.Linear(d, d)
        self.heads, self.scale = heads, (d // heads) ** -0.5 if scaled else 1.0

    def keys_values(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values [B, h, m, d / h] of x [B, m, d]."""
        keys, values = self.kv(x).unflatten(-1, (2 * self.heads, -1)).transpose(1, 2).chunk(2, 1)
        return keys, values

    def forward(self, x: Tensor, known: tuple[Tensor, Tensor], hidden: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """(what x [B, n, d] finds in keys and values, how much of each key it took [B, h, n, m]). hidden [n, m]: true
        where a query may not look."""
        keys, values = known
        q = self.q(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        scores = q @ keys.mT * self.scale
        taken = (scores if hidden is None else scores.masked_fill(hidden, -torch.inf)).softmax(-1)
        return self.out((taken @ values).transpose(1, 2).flatten(2)), taken


class MLP(nn.Sequential):
    """d -> 4 d -> d."""

    def __init__(self, d: int) -> None:
        super().__init__(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))


class DecoderLayer(nn.Module):
    """Cross attention and an MLP, each with a norm behind its sum."""

    def __init__(self, d: int, heads: int, scaled: bool = True) -> None:
        super().__init__()
        self.attention, self.mlp = Attention(d, heads, scaled), MLP(d)
        self.norm, self.mlp_norm = nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, x: Tensor, looked_up: Tensor) -> tuple[Tensor, Tensor]:
        """(x [B, n, d] refined, its attention [B, h, n, m] over looked_up [B, m, d])."""
        attended, taken = self.attention(x, self.attention.keys_values(looked_up))
        x = self.norm(x + attended)
        return self.mlp_norm(x + self.mlp(x)), taken


@dataclass(frozen=True)
class Glance:
    """One pass over images. logits [B, P, C] of the characters; occupied [B, P], logits of a place being filled;
    attention [B, h, P, V] of the joining layer; counts [B, C, M], logits of how often each character occurs, None where
    the character nodes were left out."""

    logits: Tensor
    occupied: Tensor
    attention: Tensor
    counts: Tensor | None = None


class CPPD(nn.Module):
    """Two stacks of two layers, for characters and for places, and a layer that joins them."""

    def __init__(self, d: int, heads: int, classes: int, longest: int, features: int) -> None:
        super().__init__()
        self.scale, self.places = d**0.5, longest + 1
        self.characters, self.place_nodes = nn.Embedding(classes, d), nn.Embedding(self.places, d)
        for nodes in (self.characters, self.place_nodes):
            nn.init.normal_(nodes.weight, std=d**-0.5)  # both are scaled by sqrt(d)
        self.place_position, self.position = waves(self.places, d), waves(features, d)
        self.counting = nn.ModuleList(DecoderLayer(d, heads) for _ in range(2))
        self.ordering = nn.ModuleList(DecoderLayer(d, heads) for _ in range(2))
        self.joining = DecoderLayer(d, heads, scaled=False)
        self.count, self.occupied = nn.Linear(d, longest), nn.Linear(d, self.places)
        self.character = nn.Linear(d, classes)

    def forward(self, x: Tensor, counts: bool = True) -> Glance:
        """Features x [B, V, d] to a `Glance`. counts: with the character nodes, which change nothing else, for no
        feature looks at a node."""
        V = x + self.position
        nodes = (self.characters.weight * self.scale).expand(len(x), -1, -1) if counts else V[:, :0]
        places = (self.place_nodes.weight * self.scale + self.place_position).expand(len(x), -1, -1)
        C, P = nodes.shape[1], self.places
        characters, order = torch.cat([nodes, V], 1), torch.cat([places, V], 1)
        for count, place in zip(self.counting, self.ordering, strict=True):
            characters, _ = count(characters, characters[:, C:])
            order, _ = place(order, order[:, P:])
        joined, attention = self.joining(order[:, :P], characters[:, C:])
        occupied = self.occupied(order[:, :P]).diagonal(dim1=1, dim2=2)
        count_logits = self.count(characters[:, :C]) if counts else None
        return Glance(self.character(joined), occupied, attention, count_logits)


@dataclass(frozen=True)
class Targets:
    """What a reader learns of words: labels [B, P], characters, the end mark, then `IGNORED`; counts [B, C], the end
    mark counted once; filled [B, P], 1 for the length + 1 first places."""

    labels: Tensor
    counts: Tensor
    filled: Tensor


def targets(words: Sequence[str], letters: str, longest: int) -> Targets:
    """The targets of words of at most `longest` of these letters."""
    labels = torch.full((len(words), longest + 1), IGNORED)
    for row, word in zip(labels, words, strict=True):
        row[: len(word) + 1] = torch.tensor([*(1 + letters.index(letter) for letter in word), 0])
    counts = torch.stack([torch.bincount(row[row != IGNORED], minlength=len(letters) + 1) for row in labels])
    return Targets(labels, counts, (labels != IGNORED).to(torch.float32))


def count_loss(logits: Tensor, counts: Tensor) -> Tensor:
    """Cross-entropy of the counts [B, C] under logits [B, C, M], which know none above M - 1."""
    most = logits.shape[-1] - 1
    return F.cross_entropy(logits.flatten(0, 1), counts.clamp(max=most).flatten())


def place_loss(logits: Tensor, filled: Tensor) -> Tensor:
    """Binary cross-entropy of the places [B, P]."""
    return F.binary_cross_entropy_with_logits(logits, filled.to(logits.dtype))


def character_loss(logits: Tensor, labels: Tensor, smoothing: float = 0.1) -> Tensor:
    """Cross-entropy of the characters, logits [B, P, C] against labels [B, P]; `smoothing` is spread over the other
    C - 1 classes."""
    seen = labels != IGNORED
    logs, right = logits[seen].log_softmax(-1), labels[seen]
    wanted = torch.full_like(logs, smoothing / (logs.shape[-1] - 1))
    wanted.scatter_(1, right[:, None], 1 - smoothing)
    return -(wanted * logs).sum(-1).mean()


def text_of(ids: Sequence[int], letters: str) -> str:
    """The letters up to the first end mark."""
    ids = list(ids)
    return "".join(letters[i - 1] for i in ids[: ids.index(0) if 0 in ids else len(ids)])
