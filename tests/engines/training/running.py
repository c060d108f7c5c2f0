"""A recipe that trains in seconds, the law that a stopped training goes on exactly, and what an engine answers."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import engines
from engines.core.errors import UserError
from engines.training.core import loop
from engines.training.core.loop import Training, Until
from engines.training.tiny.recipes import RECIPES, Recipe


def tiny(like: str, **more: Any) -> Recipe:
    """A recipe of some thousand weights."""
    small: dict[str, Any] = {
        "name": "tiny-test", "hidden": 16, "layers": 1, "heads": 2, "mlp": 32, "batch": 512, "warmup": 2, "block": 8,
        "init_from": None, "mixture": {"copy": 1.0},
    }  # fmt: skip
    return dataclasses.replace(RECIPES[like], **(small | more))


def losses_of(training: Training, until: Until, checkpoint: Path | None = None) -> list[float]:
    """Run, and the loss of every step."""
    found, after = [], training.after_step

    def noted(loss: float, shown: float, facts: dict[str, float] | None) -> None:
        found.append(loss)
        after(loss, shown, facts)

    training.after_step = noted  # type: ignore[method-assign]
    loop.run(training, until, checkpoint=checkpoint)
    return found


def goes_on(make: Callable[[], Any], steps: int, stop: int, file: Path) -> tuple[Any, Any]:
    """Asserts that a training that is stopped before a step ends as one that was not. Gives both."""
    whole, part, later = make(), make(), make()
    straight, plain = losses_of(whole, Until(steps)), part.batch

    def stopped(share: float) -> Any:
        if part.progress.step == stop:
            raise KeyboardInterrupt
        return plain(share)

    part.batch = stopped
    with pytest.raises(UserError, match=rf"stopped at step {stop}; go on with: .* --resume"):
        losses_of(part, Until(steps), file)
    loop.restore(later, file)
    assert later.progress.step == stop and losses_of(later, Until(steps)) == straight[stop:]
    assert later.progress.tokens == whole.progress.tokens
    for one, other in zip(whole.weights().values(), later.weights().values(), strict=True):
        assert torch.equal(one, other)
    return whole, later


def answered(slug: str, model: Any, prompt: str, length: int, **params: Any) -> tuple[list[int], int]:
    """(ids behind the prompt, masks included; forwards) of an engine."""
    trace = engines.run(slug, model, prompt, params={"max_new_tokens": length, **params})
    ids: dict[int, int] = {}
    start = len(trace.header.prompt_ids)
    for step in trace.steps:
        if step.commits:
            ids.update(zip(step.commits.positions, step.commits.tokens, strict=True))
    return [ids.get(i, 1) for i in range(start, max([start + length - 1, *ids]) + 1)], trace.totals.forwards
