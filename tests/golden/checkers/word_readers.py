"""Golden cases of CPPD: labels, counts and places of words, the losses, and the strings that come out."""

from __future__ import annotations

from .cases import Given, Values, computes, float64


@computes("cppd")
def cppd(given: Given) -> Values:
    """Targets, the loss of each part, the characters' with and without smoothing, and decoded strings."""
    from engines.models.networks.cppd import character_loss, count_loss, place_loss, targets, text_of

    counts, places, edges = (float64(given[name]) for name in ("count_logits", "position_logits", "edge_logits"))
    wanted = targets(given["words"], given["charset"], given["max_len"])
    return {
        "labels": wanted.labels.tolist(),
        "counts": wanted.counts.tolist(),
        "position_targets": wanted.filled.tolist(),
        "loss_count": count_loss(counts, wanted.counts).item(),
        "loss_position": place_loss(places, wanted.filled).item(),
        "loss_edge_plain": character_loss(edges, wanted.labels, 0.0).item(),
        "loss_edge_smoothed": character_loss(edges, wanted.labels).item(),
        "decoded": [text_of(row, given["charset"]) for row in edges.argmax(-1).tolist()],
    }
