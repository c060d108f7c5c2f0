"""Process reward models: small networks that read a partial solution and say how likely all of its steps are right.

A network belongs to the policy whose steps it learned from (the part `prm` of that model) and reads the same tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from engines.core.errors import UserError
from engines.core.lazy import torch
from engines.core.paths import shared as shared_length

if TYPE_CHECKING:
    from torch import Tensor, nn

HEADS = 4  # of attention in each layer
Counted = Callable[[int, Callable[[], Any], int], Any]
"""Runs a forward of so many rows, which takes so many layer-rows, and counts it: (rows, what to run, layer-rows)."""


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
    return network["body"](ids, use_cache=False).last_hidden_state


class StepReward:
    """A network with its weights, ready to score. tensors: its state, and `positions`, the most tokens it reads. call:
    runs each forward, and may count it.

    What it has read it keeps, so that of a solution which goes on just the new tokens are read, and a question that
    several begin with is read once; a text that it knows has the r that it had."""

    def __init__(self, tensors: Mapping[str, Tensor], call: Counted = lambda rows, run, layer_rows: run()) -> None:
        from engines.models.layers.slots import SlotCache

        state = {name: tensor.float() for name, tensor in tensors.items() if name != "positions"}
        vocab_size, width = state["body.embed_tokens.weight"].shape
        mlp = state["body.layers.0.mlp.up_proj.weight"].shape[0]
        layers = len({name.split(".")[2] for name in state if name.startswith("body.layers.")})
        self.positions = int(tensors["positions"])
        self.network = build(vocab_size, width, layers, mlp, self.positions)
        self.network.load_state_dict(state)
        self.network.eval()
        self.layers, self._call = layers, call
        self._known: dict[tuple[int, ...], float] = {}
        self._read: list[tuple[list[int], SlotCache]] = []  # texts, none of which begins another, and what it kept

    def score(self, solutions: Sequence[Sequence[int]]) -> list[float]:
        """r in [0, 1] of each partial solution (token ids, the question first): one forward for each new one, over
        the tokens behind what it shares with others that were read. Raises UserError for one that is longer than the
        network reads."""
        if longest := max((len(ids) for ids in solutions if len(ids) > self.positions), default=0):
            raise UserError(
                f"a solution has {longest} tokens and the reward model reads {self.positions}; lower max_new_tokens."
            )
        for ids in map(tuple, solutions):
            if ids not in self._known:
                self._known[ids] = self._one(list(ids))
        return [self._known[tuple(ids)] for ids in solutions]

    def _one(self, ids: list[int]) -> float:
        from engines.models.layers.slots import SlotCache

        shared, nearest = max(
            ((shared_length(ids, text), i) for i, (text, _) in enumerate(self._read)), default=(0, -1)
        )
        shared = min(shared, len(ids) - 1)  # the last row says r
        cache = SlotCache(self.layers, len(ids))
        if shared:
            for mine, theirs in zip(cache.layers, self._read[nearest][1].layers, strict=True):
                mine.update(theirs.keys[:, :, :shared], theirs.values[:, :, :shared])
        n = len(ids) - shared

        def forward() -> float:
            with torch.inference_mode():
                x = self.network["body"](
                    input_ids=torch.tensor([ids[shared:]]),
                    position_ids=torch.arange(shared, len(ids))[None],
                    past_key_values=cache,
                    use_cache=True,
                ).last_hidden_state
                return float(self.network["head"](x[0, -1])[0].sigmoid())

        r: float = self._call(n, forward, n * self.layers)
        self._read = [entry for entry in self._read if entry[0] != ids[: len(entry[0])]] + [(ids, cache)]
        return r
