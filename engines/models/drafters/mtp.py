"""Multi-token prediction layers (DeepSeek-V3, arXiv 2412.19437, section 2.2): one layer that came with the target or
was trained behind it, run k times. Speculators' names (`mtp_layers.0.`) and those inside the shards of Qwen3-Next
and Qwen3.5 (`mtp.`).

A row is fc [norm(e); norm(h)], embedding first; a decoder layer; a final norm. The target's head and the next row read
what is behind that norm. h is the target's state behind its own final norm, as Qwen's engines feed it."""

from typing import Any

from torch import Tensor, cat
from torch.nn import functional as F

from engines.core.errors import UserError
from engines.models.drafters.base import RowDrafter
from engines.models.drafters.configs import layer_config
from engines.models.drafters.files import Checkpoint, Shapes
from engines.models.drafters.network import Layer, Pasts, Rotation, Sizes
from engines.models.drafters.tensors import Tensors, count

SPECULATORS, NATIVE = "mtp_layers.", "mtp."
SHIFTED = ("qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text")  # their norms hold w - 1


class MTP(RowDrafter):
    """One MTP layer."""

    format, title, layers = "mtp-layer", "MTP layer", 1

    @staticmethod
    def like(shapes: Shapes) -> bool:
        """An MTP layer is among them."""
        return "mtp.fc.weight" in shapes or "mtp_layers.0.input_proj.weight" in shapes

    def __init__(self, checkpoint: Checkpoint, target: Any, t: Tensors) -> None:
        super().__init__(checkpoint, target, t)
        config, d = checkpoint.config, self.width
        native = "mtp.fc.weight" in t
        at = NATIVE if native else f"{SPECULATORS}0."
        inner = layer_config(config, checkpoint.name, "transformer_layer_config", "text_config")
        layer = f"{NATIVE}layers.0." if native else at
        held = count(checkpoint.shapes, f"{NATIVE}layers." if native else SPECULATORS)
        if held != 1:
            raise UserError(
                f"'{checkpoint.name}' has {held} MTP layers; one that is run k times can be computed, as Qwen's are."
            )
        if f"{layer}mlp.gate_proj.weight" not in t:
            raise UserError(
                f"the MTP layer of '{checkpoint.name}' is not dense (it lacks {layer}mlp.gate_proj.weight); layers "
                "with experts cannot be computed here."
            )
        offset = 1.0 if native and str(inner.get("model_type")) in SHIFTED else 0.0
        sizes = Sizes.of(inner, d, checkpoint.name, offset)
        names = (
            ("fc", "pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm")
            if native
            else ("input_proj", "token_layernorm", "hidden_layernorm", "final_layernorm")
        )
        why = f"the target is {d} wide"
        self.fc = t.take(f"{at}{names[0]}.weight", d, 2 * d, why=why)
        self.e_norm, self.s_norm, self.out_norm = (
            t.take(f"{at}{norm_name}.weight", d, why=why) for norm_name in names[1:]
        )
        window = 0 if native else sizes.config.windows(1, checkpoint.name)[0]  # a target's own config is of its layers
        self.stack = [Layer(t, layer, sizes, d, window=window)]
        self.rotation, self.reads = Rotation(sizes, t.device), (self.num_layers,)
        if native:  # the target's own tensors lie in the same files
            t.skip(name for name in checkpoint.shapes if not name.startswith(NATIVE))

    def rows(self, e: Tensor, s: Tensor, pasts: Pasts, at: Tensor, sees: Tensor | None) -> Tensor:
        """See `RowDrafter`; behind the final norm."""
        norm = self.stack[0].norm
        x = F.linear(cat([norm(e, self.e_norm), norm(s, self.s_norm)], -1), self.fc)
        return norm(self.through(x, pasts, at, sees), self.out_norm)
