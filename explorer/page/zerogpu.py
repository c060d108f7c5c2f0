"""A run on ZeroGPU, where a decorated function gets a GPU in a process of its own while it runs.

Only what the function yields comes back, pickled, so it yields plain steps and never writes anything down.
Closing its generator stops it after the step under way. The package `spaces` is used where it is installed (a Gradio
Space on ZeroGPU has it) and around the run alone."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from engines import Step, Trace, UserError
from explorer.page.catalogue import Plan
from explorer.page.limits import Limits

MARGIN = 15  # seconds that a GPU is asked for beyond the run's budget: the model has to be loaded there
log = logging.getLogger("decoding-explorer")

Item = tuple[str, Any, list[Any], Any]  # what it is, its payload, new entries of the token table, the run's state


def start(plan: Plan, prompt: str, seed: int, limits: Limits) -> Remote:
    """A run under way in another process, checked. Raises UserError."""
    return Remote(decorated(limits.seconds)(plan, prompt, seed, limits))


@lru_cache(maxsize=4)
def decorated(seconds: float) -> Callable[..., Iterator[Item]]:
    """`items`, with a GPU around it for that long where there is one to be had. ZeroGPU wants to see it before the page
    is up."""
    return importlib.import_module("spaces").GPU(duration=round(seconds) + MARGIN)(items)


def items(plan: Plan, prompt: str, seed: int, limits: Limits) -> Iterator[Item]:
    """A whole run as plain data: its header, its steps, and its state after each; refusals and failures are items
    too."""
    try:
        run = plan.begin(prompt, seed, limits)
    except UserError as error:
        yield "refused", str(error), [], None
        return
    sent = 0

    def item(what: str, payload: Any) -> Item:
        nonlocal sent
        end = run.end()
        pieces = run.pieces(sent)
        sent += len(pieces)
        return what, payload, pieces, end

    try:
        yield item("header", run.header)
        try:
            for step in run:
                yield item("step", step)
        except UserError as error:
            yield item("refused", str(error))
        except Exception:
            log.exception("'%s' on '%s' failed", plan.method, plan.model)
            yield item("failed", "")
        else:
            yield item("end", None)
    finally:
        run.close()


class Remote(Iterator[Step]):
    """A run in another process, read like a run here: steps, `close`, `pieces`, `trace`. Raises UserError for what is
    refused."""

    def __init__(self, received: Any) -> None:
        self._items = received
        self._pieces: list[Any] = []
        self._over = False
        self.steps: list[Step] = []
        self.header = self._take("header")

    def __next__(self) -> Step:
        if self._over:
            raise StopIteration
        step = self._take("step")
        if step is None:
            self._over = True
            raise StopIteration
        self.steps.append(step)
        return step

    def _take(self, expected: str) -> Any:
        what, payload, pieces, end = next(self._items)
        self._pieces += pieces
        self._end = end
        if what == "refused":
            self._over = True
            raise UserError(payload)
        if what == "failed":
            self._over = True
            raise RuntimeError("the run failed in its own process, whose log has the details")
        return payload if what == expected else None

    def close(self) -> None:
        """Stop after the step under way."""
        self._over = True
        self._items.close()

    def pieces(self, since: int = 0) -> list[Any]:
        """The token table in the order of first use, from entry `since` on."""
        return self._pieces[since:]

    def trace(self) -> Trace:
        """What has been received so far."""
        return Trace(header=self.header, steps=list(self.steps), pieces=list(self._pieces), end=replace(self._end))
