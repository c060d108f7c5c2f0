"""What is done to a network once its steps are over: the mean with its start, and one temperature for its confidences.

The mean (WiSE-FT, Wortsman et al. 2022, arXiv:2109.01903) keeps what the start could and the steps unlearnt. The
temperature (Guo et al. 2017, arXiv:1706.04599) is fitted on boards that parallel decoding leaves behind: of what the
network proposes there as likelier than not, as much shall be wrong as it says. It moves no first guess; it makes a
threshold mean what it says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engines.tasks import TASKS
from engines.training.tiny.networks import Network, load_network
from engines.training.tiny.on_policy import OnPolicy
from engines.training.tiny.recipes import Recipe

WINDOWS = 80  # forwards of the on-policy states that the temperature is fitted on: some 40,000 masks
LIKELY = 0.5  # the proposals that count: the lines of the states, and of the decoders, are above
LEAST, MOST, HALVINGS = 0.5, 4.0, 12


def finish(network: Network, recipe: Recipe, tokenizer: Any, start: Path | None) -> dict[str, float]:
    """Do to the network what its recipe asks for; gives what the card says of it."""
    done: dict[str, float] = {}
    if recipe.start_share and start is not None:
        average(network, load_network(start), recipe.start_share)
        done["start_share"] = recipe.start_share
    if recipe.calibrated:
        done["temperature"] = round(fitted(*proposed(network, recipe, tokenizer)), 2)
        cool(network, done["temperature"])
    return done


@torch.no_grad()
def average(network: Network, start: Network, share: float) -> None:
    """Every weight becomes share * start + (1 - share) * trained, in place. The two networks are of one size."""
    for weight, before in zip(
        network.parameters(), start.parameters(), strict=True
    ):  # parameters, not the state: a tied head stands in that twice
        weight.lerp_(before.to(weight), share)


@torch.no_grad()
def cool(network: Network, temperature: float) -> None:
    """Divide all logits of a Llama by the temperature, in place: its head is linear, so the gain of the last norm
    carries it."""
    network.model.norm.weight.div_(temperature)


@torch.inference_mode()
def proposed(network: Network, recipe: Recipe, tokenizer: Any, windows: int = WINDOWS) -> tuple[Tensor, Tensor]:
    """Logits [n, V] (float16) of masks of on-policy states, every task as often as the others, and the tokens
    [n] that are true there."""
    network.eval()
    states = OnPolicy(
        replace(recipe, mixture=dict.fromkeys(TASKS, 1.0), order=f"{recipe.order or recipe.name}/temperature"),
        tokenizer,
        0,
    )
    logits, truth = [], []
    for _ in range(windows):
        z, view, _ = states.advance(network)
        said = (
            z.softmax(-1).amax(-1) > LIKELY / 2
        )  # the others stay below the line at any temperature near 1 and would only take room
        logits.append(z[said].half().cpu())
        truth.append(view.truth[view.inside][said].cpu())
    return torch.cat(logits), torch.cat(truth)


def fitted(logits: Tensor, truth: Tensor) -> float:
    """The temperature at which as many proposals above LIKELY are wrong as their confidences say; 1 where there is
    none. logits [n, V], truth [n]."""
    if not len(truth):
        return 1.0
    wrong, z = logits.argmax(-1) != truth, logits.float()
    low, high = LEAST, MOST
    for _ in range(HALVINGS):
        middle = (low * high) ** 0.5
        p = (z / middle).softmax(-1).amax(-1)
        above = p >= LIKELY
        too_sure = float(wrong[above].sum()) > float((1 - p[above]).sum())
        low, high = (middle, high) if too_sure else (low, middle)
    return (low * high) ** 0.5
