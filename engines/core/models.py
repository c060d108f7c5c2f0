"""What a method may ask of a model (protocols), and the meter on which every call is counted and timed.

Shapes: L board positions, n rows fed, m prompt tokens, V vocabulary, d hidden size, h heads. Logits are float32 whatever the weights' dtype.
"""

from __future__ import annotations

import threading
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

    def encode(self, text: str) -> list[int]:
        """Ids of a piece of text as it stands, without chat format and without a beginning or end mark."""
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
    """What one forward behind a cache gives: logits [n, V] for the rows asked for, and hidden states [n, d] of the layers asked for.

    attention [h, n, m]: where a decoder looked it up (`Seq2SeqLM`), how much of each prompt token each row took in the last layer; rows sum to 1.
    """

    logits: Tensor
    hidden: dict[int, Tensor] = field(default_factory=dict)
    attention: Tensor | None = None


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

        parents: for a tree, the row index of each row's parent, -1 for a row that follows the text; None is a plain chain. A list longer than the
        tokens says that the tree's first rows lie behind the text in the cache already, from earlier calls, and gives their parents too.
        Row i sees the text, its ancestors and itself, at position (length of the text) + depth. last_only: logits [1, V] of the last row.
        """
        ...


@runtime_checkable
class MaskedLM(Model, Protocol):
    """Bidirectional model over a board with masks. Row i of its logits is the law of position i (any shift is done inside)."""

    mask_id: int

    def __call__(self, x: Tensor) -> Tensor:
        """x [L] -> logits [L, V], or [B, L] -> [B, L, V]. The mask token is never proposed: its logit is -inf."""
        ...


@runtime_checkable
class CachedMaskedLM(MaskedLM, Protocol):
    """A masked model that can be fed a part of the board on keys and values of earlier forwards: approximate ones, for they saw another board.

    shift: row i of the network predicts token i + 1; rows are moved one to the right inside what was fed, the first one keeps its own.
    """

    shift: bool

    def new_cache(self, capacity: int) -> KVCache:
        """A cache for boards of up to `capacity` positions. Raises UserError where the network cannot do it."""
        ...

    def feed(self, x: Tensor, cache: KVCache, start: int, end: int) -> Tensor:
        """Feed the positions start ... end - 1 of a board x [L]; their keys and values replace those in the cache.

        The positions left out count as what they were in the forward that last fed them; of a board that has become shorter, what stood behind it is
        forgotten. Returns logits [end - start, V]; row i is the law of position start + i. With `shift` and start > 0, row 0 keeps its own: its
        position's law stands before what was fed, so it should be decided already. Raises ValueError for a part of a board that was not fed as a whole
        before.
        """
        ...


@runtime_checkable
class BlockMaskedLM(Model, Protocol):
    """Block diffusion: bidirectional inside a block of `block_size` absolute positions (counted from 0), causal between blocks.

    Finished blocks are stored, their keys and values are exact and stay. The block behind them is fed as often as it takes, and the keys and values
    of those forwards stay behind the cache until the block is stored: the sub-block cache of Fast-dLLM v2 (arXiv 2509.26328).
    shift: row i of the network predicts token i + 1; rows are moved one to the right inside what was fed, the first one keeps its own.
    """

    mask_id: int
    block_size: int
    shift: bool

    def new_cache(self, capacity: int) -> KVCache:
        """An empty cache for up to `capacity` positions. A crop has to end at a block's edge; any crop forgets the unfinished block."""
        ...

    def store(self, tokens: Sequence[int] | Tensor, cache: KVCache) -> Tensor:
        """Feed one or more finished blocks behind the cache, which then holds them.

        Returns logits [V] of the last row: with `shift` the law of the position behind them (a free next token), else of their last position.
        Raises ValueError where these are no whole blocks.
        """
        ...

    def denoise(self, tokens: Sequence[int] | Tensor, cache: KVCache, start: int = 0) -> Tensor:
        """Feed the block behind the cache, or only its positions start ... start + n - 1; `cache.length` stays.

        The positions left out count as what they were in the forward that last fed them. Returns logits [n, V]; row i is the law of position
        cache.length + start + i. With `shift` row 0 keeps its own: its position's law stands before what was fed, so it should be decided already.
        Raises ValueError for a part of a block that was not fed as a whole before.
        """
        ...

    def __call__(self, x: Tensor) -> Tensor:
        """The whole board without a cache, of any length: x [L] -> logits [L, V], or [B, L] -> [B, L, V].

        Row i is the law of position i. With `shift` the first row of a block comes from the block before it: it is what `store` of that block gives.
        """
        ...


class Memory(Protocol):
    """What an encoder made of a prompt of `length` tokens, once: its output, and the keys and values that the decoder's layers look up in it."""

    length: int


@runtime_checkable
class Seq2SeqLM(Model, Protocol):
    """Encoder-decoder: the prompt is read once, the decoder writes the answer left to right.

    A cache counts positions of the board, prompt included, as for `CausalLM`: the start token stands for the prompt's last token, so a fresh cache
    holds m - 1 positions, [start_id, *answer] is fed behind it, and row i predicts position cache.length + i + 1.
    """

    start_id: int
    encoder_layers: int
    decoder_layers: int

    def encode(self, prompt: Sequence[int] | Tensor) -> Memory:
        """Run the encoder over m prompt tokens."""
        ...

    def new_cache(self, memory: Memory, capacity: int) -> KVCache:
        """A decoder cache for a board of up to `capacity` positions, prompt included. One memory may serve several caches."""
        ...

    def extend(self, tokens: Sequence[int] | Tensor, cache: KVCache, *, last_only: bool = False, attention: bool = False) -> Extended:
        """Feed n answer tokens behind the cache, which then holds n more rows. last_only: logits [1, V] of the last row. attention: see `Extended`."""
        ...


KINDS: dict[str, type] = {"causal": CausalLM, "masked": MaskedLM, "block": BlockMaskedLM, "seq2seq": Seq2SeqLM}


class OverBudget(BaseException):
    """A method asked for more than its budget. Like GeneratorExit nothing that a method catches for itself."""


@dataclass
class Meter:
    """What the model calls since the last step cost.

    Two models may be called from two threads at once: each call is booked whole, and `seconds` is the time in which any call ran, so that what two of
    them share counts once.
    Once `spent`, a call or a step raises OverBudget instead: a method whose budget is used up may still say that it is finished.
    """

    forwards: dict[str, int] = field(default_factory=dict)
    tokens_fed: int = 0
    seconds: float = 0.0
    calls: list[tuple[str, float, float, int]] = field(default_factory=list)  # role, began, ended (on time.perf_counter), tokens fed
    forbidden: dict[int, set[int]] = field(default_factory=dict)  # position -> tokens, from edits; lives as long as the run
    spent: bool = False
    lock: Any = field(default_factory=threading.Lock, repr=False, compare=False)
    _running: int = field(default=0, repr=False, compare=False)
    _since: float = field(default=0.0, repr=False, compare=False)  # when the first of the calls that run now began

    def reset(self) -> None:
        """Start a new step."""
        self.forwards, self.tokens_fed, self.seconds, self.calls = {}, 0, 0.0, []

    def call(self, role: str, device: str, fed: int, work: Any) -> Any:
        """Run `work()` on the clock and book it under `role`. Raises OverBudget once `spent`."""
        if self.spent:
            raise OverBudget
        synchronise(device)
        with self.lock:
            began = time.perf_counter()
            self._since = self._since if self._running else began
            self._running += 1
        try:
            result = work()
            synchronise(device)
        finally:
            with self.lock:
                ended = time.perf_counter()
                self._running -= 1
                self.seconds += 0.0 if self._running else ended - self._since
        with self.lock:
            self.calls.append((role, began, ended, fed))
            self.forwards[role] = self.forwards.get(role, 0) + 1
            self.tokens_fed += fed
        return result


def synchronise(device: str) -> None:
    """Wait for the accelerator, so that the clock measures work and not its submission."""
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


def row_depths(parents: Sequence[int]) -> list[int]:
    """Depth of each row of a tree whose parents stand before their children; a row with parent -1 has depth 0."""
    depths: list[int] = []
    for parent in parents:
        depths.append(0 if parent < 0 else depths[parent] + 1)
    return depths


@dataclass(frozen=True)
class Roles:
    """Several models of one run by role, read as attributes: `models.small`, `models.large`, each of the kind that the method declares for it."""

    models: Mapping[str, Any]

    def __getattr__(self, role: str) -> Any:
        try:
            return self.models[role]
        except KeyError:
            raise AttributeError(role) from None
