"""Three small mixtures of experts that differ in their router and its losses only (BlockFFN, arXiv 2507.08771): the
k best experts of each token, ReLU and RMSNorm, and the same with the two losses of chunk-level sparsity.

Departs from the paper in its size (1.6 M parameters, 32 experts of width 32) and so in the factors of the losses, a
tenth of the published ones: with those, one or two experts a layer remain here. They stay as they are instead of
following the loss; the two losses are summed over the layers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from engines.models.measures.activation import cls, locality_loss, reuse, sparsity_loss
from engines.models.networks.block_ffn import BlockFFN, BlockFFNConfig, BlockFFNForCausalLM
from engines.training.architectures.corpus import Packed
from engines.training.architectures.language import POSITIONS, Architecture, command_of, token_loss
from engines.training.core.commands import Command

LOCALITY, SPARSITY = 5e-4, 8e-2  # the factors lambda_al and lambda_cs
CHUNK = 32  # tokens of a chunk of the sparsity loss
CHUNKS = (1, 2, 4, 8, 16, 32)
NOTE = "one of three that differ in their router only; briefly trained: its answers have the right form and wrong words"


@contextmanager
def scores(network: PreTrainedModel, shape: tuple[int, ...]) -> Iterator[list[tuple[Tensor, Tensor]]]:
    """Collects, layer by layer, scores and weights [R, T, N] of the routers in the forward of rows of that shape
    [R, T] inside."""
    found: list[tuple[Tensor, Tensor]] = []

    def collect(_module: Any, _given: Any, out: tuple[Tensor, Tensor, Tensor]) -> None:
        found.append((out[0].unflatten(0, shape), out[1].unflatten(0, shape)))

    gates = [module.gate for module in network.modules() if isinstance(module, BlockFFN)]
    hooks = [gate.register_forward_hook(collect) for gate in gates]
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()


class Mixture(Architecture):
    """One of the three."""

    steps = 400

    def __init__(self, name: str, title: str, note: str, router: str, losses: bool) -> None:
        self.name, self.title, self.note, self.router, self.losses = name, title, note, router, losses
        self.settings = repr((router, losses, LOCALITY, SPARSITY, CHUNK))

    def build(self, vocabulary: int, eos_id: int, pad_id: int) -> BlockFFNForCausalLM:
        """Four layers of width 128, 32 experts of width 32 in each."""
        return BlockFFNForCausalLM(
            BlockFFNConfig(
                num_experts=32,
                expert_size=32,
                router=self.router,
                num_experts_per_tok=6,
                vocab_size=vocabulary,
                hidden_size=128,
                num_hidden_layers=4,
                num_attention_heads=4,
                num_key_value_heads=4,
                max_position_embeddings=POSITIONS,
                tie_word_embeddings=True,
                bos_token_id=None,
                eos_token_id=eos_id,
                pad_token_id=pad_id,
            )
        )

    def loss(self, network: PreTrainedModel, batch: Packed, share: float) -> tuple[Tensor, dict[str, float]]:
        """Next tokens, and the two losses where they are wanted."""
        with scores(network, batch.ids.shape) as found:
            value = token_loss(network, batch)
        facts = {"loss": value.item(), "on": float(torch.stack([a for _, a in found]).ne(0).float().mean())}
        if self.losses:
            locality = torch.stack([locality_loss(a0, batch.documents) for a0, _ in found]).sum()
            sparsity = torch.stack([sparsity_loss(a0, CHUNK) for a0, _ in found]).sum()
            value = value + LOCALITY * locality + SPARSITY * sparsity
            facts |= {"locality": locality.item(), "sparsity": sparsity.item()}
        return value, facts

    @torch.no_grad()
    def measured(self, network: PreTrainedModel, packed: Packed) -> dict[str, Any]:
        """Sparsity by chunk length, reuse, and how many experts are ever used: means over layers and rows."""
        with scores(network, packed.ids.shape) as found:
            network(input_ids=packed.ids)
        layers = [a != 0 for _, a in found]

        def mean(values: Iterable[float | None]) -> float | None:
            known = [value for value in values if value is not None]
            return round(sum(known) / len(known), 4) if known else None

        return {
            "sparsity_by_chunk": {str(c): mean([cls(row, c) for on in layers for row in on]) for c in CHUNKS},
            "reuse": mean([reuse(row) for on in layers for row in on]),
            "experts_ever_used": [int(on.flatten(0, -2).any(0).sum()) for on in layers],
            "experts": layers[0].shape[-1],
        }


MIXTURES = (
    Mixture("tiny-moe", "Tiny mixture of experts (each token takes its 6 best of 32)", NOTE, "topk", False),
    Mixture(
        "tiny-blockffn",
        "Tiny BlockFFN (a token takes as many experts as it needs, as its neighbours do)",
        NOTE,
        "relu",
        True,
    ),
    Mixture(
        "tiny-blockffn-plain",
        "Tiny BlockFFN without its losses (a token takes as many experts as it needs)",
        NOTE,
        "relu",
        False,
    ),
)


def compared(cards: Mapping[str, Mapping[str, Any]]) -> tuple[list[str], list[list[Any]]] | None:
    """(head, rows) of a table of the mixtures among these cards by folder name; None where there is none."""
    head = ["model", "parameters", "steps", "loss", "answers right", "TLS", "CLS 8", "CLS 32", "reuse"]
    rows: list[list[Any]] = []
    for name in (what.name for what in MIXTURES if what.name in cards):
        card, held = cards[name], cards[name]["held_out"]
        right, sparse = list(held["exact_match"].values()), held["sparsity_by_chunk"]
        row = [name, f"{card['parameters']:,}", card["steps"], held["loss"], f"{sum(right) / len(right):.0%}"]
        row += [*(sparse[c] for c in ("1", "8", "32")), held["reuse"]]
        used = ", ".join(map(str, held["experts_ever_used"]))
        rows.append([*row, f"{used} of {held['experts']}", f"`{card['command']}`"])
    return ([*head, "experts ever used, by layer", "made again by"], rows) if rows else None


def commands() -> dict[str, Command]:
    """One for each mixture."""
    return {what.name: command_of(what) for what in MIXTURES}
