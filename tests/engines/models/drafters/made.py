"""Random pairs of any size, in a published layout: what costs and bounds are measured on."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

SMOLLM2 = {  # its sizes
    "vocab_size": 49152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
}


def target(folder: Path, **sizes: int) -> Path:
    """A Llama of these sizes with random weights."""
    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig(tie_word_embeddings=True, max_position_embeddings=512, **sizes)).save_pretrained(
        folder
    )
    return folder


def eagle(folder: Path, **sizes: int) -> Path:
    """An EAGLE-1/-2 drafter for it: fc, one layer, no embeddings of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(1)
    d, f = sizes["hidden_size"], sizes["intermediate_size"]
    kv = d // sizes["num_attention_heads"] * sizes["num_key_value_heads"]
    shapes = {
        "fc.weight": (d, 2 * d),
        "fc.bias": (d,),
        **{f"layers.0.self_attn.{one}_proj.weight": (d if one in "qo" else kv, d) for one in "qkvo"},
        "layers.0.mlp.gate_proj.weight": (f, d),
        "layers.0.mlp.up_proj.weight": (f, d),
        "layers.0.mlp.down_proj.weight": (d, f),
    }
    tensors = {name: torch.randn(shape) * shape[-1] ** -0.5 for name, shape in shapes.items()}
    save_file(tensors | {"layers.0.post_attention_layernorm.weight": torch.ones(d)}, folder / "model.safetensors")
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", **sizes}
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    return folder
