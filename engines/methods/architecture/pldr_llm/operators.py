"""What a decoder with power-law graph attention records of its operators, and the decoder without any cache that goes
beside it for the record.

Shapes: L layers, h heads of size d."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from engines.core.kinds.power_law import Deduced
from engines.core.trace import Index, Packed, Record, TokenId, pack
from engines.kit import CountedPowerLaw, Interval, Recorder, Tensor, torch
from engines.models.measures import operators

LEVELS = 31  # steps of a map between 0 and its largest entry
MOST = 127  # steps that a packed map reaches on either side of 0


class Operator(Record):
    """The operators G of one decoder in a step. role: the model role of its forwards; the decoder of the run comes
    first.

    maps [layers, heads, d, d]: all of them; moved, of the same shape: what to add to the last `maps` of that role.
    Neither: they are those of the step before. held: from a cache, nothing was computed. source: whose they are.
    change: for each layer RMS(G - G before) / RMS(G before). logdet: for each layer the mean of log |det G| of its
    heads. tokens: what a decoder that is not the run's own wrote, on a text of its own, from position `at` on.
    difference: the largest one between its logits and those of the run's decoder, None once their texts differ."""

    role: str
    source: str = ""
    held: bool = False
    maps: Packed | None = None
    moved: Packed | None = None
    change: list[float] = []
    logdet: list[float] = []
    tokens: list[TokenId] = []
    at: Index = 0
    difference: float | None = None


class Operators(Record):
    """The operators G of the run's own decoder and of those beside it, the run's own first."""

    decoders: list[Operator]


class Maps:
    """The operators of one decoder over its steps: the first whole, the others as what changed since."""

    def __init__(self, role: str) -> None:
        self.role, self.grain = role, 1.0
        self.G: Tensor | None = None
        self.base: np.ndarray | None = None

    def step(self, G: Tensor, source: str, reused: bool) -> Operator:
        """What a step says of its operators [L, h, d, d]."""
        change = [] if self.G is None else operators.change(self.G, G).tolist()
        operator, self.G = Operator(self.role, source, reused), G
        operator.change = [round(value, 6) for value in change]
        operator.logdet = [round(value, 4) for value in operators.logdet(G).mean(-1).tolist()]
        if self.base is None:
            self.grain = float(G.abs().max()) / LEVELS or 1.0
            self.base = self._levels(G)
            operator.maps = self._packed(self.base)
        elif any(change):
            operator.moved = self._packed(self._levels(G) - self.base)
        return operator

    def _levels(self, G: Tensor) -> np.ndarray:
        return (G / self.grain).round().clamp(-MOST, MOST).cpu().numpy()

    def _packed(self, levels: np.ndarray) -> Packed:
        edge = MOST * self.grain
        return pack(np.clip(levels, -MOST, MOST) * self.grain, -edge, edge)


class Now(NamedTuple):
    """A step of the run's decoder: the text before it, its forward, and whether its G came from a cache."""

    ids: Sequence[int]
    forward: Deduced
    source: str
    held: bool


class Beside:
    """The record of the operators, and with it the same model without any cache, on a text of its own that begins as
    the run's: every step runs all of it again and makes G again. All of it on the recording's clock: `facts` does the
    work of a step, `intervals` and `operators` say what it found."""

    def __init__(self, model: CountedPowerLaw, run: Recorder, ids: Sequence[int]) -> None:
        self.model, self.run = model, run
        self.own, self.other, self.ids, self.told = Maps("target"), Maps("reference"), list(ids), len(ids)
        self.now: Now | None = None
        self.forward: Deduced | None = None
        self.said: list[Operator] = []

    def follow(self, ids: Sequence[int]) -> None:
        """The other decoder goes on from this text, which an edit made."""
        self.ids, self.told = list(ids), self.run.prompt_length

    def facts(self, compared: bool, more: Mapping[str, float]) -> dict[str, float]:
        """One step of both, of the other only where it is wanted and has not ended: the largest change of G in a layer
        since the step before, and the largest difference of the logits while both texts are the same; and `more`."""
        assert self.now is not None
        own = self.own.step(self.now.forward.G_LM, self.now.source, self.now.held)
        facts, self.said = {"G_change": max(own.change, default=0.0), **more}, [own]
        ended = len(self.ids) > self.run.prompt_length and self.ids[-1] in self.model.eos_ids
        self.forward = self.model.beside(self.ids) if compared and not ended else None
        if self.forward is not None:
            other = self.other.step(self.forward.G_LM, "own", False)
            if self.ids == self.now.ids:
                known = self.forward.logits.isfinite() & self.now.forward.logits.isfinite()
                other.difference = float((self.forward.logits - self.now.forward.logits)[known].abs().max())
                facts["logit_difference"] = other.difference
            self.ids = [*self.ids, int(self.forward.logits[0].argmax())]
            other.tokens, other.at, self.told = self.ids[self.told :], self.told, len(self.ids)
            self.said.append(other)
            facts["G_change_no_cache"] = max(other.change, default=0.0)
        return facts

    def operators(self) -> Operators:
        """What both say of their operators."""
        return Operators(self.said)

    def intervals(self) -> list[Interval]:
        """The times of both forwards, and in each the part in which G was made."""
        assert self.now is not None
        return [*self._timed("target", self.now.forward), *self._timed("reference", self.forward)]

    def _timed(self, track: str, deduced: Deduced | None) -> list[Interval]:
        if deduced is None:
            return []
        about, end = {"part_of": track}, deduced.began + deduced.operator_seconds
        made = self.run.interval(f"{track}: G", deduced.began, end, "G of all layers", about, "G")
        return [
            *self.run.interval(track, deduced.began, deduced.ended, "forward", kind="forward"),
            *(made if deduced.operator_seconds else []),
        ]


def given(model: CountedPowerLaw, prompt: Sequence[int], source: str, other: Sequence[int], run: Recorder) -> Tensor:
    """G [L, h, d, d] that is not made of the text: of another prompt, the identity, or noise with the root mean square
    that each layer has of its own."""
    if source == "other prompt":
        return model.beside(other).G_LM
    G = model.beside(prompt).G_LM
    if source == "identity":
        return operators.identity(G).contiguous()
    return torch.randn(G.shape, generator=run.rng).to(G) * G.square().mean((1, 2, 3), keepdim=True).sqrt()
