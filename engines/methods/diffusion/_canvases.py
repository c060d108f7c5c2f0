"""What the samplers of canvases share: text and canvas, the encoder's cache, draws, tokens that a person holds, the end
of a canvas and of the text, and the record of a step."""

from collections.abc import Collection, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta

from engines.kit import (
    CanvasLM,
    Edit,
    Float,
    Int,
    Params,
    Position,
    Probability,
    Record,
    Recorder,
    Span,
    Tensor,
    TokenId,
    torch,
)

STEPS = Int("max_denoising_steps", 48, 1, 1024, symbol="N", source="the default of transformers' generate")
STABILITY = Int("stability_threshold", 1, 0, 16, symbol="s")
CONFIDENCE = Float("confidence_threshold", 0.005, 0.0, 16.0, step=0.005, symbol="h")


class Canvas(Record):
    """A forward over a canvas: what stood there, what was drawn and what the model would write everywhere.

    Lists with an entry for each position are of the canvas's length. What stands there after the step is `sampled`
    where `accepted` or `edited` name the position, else `noise` where it was not kept."""

    kind: Literal["drawn", "denoise", "correct"]  # a fresh canvas, a step of the schedule, a sweep of the corrector
    number: int  # of the canvas in this answer, from 0
    step: int  # of the canvas, from 1
    steps: int  # that the schedule has
    start: Position
    before: list[TokenId]  # what the model read
    after: list[TokenId]  # what it reads next
    sampled: list[TokenId] = []  # drawn from the model at each position
    noise: list[TokenId] = []  # drawn uniformly at each position, used or not
    argmax: list[TokenId] = []
    accepted: list[Position] = []  # where what was drawn from the model is taken
    edited: list[Position] = []  # of those, where it replaces a token that had been taken before
    kept: list[Position] = []  # where the token of before stays
    renoised: list[Position] = []  # where a token of the model's gives way to noise
    held: list[Position] = []  # where a person's token stands
    routes: list[int] = []  # drawn at each position: 0 the model's token, 1 what stands there, 2 noise
    uniform: list[float] = []  # drawn at each position, to choose those that are corrected
    line: float | None = None  # what is taken: up to this sum of entropies (nats), or above this probability
    quiet: float = 0.0  # nats: the canvas may end below it
    temperature: float = 0.0
    mean_entropy: float = 0.0  # nats
    stable: bool = False  # the argmax canvas is that of the last steps
    stop: bool = False  # the canvas ends here, before the schedule does
    last: bool = False  # the canvas ends here: all of it is settled
    entropies: Annotated[list[float], Meta(extra={"unit": "nats"})] = []  # of each position's distribution
    joint: Annotated[list[float], Meta(extra={"unit": "nats"})] = []  # the sum of those of all surer positions
    chances: list[Probability] = []  # of what was drawn at each position


class Canvases:
    """The text of a run, settled, and behind it the canvas that is being written.

    x [T]: all of it; the canvas is x[start:]. source [L]: True where a token of the canvas came from the model."""

    def __init__(self, model: CanvasLM, prompt: list[int], p: Params, run: Recorder) -> None:
        self.model, self.run, self.length = model, run, model.canvas_length
        self._taken = run.noise_canvas(model.vocab_size, self.length)
        self.x = torch.tensor(prompt)
        self.start, self.number, self.step = len(prompt), -1, 0
        self._end = len(prompt) + -(-p.max_new_tokens // self.length) * self.length
        self._cache = model.new_cache(self._end)
        self._held: dict[int, int] = {}
        self._seen: list[Tensor] = []
        self.source = torch.zeros(self.length, dtype=torch.bool)

    @property
    def canvas(self) -> Tensor:
        """The canvas [L]."""
        return self.x[self.start :]

    @property
    def places(self) -> range:
        """Its positions."""
        return range(self.start, self.start + self.length)

    def unfinished(self) -> bool:
        """Whether another canvas comes: there is room, and the last one holds no end mark."""
        ended = self.number >= 0 and bool(self.model.eos_ids & set(self.canvas.tolist()))
        return len(self.x) < self._end and not ended

    def noise(self) -> Tensor:
        """Tokens [L] drawn uniformly from the whole vocabulary."""
        return torch.randint(self.model.vocab_size, (self.length,), generator=self.run.rng)

    def begin(self, steps: int) -> dict[str, object]:
        """Encode what is settled and draw a canvas behind it; the groups of the step that says so."""
        self.start, self.number, self.step = len(self.x), self.number + 1, 0
        taken, self._taken = self._taken, None
        fresh = self.noise() if taken is None else taken
        new = self._encode()
        self.x = torch.cat([self.x, fresh])
        self._held, self._seen = {}, []
        self.source = torch.zeros(self.length, dtype=torch.bool)
        tokens = fresh.tolist()
        return {
            "commits": (list(self.places), tokens, "noise") if taken is None else None,
            "spans": self.spans(),
            "facts": {"kv_len": self._cache.length},
            "records": {"canvas": Canvas("drawn", self.number, 0, steps, self.start, tokens, tokens, noise=tokens)},
            "note": f"{new} tokens are encoded; after them stand {self.length} "
            f"{'tokens drawn at random' if taken is None else 'tokens that were there'}.",
        }

    def _encode(self) -> int:
        """Bring the cache up to the canvas; how many tokens were fed."""
        new = self.x[self._cache.length : self.start]
        if len(new):
            self.model.encode(new, self._cache)
        return len(new)

    def denoise(self, conditioning: Tensor | None) -> Tensor:
        """Logits [L, V] of the canvas, on the CPU, where the draws are."""
        self._encode()
        self.step += 1
        return self.model.denoise(self.canvas, self._cache, conditioning).cpu()

    def write(self, canvas: Tensor, record: Canvas, ended: bool) -> Tensor:
        """Put a canvas [L] in the place of the one that stands there, with what a person holds; returns it. The step's
        record says so, unless what it left was replaced by the answer."""
        canvas = canvas.clone()
        for position, token in self._held.items():
            canvas[position - self.start] = token
        self.x = torch.cat([self.x[: self.start], canvas])
        if not ended:
            record.after = canvas.tolist()
        return canvas

    def held(self) -> Tensor:
        """[L]: True where a person's token stands."""
        mask = torch.zeros(self.length, dtype=torch.bool)
        mask[[position - self.start for position in self._held]] = True
        return mask

    def stable(self, argmax: Tensor, steps: int) -> bool:
        """Whether the argmax canvas [L] equals those of the last `steps` steps; it then counts as the last one."""
        before = self._seen[-steps:] if steps else []
        self._seen = [*self._seen[-15:], argmax]
        return len(before) == steps and all(torch.equal(seen, argmax) for seen in before)

    def edit(self, edit: Edit | None) -> None:
        """A person's change: a forced token of the canvas stays until it is hidden again, one of the settled text is
        encoded anew with all behind it."""
        self.x = self.run.apply_edit(edit, self.x)
        if edit is None:
            return
        for position in edit.remask:
            self._held.pop(position, None)
            self.source[position - self.start] = False
        for position, token in edit.force.items():
            if position < self.start:
                self._cache.crop(min(self._cache.length, position))
            else:
                self._held[position] = token

    def spans(self) -> list[Span]:
        """The canvas, and what is encoded before it."""
        return [Span("canvas", self.start, self.start + self.length), Span("cache", 0, self._cache.length, "exact")]

    def record(self, kind: Literal["denoise", "correct"], steps: int, p: Params, **facts: Any) -> Canvas:
        """The record of a step over this canvas, before it is written: of a tensor its numbers, of a mask [L] its
        positions."""
        return Canvas(
            kind,
            self.number,
            self.step,
            steps,
            self.start,
            self.canvas.tolist(),
            held=sorted(self._held),
            quiet=p.confidence_threshold,
            **{name: self._listed(fact) if isinstance(fact, torch.Tensor) else fact for name, fact in facts.items()},
        )

    def _listed(self, fact: Tensor) -> list[Any]:
        if fact.dtype != torch.bool:
            return fact.tolist()
        return [self.start + i for i in fact.nonzero()[:, 0].tolist()]

    def commits(
        self, record: Canvas, named: dict[str, Sequence[int]], rest: str, chance: Tensor, known: Collection[str]
    ) -> tuple[list[int], list[int], list[str], list[float | None]] | None:
        """What stands on the canvas now, without the positions that kept their token unless all of it is "settled".
        named: cause -> its positions, of which the first holds; `rest` is the others'. chance [L]: of the tokens, for
        the causes that are known."""
        causes = {position: cause for cause, positions in reversed(named.items()) for position in positions}
        places = [at for at in self.places if named["settled"] or at not in record.kept]
        tokens, why = [int(self.x[at]) for at in places], [causes.get(at, rest) for at in places]
        chances = [
            float(chance[at - self.start]) if cause in known else None for at, cause in zip(places, why, strict=True)
        ]
        return (places, tokens, why, chances) if places else None


def temper(z: Tensor, t_min: float, t_max: float, n: int, steps: int) -> tuple[Tensor, float]:
    """Logits at the temperature of step n of N = `steps`, n from N down to 1; with the temperature."""
    t = t_min + (t_max - t_min) * min(1.0, n / steps)  # a person may shorten the schedule
    return z / t, t


def drawn(chances: Tensor, run: Recorder) -> Tensor:
    """One index per row of probabilities [L, K] -> [L]."""
    return torch.multinomial(chances, 1, generator=run.rng)[:, 0]


def confident(H: Tensor, line: float) -> tuple[bool, float]:
    """Whether the mean of these entropies [L] is below the threshold, and what it is."""
    mean = float(H.mean())
    return mean < line, mean


def of(tokens: Tensor, P: Tensor) -> Tensor:
    """The probability [L] of each of these tokens [L] in P [L, V]."""
    return P.gather(-1, tokens[:, None])[:, 0]
