"""The random numbers that a loop drew behind a forward, drawn once more: from the state that its generator had when the
forward ended, on a generator of our own, so that the loop's own goes on as if nobody had looked.

That they are the same is not believed but checked: they must leave our generator in the state in which the loop's is
found before its next forward. Where no list of draws does, none is told.

Shapes: L positions of a canvas, V vocabulary."""

from dataclasses import dataclass
from typing import Any

from engines.core.lazy import Tensor, torch

TOKENS, ROUTES, NOISE = "tokens", "routes", "noise"
LISTS = ((TOKENS, NOISE), (NOISE,), (ROUTES, NOISE), (TOKENS, ROUTES, NOISE))
"""What a step may draw, in this order: a token from each position's distribution, one of three ways for each position,
a token for each from the whole vocabulary."""


@dataclass
class Drew:
    """What was drawn, None where it was not, or is not known. tokens: [L], from the distribution that was given here;
    noise: [L]; routes: whether each position also drew one of three ways."""

    tokens: Tensor | None = None
    noise: Tensor | None = None
    routes: bool = False


class Draws:
    """The generator of a loop: the one that was told, or else the default one of the device."""

    def __init__(self, generator: Any = None) -> None:
        self._generator = generator
        self._usual: tuple[str, ...] = LISTS[0]

    def state(self, device: Any) -> Tensor | None:
        """Its state now, a copy; None where a device has none that can be read."""
        source = self._generator
        if source is None and device.type == "cpu":
            source = torch.default_generator
        elif source is None and device.type == "cuda":
            source = torch.cuda.default_generators[device.index or 0]
        return None if source is None else source.get_state().clone()

    def fresh(self, before: Tensor | None, after: Tensor | None, size: int, length: int, device: Any) -> Tensor | None:
        """A canvas [L] of V = `size` that was drawn between two states; None where it was not, or they are unknown."""
        return self._try((NOISE,), before, after, None, size, length, device).noise

    def again(self, before: Tensor | None, after: Tensor | None, z: Tensor) -> Drew:
        """What was drawn between two states where a step had the logits [L, V]; nothing where no list of draws leads
        from the one to the other."""
        for wanted in (self._usual, *(kinds for kinds in LISTS if kinds != self._usual)):
            draw = self._try(wanted, before, after, z, z.shape[1], len(z), z.device)
            if draw.noise is not None:
                self._usual = wanted
                return draw
        return Drew()

    def _try(
        self,
        wanted: tuple[str, ...],
        before: Tensor | None,
        after: Tensor | None,
        z: Tensor | None,
        size: int,
        length: int,
        device: Any,
    ) -> Drew:
        if before is None or after is None:
            return Drew()
        device = self._generator.device if self._generator is not None else device
        rng, draw = torch.Generator(device), Drew()
        rng.set_state(before)
        if TOKENS in wanted and z is not None:
            draw.tokens = torch.multinomial(z.to(device).softmax(-1), 1, generator=rng)[:, 0]
        if ROUTES in wanted:
            torch.multinomial(torch.ones(length, 3, device=device), 1, generator=rng)
            draw.routes = True
        draw.noise = torch.randint(size, (1, length), generator=rng, device=device)[0]
        return draw if torch.equal(rng.get_state(), after) else Drew()
