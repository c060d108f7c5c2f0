"""What every published drafter has, whatever its format: where it comes from, which states of the target it reads, and
how its calls are counted.

Shapes: n rows, d width of the drafter's stream, D numbers of the target's states that it reads for a row, V vocabulary
of the target, v of the draft (v = V where it has none of its own)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from engines.core.errors import UserError
from engines.core.kinds import kinds_of
from engines.core.kinds.layered import forbid
from engines.core.trace import ModelRecord
from engines.models.adapters.layered import RAW
from engines.models.drafters.network import Layer, Pasts, Rotation
from engines.models.drafters.tensors import Tensors

if TYPE_CHECKING:
    from engines.core.meter import Meter
    from engines.models.drafters.files import Checkpoint, Shapes

__all__ = ["RAW", "CountedDrafter", "Drafter", "RowDrafter", "width_of"]


class Drafter:
    """A published drafter that was checked against a target and read.

    format: which of the formats. reads: the target's states that it reads, as `extend` numbers them: i < L the stream
    behind i layers, L that behind the final norm, `RAW` that before it. vocabulary [v]: the tokens that the columns of
    its logits are, None for all. k: tokens that it drafts at a time as it was published, 0 where that is open. stack:
    its decoder layers, whose rows `rotation` turns."""

    format: ClassVar[str]
    title: ClassVar[str]
    layers = 0  # decoder layers that a row goes through
    k = 0
    rotation: Rotation

    @staticmethod
    def like(shapes: Shapes) -> bool:
        """Whether these are the tensors of the format, by name."""
        raise NotImplementedError

    def __init__(self, checkpoint: Checkpoint, target: Any, t: Tensors) -> None:
        self.name, self.sha256, self.revision = checkpoint.name, checkpoint.sha256, checkpoint.revision
        self.config, self.target = checkpoint.config, target.record
        self.num_layers, self.vocab_size = int(target.num_layers), int(target.vocab_size)
        self.width = width_of(target)
        self.reads: tuple[int, ...] = ()
        self.vocabulary: Tensor | None = None
        self.stack: list[Layer] = []
        self.table: Tensor | None = None  # its own embeddings [V, d]
        self.head: Tensor | None = None  # its own output head [v, d]
        self.trained_here, self.licence = False, ""  # a part of ours is no checkpoint that somebody could ask for
        self.notes: list[str] = []  # what a person should know of how it was read

    @property
    def parameters(self) -> int:
        """How many numbers of it take part; what it takes from the target is the target's."""
        return sum(tensor.numel() for tensor in own_tensors(self) if tensor.is_floating_point())

    @property
    def columns(self) -> int:
        """How many tokens it can draft."""
        return self.vocab_size if self.vocabulary is None else len(self.vocabulary)

    def record(self, role: str, beside: ModelRecord) -> ModelRecord:
        """How a trace names it; it runs where the model `beside` runs."""
        return ModelRecord(
            role,
            self.name,
            "part",
            self.sha256,
            revision=self.revision,
            parameters=self.parameters,
            dtype=beside.dtype,
            device=beside.device,
            licence=self.licence,
            options={} if self.trained_here else {"format": self.format},
        )

    def states(self, hidden: Mapping[int, Tensor]) -> Tensor:
        """What it reads of the target, [n, D], from the states that a forward handed out."""
        return torch.cat([hidden[i] for i in self.reads], -1)

    def through(self, x: Tensor, pasts: Pasts, at: Tensor, sees: Tensor | None, read: Tensor | None = None) -> Tensor:
        """Rows x [n, d] through all layers; read: what the attention of the first reads, if not x."""
        rotation, seen = self.rotation.at(at, x.dtype), pasts.seen(at, sees, self.stack)
        for layer, past, some in zip(self.stack, pasts.layers, seen, strict=True):
            x, read = layer(x, rotation, past, some, read), None
        return x

    def counted(self, target: Any, meter: Meter) -> CountedDrafter:
        """The drafter of a run: its calls are counted as the draft's work. target: the counted target."""
        return CountedDrafter(self, target.playing("draft"), meter)

    def take_vocabulary(self, t: Tensors) -> None:
        """d2t and t2d: column c of the draft is the token c + d2t[c] of the target, an offset. Raises UserError where
        one is there without the other, and where they contradict each other."""
        name = t.checkpoint.name
        if ("d2t" in t) != ("t2d" in t):
            there, gone = ("d2t", "t2d") if "d2t" in t else ("t2d", "d2t")
            raise UserError(
                f"'{name}' has {there} and no {gone}; a draft vocabulary needs both, so download it again or take "
                "another conversion of it."
            )
        if "d2t" not in t:
            return
        (v,) = t.shape("d2t")
        offsets = t.take("d2t", v).long()
        known = t.take("t2d", self.vocab_size, why="it has one entry for each token of the target").bool()
        ids = torch.arange(v, device=offsets.device) + offsets
        inside = v > 0 and 0 <= int(offsets.min()) <= int(offsets.max()) < self.vocab_size
        if inside and bool(known[offsets].all()) and len(offsets.unique()) == v == int(known.sum()):
            raise UserError(
                f"d2t of '{name}' holds the tokens themselves, and this format has offsets there (token = column + "
                "d2t[column]); subtract each column from its entry, or take another conversion."
            )
        if v and not 0 <= int(ids.min()) <= int(ids.max()) < self.vocab_size:
            raise UserError(
                f"d2t of '{name}' leads to the tokens {int(ids.min())} to {int(ids.max())}, and ids of "
                f"{self.target.name} go from 0 to {self.vocab_size - 1}; it belongs to another tokenizer."
            )
        if int(known.sum()) != v or not bool(known[ids].all()):
            raise UserError(
                f"d2t and t2d of '{name}' name different tokens ({v} and {int(known.sum())}); d2t holds offsets "
                "(token = column + d2t[column]), and here it does not."
            )
        self.vocabulary = ids


class RowDrafter(Drafter):
    """A drafter that goes from row to row: a row is a token's embedding and the state one place before it, and its
    output is the state of the next row. EAGLE-1, -2 and -3, MTP."""

    def project(self, states: Tensor) -> Tensor:
        """States of the target [n, D] as the layers read them, [n, d]."""
        return states

    def pasts(self) -> Pasts:
        """What its layers keep of the rows that they read: nothing yet."""
        return Pasts(self.layers)

    def rows(self, e: Tensor, s: Tensor, pasts: Pasts, at: Tensor, sees: Tensor | None) -> Tensor:
        """Rows of embeddings and states, each [n, d], at positions `at` [n]: their output [n, d]."""
        raise NotImplementedError

    def spoken(self, out: Tensor) -> Tensor:
        """What the output head reads of an output."""
        return out

    def fed_back(self, out: Tensor) -> Tensor:
        """The state that the next row reads."""
        return out


class CountedDrafter:
    """A drafter seen through the meter of a run: a pass is a forward of the role "draft", its rows times its layers are
    the draft's work."""

    def __init__(self, drafter: Drafter, target: Any, meter: Meter) -> None:
        self.drafter, self.target, self._meter = drafter, target, meter

    def __getattr__(self, name: str) -> Any:
        return getattr(self.drafter, name)

    def embed(self, tokens: Sequence[int]) -> Tensor:
        """Embeddings [n, d] of tokens, the drafter's own or the target's."""
        table = self.drafter.table
        if table is None:
            embedded: Tensor = self.target.embed(tokens)
            return embedded
        ids = torch.as_tensor(tokens, dtype=torch.long, device=table.device)
        return torch.nn.functional.embedding(ids, table)

    def call(self, fed: int, compute: Any) -> Any:
        """A pass of the drafter on the run's clock: `fed` rows through all its layers."""
        with torch.no_grad():
            rows, device = fed * self.drafter.layers, self.drafter.target.device
            return self._meter.call("draft", device, fed, compute, layer_rows=rows, forward=False)

    def logits(self, h: Tensor, predicts: Sequence[int] | int) -> Tensor:
        """Logits [n, v] in float32 of what the head reads, [n, d]: the drafter's own head, or the target's. predicts:
        the positions that the rows speak of. Counts as a forward."""
        if (head := self.drafter.head) is None:
            z: Tensor = self.target.unembed(h, self.drafter.vocabulary, normed=True, predicts=predicts)
            return z
        return self.forward(lambda: torch.nn.functional.linear(h, head), predicts)

    def forward(self, compute: Any, predicts: Sequence[int] | int) -> Tensor:
        """Logits [n, v] in float32 that `compute` gives: one forward of the draft. predicts: as in `logits`."""
        with torch.no_grad():
            z: Tensor = self._meter.call("draft", self.drafter.target.device, 0, lambda: compute().float())
        if self._meter.forbidden:
            forbid(z, predicts, self._meter.forbidden, self.drafter.vocabulary)
        return z

    def tokens(self, columns: Tensor) -> Tensor:
        """The target's tokens of columns of the draft."""
        vocabulary = self.drafter.vocabulary
        return columns if vocabulary is None else vocabulary[columns]


def width_of(target: Any) -> int:
    """Width of the target's stream. Raises UserError for a target whose layers cannot be read."""
    config = getattr(target, "config", None)
    if "layered" not in kinds_of(target) or config is None:
        raise UserError(
            f"a drafter reads hidden states, and {target.record.name} cannot be run layer by layer here; choose a "
            "Llama- or Qwen-like target."
        )
    return int(config.hidden_size)


def own_tensors(thing: Any) -> list[Tensor]:
    """The tensors that a drafter, one of its layers or a list of either holds."""
    if isinstance(thing, Tensor):
        return [thing]
    if isinstance(thing, dict):
        thing = list(thing.values())
    elif isinstance(thing, (Drafter, Layer)):
        thing = [value for name, value in vars(thing).items() if name != "vocabulary"]
    return [tensor for part in thing for tensor in own_tensors(part)] if isinstance(thing, (list, tuple)) else []
