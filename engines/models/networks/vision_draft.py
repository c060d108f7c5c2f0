"""Drafts of a model that sees: one decoder layer that foresees the next hidden state from a token and the state before
it, as EAGLE's, with two other ways to let a picture in: MSD's (arXiv 2505.14260; Lyn-Lucy/MSD, EAGLE/eagle/model) and
ViSpec's (arXiv 2509.15235; KangJialiang/ViSpec, vispec/model/cnets_ours.py).

Row t stands for the token t + 1 with the target's state at t. It is visual where that token is a patch.

Shapes: n rows, m rows kept, d width, H heads of size e, f channels of the feed-forward part, V patches, Q queries of
the adaptor; ... for rows of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from engines.models.networks.eagle_layer import EagleLayer
from engines.models.networks.exit_adapter import turned
from engines.models.networks.exits import frozen

if TYPE_CHECKING:
    from engines.models.parts import Part

HEADS, WAYS = 2, ("fused", "decoupled", "compressed")


class Adaptor(nn.Module):
    """ViSpec's vision adaptor: Q learnt queries attend to the patches' embeddings, which carry no positions here. All
    rows but the last are compact tokens, the last is the global vector g."""

    def __init__(self, d: int, queries: int = 2) -> None:
        super().__init__()
        self.q = nn.Parameter(torch.randn(queries, d) * d**-0.5)
        self.kv, self.o = nn.Parameter(torch.randn(2 * d, d) * d**-0.5), nn.Parameter(torch.randn(d, d) * d**-0.5)

    def forward(self, E: Tensor) -> tuple[Tensor, Tensor]:
        """Embeddings E [..., V, d] -> (A [..., Q, d], attention [..., H, Q, V], whose rows sum to 1)."""
        k, v = (E @ self.kv.T).unflatten(-1, (2, HEADS, -1)).movedim(-3, 0).transpose(-3, -2)  # [..., H, V, e]
        q = self.q.unflatten(-1, (HEADS, -1)).transpose(-3, -2)  # [H, Q, e]
        looks = (q @ k.transpose(-1, -2) * k.shape[-1] ** -0.5).softmax(-1)
        return (looks @ v).transpose(-3, -2).flatten(-2) @ self.o.T, looks


class VisionDraft(EagleLayer):
    """EAGLE's decoder layer. way: how a visual row enters it. fused: as any row, fc of embedding and state (EAGLE);
    decoupled: its embedding as it is (MSD); compressed: all of them replaced by the adaptor's compact tokens, whose
    global vector joins the state of every later row (ViSpec). s brings the words' embeddings to a root mean square of
    1; the result is on the scale of the model's last norm."""

    def __init__(self, d: int, way: str, s: float = 1.0, queries: int = 2) -> None:
        super().__init__(d, 3 * d, s)
        self.way, self.heads = way, HEADS
        self.fc = nn.Parameter(torch.cat([torch.zeros(d, d), torch.eye(d)], 1))
        self.adaptor = Adaptor(d, queries) if way == "compressed" else None
        if self.adaptor is not None:  # identity on the state, nothing of the picture: an untrained one is EAGLE's
            self.img_fc = nn.Parameter(torch.cat([torch.eye(d), torch.zeros(d, d)], 1))

    def compact(self, E: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Patches [..., V, d] -> (compact tokens [..., Q - 1, d], global vector [..., d], attention [..., H, Q, V])."""
        assert self.adaptor is not None
        A, looks = self.adaptor(E * self.get_buffer("s"))
        return A[..., :-1, :], A[..., -1, :], looks

    def text(self, e: Tensor, h: Tensor, seen: Tensor | None = None) -> Tensor:
        """Rows of words: embeddings and states [..., n, d] -> what enters the layer. seen [..., d]: the global vector
        of the picture before them."""
        if self.adaptor is not None:
            h = torch.cat([h, torch.zeros_like(h) if seen is None else seen[..., None, :].expand_as(h)], -1)
            h = h @ self.img_fc.T
        return self.inputs(e, h) @ self.fc.T + self.bias

    def sequence(self, e: Tensor, h: Tensor, V: int) -> tuple[Tensor, Tensor, Tensor | None]:
        """A sequence whose first V rows are visual (0: none): (rows [..., m, d] that enter the layer, their positions
        [m], the global vector). Compact tokens stand at the last positions of the picture."""
        at, seen = torch.arange(e.shape[-2], device=e.device), None
        if not V:
            return self.text(e, h), at, None
        if self.way != "compressed":
            first = e[..., :V, :]
            visual = first.float() if self.way == "decoupled" else self.text(first, h[..., :V, :])
            return torch.cat([visual, self.text(e[..., V:, :], h[..., V:, :])], -2), at, None
        A, seen, _ = self.compact(e[..., :V, :])
        rows = torch.cat([A, self.text(e[..., V:, :], h[..., V:, :], seen)], -2)
        return rows, at[V - A.shape[-2] :], seen

    def read(self, q: Tensor, k: Tensor, v: Tensor, sees: Tensor) -> Tensor:
        """As in `EagleLayer`, for a batch too."""
        return scaled_dot_product_attention(q, k, v, attn_mask=sees)

    def looks(self, x: Tensor, at: Tensor, k: Tensor) -> Tensor:
        """How much a row x [d] at a position [1] takes from each of the rows with keys k [H, m, e], its own among them:
        [m], the mean over the heads; for the record."""
        q = turned(self.split(x[None])[0], at)
        return (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).softmax(-1)[:, 0].mean(0)


def drafts_of(tensors: Mapping[str, Tensor]) -> list[str]:
    """The drafts that a part holds, by name."""
    return sorted({name.partition(".")[0] for name in tensors if "." in name})


def draft_of(part: Part, name: str) -> VisionDraft:
    """One draft of a part, in float32."""
    prefix = f"{name}."
    state = {key.removeprefix(prefix): t.float() for key, t in part.tensors.items() if key.startswith(prefix)}
    way, queries = str(part.card["drafts"][name]["way"]), len(state.get("adaptor.q", ".."))
    return frozen(VisionDraft(len(state["bias"]), way, queries=queries), state)
