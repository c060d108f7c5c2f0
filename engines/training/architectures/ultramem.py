"""A small model with memory layers and its twin without (UltraMemV2, arXiv 2508.18756), on the same text and steps:
half of every batch is the corpus of the small architectures, half tells of invented people (`facts`).

The twin's feed-forward part is wider by as much as the memory multiplies for a token: projections, keys and the slots
that are read; so the two do equal work, and differ by the table, of which a token reads a little.

Departs from the paper in its size (1.9 M parameters, 0.9 M of them the table); tables start at the same spread and
learn at 4 times the rate of the rest, falling to once, as published; they do not decay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from statistics import fmean as mean
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from engines.models.networks.ultra_mem import UltraMemConfig, UltraMemForCausalLM, leading, search
from engines.training.architectures.corpus import ROWS, SHARES, Packed, joined, rows
from engines.training.architectures.facts import asked, fact_rows, guessed, known
from engines.training.architectures.language import POSITIONS, Architecture, command_of, token_loss
from engines.training.core.commands import Command

FACTS = ROWS // 2  # rows of a batch that tell of people
KINDS = ("town", "thing", "colour")
CHUNKS = (1, 2, 4, 8, 16, 32)
EVERY = 200  # steps from one point of the card's curve to the next
WIDTH, TWIN = 320, 472  # of the feed-forward part, beside the memory and alone
NOTE = "one of two that differ in the memory only; knows 500 invented people (fact: Ada Raven), other answers are poor"


class Memorising(Architecture):
    """One of the two."""

    steps = 1600
    stored = "int8"
    data = (
        f"half the train split of engines/tasks ({', '.join(SHARES)}), half sentences on 500 invented people, both "
        "made and packed by engines/training/architectures"
    )

    def __init__(self, name: str, title: str, slots_read: int, width: int) -> None:
        self.name, self.title, self.note, self.slots_read, self.width = name, title, NOTE, slots_read, width
        self.settings = repr((slots_read, width, FACTS))
        self.companions = {"mixture": "tiny-moe", "dense": "tiny-ultramem-dense"} if slots_read else {}

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

    def glimpse(self, network: PreTrainedModel, step: int) -> dict[str, float] | None:
        """What is known so far, every 200 steps."""
        return None if step == 0 or step % EVERY else shares_known(network)

    @torch.no_grad()
    def measured(self, network: PreTrainedModel, packed: Packed) -> dict[str, Any]:
        """Facts known, and of a memory: what chunks read together, slots that nobody reads, crossings that the rank-1
        choice of candidates misses, and slots that the same fact reads again."""
        people = fact_rows(0, 1, len(packed.ids))
        facts = {
            "loss_on_people": round(float(token_loss(network, people)), 4),
            "facts_known": shares_known(network),
            "facts_by_one_guess": dict(zip(KINDS, (round(share, 4) for share in guessed()), strict=True)),
        }
        return facts | (memory_marks(network, packed, people) if self.slots_read else {})


def shares_known(network: PreTrainedModel) -> dict[str, float]:
    """The shares of towns, things and colours that are known."""
    return {kind: round(float(one.float().mean()), 4) for kind, one in zip(KINDS, known(network), strict=True)}


def memory_marks(network: Any, packed: Packed, people: Packed) -> dict[str, Any]:
    """See `Memorising.measured`; means over the layers. Each row of text is its own chunks, a rest does not count."""
    with reads(network) as found:
        network(input_ids=packed.ids)
    slots = [one.slots.unflatten(0, packed.ids.shape) for _, one in found]  # [R, T, m] each
    missed = [misses(memory, x) for (memory, x), _ in found]
    with reads(network) as more:
        network(input_ids=people.ids)
    ever = [torch.cat([a.flatten(), b.slots.flatten()]).unique() for a, (_, b) in zip(slots, more, strict=True)]
    config = network.config
    return {
        "slots_by_chunk": {str(c): round(mean(union(one, c) for one in slots), 1) for c in CHUNKS},
        "slots_seen_by_a_layer": config.keys**2,
        "slots_ever_read": [len(one) for one in ever],
        "slots_ever_read_of_the_pool": len(torch.cat(ever).unique()),
        "pool": config.pool,
        "tokens_read": packed.ids.numel() + people.ids.numel(),
        "best_crossing_missed": [round(top, 4) for top, _, _ in missed],
        "missed_with_two_negative_scores": [round(two, 4) for _, two, _ in missed],
        "of_the_best_slots_missed": [round(share, 4) for _, _, share in missed],
        **again(network),
    }


@contextmanager
def reads(network: Any) -> Iterator[list[tuple[tuple[Any, Tensor], Any]]]:
    """Collects of the memories, layer by layer, (memory, input [n, d]) and what it read in the forward inside."""
    found: list[tuple[tuple[Any, Tensor], Any]] = []
    hooks = [
        layer.mlp.memory.register_forward_hook(lambda part, given, out: found.append(((part, given[0]), out)))
        for layer in network.base_model.layers
    ]
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()


def union(slots: Tensor, length: int) -> float:
    """Mean number of different slots of chunks of that many tokens of rows [R, T, m]."""
    chunks = slots[:, : slots.shape[1] // length * length].unflatten(1, (-1, length)).flatten(0, 1).flatten(1)
    ordered = chunks.sort(-1).values
    return float((ordered.diff(dim=-1) != 0).sum(-1).double().mean() + 1)


def misses(memory: Any, x: Tensor, rows: int = 512) -> tuple[float, float, float]:
    """Of the first rows, against a search through all K * K: how often the best crossing is none of the candidates; how
    often that is a crossing whose row and column both have a rank-1 score below 0, which multiply to more than 0 and
    cannot be seen by a choice of the highest; and the share of the m best that are not read."""
    q, keys = memory.queries(x[:rows]), memory.keys()
    near, best = (search(q, keys, memory.cores, memory.m, candidates).crossings for candidates in (None, memory.K))
    kept = (near[:, :, None] == best[:, None]).any(1)  # [n, m]
    s = torch.einsum("narp,akrp->ankr", q, keys)
    at = torch.stack([best[:, :1] // memory.K, best[:, :1] % memory.K])
    signs = [one @ w < 0 for one, w in zip(s, leading(memory.cores), strict=True)]
    two = signs[0].gather(1, at[0]) & signs[1].gather(1, at[1])
    lost = ~kept[:, 0]
    return float(lost.double().mean()), float((lost & two[:, 0]).double().mean()), 1 - float(kept.double().mean())


def again(network: Any) -> dict[str, float]:
    """Where an attribute must be told: the share of slots that the same person's fact reads in a sentence of another
    order too, and that the next person's fact reads."""
    same, other = list[float](), list[float]()
    for kind in range(3):
        first, second = (lit(network, asked(kind, place)[0]) for place in (0, 1))
        same.append(shared(first, second))
        other.append(shared(first, second.roll(1, 0)))
    return {"same_fact_again": round(mean(same), 4), "another_persons_fact": round(mean(other), 4)}


def lit(network: Any, ids: Tensor) -> Tensor:
    """Slots [R, L, m] that the last token of each row reads, by layer."""
    with reads(network) as found:
        network(input_ids=ids)
    return torch.stack([one.slots.unflatten(0, ids.shape)[:, -1] for _, one in found], 1)


def shared(a: Tensor, b: Tensor) -> float:
    """Share of the slots [R, L, m] of a that b reads in the same layer."""
    return float((a[..., :, None] == b[..., None, :]).any(-1).double().mean())


TWINS = (
    Memorising("tiny-ultramem", "Tiny UltraMemV2 (every layer reads 16 slots of a large table)", 16, WIDTH),
    Memorising("tiny-ultramem-dense", "Tiny UltraMemV2's twin without the table, with as much work a token", 0, TWIN),
)


def compared(cards: Mapping[str, Mapping[str, Any]]) -> tuple[list[str], list[list[Any]]] | None:
    """(head, rows) of a table of the twins among these cards by folder name; None where there is none."""
    head = ["model", "parameters", "steps", "loss", "loss on people", *(f"{kind}s known" for kind in KINDS)]
    rows: list[list[Any]] = []
    for name in (what.name for what in TWINS if what.name in cards):
        card, held = cards[name], cards[name]["held_out"]
        row = [name, f"{card['parameters']:,}", card["steps"], held["loss"], held["loss_on_people"]]
        row += [f"{held['facts_known'][kind]:.1%} ({held['facts_by_one_guess'][kind]:.1%})" for kind in KINDS]
        read = held.get("slots_ever_read_of_the_pool")
        rows.append([*row, f"{read:,} of {held['pool']:,}" if read else "-", f"`{card['command']}`"])
    return ([*head, "slots of the pool ever read", "made again by"], rows) if rows else None


def commands() -> dict[str, Command]:
    """One for each of them."""
    return {what.name: command_of(what) for what in TWINS}
