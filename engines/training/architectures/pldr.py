"""A small PLDR-LLM with the published depth of its metric learner, eight residual units, and the curve of how far its G
depends on the text while it learns (arXiv 2502.13502).

Departs from the paper in size (three layers of four heads of 32, 1.2 M parameters against 110 M), in tokens (2 M
against 8 billion), in a tied output matrix, and in gradients that are clipped by their norm, not one by one. It ends
at step 2,000 of a cosine that was planned for 3,000: the machine was busy, and the spread of G was small by then."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import islice
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedModel

from engines.models.measures.operators import identity, logdet, spread
from engines.models.networks.pldr import PLDRConfig, PLDRForCausalLM
from engines.tasks import TASKS
from engines.tasks.rows import prompt_text
from engines.training.architectures.corpus import SHARES, Packed, held_out
from engines.training.architectures.language import POSITIONS, Architecture, command_of
from engines.training.core.commands import Command
from engines.training.core.data import IGNORED
from engines.training.tiny.tokenizer import load_tokenizer

EACH, ROWS, EVERY = 4, 16, 250  # prompts of each task; held-out rows and steps of a point of the curve
FIRST = (0, 10, 25, 50, 100)  # points before the regular ones


class PowerLaw(Architecture):
    """The one network."""

    name, title = "tiny-pldr", "Tiny PLDR-LLM (attention through a matrix that a deep network makes of the text)"
    note = "briefly trained: its answers have the right form and often wrong words"
    steps, plan, rate, rise, decay, kind = 2000, 3000, 2e-3, 100, 0.1, "power-law"

    def __init__(self) -> None:
        self.settings = repr((self.rate, self.rise, self.decay, EACH, ROWS, EVERY))

    def build(self, vocabulary: int, eos_id: int, pad_id: int) -> PLDRForCausalLM:
        """Three layers of width 128, eight residual units of two gated layers of width 64 in each."""
        return PLDRForCausalLM(
            PLDRConfig(
                vocab_size=vocabulary,
                max_position_embeddings=POSITIONS,
                bos_token_id=None,
                eos_token_id=eos_id,
                pad_token_id=pad_id,
            )
        )

    def glimpse(self, network: PreTrainedModel, step: int) -> dict[str, float] | None:
        """Spread of G over prompts, mean of the layers, and losses with three kinds of G."""
        if step not in FIRST and step % EVERY:
            return None
        packed, G = held_out(ROWS), operators(network)
        found = {"spread": float(spread(G).mean()), **losses(network, packed, G)}
        return {name: round(value, 5) for name, value in found.items()}

    @torch.no_grad()
    def measured(self, network: PreTrainedModel, packed: Packed) -> dict[str, Any]:
        """By layer: spread of G and of its log-determinants (standard deviation over prompts, mean of the heads); loss
        with its own G, with those of other prompts, with the identity."""
        G = operators(network)
        return {
            "prompts": len(G),
            "spread": [round(float(one), 4) for one in spread(G)],
            "logdet": [round(float(one), 3) for one in logdet(G).mean((0, 2))],
            "logdet_deviation": [round(float(one), 3) for one in logdet(G).std(0).mean(-1)],
            "losses": {name: round(value, 4) for name, value in losses(network, packed, G).items()},
        }


@torch.no_grad()
def operators(network: PreTrainedModel) -> Tensor:
    """G [P, layers, h, d, d] of held-out prompts, each read alone: the same number of every task."""
    return torch.stack([network.base_model(torch.tensor([ids])).G[:, 0] for ids in prompts()])


@cache
def prompts(each: int = EACH) -> list[list[int]]:
    """Ids of held-out prompts, `each` of every task of the corpus."""
    tokenizer = load_tokenizer()
    texts = [one.prompt for task in SHARES for one in islice(TASKS[task].generate("held-out", seed=2), each)]
    return [tokenizer(prompt_text(text))["input_ids"] for text in texts]


@torch.no_grad()
def losses(network: PreTrainedModel, packed: Packed, G: Tensor) -> dict[str, float]:
    """Nats per learnt token of rows with their own G, with the G of one prompt (mean over the first of each task) and
    with the identity."""
    others = [loss(network, packed, one[:, None]) for one in G[::EACH]]
    return {
        "own": loss(network, packed),
        "other": sum(others) / len(others),
        "other_worst": max(others),
        "identity": loss(network, packed, identity(G[0])[:, None]),
    }


def loss(network: PreTrainedModel, packed: Packed, G: Tensor | None = None) -> float:
    """Nats per learnt token with their own G or with a given one [layers, 1, h, d, d]."""
    wanted = packed.targets != IGNORED
    h = network.base_model(packed.ids, G=G).last_hidden_state[wanted]
    return float(F.cross_entropy(network.get_output_embeddings()(h), packed.targets[wanted]))


def compared(cards: Mapping[str, Mapping[str, Any]]) -> tuple[list[str], list[list[Any]]] | None:
    """(head, rows) of a table: what the curve of the card says of G while it was trained; None without a card."""
    card = cards.get(PowerLaw.name)
    if card is None or not card.get("curve"):
        return None
    head = ["step", "spread of G over prompts", "loss, own G", "loss, G of other prompts", "loss, G = identity"]
    shown = [one for one in card["curve"] if one["step"] in (0, 50, 100, 500) or one["step"] % 1000 == 0]
    rows = [[one["step"], f"{one['spread']:.1%}", one["own"], one["other"], one["identity"]] for one in shown]
    return head, rows


def commands() -> dict[str, Command]:
    """The one."""
    return {PowerLaw.name: command_of(PowerLaw())}
