"""Golden cases of CPPD: labels, counts and places of words, the losses, and the strings that come out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engines.core.lazy import torch
from engines.core.verify import Case, checks, differ


@checks("cppd")
def cppd(case: Case, data: Mapping[str, Any], folder: Path) -> str | None:
    """Targets, the loss of each part, the characters' with and without smoothing, and decoded strings."""
    from engines.models.networks.cppd import character_loss, count_loss, place_loss, targets, text_of

    given = case["inputs"]
    counts, places, edges = (
        torch.tensor(given[name], dtype=torch.float64) for name in ("count_logits", "position_logits", "edge_logits")
    )
    wanted = targets(given["words"], given["charset"], given["max_len"])
    got = {
        "labels": wanted.labels.tolist(),
        "counts": wanted.counts.tolist(),
        "position_targets": wanted.filled.tolist(),
        "loss_count": count_loss(counts, wanted.counts).item(),
        "loss_position": place_loss(places, wanted.filled).item(),
        "loss_edge_plain": character_loss(edges, wanted.labels, 0.0).item(),
        "loss_edge_smoothed": character_loss(edges, wanted.labels).item(),
        "decoded": [text_of(row, given["charset"]) for row in edges.argmax(-1).tolist()],
    }
    return differ("", got, case["expected"], 1e-9)
