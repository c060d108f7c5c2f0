"""Nemotron-Labs-Diffusion, block diffusion (arXiv:2607.05722; `generate` of the models' files on the hub).

The prompt is read causally, and the last row's first choice begins a block; the rest are masks. The block is read
behind the cache in both directions, again and again, and each pass writes its quota of the most likely masks or, with
a threshold, the best one and all that reach it. Nothing of these passes is kept. A full block is read once more,
causally: that writes the cache and gives the first token of the next block. So a block begins wherever the text ends,
and the cache holds what it would hold of a causal model. Without causal context prompt and full blocks are kept as they
are read in both directions, and no token comes for free.

We depart in: the tokens of a block are text once it is full (the board grows by whole blocks; the open one stands in
the record of each pass); the text is cut where no more tokens are wanted, officially that is a whole number of blocks;
an end mark that begins a block ends the text at once; the mask is never proposed; temperature is 0.

Letters: B positions of a block, V vocabulary."""

from dataclasses import dataclass, field
from typing import Any

from engines.kit import (
    Bool,
    Float,
    Int,
    Params,
    Position,
    Probability,
    Record,
    Recorder,
    Steps,
    TokenId,
    TwoWayLM,
    many,
    max_new_tokens,
    method,
    torch,
    transfer_schedule,
)

MOST = 256


class OpenBlock(Record):
    """The block behind the text, after a pass over it in both directions, or as it was read to be kept."""

    start: Position
    mask: TokenId
    tokens: list[TokenId]  # [B], the mask where nothing is written yet
    chances: list[Probability]  # [B]: of what is written, when it was written; of a mask the best guess's
    written: list[Position]  # in this pass


@dataclass
class Block:
    """A block being filled: tokens [B], how many each pass writes, the probabilities and causes of what was written."""

    start: int
    tokens: Any
    mask_id: int
    quotas: list[int]
    chances: list[float] = field(default_factory=list)
    causes: list[str] = field(default_factory=list)

    def open(self, ends: frozenset[int]) -> bool:
        """Whether a mask is left before the first end mark."""
        at = self.tokens.tolist()
        known = next((i for i, token in enumerate(at) if token in ends), len(at))
        return self.mask_id in at[:known]

    def write(self, z: Any, threshold: float) -> list[int]:
        """One pass with logits z [B, V]: the places that it writes."""
        chance, best = (x.cpu() for x in z.softmax(-1).max(-1))
        masks = (self.tokens == self.mask_id).nonzero().flatten()
        order = masks[chance[masks].argsort(descending=True, stable=True)].tolist()
        quota = self.quotas.pop(0) if len(self.quotas) > 1 else self.quotas[0]
        reached = sum(float(chance[i]) >= threshold for i in order)
        taken = order[: max(1, reached if threshold else quota)]
        for i in order:
            self.chances[i] = float(chance[i])
        for i in taken:
            self.tokens[i] = best[i]
            self.causes[i] = "quota" if not threshold else "threshold" if float(chance[i]) >= threshold else "top1"
        return sorted(taken)

    def record(self, filled: list[int]) -> OpenBlock:
        """How it stands now."""
        at = [self.start + i for i in filled]
        return OpenBlock(self.start, self.mask_id, self.tokens.tolist(), list(self.chances), at)


@method(
    "nemotron-diffusion",
    title="Block diffusion (Nemotron-Labs-Diffusion)",
    paper="arXiv:2607.05722",
    code="https://huggingface.co/nvidia/Nemotron-Labs-Diffusion-8B",
    summary="Blocks filled in both directions after a causal cache: full ones are read again, left to right.",
    needs="two-way",
    params=[
        max_new_tokens(64),
        Int("block_length", 0, 0, MOST, symbol="B", neutral=1, source="32 in the published models"),
        Float("threshold", 0.9, 0.0, 1.0, symbol="θ", source="official code"),
        Int("steps", 0, 0, MOST, symbol="S"),
        Bool("causal_context", True, source="official code"),
    ],
    signature="openblock",
    emits={"commits", "scores", "candidates", "facts", "note"},
    records={"openblock": OpenBlock},
    lanes={"confidence": "probability"},
    baseline="greedy",
)
def decode(model: TwoWayLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """One step per forward. The cache holds the text, with causal context all but its last token, which begins the
    block. What a person changes opens the block anew."""
    ids, block, end = prompt, None, len(prompt) + p.max_new_tokens
    cache = model.new_cache(end + MOST)
    while len(ids) < end and not (len(ids) > len(prompt) and ids[-1] in model.eos_ids):
        first = p.causal_context
        held = len(ids) - first
        if cache.length > held:  # a person changed the context's kind, or took the last token back
            cache.crop(held)
        if cache.length < held or (first and len(ids) == len(prompt)):
            step, gained = read(model, ids, cache, run, first)
        elif block is None or block.open(model.eos_ids):
            block = block or opened(model, ids, p, held)
            gained, step = [], None
            if block.open(model.eos_ids):
                filled = block.write(model.denoise(block.tokens, cache), p.threshold)
                step = passed(run, block, filled)
        else:
            step, gained = kept(model, ids, block, cache, run, end - len(ids), first)
            block = None
        if step is None:
            continue
        edit = yield step
        ids = run.apply_edit(edit, [*ids, *gained], cache)
        block = None if edit else block


def opened(model: TwoWayLM, ids: list[int], p: Params, start: int) -> Block:
    """The block behind the text: its last token and masks, or masks alone; as long as the model has positions."""
    B = min(p.block_length or model.block_size, model.max_positions - start)
    fixed = ids[start:]
    tokens = torch.tensor(fixed + [model.mask_id] * (B - len(fixed)))
    quotas = transfer_schedule(B - len(fixed), p.steps or B) or [1]
    return Block(start, tokens, model.mask_id, quotas, [1.0] * B, ["quota"] * B)


def read(model: TwoWayLM, ids: list[int], cache: Any, run: Recorder, causal: bool) -> tuple[Any, list[int]]:
    """What the cache lacks of the text: causally, which gives a token, or in both directions. Returns the step and what
    it wrote."""
    rows = ids[cache.length :]
    if not causal:
        model.denoise(rows, cache, keep=True)
        return run.step(facts={"kept": len(rows)}, note=f"{many(len(rows), 'token')} read in both directions."), []
    z = model.extend(rows, cache, last_only=True).logits  # [1, V]
    z[:, model.mask_id] = -torch.inf
    chance, token = z.softmax(-1).max(-1)
    at = [len(ids)]
    step = run.step(
        commits=(at, token, "autoregressive", chance),
        scores=lambda: {"confidence": (at, chance)},
        candidates=lambda: (at, z),
        facts={"kept": len(rows)},
        note=f"{many(len(rows), 'token')} read causally; the last row gives a token.",
    )
    return step, token.tolist()


def passed(run: Recorder, block: Block, filled: list[int]) -> Any:
    """The step of a pass in both directions."""
    left = int((block.tokens == block.mask_id).sum())
    record = block.record(filled)
    return run.step(
        records={"openblock": lambda: record},
        facts={"written": len(filled), "open": left},
        note=f"{many(len(filled), 'place')} of the block filled, {left} open; nothing of this pass is kept.",
    )


def kept(
    model: TwoWayLM, ids: list[int], block: Block, cache: Any, run: Recorder, room: int, causal: bool
) -> tuple[Any, list[int]]:
    """A full block is read again to be kept, and is text from here on; causally read it gives the next token, too.
    room: tokens that are still wanted."""
    tokens, fixed = block.tokens.tolist(), len(ids) - block.start
    new, chances, causes = tokens[fixed:], block.chances[fixed:], block.causes[fixed:]
    z, record = None, block.record([])
    if causal:
        z = model.extend(block.tokens, cache, last_only=True).logits
        z[:, model.mask_id] = -torch.inf
        chance, token = z.softmax(-1).max(-1)
        new, chances, causes = [*new, int(token)], [*chances, float(chance)], [*causes, "autoregressive"]
    else:
        model.denoise(block.tokens, cache, keep=True)
    ended = next((i + 1 for i, token in enumerate(new) if token in model.eos_ids), len(new))
    size = min(ended, room)
    at = list(range(len(ids), len(ids) + size))
    cache.crop(min(cache.length, len(ids) + size - causal))
    step = run.step(
        commits=(at, new[:size], causes[:size], chances[:size]),
        scores=lambda: {"confidence": (at, chances[:size])},
        candidates=(lambda: (at[-1:], z)) if z is not None and size == len(new) else None,
        records={"openblock": lambda: record},
        facts={"kept": len(tokens)},
        note=f"The full block is read {'causally' if causal else 'in both directions'} and kept: "
        f"{many(size, 'token')} of text.",
    )
    return step, new[:size]
