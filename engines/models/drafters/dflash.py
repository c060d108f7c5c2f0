"""DFlash (z-lab/dflash; arXiv 2602.06036): a small network that fills a block of masks in one pass, as diffusion models
do, behind the target's states.

The states of the text, drawn together by fc and normed, give keys and values in each layer and are changed by none; the
block is [newest token, mask, mask ...], and its rows see the context and each other, both ways. Slot i > 0 predicts the
token at slot i. Embeddings and head are the target's. z-lab's files (`target_layer_ids`: outputs of layers) and
speculators' (`aux_hidden_state_layer_ids`: inputs)."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, arange
from torch.nn import functional as F

from engines.core.errors import UserError
from engines.models.drafters.base import RAW, CountedDrafter, Drafter
from engines.models.drafters.configs import layer_config
from engines.models.drafters.files import Checkpoint, Shapes
from engines.models.drafters.network import Layer, Pasts, Rotation, Sizes
from engines.models.drafters.tensors import Tensors, count, integer, token_id


class DFlash(Drafter):
    """A block drafter. block: its length, the newest token included; it drafts one less."""

    format, title = "dflash-block", "DFlash"

    @staticmethod
    def like(shapes: Shapes) -> bool:
        """A norm of the context beside layers that have their own."""
        names = ("hidden_norm.weight", "fc.weight", "layers.0.input_layernorm.weight")
        return all(name in shapes for name in names)

    def __init__(self, checkpoint: Checkpoint, target: Any, t: Tensors) -> None:
        super().__init__(checkpoint, target, t)
        config, name = checkpoint.config, checkpoint.name
        held = config.get("dflash_config")
        own = {**(held if isinstance(held, Mapping) else {}), **config}
        inner = layer_config(config, name, "transformer_layer_config")
        d = t.shape("hidden_norm.weight")[0]
        if d != self.width:
            raise UserError(
                f"'{name}' is {d} wide and {self.target.name} {self.width}; its embeddings and its output head are the "
                "target's, so choose a drafter that was made for this target."
            )
        sizes, self.layers = Sizes.of(inner, d, name), count(checkpoint.shapes, "layers.")
        if any(sizes.config.windows(self.layers, name)):
            raise UserError(f"'{name}' has sliding layers; a DFlash drafter with full attention can be computed.")
        if own.get("sample_from_anchor"):
            raise UserError(f"'{name}' drafts from its anchor (sample_from_anchor); the form without can be computed.")
        self.block = integer(own, "block_size", name)
        self.k = self.block - 1
        self.mask_id = token_id(own, "mask_token_id", self.vocab_size, name)
        self.reads = self._reads(own, name)
        wide = len(self.reads) * self.width
        self.fc = t.take("fc.weight", d, wide, why=f"it reads {len(self.reads)} states of {self.width} numbers")
        self.state_norm, self.out_norm = t.take("hidden_norm.weight", d), t.take("norm.weight", d)
        self.stack = [Layer(t, f"layers.{i}.", sizes, d) for i in range(self.layers)]
        self.take_vocabulary(t)
        self.head = t.maybe("lm_head.weight", self.columns, d)
        self.table = t.maybe("embed_tokens.weight", self.vocab_size, d)
        if self.head is None and self.vocabulary is not None:
            raise UserError(f"'{name}' has a draft vocabulary and no lm_head for it; download it again.")
        self.rotation = Rotation(sizes, t.device)

    def _reads(self, own: Mapping[str, Any], name: str) -> tuple[int, ...]:
        """Which states, as `extend` numbers them. z-lab's code takes transformers' `hidden_states[i + 1]`, which behind
        the last layer is normed; speculators' ids are inputs of layers, and the last of them is raw."""
        outputs, inputs = own.get("target_layer_ids"), own.get("aux_hidden_state_layer_ids")
        ids = outputs if outputs is not None else inputs
        whole = isinstance(ids, list) and bool(ids) and all(isinstance(i, int) for i in ids)
        shifted = [i + (outputs is not None) for i in ids] if whole and ids else []
        if not whole or not all(0 <= i <= self.num_layers for i in shifted):
            raise UserError(
                f"'{name}' reads the layers {str(ids)[:60]}, and {self.target.name} has {self.num_layers}; choose a "
                "drafter that was made for this target."
            )
        return tuple(RAW if outputs is None and i == self.num_layers else i for i in shifted)

    def pasts(self) -> Pasts:
        """Keys and values of the context: nothing yet."""
        return Pasts(self.layers)

    def read(self, states: Tensor, pasts: Pasts) -> None:
        """Take states [n, D] of new text into the context."""
        x = self.stack[0].norm(F.linear(states, self.fc), self.state_norm)
        m = pasts.length
        rotation = self.rotation.at(arange(m, m + len(x), device=x.device), x.dtype)
        for layer, past in zip(self.stack, pasts.layers, strict=True):
            past.add(*layer.keys(x, rotation))

    def fill(self, run: CountedDrafter, newest: int, states: Tensor, pasts: Pasts, b: int) -> Tensor:
        """What the head reads of the slots 1 ... b - 1 of a block, [b - 1, d], in one pass: `states` [n, D] of new
        text join the context first, the block's own keys do not stay."""
        e = run.embed([newest, *[self.mask_id] * (b - 1)])

        def compute() -> Tensor:
            self.read(states, pasts)
            m = pasts.length
            x = self.through(e, pasts, arange(m, m + b, device=e.device), None)
            pasts.crop(m)
            return self.stack[0].norm(x, self.out_norm)

        out: Tensor = run.call(b, compute)
        return out[1:]
