"""What the study of operators measures: texts read with each kind of G, and decoded in each mode.

Shapes: P prompts, L layers, h heads of size d, V vocabulary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import median
from typing import TYPE_CHECKING, Any

from engines.core.lazy import torch
from engines.models import operators
from engines.tasks import TASKS, Example

if TYPE_CHECKING:
    from torch import Tensor

MODES = ("none", "G only", "KV", "KV+G")


@dataclass(frozen=True)
class Text:
    """A held-out prompt with its reference answer, in tokens, the end mark behind it."""

    prompt: list[int]
    answer: list[int]


def texts(model: Any, tasks: Sequence[str], each: int, seed: int) -> list[Text]:
    """The same number of held-out prompts of every task, in turns."""
    found: list[list[Example]] = [list(islice(TASKS[task].generate("held-out", seed=seed), each)) for task in tasks]
    encode, end = model.tokenizer, min(model.eos_ids)
    return [
        Text(encode.encode_prompt(one.prompt), [*encode.encode(f" {one.answer}"), end])
        for turn in zip(*found, strict=True)
        for one in turn
    ]


def untrained(model: Any, seed: int) -> Any:
    """The same network without training."""
    from engines.models.adapters.power_law import HFPowerLawLM

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = type(model.model)(model.config).to(model.model.dtype)
    return HFPowerLawLM(network, model.tokenizer, model.record, model.eos_ids)


def of_prompts(model: Any, found: Sequence[Text]) -> Tensor:
    """G [P, L, h, d, d] of prompts, each read alone."""
    return torch.stack([model.forward(one.prompt).G_LM for one in found])


@dataclass(frozen=True)
class Read:
    """How an answer was read with one kind of G: nats and first choices [n] of its tokens, and their logits [n, V]."""

    nats: Tensor
    first: Tensor
    logits: Tensor


def read(model: Any, one: Text, G: Tensor | None) -> Read:
    """A prompt with its answer, all at once; G None: its own, of the whole text, as in training."""
    logits = model.forward([*one.prompt, *one.answer], G=G, last_only=False).logits
    logits = logits[len(one.prompt) - 1 : -1]
    wanted = torch.tensor(one.answer, device=logits.device)
    return Read(-logits.log_softmax(-1).gather(1, wanted[:, None])[:, 0], logits.argmax(-1), logits)


def kinds(G: Tensor, at: int, seed: int) -> dict[str, Tensor | None]:
    """The kinds of G that a text is read with: its own of the whole text, of its prompt alone, of the next prompt (of
    another task), the identity, noise of the same size by layer. G [P, L, h, d, d]: of all prompts."""
    noise = torch.randn(G[at].shape, generator=torch.Generator().manual_seed(seed + at)).to(G)
    size = G[at].square().mean((1, 2, 3), keepdim=True).sqrt()
    return {
        "own, of the whole text": None,
        "own, of the prompt": G[at],
        "of another prompt": G[(at + 1) % len(G)],
        "identity": operators.identity(G[at]).contiguous(),
        "random": noise * size,
    }


@dataclass(frozen=True)
class Decoded:
    """A text as one mode wrote it: tokens, logits of every step [n, V], milliseconds of every step, of these those in
    which G was made, and how far G moved from the first step's in the last one, by layer."""

    tokens: list[int]
    logits: Tensor
    ms: list[float]
    made_ms: list[float]
    moved: list[float]

    def middle(self) -> float:
        """Milliseconds of a token behind the first."""
        return median(self.ms[1:] or self.ms)


def decode(model: Any, prompt: Sequence[int], mode: str, tokens: int) -> Decoded:
    """Greedy, with the caches of a mode."""
    ids, cache, G = list(prompt), model.new_cache(len(prompt) + tokens) if "KV" in mode else None, None
    steps, first = list[Any](), None
    while len(steps) < tokens and not (steps and ids[-1] in model.eos_ids):
        now = model.forward(ids[cache.length :] if cache else ids, cache, G)
        first = now.G_LM if first is None else first
        G = now.G_LM if "G" in mode else None
        steps.append(now)
        ids.append(int(now.logits[0].argmax()))
    return Decoded(
        ids[len(prompt) :],
        torch.cat([now.logits for now in steps]),
        [1e3 * (now.ended - now.began) for now in steps],
        [1e3 * now.operator_seconds for now in steps],
        operators.change(first, steps[-1].G_LM).tolist(),
    )


def apart(one: Decoded, other: Decoded) -> tuple[int | None, float]:
    """(first token in which two texts differ, None for nowhere; the largest difference of their logits up to there)."""
    pairs = enumerate(zip(one.tokens, other.tokens, strict=False))
    at = next((i for i, (a, b) in pairs if a != b), None)
    shared = min(len(one.logits), len(other.logits)) if at is None else at + 1
    return at, float((one.logits[:shared] - other.logits[:shared]).abs().max())


def in_turns(items: Sequence[str], number: int) -> Iterator[str]:
    """All items, begun with another one each time, so that none is always the first to run."""
    yield from (*items[number % len(items) :], *items[: number % len(items)])
