"""EAGLE-3 (arXiv 2503.01840) in both published forms, SafeAILab's (`midlayer.`) and speculators' (`layers.0.`), and
P-EAGLE, which adds a learned state for the places that have none (arXiv 2602.01469).

A row reads three states of the target, drawn together by fc, and the embedding of the next token. The first layer's
attention reads [norm(e); norm(s)], twice as wide; what it adds to is s (or its norm, `norm_before_residual`). The head
is the drafter's own, over a draft vocabulary; the next row reads the output before the norm (or behind it,
`norm_output`). fc acts on states of the target only.

EAGLE-1 and EAGLE-2 as SafeAILab publishes them (arXiv 2401.15077 and 2406.16858; model/cnets1.py): one set of files,
EAGLE-2 only lets confidence shape the tree.

A row is fc [e; h] + b, the token's embedding and the target's state one place before it behind the final norm; then
decoder layers, of which the first has no norm before its attention. The target's head reads the raw output, and so does
the next row: there is no norm behind the layers."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, arange, cat
from torch.nn import functional as F

from engines.core.errors import UserError
from engines.models.drafters.base import RAW, CountedDrafter, RowDrafter
from engines.models.drafters.configs import EagleConfig, layer_config, typed_config
from engines.models.drafters.files import Checkpoint, Shapes
from engines.models.drafters.network import Layer, Pasts, Rotation, Sizes, causal
from engines.models.drafters.tensors import Tensors, count, token_id


class Eagle(RowDrafter):
    """EAGLE-1 or EAGLE-2."""

    format, title = "eagle-2", "EAGLE-1 and EAGLE-2 (SafeAILab)"

    @staticmethod
    def like(shapes: Shapes) -> bool:
        """No norm before the first layer, and fc reads twice its width."""
        fc = shapes.get("fc.weight", (0, 0))
        plain = "layers.0.mlp.gate_proj.weight" in shapes and "layers.0.input_layernorm.weight" not in shapes
        return plain and fc[-1] == 2 * fc[0]

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
        return self.through(F.linear(cat([e, s], -1), self.fc, self.bias), pasts, at, sees)


class Eagle3(RowDrafter):
    """EAGLE-3; also its version 3.1 (a norm for each state, the normed state fed back)."""

    format, title = "eagle-3", "EAGLE-3"

    @staticmethod
    def like(shapes: Shapes) -> bool:
        """A norm of the state beside that of the embedding, and an own head."""
        at = [f"{first}hidden_norm.weight" in shapes for first in ("midlayer.", "layers.0.")]
        return any(at) and "fc.weight" in shapes and "lm_head.weight" in shapes

    def __init__(self, checkpoint: Checkpoint, target: Any, t: Tensors) -> None:
        super().__init__(checkpoint, target, t)
        config, name = checkpoint.config, checkpoint.name
        inner = layer_config(config, name, "transformer_layer_config")
        own = typed_config(EagleConfig, config, name)
        self.first = "midlayer." if "midlayer.hidden_norm.weight" in t else "layers.0."
        self.d = d = t.shape(f"{self.first}hidden_norm.weight")[0]
        ids = layer_ids(own, self.num_layers, name)
        self.reads = tuple(RAW if i == self.num_layers else i for i in ids)
        wide = len(ids) * self.width
        self.fc = t.take(
            "fc.weight",
            d,
            wide,
            why=f"{self.target.name} gives {len(ids)} states of {self.width} numbers, {wide} together",
        )
        self.residual_normed = bool(own.flag(name, "norm_before_residual"))
        self.output_normed = bool(own.flag(name, "norm_output", "return_hidden_post_norm"))
        self._take_norms(t, own, len(ids))
        sizes = Sizes.of(inner, d, name)
        self.layers = count(checkpoint.shapes, "layers.", 1)  # P-EAGLE has several
        prefixes = [self.first, *(f"layers.{i}." for i in range(1, self.layers))]
        self.e_norm = t.take(f"{self.first}input_layernorm.weight", d)
        self.s_norm = t.take(f"{self.first}hidden_norm.weight", d)
        windows = sizes.config.windows(self.layers, name)
        self.stack = [
            Layer(t, at, sizes, d if i else 2 * d, input_norm=i > 0, window=window)
            for i, (at, window) in enumerate(zip(prefixes, windows, strict=True))
        ]
        self.out_norm = t.take("norm.weight", d)
        self.eps = sizes.eps
        self.take_vocabulary(t)
        self.head = t.take("lm_head.weight", self.columns, d, why=f"it drafts {self.columns} tokens")
        self.table = t.maybe("embed_tokens.weight", self.vocab_size, d)
        if self.table is None and d != self.width:
            raise UserError(
                f"'{name}' is {d} wide and holds no embed_tokens, and those of {self.target.name} are {self.width} "
                "wide; choose a drafter that was made for this target."
            )
        self.rotation = Rotation(sizes, t.device)
        self.k = proposed(config)

    def _take_norms(self, t: Tensors, own: EagleConfig, states: int) -> None:
        """The norms before fc: one over all states, or one for each; the flags of the config and the tensors have to
        say the same."""
        name, wide = t.checkpoint.name, states * self.width
        whole, each = "input_norm.weight" in t, "fc_norm.0.weight" in t
        if whole and each:
            raise UserError(f"'{name}' has input_norm and fc_norm, and one of them can be meant; download it again.")
        for flag, there, tensor in (("norm_before_fc", whole, "input_norm"), ("fc_norm", each, "fc_norm.0")):
            if (wanted := own.flag(name, flag)) is not None and wanted != there:
                raise UserError(
                    f"config.json of '{name}' says {flag}={wanted}, and the weights "
                    f"{'have' if there else 'lack'} {tensor}; one of them is wrong, so download it again."
                )
        self.input_norm = t.take("input_norm.weight", wide) if whole else None
        self.fc_norms = [t.take(f"fc_norm.{i}.weight", self.width) for i in range(states)] if each else []

    def project(self, states: Tensor) -> Tensor:
        """See `RowDrafter`: the norms that there are, then fc."""
        norm = self.stack[0].norm
        if self.input_norm is not None:
            states = norm(states, self.input_norm)
        if self.fc_norms:
            pieces = states.split(self.width, -1)
            states = cat([norm(piece, w) for piece, w in zip(pieces, self.fc_norms, strict=True)], -1)
        return F.linear(states, self.fc)

    def rows(self, e: Tensor, s: Tensor, pasts: Pasts, at: Tensor, sees: Tensor | None) -> Tensor:
        """See `RowDrafter`."""
        norm = self.stack[0].norm
        s_normed = norm(s, self.s_norm)
        x = s_normed if self.residual_normed else s
        return self.through(x, pasts, at, sees, read=cat([norm(e, self.e_norm), s_normed], -1))

    def spoken(self, out: Tensor) -> Tensor:
        """See `RowDrafter`: behind the norm."""
        return self.stack[0].norm(out, self.out_norm)

    def fed_back(self, out: Tensor) -> Tensor:
        """See `RowDrafter`."""
        return self.spoken(out) if self.output_normed else out


class PEagle(Eagle3):
    """P-EAGLE: drafts k tokens in one pass, the rows behind the newest one with a learned state and a mask token."""

    format, title = "parallel-eagle", "P-EAGLE"

    @staticmethod
    def like(shapes: Shapes) -> bool:
        """Those of EAGLE-3 and the learned state."""
        return "mask_hidden" in shapes and Eagle3.like(shapes)

    def __init__(self, checkpoint: Checkpoint, target: Any, t: Tensors) -> None:
        super().__init__(checkpoint, target, t)
        config = checkpoint.config
        wide = len(self.reads) * self.width
        shape = t.shape("mask_hidden")
        self.mask_hidden = t.take("mask_hidden", *[1] * (len(shape) - 1), wide).reshape(1, wide)
        key = next(
            (field for field in ("mask_token_id", "pard_token", "ptd_token_id") if field in config), "mask_token_id"
        )
        self.mask_id = token_id(config, key, self.vocab_size, checkpoint.name)

    def block(self, run: CountedDrafter, tokens: Sequence[int], states: Tensor, pasts: Pasts, k: int) -> Tensor:
        """Outputs [k, d] of one pass: rows of new text (`tokens`, each with the state before it, `states` [n, D]),
        then k - 1 rows of mask token and learned state. The text's rows stay in `pasts`, the masks' do not."""
        n, m = len(tokens), pasts.length
        e = run.embed([*tokens, *[self.mask_id] * (k - 1)])
        s = cat([states, self.mask_hidden.expand(k - 1, -1)])
        rows = n + k - 1

        def compute() -> Tensor:
            device = s.device
            sees = causal(rows, m, device)
            return self.rows(e, self.project(s), pasts, arange(m, m + rows, device=device), sees)

        out: Tensor = run.call(rows, compute)
        pasts.crop(m + n)
        return out[n - 1 :]


def layer_ids(config: EagleConfig, layers: int, name: str) -> list[int]:
    """The layers of a target of so many layers whose inputs are read: the config's, or 2, n // 2, n - 3. Raises
    UserError where the target has too few."""
    ids = config.layer_ids
    if ids is None:
        ids = [2, layers // 2, layers - 3]
    if not ids or not all(0 <= i <= layers for i in ids):
        raise UserError(
            f"'{name}' reads the layers {str(ids)[:60]}, and the target has {layers}; choose a drafter that was made "
            "for this target."
        )
    if len(set(ids)) < len(ids):
        raise UserError(
            f"'{name}' reads three different layers (2, the middle, the last but two), and a target of {layers} layers "
            f"gives {ids}; it takes one of at least seven."
        )
    return ids


def proposed(config: Mapping[str, Any]) -> int:
    """How many tokens speculators' config proposes at a time; 0 where it does not say."""
    held = config.get("speculators_config")
    methods = held.get("proposal_methods") if isinstance(held, Mapping) else None
    first = methods[0] if isinstance(methods, list) and methods and isinstance(methods[0], Mapping) else {}
    k = first.get("speculative_tokens", 0)
    return k if isinstance(k, int) and not isinstance(k, bool) and k > 0 else 0
