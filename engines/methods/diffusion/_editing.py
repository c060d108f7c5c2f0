"""The rule of LLaDA2.1 (Bie et al., arXiv:2602.08676) for one forward: what it writes on masks, what it puts in the
place of tokens, and what is recorded of both.

Letters: a block [a, b) of a board [L], n of its positions outside the prompt, V vocabulary."""

from collections.abc import Callable
from typing import Any, Literal

from engines.kit import (
    Edit,
    Float,
    Int,
    LaneInfo,
    Params,
    Position,
    Probability,
    Record,
    Recorder,
    Span,
    Step,
    Tensor,
    TokenId,
    entropy,
    many,
    torch,
)
from engines.methods.diffusion._forward import some
from engines.methods.diffusion._open_block import LANES, TEMPERATURE, TOP_K, TOP_P, enough, propose

EDITING = "rival"  # the lane of tokens that stand: how likely the token is that would take their place
PARAMS = [
    Float("threshold", 0.7, 0.0, 1.01, symbol="θ", source="0.7 in quality mode, 0.5 in speed mode, 0.95 in the code"),
    Float("editing_threshold", 0.5, 0.0, 1.01, symbol="θ_e", source="0.5 in quality mode, 0 in speed mode"),
    Int("max_post_steps", 16, 0, 256, symbol="R", source="16 in the code"),
    Int("num_to_transfer", 1, 1, 64, symbol="k", source="1 in the code"),
    Float("penalty", 0.0, 0.0, 20.0, step=0.5, symbol="λ", source="0 in sglang"),
    TEMPERATURE,
    TOP_K,
    TOP_P,
]
LANES_TOO: dict[str, LaneInfo | Literal["probability", "nats"]] = {**LANES, EDITING: "probability"}
EMITS = {"commits", "scores", "candidates", "spans", "facts", "note"}


class Edits(Record):
    """The open block, outside the prompt, as a forward found it, and what it did with each of the n positions.

    fates: written (a mask), changed (a token), kept (the same token again), doubted (another token, but not probable
    enough), open (a mask, not probable enough); where places come and go deleted, split (a mask comes in front), pushed
    (off the block's end). before: how often a position had held that token before it lost it."""

    threshold: float  # θ
    editing_threshold: float  # θ_e
    positions: list[Position]  # [n]
    stood: list[TokenId]  # [n]: the mask or a token
    says: list[TokenId]  # [n]: what the forward would have there
    chances: list[Probability]  # [n]: of that
    fates: list[str]  # [n]
    before: list[int]  # [n]


class Past:
    """What each position of a board has held. start: its first mask, or its length. fixed: positions whose token a
    person forced; like the prompt's they are never replaced."""

    def __init__(self, x: Tensor, mask_id: int) -> None:
        self.mask_id, self.last = mask_id, x.tolist()
        self.held: list[list[int]] = [[] for _ in self.last]
        self.fixed: set[int] = set()
        self.start = next((i for i, token in enumerate(self.last) if token == mask_id), len(self.last))

    def see(self, x: Tensor, edit: Edit | None) -> None:
        """Note what a board [L] holds now, after an edit."""
        if edit:
            self.fixed = self.fixed.difference(edit.remask).union(edit.force)
        now = x.tolist()
        for i, token in enumerate(now):
            if token != self.last[i]:
                self.held[i].append(self.last[i])
        self.last = now

    def times(self, position: int, token: int) -> int:
        """How often a position has held a token before the one that it holds."""
        return self.held[position].count(token)


class BlockForward:
    """A forward z [B, V] of the block that begins at a, and what stood there. masked, free [B]: where a mask is, and
    where a token is that may be replaced."""

    def __init__(self, run: Recorder, x: Tensor, z: Tensor, a: int, past: Past, p: Params) -> None:
        b = a + len(z)
        self.run, self.a, self.z, self.past, self.p = run, a, z, past, p
        self.stood, self.masked = x[a:b].clone(), x[a:b] == past.mask_id
        mine = torch.tensor([i >= run.prompt_length and i not in past.fixed for i in range(a, b)])
        self.free = ~self.masked & mine.to(x.device)

    def rivals(self, v: Tensor) -> Tensor:
        """The tokens [r] in whose place something else is proposed: v [B]."""
        return (self.free & (v != self.stood)).nonzero()[:, 0]

    def edits(self, v: Tensor, chance: Tensor) -> Tensor:
        """Those of them [e] that are replaced: their proposals are more probable than θ_e. chance [B]."""
        rivals = self.rivals(v)
        return rivals[chance[rivals] > self.p.editing_threshold]

    def groups(self, v: Tensor, chance: Tensor, fate: Callable[[int], str], spans: list[Span]) -> dict[str, Any]:
        """What a step says of proposals v [B] and their probabilities, and of the fate of each position."""
        a, p, z = self.a, self.p, self.z
        masks, rivals = self.masked.nonzero()[:, 0], self.rivals(v)  # [m], [r]
        looked = (self.masked | self.free).nonzero()[:, 0]  # [n]: outside the prompt, and no person forced them
        return {
            "scores": lambda: {
                "confidence": (a + masks, chance[masks]),
                "entropy": (a + masks, entropy(z[masks])),
                EDITING: (a + rivals, chance[rivals]),
            },
            "thresholds": {"confidence": p.threshold},
            "candidates": lambda: (a + looked, z[looked]),
            "spans": spans,
            "records": {
                "edits": lambda: Edits(
                    threshold=p.threshold,
                    editing_threshold=p.editing_threshold,
                    positions=(a + looked).tolist(),
                    stood=self.stood[looked].tolist(),
                    says=v[looked].tolist(),
                    chances=chance[looked].tolist(),
                    fates=[fate(i) for i in looked.tolist()],
                    before=[self.past.times(a + i, int(v[i])) for i in looked.tolist()],
                )
            },
        }


def forward(
    run: Recorder, x: Tensor, z: Tensor, block: tuple[int, int], spans: list[Span], past: Past, quota: int, p: Params
) -> tuple[Step, int]:
    """What one forward z [b - a, V] writes, `quota` masks at least, and replaces in the block [a, b), into x; how many
    tokens it replaced."""
    a, b = block
    made = BlockForward(run, x, penalised(z, x[a:b], p.penalty), a, past, p)
    x0, chance = propose(made.z, p.temperature, p.top_k, p.top_p, run.rng)  # [b - a]
    masks, edits = made.masked.nonzero()[:, 0], made.edits(x0, chance)  # [m], [e]
    best, causes = enough(chance[masks], p.threshold, quota)
    chosen = torch.cat([masks[best], edits])
    x[a + chosen] = x0[chosen]
    step = run.step(
        commits=(a + chosen, x0[chosen], [*causes, *["changed"] * len(edits)], chance[chosen]) if len(chosen) else None,
        **made.groups(x0, chance, lambda i: fate(i, made.masked, made.rivals(x0), chosen), spans),
        facts={"changed": len(edits)},
        note=sentence(len(best), len(masks), len(edits)),
    )
    return step, len(edits)


def fate(i: int, masked: Tensor, rivals: Tensor, chosen: Tensor) -> str:
    """What became of position i of the block: see `Edits`."""
    done = bool((chosen == i).any())
    if masked[i]:
        return "written" if done else "open"
    if done:
        return "changed"
    return "doubted" if (rivals == i).any() else "kept"


def sentence(filled: int, masks: int, changed: int) -> str:
    """A step in a sentence."""
    replaced = f"{many(changed, 'token')} {'is' if changed == 1 else 'are'} replaced."
    if masks:
        return f"{some(filled, masks)} in the block {'is' if filled == 1 else 'are'} written, {replaced}"
    return f"No mask is left in the block: {replaced if changed else 'no token is replaced. The block is done.'}"


def penalised(z: Tensor, block: Tensor, penalty: float) -> Tensor:
    """Logits [n, V] with λ off that of the token to the left, [n]; the block's first position has none."""
    if penalty == 0:
        return z
    z = z.clone()
    z[1:].scatter_add_(1, block[:-1, None], z.new_full((len(block) - 1, 1), -penalty))
    return z
