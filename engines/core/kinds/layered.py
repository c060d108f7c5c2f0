"""Left to right, layer by layer: a causal model whose forward a method makes itself, in parts.

A method that asks for such a model (`needs="layered"`) can leave early, draft with the first layers and verify with the
rest on what they left behind, put rows of its own between two layers, or read what passes inside. `extend` is the three
calls composed: `unembed(layers(embed(tokens), cache, 0, num_layers))`.

Shapes: n rows fed, d hidden size, V vocabulary, h query heads, g key-value heads, e head size, m positions seen, E
experts of which k are used, F channels of the feed-forward part, K rows and K columns of keys of a memory with h heads
of scores."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

from engines.core.kinds.base import Ids, Kind, KVCache, Parents
from engines.core.kinds.causal import CausalLM, CountedCausal
from engines.core.lazy import Tensor, torch


@runtime_checkable
class LayeredCache(KVCache, Protocol):
    """A cache whose layers may hold different numbers of rows: an early exit fills the first layers only.

    `length` is what all layers hold. `crop` and `keep` act on every layer as far as it holds the rows: a layer that
    lags behind keeps the first ones of what is kept."""

    @property
    def lengths(self) -> tuple[int, ...]:
        """Rows that each layer holds."""


class AttentionInputs(NamedTuple):
    """What the attention of a layer computes with, behind norms and rotation: queries [h, n, e], keys and values
    [g, m, e] of all positions it may see, the factor of the scores, and sees [n, m], which row sees which position."""

    layer: int
    queries: Tensor
    keys: Tensor
    values: Tensor
    scale: float
    sees: Tensor


class Routing(NamedTuple):
    """What the router of a sparse layer decided for its rows: logits [n, E] of all experts, and of the chosen ones
    their numbers [n, k] and the weights [n, k] with which they count; -1 and 0 where a row uses fewer than k."""

    layer: int
    logits: Tensor
    experts: Tensor
    weights: Tensor


class SlotsRead(NamedTuple):
    """What a memory beside the feed-forward part of a layer read for its rows: the m best rows and columns of its keys,
    best first; of the slots read, best first, their crossings row * K + column, their numbers in the memory and the
    score [n, m, h] of each head, all [n, m] but that; pre-scores [n, m]; its output and the feed-forward part's,
    [n, d]."""

    layer: int
    rows: Tensor
    columns: Tensor
    crossings: Tensor
    slots: Tensor
    scores: Tensor
    pre_scores: Tensor
    output: Tensor
    dense: Tensor


@dataclass(frozen=True)
class Taps:
    """What a call of `layers` hands out on its way, to functions of the method; None: not wanted. A tensor that such a
    function returns takes the place of what it was given (of the attention: of its output [h, n, e]).

    stream(i, x): the rows [n, d] behind i layers, i from `first` to `last`, before the final norm; nothing can replace
    them. reads(layer, x): the rows [n, d] that the attention of a layer reads, before its norm; keys and values come
    from them too, what they are added to stays. feeds(layer, x): the rows [n, d] that its feed-forward part reads,
    before its norm and with the attention added; what its output is added to stays. attention: see `AttentionInputs`.
    channels(layer, u): the input [n, F] of the last matrix of a dense feed-forward part. router: see
    `Routing`; nothing can replace it. linear(layer, name, x, y): what a linear map of attention or dense feed-forward
    part reads [n, in] and gives [n, out], by its name in the stock module, such as "q_proj". memory: see `SlotsRead`;
    slots: how many a row reads in such a layer, 0 for as many as it learnt with.
    layers: the numbers of the layers that hand out; None: all. A tapped call computes the same numbers, a little
    slower."""

    stream: Callable[[int, Tensor], None] | None = None
    reads: Callable[[int, Tensor], Tensor | None] | None = None
    feeds: Callable[[int, Tensor], Tensor | None] | None = None
    attention: Callable[[AttentionInputs], Tensor | None] | None = None
    channels: Callable[[int, Tensor], Tensor | None] | None = None
    linear: Callable[[int, str, Tensor, Tensor], Tensor | None] | None = None
    router: Callable[[Routing], None] | None = None
    memory: Callable[[SlotsRead], None] | None = None
    slots: int = 0
    layers: Collection[int] | None = None

    def at(self, layer: int) -> bool:
        """Whether that layer hands something out."""
        return self.layers is None or layer in self.layers

    def inside(self, layer: int) -> bool:
        """Whether something inside that layer is handed out, not only the rows between layers."""
        functions = (self.reads, self.feeds, self.attention, self.channels, self.linear, self.router, self.memory)
        return self.at(layer) and (bool(self.slots) or any(function is not None for function in functions))


@runtime_checkable
class LayeredLM(CausalLM, Protocol):
    """A causal model that can also be run layer by layer. Layers are counted from 0; `layers(x, cache, a, b)` runs the
    layers a ... b - 1 and gives the rows behind b layers.

    A row is whatever enters: an embedded token, an embedding of the method's own, a hidden state that it made up."""

    def new_cache(self, capacity: int) -> LayeredCache:
        """An empty cache for up to `capacity` positions."""

    def embed(self, tokens: Ids) -> Tensor:
        """Embeddings [n, d] of n tokens, as the first layer reads them."""

    def layers(
        self,
        x: Tensor,
        cache: KVCache,
        first: int,
        last: int,
        *,
        parents: Parents = None,
        positions: Sequence[int] | None = None,
        taps: Taps | None = None,
    ) -> Tensor:
        """Run rows x [n, d] through the layers first ... last - 1, behind the rows that these layers hold; they hold n
        more then, other layers stay as they are. Returns [n, d], before the final norm; first = last gives x.

        parents: as in `CausalLM.extend`, counted over the rows of these layers. positions: of the n rows, where they
        are not those that follow from the cache and the parents. Raises UserError for layers that the model does not
        have, ValueError where these layers hold different numbers of rows."""

    def normed(self, h: Tensor) -> Tensor:
        """Rows [n, d] behind the last layer through the final norm: what the output head reads."""

    def unembed(self, h: Tensor, vocabulary: Ids | None = None, *, normed: bool = False) -> Tensor:
        """Logits [n, V] of rows [n, d] behind any layer: the final norm, then the output head. vocabulary: the tokens
        [v] of whom logits [n, v] are wanted, by default all; given as the same tensor each time, its rows of the head
        are taken out once. normed: h went through a norm already."""


class CountedLayered(CountedCausal):
    """A layered model seen through the meter.

    How a forward made in parts is booked: `unembed` counts as one forward of the role, however few layers its rows came
    through. `layers` books rows times layers as work, and as tokens fed the rows that enter layer 0. `embed` and
    `normed` book their time only. So embed, all layers and unembed add up to one `extend`, and an early exit is a
    forward that did less work. Rows of a call that are unembedded apart from the others (guesses that went along in a
    verifying call) are no further forward: `counts=False`. What is no forward of the model but a guess made with a part
    of it belongs to another role: see `playing`."""

    def playing(self, role: str) -> Self:
        """The same model, its calls booked under another role: the first layers that draft for the whole model play
        "draft"."""
        return type(self)(self._model, role, self._meter)

    def embed(self, tokens: Ids) -> Tensor:
        """See `LayeredLM`."""
        return self._part(lambda: self._model.embed(self._legible(tokens)))

    def layers(self, x: Tensor, cache: KVCache, first: int, last: int, **options: Any) -> Tensor:
        """See `LayeredLM`."""
        return self._part(
            lambda: self._model.layers(x, cache, first, last, **options),
            fed=len(x) if first == 0 < last else 0,
            layer_rows=len(x) * (last - first),
        )

    def normed(self, h: Tensor) -> Tensor:
        """See `LayeredLM`."""
        return self._part(lambda: self._model.normed(h))

    def unembed(
        self,
        h: Tensor,
        vocabulary: Ids | None = None,
        *,
        normed: bool = False,
        predicts: int | Sequence[int] | None = None,
        counts: bool = True,
    ) -> Tensor:
        """See `LayeredLM`. predicts: the positions that the rows speak of, one number for a chain that begins there;
        tokens forbidden at them get -inf. Leave it out only where nothing is proposed from these rows. counts: False
        for rows of a call whose other rows are unembedded, too, and count as its forward."""
        logits = self._part(lambda: self._model.unembed(h, vocabulary, normed=normed), forward=counts)
        if not counts:
            self._meter.check_numbers(logits, self._role)
        if self._meter.forbidden and predicts is not None:
            forbid(logits, predicts, self._meter.forbidden, vocabulary)
        return logits

    def _part(self, compute: Callable[[], Any], *, fed: int = 0, layer_rows: int = 0, forward: bool = False) -> Any:
        return self._meter.call(self._role, self.record.device, fed, compute, layer_rows=layer_rows, forward=forward)


def forbid(
    logits: Tensor,
    predicts: int | Sequence[int],
    forbidden: Mapping[int, Collection[int]],
    vocabulary: Ids | None = None,
) -> None:
    """Logits [n, v] in place with -inf for the tokens forbidden at the position of each row; predicts: as in `unembed`.
    vocabulary: the tokens of the columns, where these are not all. Raises ValueError for another number of positions
    than rows."""
    positions = range(predicts, predicts + len(logits)) if isinstance(predicts, int) else predicts
    columns = None if vocabulary is None else {int(token): i for i, token in enumerate(vocabulary)}
    if len(positions) != len(logits):
        raise ValueError(f"{len(logits)} rows were unembedded and {len(positions)} positions given; give one for each")
    for row, position in enumerate(positions):
        tokens = forbidden.get(position, ())
        banned = sorted(tokens if columns is None else (columns[t] for t in tokens if t in columns))
        if banned:
            logits[row, banned] = -torch.inf


KIND = Kind("layered", LayeredLM, CountedLayered, "tiny-ar-m", role="target", of="causal")
