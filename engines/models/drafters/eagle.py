"""EAGLE-1 and EAGLE-2 as SafeAILab publishes them (arXiv 2401.15077 and 2406.16858; model/cnets1.py): one set of files,
EAGLE-2 only lets confidence shape the tree.

A row is fc [e; h] + b, the token's embedding and the target's state one place before it behind the final norm; then
decoder layers, of which the first has no norm before its attention. The target's head reads the raw output, and so does
the next row: there is no norm behind the layers."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, cat
from torch.nn import functional as F

from engines.models.drafters.base import RowDrafter
from engines.models.drafters.files import Checkpoint
from engines.models.drafters.network import Layer, Pasts, Rotation, Sizes
from engines.models.drafters.tensors import Tensors, count


class Eagle(RowDrafter):
    """EAGLE-1 or EAGLE-2."""

    format, title = "eagle-2", "EAGLE-1 and EAGLE-2 (SafeAILab)"

    def __init__(self, checkpoint: Checkpoint, target: Any, t: Tensors) -> None:
        super().__init__(checkpoint, target, t)
        d, self.reads = self.width, (self.num_layers,)
        self.fc = t.take("fc.weight", d, 2 * d, why=f"the target is {d} wide and its head reads the drafter's output")
        self.bias = t.take("fc.bias", d) if checkpoint.config.get("bias", True) else None
        self.table = t.maybe("embed_tokens.weight", self.vocab_size, d)
        sizes = Sizes.of(checkpoint.config, d, checkpoint.name)
        self.layers = count(checkpoint.shapes, "layers.")
        windows = sizes.config.windows(self.layers, checkpoint.name)
        self.stack = [Layer(t, f"layers.{i}.", sizes, d, i > 0, window) for i, window in enumerate(windows)]
        self.rotation = Rotation(sizes, t.device)

    def rows(self, e: Tensor, s: Tensor, pasts: Pasts, at: Tensor, sees: Tensor | None) -> Tensor:
        """See `RowDrafter`."""
        x = F.linear(cat([e, s], -1), self.fc, self.bias)
        rotation = self.rotation.at(at, x.dtype)
        seen = pasts.seen(at, sees, self.stack)
        for layer, past, some in zip(self.stack, pasts.layers, seen, strict=True):
            x = layer(x, rotation, past, some)
        return x


def is_eagle(config: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether these are the files of EAGLE-1 and EAGLE-2: no norm before the first layer, fc reads twice its width."""
    fc = shapes.get("fc.weight", (0, 0))
    return (
        fc[-1] == 2 * fc[0]
        and "layers.0.mlp.gate_proj.weight" in shapes
        and ("layers.0.input_layernorm.weight" not in shapes)
    )
