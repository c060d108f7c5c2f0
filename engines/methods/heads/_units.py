"""Lexical units: how a text is cut into them, how many tokens of a window are written, and the forward that has pads
behind the text.

Letters: k the window, c rows of text, d hidden size, V vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from engines.kit import KVCache, Taps, UserError, torch

if TYPE_CHECKING:
    from torch import Tensor

    from engines.models.networks.lora import LoRA


def marked(p: Sequence[float], alpha: float, most: int | None = None) -> list[tuple[int, int]]:
    """(start, length) of the units of a text whose tokens the model gave the probabilities p: a token at least alpha
    likely joins the unit of the one before it, as long as that has fewer than `most`."""
    units: list[tuple[int, int]] = []
    for i, one in enumerate(p):
        if units and one >= alpha and (most is None or units[-1][1] < most):
            units[-1] = (units[-1][0], units[-1][1] + 1)
        else:
            units.append((i, 1))
    return units


def accepted(c: Sequence[float], beta: float) -> int:
    """How many leading tokens of a window are written: those with a confidence of at least beta, at least one."""
    sure = next((j for j, one in enumerate(c) if one < beta), len(c))
    return max(1, sure)


def repeats(ids: Sequence[int], token: int, n: int) -> bool:
    """Whether behind ids this token would say the last m tokens once more, for some m from 1 to n."""
    text = [*ids, token]
    return any(len(text) >= 2 * m and text[-m:] == text[-2 * m : -m] for m in range(1, n + 1))


def check_window(part: Any, k: int) -> None:
    """Raises UserError for a window that the pads were not trained for."""
    most = int(part.card.get("window", k))
    if k > most:
        raise UserError(f"k {k} was given and {part.name} was trained for windows of up to {most}; choose 1 to {most}.")


def forward(
    model: Any,
    cache: KVCache,
    tokens: Sequence[int],
    pads: int,
    lora: LoRA,
    *,
    everywhere: bool,
    parents: Sequence[int] | None = None,
) -> Tensor:
    """States [c + pads, d] behind all layers of c tokens and the pads behind them, a chain without parents. The
    adapters change all rows, or the pads only."""
    c = len(tokens)
    x = model.embed(tokens)
    x = torch.cat([x, lora.pad.to(x).expand(pads, -1)])
    on = torch.ones(c + pads, 1, device=x.device)
    on[:c] = float(everywhere)
    taps = Taps(linear=lambda layer, name, x, y: y + (lora.added(layer, name, x) * on).to(y.dtype))
    changed = everywhere or pads
    h: Tensor = model.layers(x, cache, 0, model.num_layers, parents=parents, taps=taps if changed else None)
    return h
