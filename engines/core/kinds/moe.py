"""Mixtures of experts: a layered model whose feed-forward parts are many experts, of which a router picks some for each
row. What it picked is handed out through `Taps.router`.

Shapes: n rows, k experts of a row at most."""

from typing import NamedTuple, Protocol, runtime_checkable

from engines.core.kinds.base import Kind
from engines.core.kinds.layered import CountedLayered, LayeredLM


class Mixture(NamedTuple):
    """The experts of a layer: how many there are and the bytes of the weights of one; layer: its number."""

    layer: int
    experts: int
    expert_bytes: int


@runtime_checkable
class MoELM(LayeredLM, Protocol):
    """A layered model with routers. mixtures: its sparse layers, in their order; dense ones are none."""

    mixtures: tuple[Mixture, ...]


class CountedMoE(CountedLayered):
    """A mixture of experts seen through the meter. Its work is rows times layers, as of any layered model; what a
    method says of experts read stands in its facts."""

    mixtures: tuple[Mixture, ...]


KIND = Kind("moe", MoELM, CountedMoE, "tiny-blockffn", role="target", of="causal")
