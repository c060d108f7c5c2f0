"""A small model with memory layers and its twin without (UltraMemV2, arXiv 2508.18756), on the same text and steps: half
of every batch is the corpus of the small architectures, half tells of invented people (`facts`).

The twin's feed-forward part is wider by as much as the memory multiplies for a token: projections, keys and the slots
that are read; so the two do equal work, and differ by the table, of which a token reads a little.

Departs from the paper in its size (1.9 M parameters, 0.9 M of them the table); tables start at the same spread and learn
at 4 times the rate of the rest, falling to once, as published; they do not decay."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from engines.models.networks.ultra_mem import UltraMemConfig, UltraMemForCausalLM
from engines.training.architectures.corpus import ROWS, SHARES, Packed, joined, rows
from engines.training.architectures.facts import fact_rows, known
from engines.training.architectures.language import POSITIONS, Architecture, command_of
from engines.training.core.commands import Command

FACTS = ROWS // 2  # rows of a batch that tell of people
WIDTH, TWIN = 320, 472  # of the feed-forward part, beside the memory and alone
NOTE = "one of two that differ in the memory only; knows 500 invented people (fact: Ada Raven), other answers are poor"


class Memorising(Architecture):
    """One of the two."""

    steps = 1600
    stored = "int8"
    every = 200
    data = (
        f"half the train split of engines/tasks ({', '.join(SHARES)}), half sentences on 500 invented people, both "
        "made and packed by engines/training/architectures"
    )

    def __init__(self, name: str, title: str, slots_read: int, width: int) -> None:
        self.name, self.title, self.note, self.slots_read, self.width = name, title, NOTE, slots_read, width
        self.settings = repr((slots_read, width, FACTS))

    def build(self, vocabulary: int, eos_id: int, pad_id: int) -> UltraMemForCausalLM:
        """Four layers of width 128; 48 keys an axis, of a pool of 9,216 slots a layer sees 67 x 67."""
        return UltraMemForCausalLM(
            UltraMemConfig(
                slots_read=self.slots_read,
                intermediate_size=self.width,
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

    def batch(self, number: int, seed: int) -> Packed:
        """Both halves."""
        return joined(rows(number, seed, count=ROWS - FACTS), fact_rows(number, seed, FACTS))

    def tables(self, network: PreTrainedModel) -> list[nn.Parameter]:
        """Values and pre-values of the pool."""
        return list(network.pool.parameters()) if network.pool else []

    def table_rate(self, share: float) -> float:
        """From 4 times the rate of the rest to once, in a straight line."""
        return 4 - 3 * share

    def watched(self, network: PreTrainedModel) -> list[float]:
        """The shares of towns, things and colours that are known."""
        return [round(float(kind.float().mean()), 4) for kind in known(network)]


TWINS = (
    Memorising("tiny-ultramem", "Tiny UltraMemV2 (every layer reads 16 slots of a large table)", 16, WIDTH),
    Memorising("tiny-ultramem-dense", "Tiny UltraMemV2's twin without the table, with as much work a token", 0, TWIN),
)


def commands() -> dict[str, Command]:
    """One for each of them."""
    return {what.name: command_of(what) for what in TWINS}
