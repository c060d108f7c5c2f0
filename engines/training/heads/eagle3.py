"""Trains EAGLE-3's layer for a model: python -m engines.training eagle3-layer MODEL

A row reads the token behind it and three states of the model, those before its layers 1, 3 and 5, and learns what the
model says one place on, for a draft vocabulary of its own; unrolled over three places as it drafts (training-time test,
arXiv 2503.01840, section 3.2; SafeAILab/EAGLE, eagle/traineagle3/cnets.py). The model is frozen and never run.

We depart in: three places (released: seven) and the same weight for each (released: 0.8 to the place), the teacher's
whole distribution over the draft vocabulary, a layer that begins as the identity on a sum of the three states, an own
head that begins as the model's, and a small model's learning rate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from engines.methods.heads import eagle, eagle3
from engines.models.drafters.eagle import Eagle3
from engines.training.core.commands import Command
from engines.training.core.text_cache import Teacher, TextCache
from engines.training.heads.drafters import command, tokens_per_call
from engines.training.heads.formats import Published, RowsTraining, layer, sizes

READS, TOKENS, WIDER = (1, 3, 5), 512, 2  # WIDER: channels of the feed-forward part, in widths of the model


class Eagle3Training(RowsTraining):
    """The layer on whole texts."""

    kind = "EAGLE-3's draft layer"
    begins = "untrained"
    reads, draft_vocabulary = READS, TOKENS

    def __init__(self, name: str, model: Any, cache: TextCache, teacher: Teacher, seed: int) -> None:
        super().__init__(name, lambda: self.made(model, teacher.ids), cache, teacher, seed, model)

    @staticmethod
    def made(model: Any, ids: Tensor) -> Published:
        """A layer before its training, for the draft vocabulary ids [v]."""
        d, V = model.model.config.hidden_size, model.vocab_size
        known = torch.zeros(V, dtype=torch.bool)
        known[ids] = True
        at = "layers.0."
        tensors = {
            "fc.weight": torch.cat([torch.eye(d) / len(READS)] * len(READS), 1),
            **layer(at, d, WIDER * d, 2 * d),
            **{f"{at}{one}.weight": torch.ones(d) for one in ("input_layernorm", "hidden_norm")},
            "norm.weight": torch.ones(d),
            "lm_head.weight": model.model.get_output_embeddings().weight.detach()[ids].clone(),
            "d2t": ids - torch.arange(len(ids)),
            "t2d": known,
        }
        inner = sizes(model, WIDER * d, model_type="llama", num_hidden_layers=1)
        config = {
            "speculators_model_type": Eagle3.format.replace("-", ""),  # as speculators calls it
            "draft_vocab_size": len(ids),
            "eagle_aux_hidden_state_layer_ids": list(READS),
            "norm_before_residual": False,
            "transformer_layer_config": inner,
        }
        return Published(config, tensors, model)

    def start(self) -> None:
        """It begins as `made` says."""


def calls(model: Any, asked: Sequence[list[int]]) -> dict[str, Any]:
    """Tokens per model call of tree and chain, and of the control's."""
    own, control = eagle3.decode.info.slug, eagle.decode.info.slug
    return {
        **tokens_per_call("tree_12_nodes", own, model, asked),
        **tokens_per_call("chain_of_4", own, model, asked, {"top_k": 1}),
        **tokens_per_call(f"{control}_12_nodes", control, model, asked),
        **tokens_per_call(f"{control}_chain_of_4", control, model, asked, {"top_k": 1}),
    }


def commands() -> dict[str, Command]:
    """EAGLE-3's draft layer of a layered model with at least six layers."""
    return command("eagle3-layer", "MODEL's draft layer (EAGLE-3)", str(__doc__), Eagle3Training, calls)
