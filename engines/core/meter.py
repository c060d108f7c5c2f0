"""The meter on which every model call is counted and timed."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from engines.core.errors import UserError
from engines.core.lazy import torch


class OverBudget(BaseException):
    """A method asked for more than its budget. Like GeneratorExit nothing that a method catches for itself."""


@dataclass
class Meter:
    """What the model calls since the last step cost.

    forwards: by role, the calls that ended in logits. work: by role, layer-rows, that is rows times the transformer
    layers they really went through; embedding and output head are no layers. A row counts in `tokens_fed` once, when
    it enters the first layer. So one whole forward of n rows is 1 forward, n tokens fed and n times all layers of work;
    a forward that is made in parts (`LayeredLM`) adds up to the same, and one that leaves early pays for the layers it
    used.

    Two models may be called from two threads at once: each call is booked whole, and `seconds` is the time in which any
    call ran, so that what two of them share counts once. Once `spent`, or past the `deadline` (on time.perf_counter),
    a call raises OverBudget instead: a method whose budget is used up may still say that it is finished.

    `called` and `processor` are sums over the whole run: seconds of each call by itself, and those in which the thread
    that made it was running. Where the second is much less, others had the processor.

    step: the step that the calls belong to, for what is said of one that gave no numbers.

    beside: the meter of models that a run is only compared with (`MethodInfo.beside`), whose calls and seconds are no
    part of it; it stops when this one does."""

    forwards: dict[str, int] = field(default_factory=dict)
    tokens_fed: int = 0
    work: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    called: float = 0.0
    processor: float = 0.0
    calls: list[tuple[str, float, float, int]] = field(
        default_factory=list
    )  # role, began, ended (on time.perf_counter), tokens fed
    forbidden: dict[int, set[int]] = field(
        default_factory=dict
    )  # position -> tokens, from edits; lives as long as the run
    spent: bool = False
    step: int = 0
    deadline: float = math.inf
    beside: Meter | None = field(default=None, repr=False, compare=False)
    of: Meter | None = field(default=None, repr=False, compare=False)  # of a meter beside: the run's own
    lock: Any = field(default_factory=threading.Lock, repr=False, compare=False)
    _running: int = field(default=0, repr=False, compare=False)
    _since: float = field(default=0.0, repr=False, compare=False)  # when the first of the calls that run now began

    def reset(self) -> None:
        """Start a new step."""
        self.forwards, self.tokens_fed, self.work, self.seconds, self.calls = {}, 0, {}, 0.0, []
        if self.beside:
            self.beside.reset()

    def counts_beside(self) -> dict[str, float]:
        """What the calls beside it came to, by role and in words."""
        if not self.beside:
            return {}
        counts = {f"{role} forwards": n for role, n in self.beside.forwards.items()}
        return {**counts, **{f"{role} layer-rows": n for role, n in self.beside.work.items()}}

    def aside(self) -> Meter:
        """The meter `beside` this one; what an edit forbids holds there too."""
        self.beside = self.beside or Meter(forbidden=self.forbidden, of=self)
        return self.beside

    def call(self, role: str, device: str, fed: int, compute: Any, *, layer_rows: int = 0, forward: bool = True) -> Any:
        """Run `compute()` on the clock and book it under `role`. Raises OverBudget once `spent`, and UserError for
        logits that are no numbers (`check_numbers`); what fails is booked as time only.

        fed: rows that enter the first layer. layer_rows: rows times layers. forward: whether it ends in logits."""
        limits = self.of or self
        if limits.spent or time.perf_counter() > limits.deadline:
            raise OverBudget
        synchronise(device)
        with self.lock:
            began = time.perf_counter()
            self._since = self._since if self._running else began
            self._running += 1
        ran = time.thread_time()
        try:
            result = compute()
            synchronise(device)
        finally:
            ran = time.thread_time() - ran
            with self.lock:
                ended = time.perf_counter()
                self.called += ended - began
                self.processor += ran
                self._running -= 1
                self.seconds += 0.0 if self._running else ended - self._since
        with self.lock:
            self.calls.append((role, began, ended, fed))
            if forward:
                self.forwards[role] = self.forwards.get(role, 0) + 1
            if layer_rows:
                self.work[role] = self.work.get(role, 0) + layer_rows
            self.tokens_fed += fed
        if forward:
            self.check_numbers(result, role)
        return result

    def check_numbers(self, result: Any, role: str) -> None:
        """Raises UserError where a row of the logits [..., V] that a call gave holds NaN or infinity, or -inf for every
        token: nothing can be chosen from it. -inf for some tokens is a mask. The largest of each row tells."""
        for output in result if isinstance(result, list) else [result]:
            z = getattr(output, "logits", output)
            if not isinstance(z, torch.Tensor) or not z.is_floating_point() or not z.numel() or not z.ndim:
                continue
            most = z.max() if z.numel() == z.shape[-1] else z.amax(-1).sum()  # of one row the first is fast
            if not math.isfinite(most):
                raise UserError(
                    f"the logits of the {role} model in step {(self.of or self).step} are not numbers (NaN, infinity, "
                    "or -inf for every token), so no token can be chosen; load it with another dtype (float16 "
                    "overflows where float32 does not), or download it again."
                )


def synchronise(device: str) -> None:
    """Wait for the accelerator, so that the clock measures work and not its submission."""
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)
