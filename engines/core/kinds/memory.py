"""Memory layers: a layered model that keeps a table of small vectors beside its feed-forward parts, of which every row
reads a few slots. What it read is handed out through `Taps.memory`."""

from typing import NamedTuple, Protocol, runtime_checkable

from engines.core.kinds.base import Kind
from engines.core.kinds.layered import CountedLayered, LayeredLM


class MemoryTable(NamedTuple):
    """The memory of a layer: its number, K rows and K columns of keys, slots that a row reads, slots of the pool that
    it shares with other layers and the first of them that is its own (it sees K * K from there on, round the end);
    bytes of one slot; bytes that every forward reads of keys, projections and feed-forward part, however few rows it
    has."""

    layer: int
    keys: int
    slots_read: int
    pool: int
    first: int
    slot_bytes: int
    always_bytes: int


@runtime_checkable
class MemoryLM(LayeredLM, Protocol):
    """A layered model with memories, in the order of its layers."""

    memories: tuple[MemoryTable, ...]


class CountedMemory(CountedLayered):
    """A model with memories seen through the meter. Its work is rows times layers, as of any layered model."""

    memories: tuple[MemoryTable, ...]


KIND = Kind("memory", MemoryLM, CountedMemory, "tiny-ultramem", role="target", of="causal")
