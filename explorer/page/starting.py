"""A run of the page begins: here, or on ZeroGPU, where a machine is lent for each run.

There a decorated function gets a GPU in a process of its own while it runs. Only what that function yields comes back,
pickled, so it yields plain steps and never writes anything down. Closing its generator stops it after the step under
way. The package `spaces` is used where it is installed (a Gradio Space on ZeroGPU has it) and around the run alone."""

from __future__ import annotations

import importlib
import importlib.util
import logging
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from typing import Any

from msgspec.structs import replace

import engines
from engines import Step, Trace, UserError
from explorer.page.catalogue import Form
from explorer.page.run_limits import Limits

MARGIN = 15  # seconds that a GPU is asked for beyond the run's budget: the model has to be loaded there
log = logging.getLogger("decoding-explorer")

Item = tuple[str, Any, list[Any], Any]  # what it is, its payload, new entries of the token table, the run's state


@cache
def lent() -> bool:
    """Whether a machine is lent for each run: the package `spaces` is there; a folder that happens to be called so is
    none."""
    spec = importlib.util.find_spec("spaces")
    return spec is not None and spec.origin is not None


def loading(plan: Form, limits: Limits) -> str:
    """The name of the model that a run has to load before it begins; "" where it is in memory, or where it will run is
    not known."""
    return "" if lent() or engines.is_loaded(plan.model, limits.device) else plan.model


def needs(plan: Form, limits: Limits) -> str:
    """The model that a run loads, with the bytes of its weights; "" for one that is listed or loaded, all of which are
    small, and where nothing can be told, of which loading it says why."""
    if not loading(plan, limits) or engines.is_known(engines.target_and_drafter(plan.model)[0]):
        return ""
    try:
        size = engines.size_of(plan.model)
    except UserError:
        return ""
    return f"{plan.model} · {engines.gigabytes(size.weights)}" if size.large else ""


def reads(plan: Form, prompt: str, limits: Limits) -> int | None:
    """How many tokens the prompt has for the model of a run, which is in memory: its tokenizer counts them. None where
    it is not, and for a prompt that it refuses, of which the run will speak."""
    if lent() or loading(plan, limits):
        return None
    target, _ = engines.target_and_drafter(plan.model)  # a drafter is read by the run, not before the first message
    try:
        return len(engines.load_model(target, device=limits.device).tokenizer.encode_prompt(prompt))
    except UserError:
        return None


def start(plan: Form, prompt: str, seed: int, limits: Limits) -> engines.Run | Remote:
    """A run under way, checked. Raises UserError."""
    if lent():
        return Remote(decorated(limits.seconds)(plan, prompt, seed, limits))
    return plan.begin(prompt, seed, limits)


@lru_cache(maxsize=4)
def decorated(seconds: float) -> Callable[..., Iterator[Item]]:
    """`items`, with a GPU around it for that long where there is one to be had. ZeroGPU wants to see it before the page
    is up."""
    return importlib.import_module("spaces").GPU(duration=round(seconds) + MARGIN)(items)


def items(plan: Form, prompt: str, seed: int, limits: Limits) -> Iterator[Item]:
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
