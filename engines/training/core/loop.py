"""The one training loop: batches, a loss, a state; it stops by steps or minutes and goes on from a checkpoint exactly.

A recipe subclasses `Training` and gives it to `run`. A checkpoint holds weights, optimizer, progress and the place in
the data, so that a training that was interrupted ends with the weights of one that was not."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from tqdm import tqdm

from engines.core.errors import UserError
from engines.models.files.smollm2 import cache_folder

SAVE_SECONDS = 120.0


def checkpoint_file(name: str) -> Path:
    """Where a training of this name keeps its state until it is finished."""
    return cache_folder().parent / "train" / f"{name}.pt"


def attention(device: str) -> AbstractContextManager[None]:
    """On a CPU the backward pass of torch's flash attention takes a quarter of a step on rows this short; with plain
    matrix products 1.8 s become 1.5."""
    return sdpa_kernel(SDPBackend.MATH) if torch.device(device).type == "cpu" else nullcontext()


@dataclass
class Progress:
    """How far a training is. seconds: since its first step, without pauses; cpu_seconds: of processor time."""

    step: int = 0
    tokens: int = 0
    answer_tokens: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0


@dataclass(frozen=True)
class Until:
    """Where a training ends: after so many steps or minutes, whichever comes first; None is no such limit."""

    steps: int | None = None
    minutes: float | None = None

    def share(self, progress: Progress) -> float:
        """How much of the training is done: 1 or more at its end."""
        by_steps = 0.0 if self.steps is None else progress.step / self.steps
        if self.minutes is None:
            return by_steps
        return max(by_steps, progress.seconds / 60 / self.minutes) if self.minutes > 0 else 1.0


@dataclass(frozen=True)
class Loss:
    """The loss of one batch (a scalar with its graph) and the tokens that it took; `facts` are shown and kept."""

    value: Tensor
    tokens: int = 0
    answer_tokens: int = 0
    facts: dict[str, float] | None = None


class Steps(Protocol):
    """What the loop needs of an optimizer."""

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """Whose `lr` the loop sets."""

    def step(self) -> Any:
        """One update."""

    def zero_grad(self) -> None:
        """Drop the gradients."""

    def state_dict(self) -> Any:
        """For a checkpoint."""

    def load_state_dict(self, state: Any) -> None:
        """From a checkpoint."""


class Training:
    """What is trained, as the loop sees it. A subclass sets the attributes and writes `batch`, `loss` and, where the
    learning rate moves, `rate`; its place in the data goes into `state` and `load`.

    settings: a checkpoint of other settings is refused. command: what starts this training, for messages. clip: the
    largest norm of the gradients, None for any. backward_inside: whether the backward pass runs inside `context` too;
    under autocast that rounds otherwise, and what was trained so is trained so again."""

    name: str
    command: str
    settings: str
    network: nn.Module
    optimizer: Steps
    device: str = "cpu"
    clip: float | None = 1.0
    backward_inside: bool = False

    def __init__(self) -> None:
        self.progress = Progress()

    def batch(self, share: float) -> Any:
        """The next batch; `share` of the training is done."""
        raise NotImplementedError

    def loss(self, batch: Any) -> Loss:
        """The loss of a batch; runs inside `context`."""
        raise NotImplementedError

    def rate(self, share: float) -> float | None:
        """The learning rate of the next update; None leaves it as it is."""
        return None

    def learnt(self) -> Iterable[nn.Parameter]:
        """The parameters whose gradients are clipped."""
        return self.network.parameters()

    def context(self) -> AbstractContextManager[Any]:
        """In which the loss is computed: bfloat16 autocast, plain attention on a CPU."""
        stack = ExitStack()
        stack.enter_context(attention(self.device))
        stack.enter_context(torch.autocast(torch.device(self.device).type, dtype=torch.bfloat16))
        return stack

    def after_step(self, loss: float, shown: float, facts: dict[str, float] | None) -> None:
        """Called after every update with its loss, the smoothed one and the facts."""

    def ended(self) -> None:
        """Called behind the last step."""

    def weights(self) -> dict[str, Tensor]:
        """What a checkpoint keeps of the network."""
        return self.network.state_dict()

    def load_weights(self, weights: dict[str, Tensor]) -> None:
        """The weights of a checkpoint back into the network."""
        self.network.load_state_dict(weights)

    def state(self) -> dict[str, Any]:
        """Beside weights, optimizer and progress: the place in the data and whatever else the rest depends on. Only
        tensors, numbers, texts, lists, tuples and dicts."""
        return {}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from such a state."""


def run(training: Training, until: Until, *, checkpoint: Path | None = None) -> Progress:
    """Train until the end. Interrupted, it keeps the checkpoint and raises UserError with the command that goes on; the
    state at the end is kept too, since what follows may be interrupted, and the caller removes it."""
    try:
        _steps(training, until, checkpoint)
    except KeyboardInterrupt:
        if checkpoint is None:
            raise
        save(training, checkpoint)
        raise UserError(f"stopped at step {training.progress.step}; go on with: {training.command} --resume") from None
    if checkpoint is not None:
        save(training, checkpoint)
    return training.progress


@contextmanager
def ctrl_c_waits() -> Iterator[Callable[[], bool]]:
    """Ctrl-C ends the step under way first, so that what is kept is whole; a second one does not wait. Gives whether it
    was pressed. Elsewhere than in the main thread nothing is changed."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    pressed: list[int] = []

    def noted(number: int, frame: object) -> None:
        if pressed:
            raise KeyboardInterrupt
        pressed.append(number)

    before = signal.signal(signal.SIGINT, noted)
    try:
        yield lambda: bool(pressed)
    finally:
        signal.signal(signal.SIGINT, before)


def _steps(training: Training, until: Until, checkpoint: Path | None) -> None:
    progress = training.progress
    began, cpu = time.monotonic() - progress.seconds, time.process_time() - progress.cpu_seconds
    saved, shown = time.monotonic(), 0.0

    def share_done() -> float:
        progress.seconds, progress.cpu_seconds = time.monotonic() - began, time.process_time() - cpu
        return until.share(progress)

    bar = tqdm(total=until.steps, initial=progress.step, desc=training.name, mininterval=5, dynamic_ncols=True)
    with bar, ctrl_c_waits() as pressed:
        while (share := share_done()) < 1:
            loss = update(training, share)
            value = loss.value.item()
            shown = value if shown == 0 else 0.95 * shown + 0.05 * value
            progress.step, progress.tokens = progress.step + 1, progress.tokens + loss.tokens
            progress.answer_tokens += loss.answer_tokens
            training.after_step(value, shown, loss.facts)
            bar.update()
            bar.set_postfix({k: f"{v:.4f}" for k, v in (loss.facts or {"loss": shown}).items()}, refresh=False)
            if pressed():
                raise KeyboardInterrupt
            if checkpoint is not None and time.monotonic() - saved > SAVE_SECONDS:
                save(training, checkpoint)
                saved = time.monotonic()
    training.ended()


def update(training: Training, share: float) -> Loss:
    """One batch, its loss and one update of the weights."""
    batch = training.batch(share)
    training.network.train()
    with training.context():
        loss = training.loss(batch)
        if training.backward_inside:
            loss.value.backward()  # type: ignore[no-untyped-call]
    if not training.backward_inside:
        loss.value.backward()  # type: ignore[no-untyped-call]
    if training.clip is not None:
        torch.nn.utils.clip_grad_norm_(training.learnt(), training.clip)
    if (rate := training.rate(share)) is not None:
        for group in training.optimizer.param_groups:
            group["lr"] = rate * group.get("factor", 1.0)
    training.optimizer.step()
    training.optimizer.zero_grad()
    return loss


def save(training: Training, path: Path) -> None:
    """Write the checkpoint. Where that fails it says so and the last whole one stays."""
    state = {"settings": training.settings, "weights": training.weights(), "optimizer": training.optimizer.state_dict()}
    state |= {"progress": asdict(training.progress), "state": training.state()}
    partial = path.with_suffix(".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(state, partial)
        os.replace(partial, path)
    except (OSError, RuntimeError) as error:  # torch reports a full disk as a RuntimeError
        partial.unlink(missing_ok=True)
        print(f"the checkpoint {path} could not be written ({error}); training goes on, the last whole one is kept.")


def restore(training: Training, path: Path) -> None:
    """Go on from a checkpoint. Raises UserError where there is none, or one of other settings or of another version."""
    if not path.is_file():
        raise UserError(f"there is no checkpoint of '{training.name}' to go on from ({path}); leave --resume out.")
    state = torch.load(path, weights_only=True, map_location="cpu")
    if state.get("settings") != training.settings or "progress" not in state:
        raise UserError(
            f"the checkpoint {path} was made with other settings or data of '{training.name}'; give the same ones, or "
            "leave --resume out to start again."
        )
    training.load_weights(state["weights"])
    training.optimizer.load_state_dict(state["optimizer"])
    training.progress = Progress(**state["progress"])
    training.load(state["state"])
