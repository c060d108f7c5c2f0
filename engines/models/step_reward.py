"""Process reward models: small networks that read a partial solution and say how likely all of its steps are right.

A network belongs to the policy whose steps it learned from (the part `prm` of that model) and reads the same tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from engines.core.errors import UserError
from engines.core.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor, nn

HEADS = 4  # of attention in each layer


def build(vocab_size: int, width: int, layers: int, mlp: int, positions: int) -> nn.ModuleDict:
    """The network: a causal body of the Llama kind, and one logit behind each token."""
    from torch import nn
    from transformers import LlamaConfig, LlamaModel

    config = LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        intermediate_size=mlp,
        max_position_embeddings=positions,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=0,
    )
    return nn.ModuleDict({"body": LlamaModel(config), "head": nn.Linear(width, 1)})


def states(network: nn.ModuleDict, ids: Tensor) -> Tensor:
    """Token ids [n, L] -> what the body holds behind each token [n, L, width]."""
    found: Tensor = network["body"](ids, use_cache=False).last_hidden_state
    return found


class StepReward:
    """A network with its weights, ready to score. tensors: its state, and `positions`, the most tokens it reads."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        state = {name: tensor.float() for name, tensor in tensors.items() if name != "positions"}
        vocab_size, width = state["body.embed_tokens.weight"].shape
        mlp = state["body.layers.0.mlp.up_proj.weight"].shape[0]
        layers = len({name.split(".")[2] for name in state if name.startswith("body.layers.")})
        self.positions = int(tensors["positions"])
        self.network = build(vocab_size, width, layers, mlp, self.positions)
        self.network.load_state_dict(state)
        self.network.eval()

    def score(self, solutions: Sequence[Sequence[int]]) -> list[float]:
        """r in [0, 1] of each partial solution (token ids, the question first): one call for each. Raises UserError for
        one that is longer than the network reads."""
        if longest := max((len(ids) for ids in solutions if len(ids) > self.positions), default=0):
            raise UserError(
                f"a solution has {longest} tokens and the reward model reads {self.positions}; lower max_new_tokens."
            )
        if not solutions:
            return []
        rows = torch.zeros(len(solutions), max(map(len, solutions)), dtype=torch.long)
        for row, ids in zip(rows, solutions, strict=True):
            row[: len(ids)] = torch.tensor(list(ids))
        with torch.inference_mode():
            z = self.network["head"](states(self.network, rows))[..., 0]
        return [float(z[i, len(ids) - 1].sigmoid()) for i, ids in enumerate(solutions)]
