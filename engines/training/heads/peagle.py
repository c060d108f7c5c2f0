"""Trains P-EAGLE's layers for a model: python -m engines.training parallel-layer MODEL

A row of text reads what EAGLE-3's does, the token behind it and three states of the model, and learns what the model
says one place on. Rows behind it have neither: they read the mask token and one state that is learned, and the row j
places ahead learns what the model says j places further on (P-EAGLE, arXiv 2602.01469; speculators, models/peagle).
Every row of a text is the last one of text for masks of its own, all in one pass, and no group of masks sees another.
The model is frozen and never run.

We depart in: two layers (released: four); every row, with a weight of 0.7 to the place, instead of farther places that
are drawn more and more rarely; the teacher's whole distribution over the draft vocabulary; embeddings that stay the
model's; layers that begin as the identity on a sum of the three states, an own head that begins as the model's, and a
small model's learning rate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from engines.methods.heads import eagle, eagle3, p_eagle
from engines.training.core.commands import Command
from engines.training.core.text_cache import Teacher, Text, TextCache
from engines.training.heads.drafters import command, tokens_per_call
from engines.training.heads.eagle3 import READS, TOKENS, WIDER, Eagle3Training
from engines.training.heads.formats import Published, RowsTraining, layer

LAYERS = 2
MASK = 1  # <mask> of the tokenizer that our models share: it stands in no text


class PEagleTraining(RowsTraining):
    """The layers and the learned state on whole texts."""

    kind = "P-EAGLE's draft layers"
    begins = "untrained"
    reads, draft_vocabulary = READS, TOKENS
    depths, fall = 7, 0.7

    def __init__(self, name: str, model: Any, cache: TextCache, teacher: Teacher, seed: int) -> None:
        super().__init__(name, lambda: self.made(model, teacher.ids), cache, teacher, seed, model)

    @classmethod
    def made(cls, model: Any, ids: Tensor) -> Published:
        """Layers before their training, for the draft vocabulary ids [v]: EAGLE-3's, one behind it, and a random
        state."""
        before = Eagle3Training.made(model, ids)
        held = before.state_dict()
        d = model.model.config.hidden_size
        for i in range(1, LAYERS):
            at = f"layers.{i}."
            held |= {**layer(at, d, WIDER * d), f"{at}input_layernorm.weight": torch.ones(d)}
        proposed = {"proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": cls.depths}]}
        config = {
            **before.config,
            "speculators_model_type": "peagle",
            "mask_token_id": MASK,
            "norm_before_residual": True,
            "transformer_layer_config": {**before.config["transformer_layer_config"], "num_hidden_layers": LAYERS},
            "speculators_config": proposed,
        }
        return Published(config, {**held, "mask_hidden": torch.randn(1, 1, len(READS) * d)}, model)

    def start(self) -> None:
        """It begins as `made` says."""

    def ahead(self, text: Text, j: int, out: Tensor) -> tuple[Tensor, Tensor]:
        """See `RowsTraining`: the mask token and the learned state, wherever the row stands."""
        n, d = len(out), self.drafter
        state: Tensor = d.project(d.mask_hidden)
        return torch.full((n,), d.mask_id), state.expand(n, -1)


def calls(model: Any, asked: Sequence[list[int]]) -> dict[str, Any]:
    """Tokens per model call of one pass, and of the chains of the controls."""
    own, chain, control = p_eagle.decode.info.slug, eagle3.decode.info.slug, eagle.decode.info.slug
    k = {"nodes": 4, "depth": 3, "top_k": 1}
    return {
        **tokens_per_call("4_in_one_pass", own, model, asked, {"k": 4}),
        **tokens_per_call("7_in_one_pass", own, model, asked, {"k": 7}),
        **tokens_per_call("eagle3_chain_of_4", chain, model, asked, k),
        **tokens_per_call(f"{control}_chain_of_4", control, model, asked, k),
    }


def commands() -> dict[str, Command]:
    """P-EAGLE's draft layers of a layered model with at least six layers."""
    return command("parallel-layer", "MODEL's draft layers (P-EAGLE)", str(__doc__), PEagleTraining, calls)
