"""Trains an MTP layer for a model: python -m engines.training mtp-layer MODEL

One layer behind the model reads its last state and the token behind it, and learns what the model says one place on,
with the model's own embeddings and head (DeepSeek-V3, arXiv 2412.19437, section 2.2); run again on its own output it
goes on. The model is frozen and never run.

We depart in: the layer comes after the model's training and not with it (as speculators' MTP finetuning), it is
unrolled over three places with its own outputs, as it drafts, and learns the teacher's whole distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from engines.methods.heads import eagle, mtp
from engines.training.core.commands import Command
from engines.training.core.text_cache import Teacher, TextCache
from engines.training.heads.drafters import command, tokens_per_call
from engines.training.heads.formats import Published, RowsTraining, layer, sizes


class MTPTraining(RowsTraining):
    """The layer on whole texts."""

    kind = "an MTP layer"
    begins = "untrained"

    def __init__(self, name: str, model: Any, cache: TextCache, teacher: Teacher, seed: int) -> None:
        super().__init__(name, lambda: self.made(model), cache, teacher, seed, model)

    @staticmethod
    def made(model: Any) -> Published:
        """A layer before its training: it says again what the model has just said."""
        d, at = model.model.config.hidden_size, "mtp_layers.0."
        tensors = {
            f"{at}input_proj.weight": torch.cat([torch.zeros(d, d), torch.eye(d)], 1),
            f"{at}input_layernorm.weight": torch.ones(d),
            **layer(at, d, 3 * d),
            **{f"{at}{one}_layernorm.weight": torch.ones(d) for one in ("token", "hidden")},
            f"{at}final_layernorm.weight": model.model.model.norm.weight.detach().clone(),
        }
        inner = sizes(model, 3 * d, model_type="llama", num_hidden_layers=1)
        return Published({"transformer_layer_config": inner}, tensors, model)

    def start(self) -> None:
        """It begins as `made` says."""


def calls(model: Any, asked: Sequence[list[int]]) -> dict[str, Any]:
    """Tokens per model call, beside the control that drafts a chain as long."""
    ours, control = mtp.decode.info.slug, eagle.decode.info.slug
    return {
        **tokens_per_call("chain_of_3", ours, model, asked),
        **tokens_per_call("chain_of_1", ours, model, asked, {"k": 1}),
        **tokens_per_call("eagle_chain_of_3", control, model, asked, {"top_k": 1, "nodes": 3, "depth": 2}),
    }


def commands() -> dict[str, Command]:
    """An MTP layer of a layered model."""
    return command("mtp-layer", "MODEL's MTP layer", str(__doc__), MTPTraining, calls)
