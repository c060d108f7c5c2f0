"""Four small mixtures of experts that differ in their attention only (Step-3, arXiv 2507.19427): MHA, GQA, MLA and MFA
with as many weights, to 0.2 %, on the same rows and steps.

Departs from the paper in its size (0.6 M parameters, 8 experts of width 16 with the two best and a shared one), and in
a loss that keeps the experts in use: that of Switch Transformers (arXiv 2101.03961), as the report names none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from engines.models.networks.four_attentions import FourAttentionsConfig, FourAttentionsForCausalLM, SharedMoE
from engines.training.architectures.corpus import Packed
from engines.training.architectures.language import POSITIONS, Architecture, command_of, token_loss
from engines.training.core.commands import Command

BALANCE = 1e-2  # the factor of the balancing loss, the mean over the layers
NOTE = "one of four that differ in their attention only; briefly trained: its answers have the right form, not always "
NOTE += "the right words"
SHAPES: dict[str, dict[str, int]] = {
    "mha": {"num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 32},
    "gqa": {"num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 32},
    "mla": {"num_attention_heads": 4, "head_dim": 16, "nope_dim": 32, "value_dim": 32, "kv_rank": 64, "query_rank": 44},
    "mfa": {"num_attention_heads": 8, "head_dim": 32, "query_rank": 52},
}
TITLES = {
    "mha": "Tiny MoE with multi-head attention (four key and value heads)",
    "gqa": "Tiny MoE with grouped queries (six query heads on two key and value heads)",
    "mla": "Tiny MoE with latent attention (a latent of 64 and a turned key of 16)",
    "mfa": "Tiny MoE with factorised attention (eight query heads on one key and one value head)",
}


class Attending(Architecture):
    """One of the four."""

    steps = 1000
    stored = "int8"

    def __init__(self, attention: str) -> None:
        self.attention, self.name = attention, f"tiny-{attention}"
        self.title, self.note = TITLES[attention], NOTE
        self.settings = repr((attention, SHAPES[attention], BALANCE))

    def build(self, vocabulary: int, eos_id: int, pad_id: int) -> FourAttentionsForCausalLM:
        """Four layers of width 96."""
        return FourAttentionsForCausalLM(
            FourAttentionsConfig(
                attention=self.attention,
                **SHAPES[self.attention],  # type: ignore[arg-type]
                vocab_size=vocabulary,
                hidden_size=96,
                num_hidden_layers=4,
                max_position_embeddings=POSITIONS,
                tie_word_embeddings=True,
                bos_token_id=None,
                eos_token_id=eos_id,
                pad_token_id=pad_id,
            )
        )

    def loss(self, network: PreTrainedModel, batch: Packed, share: float) -> tuple[Tensor, dict[str, float]]:
        """Next tokens, and the balance of the experts."""
        found: list[tuple[Tensor, Tensor, Tensor]] = []
        gates = [module.gate for module in network.modules() if isinstance(module, SharedMoE)]
        hooks = [gate.register_forward_hook(lambda _m, _given, out: found.append(out)) for gate in gates]
        try:
            value = token_loss(network, batch)
        finally:
            for hook in hooks:
                hook.remove()
        balance = torch.stack([balance_loss(scores, at) for scores, _, at in found]).mean()
        return value + BALANCE * balance, {"loss": value.item(), "balance": balance.item()}

    @torch.no_grad()
    def measured(self, network: PreTrainedModel, packed: Packed) -> dict[str, Any]:
        """How many experts of a layer are used by a hundredth of the held-out tokens at least, and what the cache
        keeps of a token in all layers."""
        found: list[Tensor] = []
        gates = [module.gate for module in network.modules() if isinstance(module, SharedMoE)]
        hooks = [gate.register_forward_hook(lambda _m, _given, out: found.append(out[2])) for gate in gates]
        network(input_ids=packed.ids)
        for hook in hooks:
            hook.remove()
        config: Any = network.config
        counts = [torch.bincount(at.flatten(), minlength=config.num_experts) for at in found]
        return {
            "experts_in_use": [int((count > 0.01 * packed.ids.numel()).sum()) for count in counts],
            "experts": config.num_experts,
            "cached_elements_per_token": config.num_hidden_layers * config.cached_elements,
        }


def balance_loss(scores: Tensor, at: Tensor) -> Tensor:
    """N sum_i f_i p_i of router scores [n, N] and chosen experts [n, k]: f_i the share of the choices that fell on
    expert i, p_i its mean probability. 1 where all are used alike."""
    N = scores.shape[-1]
    f = torch.bincount(at.flatten(), minlength=N).float() / at.numel()
    return N * (f * scores.softmax(-1).mean(0)).sum()


ATTENDING = tuple(map(Attending, SHAPES))


def compared(cards: Mapping[str, Mapping[str, Any]]) -> tuple[list[str], list[list[Any]]] | None:
    """(head, rows) of a table of the four among these cards by folder name; None where there is none."""
    head = ["model", "parameters", "steps", "loss", "answers right", "elements cached of a token", "experts in use"]
    rows: list[list[Any]] = []
    for name in (what.name for what in ATTENDING if what.name in cards):
        card, held = cards[name], cards[name]["held_out"]
        right = list(held["exact_match"].values())
        used = ", ".join(map(str, held["experts_in_use"]))
        row = [name, f"{card['parameters']:,}", card["steps"], held["loss"], f"{sum(right) / len(right):.0%}"]
        row += [held["cached_elements_per_token"], f"{used} of {held['experts']}", f"`{card['command']}`"]
        rows.append(row)
    return ([*head, "made again by"], rows) if rows else None


def commands() -> dict[str, Command]:
    """One for each attention."""
    return {what.name: command_of(what) for what in ATTENDING}
