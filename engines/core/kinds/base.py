"""What all kinds of models share: tokenizer, cache, the common protocol, and a model seen through the meter.

Shapes: L board positions, n rows fed, m prompt tokens, V vocabulary, d hidden size, h heads. Logits are float32
whatever the weights' dtype."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, runtime_checkable

from engines.core.lazy import Tensor, torch
from engines.core.meter import Meter
from engines.core.picture import Picture, Pictured
from engines.core.trace import ModelRecord, Piece

Ids: TypeAlias = Sequence[int] | Tensor  # of tokens [n]
Parents: TypeAlias = Sequence[int] | None  # the rows above those of a tree; None is a plain chain


class Tokenizer(Protocol):
    """Text to ids and back, and how each id looks."""

    def encode_prompt(self, text: str) -> list[int]:
        """Ids of a user's prompt in the model's own chat format (or plain, where it has none)."""

    def encode(self, text: str) -> list[int]:
        """Ids of a piece of text as it stands, without chat format and without a beginning or end mark."""

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids; special tokens are left out, broken bytes become U+FFFD."""

    def piece(self, token: int) -> Piece:
        """How one id looks: its text, or that it is special or a lone byte."""


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


class KVCache(Protocol):
    """Keys and values of `length` positions in preallocated buffers."""

    length: int

    def crop(self, length: int) -> None:
        """Forget everything from position `length` on. Raises ValueError if there is less."""

    def keep(self, base: int, rows: Sequence[int]) -> None:
        """Keep the first `base` rows and, behind them, the rows base + r for r in `rows` (ascending)."""


@dataclass
class Extended:
    """What one forward behind a cache gives: logits [n, V] for the rows asked for, and hidden states [n, d] of the
    layers asked for.

    attention [h, n, m]: how much of each prompt token each row took in a decoder's last layer; rows sum to 1."""

    logits: Tensor
    hidden: dict[int, Tensor] = field(default_factory=dict)
    attention: Tensor | None = None


class Counted:
    """A model seen through the meter: what all kinds pass on, and what the class of one kind annotates, as the model
    has it. num_layers: those that a row fed goes through, of a model that reads first those that write; 0 for a model
    that has none.
    position_bytes: what keys and values of one position take in its caches, 0 where that is not known. weights: how
    many its parts have, by the part, of kinds that tell. picture: what its tokens draw, None for a model of text.
    picture_ids: ids above the vocabulary that stand in a prompt for parts of a picture."""

    def __init__(self, model: Any, role: str, meter: Meter) -> None:
        self._model, self._role, self._meter = model, role, meter
        self.num_layers = int(getattr(model, "decoder_layers", 0) or getattr(model, "num_layers", 0))
        self.position_bytes = int(getattr(model, "position_bytes", 0))
        self.weights: dict[str, int] = dict(getattr(model, "weights", {}))
        self.picture: Picture | None = getattr(model, "picture", None)
        self._pictured: Callable[[Sequence[int]], Pictured | None] | None = getattr(model, "pictured", None)
        self.eos_ids, self.vocab_size = model.eos_ids, model.vocab_size
        self.picture_ids: range = getattr(model, "picture_ids", range(0))
        self.max_positions, self.tokenizer, self.record = model.max_positions, model.tokenizer, model.record
        for kind in type(self).__mro__:
            for name in inspect.get_annotations(kind):
                setattr(self, name, getattr(model, name))

    def new_cache(self, *given: Any) -> Any:
        """An empty cache; see the kind's protocol."""
        return self._model.new_cache(*given)

    def pictured(self, ids: Sequence[int]) -> Pictured | None:
        """The picture that stands on a board of these ids; None where there is none, or the model does not see."""
        return self._pictured(ids) if self._pictured else None

    def warm_up(self) -> float:
        """See `Model`."""
        return float(self._model.warm_up())

    def _legible(self, tokens: Ids) -> Ids:
        """Tokens [n] as this model can read them: one that it lacks, since another model of the run has rows for more
        tokens than the tokenizer names, is read as an end of text (or token 0)."""
        if (
            self.picture_ids
            or not len(tokens)
            or int(tokens.max() if isinstance(tokens, torch.Tensor) else max(tokens)) < self.vocab_size
        ):
            return tokens
        stand_in = min(self.eos_ids, default=0)
        return [token if token < self.vocab_size else stand_in for token in map(int, tokens)]

    def _call(
        self, fed: int, compute: Callable[[], Any], layer_rows: int | None = None, *, forward: bool = True
    ) -> Any:
        """A call of `fed` rows, a whole forward where nothing else is said: see `Meter.call`."""
        work = fed * self.num_layers if layer_rows is None else layer_rows
        return self._meter.call(self._role, self.record.device, fed, compute, layer_rows=work, forward=forward)

    def _allowed(self, logits: Tensor, first: int) -> Tensor:
        """Logits [..., n, V] of positions from `first` on, in place with -inf for the tokens forbidden there."""
        for position, tokens in self._meter.forbidden.items():
            if first <= position < first + logits.shape[-2]:
                logits[..., position - first, sorted(tokens)] = -torch.inf
        return logits


@dataclass(frozen=True)
class Kind:
    """A kind of model; each is declared as `KIND` in a file of this folder, and nowhere else.

    protocol: what a method may ask of such a model. counted: the model as a method sees it. example: the embedded model
    on which the contract tests run a method of this kind, if one ships. role: what a method's only model is called. of:
    the kind whose models these are, if they are such models with more to ask for; '' otherwise. masked: the board has
    its length from the start and holds masks."""

    name: str
    protocol: type
    counted: Callable[[Any, str, Meter], Counted]
    example: str = ""
    role: str = "model"
    of: str = ""
    masked: bool = False

    @property
    def board(self) -> str:
        """The kind whose boards these models write: a layered model writes what a causal one writes."""
        return self.of or self.name
