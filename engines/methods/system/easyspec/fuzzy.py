"""A fuzzy forward, the times of its parts, and where they would stand on several devices (EasySpec, arXiv:2502.02493).

Letters: L layers, N layers of a group, G devices, n rows fed, d hidden size, V vocabulary. first: layer -> the first
layer of its group."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from engines.kit import Interval, KVCache, Recorder, Taps, Tensor, torch

ATTENTION, WHOLE = "attention", "attention and feed-forward"


def groups_of(layers: int, size: int, ends: int, last: int | None = None) -> dict[int, int]:
    """layer -> the first layer of its group: `ends` layers at the beginning and `last` at the end (as many, if not
    said) alone, groups of `size` between them, a smaller one behind those."""
    inner = range(ends, layers - (ends if last is None else last))
    return {layer: layer - (layer - ends) % size if layer in inner else layer for layer in range(layers)}


@dataclass
class Times:
    """When the parts of one forward ran, by `time.perf_counter`: (part, layer from 1, began, ended), 0 of the head.
    What stands between a layer's end and the next one's beginning is the recording's own."""

    parts: list[tuple[str, int, float, float]] = field(default_factory=list)
    _open: tuple[str, int, float] | None = None

    def begin(self, kind: str, layer: int, device: str) -> None:
        """A part begins; the one before ends, if it has not."""
        self.end(device)
        self._open = (kind, layer, time.perf_counter())

    def end(self, device: str) -> None:
        """The part that runs ends."""
        if device.startswith("cuda"):
            torch.cuda.synchronize(device)
        if self._open:
            self.parts.append((*self._open, time.perf_counter()))
        self._open = None

    def seconds(self, what: str) -> list[float]:
        """Of every layer's attention or feed-forward part, in order; of the head one."""
        return [ended - began for kind, _, began, ended in self.parts if kind == what]


def forward(
    model: Any,
    tokens: Sequence[int],
    cache: KVCache,
    first: Mapping[int, int],
    whole: bool = False,
    times: Times | None = None,
) -> Tensor:
    """Logits [V] behind tokens fed to the cache; the attention of each layer reads what entered the layer first[layer]
    (its own input without an entry). whole: so does its feed-forward part, with the layer's own attention added."""
    entered: dict[int, Tensor] = {}
    device = model.record.device

    def old(layer: int) -> Tensor | None:
        return entered[first[layer]] if first.get(layer, layer) < layer else None

    def reads(layer: int, x: Tensor) -> Tensor | None:
        entered[layer] = x
        if times is not None:
            times.begin("attention", layer + 1, device)
        return old(layer)

    def feeds(layer: int, x: Tensor) -> Tensor | None:
        if times is not None:
            times.begin("feed-forward", layer + 1, device)
        h = old(layer) if whole else None
        return None if h is None else h + (x - entered[layer])

    def between(_layer: int, _x: Tensor) -> None:
        if times is not None:
            times.end(device)

    plain = times is None and all(a == b for a, b in first.items())
    taps = None if plain else Taps(stream=between, reads=reads, feeds=feeds)
    h = model.layers(model.embed(tokens), cache, 0, model.num_layers, taps=taps)  # [n, d]
    if times is not None:
        times.begin("head", 0, device)
    z: Tensor = model.unembed(h[-1:], predicts=cache.length)[0]
    if times is not None:
        times.end(device)
    return z


class Block(NamedTuple):
    """A part on a device from `start` to `end`, in the unit of the times given."""

    device: int
    kind: str
    layer: int
    start: float
    end: float


def schedule(
    attention: Sequence[float],
    feed_forward: Sequence[float],
    first: Mapping[int, int],
    sync: float,
    devices: int = 0,
    whole: bool = False,
) -> list[Block]:
    """Where the parts stand if the attention of a group runs at once: on as many devices as it has layers, at most
    `devices` of them (0: no limit), more in waves. Behind a group of several `sync` passes; then its feed-forward parts
    run in order on the first device. whole: they run behind their attention on its device instead."""
    groups: dict[int, list[int]] = {}
    for layer, start in first.items():
        groups.setdefault(start, []).append(layer)
    blocks, now = list[Block](), 0.0
    for group in groups.values():
        wide = devices or len(group)
        for at in range(0, len(group), wide):
            for device, i in enumerate(group[at : at + wide]):
                blocks.append(Block(device, "attention", i + 1, now, now + attention[i]))
                if whole:
                    end = now + attention[i]
                    blocks.append(Block(device, "feed-forward", i + 1, end, end + feed_forward[i]))
            now = max(block.end for block in blocks)
        now += sync * (len(group) > 1)
        for i in () if whole else group:
            blocks.append(Block(0, "feed-forward", i + 1, now, now + feed_forward[i]))
            now += feed_forward[i]
    return blocks


def intervals(times: Times, first: Mapping[int, int], whole: bool, devices: int, run: Recorder) -> list[Interval]:
    """The parts of a forward where they ran, measured, and from the same beginning where they would stand on several
    devices, modelled with no cost of communication. None where nothing was timed or is recorded."""
    if not times.parts or run.detail == "none":
        return []
    measured = [
        interval
        for kind, layer, a, b in times.parts
        for interval in run.interval("one device", a, b, *named(kind, layer))
    ]
    parts = schedule(times.seconds("attention"), times.seconds("feed-forward"), first, 0.0, devices, whole)
    (head,), done, zero = times.seconds("head"), max(block.end for block in parts), measured[0].start
    return measured + [
        Interval(f"device {b.device + 1}", zero + b.start, zero + b.end, label, False, about=about, kind=kind)
        for b in (*parts, Block(0, "head", 0, done, done + head))
        for label, about, kind in (named(b.kind, b.layer),)
    ]


def named(kind: str, layer: int) -> tuple[str, dict[str, Any], str]:
    """Label, about and kind of a part's interval."""
    return (f"{kind} {layer}", {"layer": layer}, kind) if layer else (kind, {}, kind)
