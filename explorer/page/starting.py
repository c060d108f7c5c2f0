"""A run of the page begins: here, or where a machine is lent for each run (ZeroGPU, `zerogpu.py`), which nothing
imports anywhere else."""

from __future__ import annotations

import importlib.util
from functools import cache
from typing import TYPE_CHECKING

import engines
from engines import UserError
from explorer.page.catalogue import Plan
from explorer.page.limits import Limits

if TYPE_CHECKING:
    from explorer.page.zerogpu import Remote


@cache
def lent() -> bool:
    """Whether a machine is lent for each run: the package `spaces` is there; a folder that happens to be called so is
    none."""
    found = importlib.util.find_spec("spaces")
    return found is not None and found.origin is not None


def prepare(seconds: float) -> None:
    """What a machine that is lent wants to see before the page is up. seconds: that a run may take."""
    if lent():
        from explorer.page import zerogpu

        zerogpu.decorated(seconds)


def loading(plan: Plan, limits: Limits) -> str:
    """The name of the model that a run has to load before it begins; "" where it is in memory, or where it will run is
    not known."""
    return "" if lent() or engines.is_loaded(plan.model, limits.device) else plan.model


def needs(plan: Plan, limits: Limits) -> str:
    """The model that a run loads, with the bytes of its weights; "" for one that is listed or loaded, all of which are
    small, and where nothing can be told, of which loading it says why."""
    if not loading(plan, limits) or engines.is_known(engines.target_and_drafter(plan.model)[0]):
        return ""
    try:
        size = engines.size_of(plan.model)
    except UserError:
        return ""
    return f"{plan.model} · {engines.gigabytes(size.weights)}" if size.large else ""


def reads(plan: Plan, prompt: str, limits: Limits) -> int | None:
    """How many tokens the prompt has for the model of a run, which is in memory: its tokenizer counts them. None where
    it is not, and for a prompt that it refuses, of which the run will speak."""
    if lent() or loading(plan, limits):
        return None
    target, _ = engines.target_and_drafter(plan.model)  # a drafter is read by the run, not before the first message
    try:
        return len(engines.load_model(target, device=limits.device).tokenizer.encode_prompt(prompt))
    except UserError:
        return None


def start(plan: Plan, prompt: str, seed: int, limits: Limits) -> engines.Run | Remote:
    """A run under way, checked. Raises UserError."""
    if lent():
        from explorer.page import zerogpu

        return zerogpu.start(plan, prompt, seed, limits)
    return plan.begin(prompt, seed, limits)
