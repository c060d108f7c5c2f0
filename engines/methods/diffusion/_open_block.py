"""What LLaDA2.0 and LLaDA2.1 share: the forwards of the block being written, and what they propose for it.

A block sees itself and all blocks before it, so the keys and values of finished blocks are exact: they are stored once,
by a forward of their own, where the official loops feed the whole text every time. The distributions are the same.

Letters: B positions of a block, V vocabulary."""

from typing import Literal

from engines.kit import (
    BlockMaskedLM,
    Edit,
    Float,
    Generator,
    Int,
    LaneInfo,
    Recorder,
    Span,
    Step,
    Tensor,
    token_probability,
    torch,
    within_mass,
    within_rank,
)

TEMPERATURE = Float("temperature", 0.0, 0.0, 2.0, step=0.05, symbol="τ")
TOP_K = Int("top_k", 0, 0, 1024)
TOP_P = Float("top_p", 1.0, 0.01, 1.0)
LANES: dict[str, LaneInfo | Literal["probability", "nats"]] = {"confidence": "probability", "entropy": "nats"}


class OpenBlock:
    """The forwards of one run. length: how many positions of finished blocks are stored."""

    def __init__(self, model: BlockMaskedLM, capacity: int) -> None:
        self.model, self.cache, self.size = model, model.new_cache(capacity), model.block_size
        self.first: Tensor | None = None  # [V]: where rows predict the next token, that of the open block's first one

    @property
    def length(self) -> int:
        """Positions of finished blocks that are stored."""
        return self.cache.length

    def __call__(self, x: Tensor, a: int) -> Tensor:
        """Distributions [B, V] of the block that begins at a, which follows what is stored. x [L]."""
        z = self.model.denoise(x[a : a + self.size], self.cache)
        if self.first is not None:
            z[0] = self.first
        return z

    def store(self, run: Recorder, x: Tensor, a: int) -> Step:
        """A forward that stores the blocks before a, as a step that writes nothing."""
        begin = self.length
        if self.model.shift and self.first is None and begin == a:  # the last block once more, for the row at its end
            begin -= self.size
            self.cache.crop(begin)
        z = self.model.store(x[begin:a], self.cache)
        self.first = z if self.model.shift else None
        what = (
            "The prompt's complete blocks are stored" if begin < run.prompt_length else "The finished block is stored"
        )
        return run.step(
            spans=[Span("fed", begin, a, "stored"), Span("cache", 0, a, "exact")],
            facts={"kv_len": a},
            note=f"{what}: its keys and values stay what they are.",
        )

    def lacks(self, a: int) -> bool:
        """Whether something before a, which is not 0, must be stored before the block at a can be fed."""
        return self.length < a or (self.model.shift and a > 0 and self.first is None)

    def forget(self, edit: Edit | None) -> None:
        """After an edit of what is stored: the blocks from its first position on."""
        touched = [*edit.force, *edit.remask] if edit else []
        if touched and (start := min(touched) // self.size * self.size) < self.length:
            self.cache.crop(start)
            self.first = None

    def spans(self, a: int) -> list[Span]:
        """What a step on the block at a shows of it."""
        b = a + self.size
        return [Span("block", a, b), Span("fed", a, b), Span("cache", 0, self.length, "exact")]


def propose(z: Tensor, temperature: float, top_k: int, top_p: float, rng: Generator) -> tuple[Tensor, Tensor]:
    """A token for every row of z [B, V] and its probability: the most likely one; above temperature 0 one drawn from
    what top-k and then top-p leave of softmax(z / τ), which is also the distribution that gives its probability."""
    if temperature == 0:
        tokens = z.argmax(-1)
        return tokens, token_probability(z, tokens, torch.float32)
    q = within_mass(within_rank(z / temperature, top_k), top_p).softmax(-1)
    tokens = torch.multinomial(q.cpu(), 1, generator=rng).to(z.device)
    return tokens[:, 0], q.gather(-1, tokens)[:, 0]


def ended(answer: Tensor, eos_ids: frozenset[int]) -> bool:
    """Whether an end mark stands in these tokens [n] of the answer."""
    return any(token in eos_ids for token in answer.tolist())


def enough(confidence: Tensor, threshold: float, quota: int) -> tuple[Tensor, list[str]]:
    """All of confidence [m] above the threshold if they are at least `quota`, else the `quota` best: indices by falling
    confidence, and why each is written."""
    order = confidence.argsort(descending=True, stable=True)
    sure = int((confidence > threshold).sum())
    n = sure if sure >= quota else min(quota, len(order))
    return order[:n], ["threshold" if c > threshold else "quota" for c in confidence[order[:n]].tolist()]
