"""The networks of the recipes, all stock transformers classes, and the loss on a batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerBase

from engines.models.loading.weights import pretrained
from engines.training.core.data import IGNORED, Batch
from engines.training.tiny.recipes import Recipe

POSITIONS = 512
Network: TypeAlias = LlamaForCausalLM


def build(recipe: Recipe, tokenizer: PreTrainedTokenizerBase, start: Path | None = None) -> Network:
    """A network of the recipe's size, bidirectional for the diffusion kinds, with the weights of the folder `start`
    where one is given."""
    torch.manual_seed(recipe.seed)
    special: dict[str, Any] = {
        "bos_token_id": None,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=recipe.hidden,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        num_key_value_heads=recipe.heads,
        intermediate_size=recipe.mlp,
        max_position_embeddings=POSITIONS,
        tie_word_embeddings=True,
        **special,
    )
    if recipe.kind != "causal":
        config.update({"is_causal": False, "mask_token_id": tokenizer.mask_token_id, "shift_logits": True})
    if recipe.kind == "block":
        config.update({"block_size": recipe.block})
    network = LlamaForCausalLM(config)
    if start is not None:
        network.load_state_dict(load_network(start).state_dict())
    return network


def load_network(folder: Path) -> Network:
    """The weights of a folder, in float32."""
    config = LlamaConfig.from_pretrained(folder)
    network: Network = pretrained(LlamaForCausalLM.__name__, folder, config, dtype=torch.float32).eval()
    return network


def loss_of(network: Network, batch: Batch) -> Tensor:
    """Mean cross-entropy over the targets of a batch; the output layer runs on the rows that have one."""
    inputs, targets = {key: value for key, value in batch.items() if key != "targets"}, batch["targets"]
    wanted = targets != IGNORED
    logits = network.lm_head(network.model(**inputs, use_cache=False).last_hidden_state[wanted])
    return F.cross_entropy(logits.float(), targets[wanted])
