"""Networks of transformers' own classes: two thin layers with random weights; and when two tensors are the same."""

from typing import Any

import torch
import transformers

SIZE = {
    "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "initializer_range": 0.3,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128,
}  # fmt: skip


def stock(family: str, *, theta: float | None = None, head: str = "ForCausalLM", **more: Any) -> Any:
    """family: the name of its classes, `Llama` for LlamaConfig and LlamaForCausalLM. theta: the base of its turns;
    more: fields of its config, None for one that it does not have."""
    torch.manual_seed(0)
    turns = {} if theta is None else {"rope_parameters": {"rope_type": "default", "rope_theta": theta}}
    given = {name: value for name, value in {**SIZE, **turns, **more}.items() if value is not None}
    config = getattr(transformers, f"{family}Config")(**given)
    return getattr(transformers, f"{family}{head}")(config).eval()


def close(a: torch.Tensor, b: torch.Tensor, atol: float = 1e-4) -> None:
    """Equal but for rounding."""
    torch.testing.assert_close(a, b, atol=atol, rtol=0)
