"""What a method may ask of a model (protocols), and the wrapper through which every call goes: it counts, times and forbids.

Shapes: L board positions, n rows fed, V vocabulary, d hidden size. Logits are float32 whatever the weights' dtype.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from engines.core.events import ModelRecord, Piece
from engines.core.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor


class Tokenizer(Protocol):
    """Text to ids and back, and how each id looks."""

    def encode_prompt(self, text: str) -> list[int]:
        """Ids of a user's prompt in the model's own chat format (or plain, where it has none)."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids; special tokens are left out, broken bytes become U+FFFD."""
        ...

    def piece(self, token: int) -> Piece:
        """How one id looks: its text, or that it is special or a lone byte."""
        ...


@runtime_checkable
class Model(Protocol):
    """Common to all kinds."""

    record: ModelRecord
    tokenizer: Tokenizer
    vocab_size: int
    max_positions: int
    eos_ids: frozenset[int]

    def warm_up(self) -> float:
        """Run one untimed forward the first time; return the seconds it took (0.0 later)."""
        ...


class KVCache(Protocol):
    """Keys and values of `length` positions in preallocated buffers."""

    length: int

    def crop(self, length: int) -> None:
        """Forget everything from position `length` on. Raises ValueError if there is less."""
        ...

    def keep(self, base: int, rows: Sequence[int]) -> None:
        """Keep the first `base` rows and, behind them, the rows base + r for r in `rows` (ascending)."""
        ...


@dataclass
class Extended:
    """What one causal forward gives: logits [n, V] for the rows asked for, and hidden states [n, d] of the layers asked for."""

    logits: Tensor
    hidden: dict[int, Tensor] = field(default_factory=dict)


@runtime_checkable
class CausalLM(Model, Protocol):
    """Left-to-right model with a cache that a draft tree can be laid on."""

    num_layers: int

    def new_cache(self, capacity: int) -> KVCache:
        """An empty cache for up to `capacity` positions."""
        ...

    def extend(
        self, tokens: Sequence[int] | Tensor, cache: KVCache, *, parents: Sequence[int] | None = None, hidden: Sequence[int] = (), last_only: bool = False
    ) -> Extended:
        """Feed n tokens behind the cache, which then holds n more rows.

        parents: for a tree, the row index of each row's parent, -1 for a row that follows the cache; None is a plain chain.
        Row i sees the cache, its ancestors and itself, at position cache.length + depth. last_only: logits [1, V] of the last row.
        """
        ...


@runtime_checkable
class MaskedLM(Model, Protocol):
    """Bidirectional model over a board with masks. Row i of its logits is the law of position i (any shift is done inside)."""

    mask_id: int

    def __call__(self, x: Tensor) -> Tensor:
        """x [L] -> logits [L, V], or [B, L] -> [B, L, V]. The mask token is never proposed: its logit is -inf."""
        ...


KINDS: dict[str, type] = {"causal": CausalLM, "masked": MaskedLM}


@dataclass
class Meter:
    """What the model calls since the last step cost."""

    forwards: dict[str, int] = field(default_factory=dict)
    tokens_fed: int = 0
    seconds: float = 0.0
    forbidden: dict[int, set[int]] = field(default_factory=dict)  # position -> tokens, from edits; lives as long as the run

    def reset(self) -> None:
        """Start a new step."""
        self.forwards, self.tokens_fed, self.seconds = {}, 0, 0.0

    def call(self, role: str, device: str, fed: int, work: Any) -> Any:
        """Run `work()` on the clock and book it under `role`."""
        synchronise(device)
        began = time.perf_counter()
        result = work()
        synchronise(device)
        self.seconds += time.perf_counter() - began
        self.forwards[role] = self.forwards.get(role, 0) + 1
        self.tokens_fed += fed
        return result


def synchronise(device: str) -> None:
    """Wait for the accelerator, so that the clock measures work and not its submission."""
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


class CountedMasked:
    """A masked model seen through the meter."""

    def __init__(self, model: MaskedLM, role: str, meter: Meter) -> None:
        self._model, self._role, self._meter = model, role, meter
        self.mask_id, self.eos_ids, self.vocab_size = model.mask_id, model.eos_ids, model.vocab_size
        self.max_positions, self.tokenizer, self.record = model.max_positions, model.tokenizer, model.record

    def warm_up(self) -> float:
        """See `Model`."""
        return self._model.warm_up()

    def __call__(self, x: Tensor) -> Tensor:
        """See `MaskedLM`; forbidden tokens get -inf."""
        logits = self._meter.call(self._role, self.record.device, x.numel(), lambda: self._model(x))
        for position, tokens in self._meter.forbidden.items():
            if position < x.shape[-1]:
                logits[..., position, sorted(tokens)] = -torch.inf
        return logits


class CountedCausal:
    """A causal model seen through the meter."""

    def __init__(self, model: CausalLM, role: str, meter: Meter) -> None:
        self._model, self._role, self._meter = model, role, meter
        self.eos_ids, self.vocab_size, self.num_layers = model.eos_ids, model.vocab_size, model.num_layers
        self.max_positions, self.tokenizer, self.record = model.max_positions, model.tokenizer, model.record

    def warm_up(self) -> float:
        """See `Model`."""
        return self._model.warm_up()

    def new_cache(self, capacity: int) -> KVCache:
        """See `CausalLM`."""
        return self._model.new_cache(capacity)

    def extend(
        self, tokens: Sequence[int] | Tensor, cache: KVCache, *, parents: Sequence[int] | None = None, hidden: Sequence[int] = (), last_only: bool = False
    ) -> Extended:
        """See `CausalLM`; a row never proposes a token forbidden at the position it predicts."""
        past, n = cache.length, len(tokens)
        result: Extended = self._meter.call(
            self._role, self.record.device, n, lambda: self._model.extend(tokens, cache, parents=parents, hidden=hidden, last_only=last_only)
        )
        if self._meter.forbidden:
            depths = [n - 1] if last_only else row_depths(parents) if parents is not None else list(range(n))
            for row, depth in enumerate(depths):
                for token in self._meter.forbidden.get(past + depth + 1, ()):
                    result.logits[row, token] = -torch.inf
        return result


def row_depths(parents: Sequence[int]) -> list[int]:
    """Depth of each row of a tree whose parents stand before their children; a row with parent -1 has depth 0."""
    depths: list[int] = []
    for parent in parents:
        depths.append(0 if parent < 0 else depths[parent] + 1)
    return depths


def counted(model: Model, role: str, meter: Meter) -> CountedMasked | CountedCausal:
    """The model as a method sees it."""
    return CountedMasked(model, role, meter) if isinstance(model, MaskedLM) else CountedCausal(model, role, meter)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Roles:
    """Several models of one run by role, read as attributes: `models.small`, `models.large`."""

    models: Mapping[str, CountedMasked | CountedCausal]

    def __getattr__(self, role: str) -> CountedMasked | CountedCausal:
        try:
            return self.models[role]
        except KeyError:
            raise AttributeError(role) from None
