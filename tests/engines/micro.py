"""A random Llama so small that a test can train it, with the tiny models' tokenizer."""

from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from engines.training.tiny.tokenizer import load_tokenizer


def llama(layers: int, *, seed: int, **more: Any) -> LlamaForCausalLM:
    """more: further fields of its config."""
    tokenizer = load_tokenizer()
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=48, num_hidden_layers=layers,
        num_attention_heads=4, num_key_value_heads=2, eos_token_id=tokenizer.eos_token_id,
        tie_word_embeddings=True, **more,
    )  # fmt: skip
    return LlamaForCausalLM(config)
