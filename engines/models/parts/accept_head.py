"""Acceptance heads: small networks that read a drafter's hidden state and say how likely the target is to keep the
token read there (SpecDec++).

A head belongs to a pair: the drafter whose states it reads and the target whose refusals it has learned. Its folder
stands beside the target's, with `-accept-head` behind the name; it is made by `python -m
engines.training accept-head TARGET`."""

from collections.abc import Mapping
from dataclasses import dataclass

from engines.core.errors import UserError
from engines.core.lazy import Tensor, torch
from engines.core.trace import ModelRecord
from engines.models import parts

COMMAND = "python -m engines.training accept-head"


@dataclass(frozen=True)
class AcceptHead:
    """L times x <- x + SiLU(W x + b), then two logits U x + c: refuse, accept. One W [d, d] and b [d] for all L blocks,
    or one for each.

    The released code repeats one block (`[ResBlock] * L`), so its three layers share weights; `layers`: how often."""

    name: str
    sha256: str
    W: tuple[Tensor, ...]
    b: tuple[Tensor, ...]
    U: Tensor
    c: Tensor
    layers: int

    @property
    def size(self) -> int:
        """The hidden size d of the drafter."""
        return int(self.U.shape[1])

    def logits(self, x: Tensor) -> Tensor:
        """Hidden states x [.., d] -> [.., 2], in the head's own type."""
        W, b = ([t.to(x.device) for t in tensors] for tensors in (self.W, self.b))
        U, c = self.U.to(x.device), self.c.to(x.device)
        x = x.to(U.dtype)
        for layer in range(self.layers):
            which = layer if len(W) > 1 else 0
            x = x + torch.nn.functional.silu(x @ W[which].T + b[which])
        return x @ U.T + c

    def __call__(self, x: Tensor) -> Tensor:
        """The chance [..] that the token read at each state x [.., d] is kept."""
        return self.logits(x).softmax(-1)[..., 1]


def head_of(target: ModelRecord, draft: ModelRecord) -> AcceptHead:
    """The head that was trained for this pair. Raises UserError where there is none, or one of other weights, and names
    the command that makes it."""
    way_out = "or set head=confidence, which needs none"
    part = parts.load_part("accept-head", [target, draft], what="acceptance head", way_out=lambda: way_out)
    return from_state(part.tensors, part.name, int(part.card.get("layers", 0)), part.sha256)


def from_state(state: Mapping[str, Tensor], name: str, layers: int, digest: str = "") -> AcceptHead:
    """A head from the tensors blocks.I.weight, blocks.I.bias, out.weight, out.bias, all in float32.

    Raises UserError unless one block, or one for each layer (none for 0), is there, all of one size and finite."""
    n = sum(key.startswith("blocks.") and key.endswith(".weight") for key in state)
    d = state["out.weight"].shape[-1] if "out.weight" in state else 0
    shapes = {"out.weight": (2, d), "out.bias": (2,)}
    for i in range(n):
        shapes |= {f"blocks.{i}.weight": (d, d), f"blocks.{i}.bias": (d,)}
    if n not in ({0} if layers == 0 else {1, layers}) or layers < 0 or not parts.fits(state, shapes):
        raise UserError(
            f"{name} is not an acceptance head of {layers} layers: it has to hold blocks.I.weight and .bias (one, or "
            "one per layer) and out."
        )
    t = {key: value.float() for key, value in state.items()}
    blocks = [tuple(t[f"blocks.{i}.{part}"] for i in range(n)) for part in ("weight", "bias")]
    return AcceptHead(name, digest, *blocks, t["out.weight"], t["out.bias"], layers)
