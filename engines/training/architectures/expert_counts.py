"""How often each token id used each expert of a mixture, counted on a profiling text: the table from which experts and
tokens are placed on devices (Speculative MoE, arXiv 2503.04398). No gradient, no change to the model.

The text is the training split of the packed corpus; the card's marks are of held-out rows, which the counts never
saw. A minute on one core."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from engines.core.kinds import Taps
from engines.core.machine import trained_on
from engines.methods.system.speculative_moe import exchanges as exchanges
from engines.models.loading.zoo import load_model
from engines.models.measures import placement
from engines.models.parts import folder_of
from engines.training.architectures.corpus import Packed, held_out, rows
from engines.training.core.commands import PROGRAM, Command, flags, usual
from engines.training.core.parts import install_part

NAME = "expert-counts"
BATCHES, HELD_OUT, DEVICES = 40, 56, 4  # of 8 rows of 128 tokens each; held-out rows; devices of the card's marks


def routes(model: Any, packed: Packed) -> tuple[np.ndarray, np.ndarray]:
    """Token ids [B] of packed rows and the experts [L, B, k] that they use, -1 where fewer than k."""
    parts: list[np.ndarray] = []
    for row in packed.ids:
        found: list[Any] = []
        model.layers(model.embed(row), model.new_cache(len(row)), 0, model.num_layers, taps=Taps(router=found.append))
        k = max(int((one.experts >= 0).sum(-1).max()) for one in found)
        parts.append(np.stack([one.experts.sort(-1, descending=True).values[:, :k].numpy() for one in found]))
    k = max(part.shape[2] for part in parts)
    padded = [np.pad(part, ((0, 0), (0, 0), (0, k - part.shape[2])), constant_values=-1) for part in parts]
    return packed.ids.flatten().numpy(), np.concatenate(padded, 1)


def counted(tokens: np.ndarray, experts: np.ndarray, V: int, N: int) -> np.ndarray:
    """T [L, V, N] of tokens [B] and experts [L, B, k]."""
    T = np.zeros((len(experts), V, N), dtype=np.int64)
    for layer, chosen in enumerate(experts):
        at = np.broadcast_to(tokens[:, None], chosen.shape)[chosen >= 0]
        np.add.at(T[layer], (at, chosen[chosen >= 0]), 1)
    return T


def make(model: Any, out: Path, command: str, batches: int = BATCHES, held: int = HELD_OUT) -> Path:
    """Count, measure on held-out rows, and write the part."""
    began, V, N = time.monotonic(), model.vocab_size, model.mixtures[0].experts
    T = np.zeros((len(model.mixtures), V, N), dtype=np.int64)
    for number in tqdm(range(batches), desc=NAME, mininterval=5):
        T += counted(*routes(model, rows(number)), V, N)
    seen = np.flatnonzero(T.sum((0, 2)))
    state: dict[str, Tensor] = {
        "ids": torch.from_numpy(seen.astype(np.int32)),
        "counts": torch.from_numpy(np.minimum(T[:, seen], 32767).astype(np.int16)),
    }
    card = {
        "name": f"{model.record.name}-{NAME}",
        "kind": "counts of experts by token id",
        "bases": {"target": model.record.sha256},
        "data": f"{batches * rows(0).ids.numel()} tokens of the train split, packed as for the training of the model",
        "seed": 0,
        "parameters": 0,
        "minutes": round((time.monotonic() - began) / 60, 1),
        "machine": trained_on("cpu"),
        "held_out": marks(T, *routes(model, held_out(held))),
        "licence": "Apache-2.0 (counted here, on synthetic data)",
        "command": command,
    }
    return install_part(out, state, card)


def marks(T: np.ndarray, tokens: np.ndarray, experts: np.ndarray) -> dict[str, Any]:
    """By layer, on tokens that the counts never saw: the share of activations among the favourite experts of a token
    id, and the local rate of four placements on DEVICES devices."""
    found: dict[str, Any] = {"tokens": len(tokens), "unknown": int((T[0].sum(1)[tokens] == 0).sum())}
    found["favourites"] = [round(foretold(T[layer], tokens, experts[layer]), 4) for layer in range(len(T))]
    for name, (group, shuffle) in PLACEMENTS.items():
        layers = [placed(T[i], tokens, experts[i], group, shuffle) for i in range(len(T))]
        found[f"local {name}"] = [round(one.lar, 4) for one in layers]
        found[f"imbalance {name}"] = [round(one.imbalance, 4) for one in layers]
    return found


PLACEMENTS = {"ordinary": (False, False), "shuffled": (False, True), "grouped": (True, False), "both": (True, True)}


def foretold(T: np.ndarray, tokens: np.ndarray, experts: np.ndarray) -> float:
    """The share of the activations [B, k] that lie among the k experts that the token's id used most."""
    favourites = np.argsort(-T, 1, kind="stable")[:, : experts.shape[1]]
    known = T.sum(1)[tokens] > 0
    hit = (experts[:, :, None] == favourites[tokens][:, None, :]).any(2) & known[:, None] & (experts >= 0)
    return float(hit.sum() / max(1, (experts >= 0).sum()))


def placed(
    T: np.ndarray, tokens: np.ndarray, experts: np.ndarray, group: bool, shuffle: bool, G: int = DEVICES
) -> exchanges.Exchange:
    """The exchange of one layer with experts grouped or in order and tokens shuffled or in turn."""
    C = placement.grouped(T, G) if group else placement.in_order(T.shape[1], G)
    home = exchanges.shuffled(exchanges.balanced_table(T, C, G), list(tokens), G) if shuffle else None
    return exchanges.exchange(experts, exchanges.round_robin(len(tokens), G) if home is None else home, C, G)


def _options(parser: ArgumentParser) -> None:
    parser.add_argument("model", help="a mixture of experts by name, as tiny-moe")
    parser.add_argument("--batches", type=int, default=BATCHES, help=f"of 1,024 tokens each, default {BATCHES}")
    usual(parser, "out")


def _run(a: Namespace) -> None:
    model: Any = load_model(a.model, kind="moe", dtype="float32")
    command = f"{PROGRAM} {NAME} {model.record.name}{flags([('batches', a.batches, BATCHES)])}"
    print(make(model, a.out or folder_of(NAME, model.record.name), command, a.batches))


def commands() -> dict[str, Command]:
    """Counts the experts of any mixture."""
    return {NAME: Command("MODEL's experts by token id, counted", str(__doc__), _options, _run)}
