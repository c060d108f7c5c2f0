"""Clover's drafter: an augmenting block, an attention decoder that takes the last guess in, a head for each depth
(arXiv 2405.00263, section 3; no code is public).

Shapes: n rows, d hidden size, K depths, m entries of a row's memory, H heads of size e, f channels of the block."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from engines.models.networks.block import Block
from engines.models.networks.exits import Past, frozen, scaled

OWN, CONTROL = "clover.", "control."  # in a part: the drafter, and the one that was trained without its link


class CloverDrafter(nn.Module):
    """a = block(h). Then, from s = a and the memory M = {a}, depth by depth: the embedding e of the last guess asks,
    the memory and e answer, A s + T e + O attention is the next state and joins the memory; s + SiLU(R_i s + b_i) is on
    the scale of the model's last norm, and its output head ranks the next guess. Embeddings and memory are read at root
    mean square 1."""

    def __init__(self, K: int, d: int, f: int) -> None:
        super().__init__()
        self.block = Block(d, f)
        self.A, self.T = nn.Parameter(torch.eye(d)), nn.Parameter(torch.zeros(d, d))
        self.q, self.kv = nn.Parameter(torch.randn(d, d) * d**-0.5), nn.Parameter(torch.randn(2 * d, d) * d**-0.5)
        self.O = nn.Parameter(torch.zeros(d, d))
        self.R, self.b = _squares(K, torch.zeros(d, d)), nn.Parameter(torch.zeros(K, d))
        self.heads = max(2, d // 64)

    def onward(self, M: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
        """Memories M [n, m, d], the newest state last, and embeddings e [n, d] of the guess behind it -> (the memories
        with the next state [n, m + 1, d], what each head looked at [n, H, m + 1]: the states, then the guess)."""
        y, (n, d) = scaled(e), e.shape
        each = self.heads, d // self.heads
        q = (y @ self.q.T).view(n, each[0], 1, each[1])
        k, v = (torch.cat([scaled(M), y[:, None]], 1) @ self.kv.T).view(n, M.shape[1] + 1, 2, *each).unbind(2)
        look = ((q @ k.permute(0, 2, 3, 1)) * each[1] ** -0.5).softmax(-1)  # [n, H, 1, m + 1]
        u = (look @ v.transpose(1, 2)).reshape(n, d) @ self.O.T
        s = M[:, -1] @ self.A.T + y @ self.T.T + u
        return torch.cat([M, s[:, None]], 1), look[:, :, 0]

    def predicted(self, s: Tensor, i: int) -> Tensor:
        """What the head of depth i (from 0) makes of states s [n, d], on the scale of the model's last norm."""
        return s + nn.functional.silu(s @ self.R[i].T + self.b[i])


class BlockHeads(nn.Module):
    """The control: Medusa's heads P_i a + SiLU(R_i a + b_i) behind the same block, a = block(h). What was guessed
    before does not reach them."""

    def __init__(self, K: int, d: int, f: int) -> None:
        super().__init__()
        self.block = Block(d, f)
        self.P, self.R = _squares(K, torch.eye(d)), _squares(K, torch.zeros(d, d))
        self.b = nn.Parameter(torch.zeros(K, d))

    def onward(self, M: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
        """As `CloverDrafter`, but the state stays as it is, and nobody looks at anything."""
        return torch.cat([M, M[:, -1:]], 1), M.new_zeros(len(M), 1, M.shape[1] + 1)

    def predicted(self, s: Tensor, i: int) -> Tensor:
        """As `CloverDrafter`."""
        return s @ self.P[i].T + nn.functional.silu(s @ self.R[i].T + self.b[i])


def _squares(K: int, first: Tensor) -> nn.ParameterList:
    """K matrices, each a tensor of its own, so that a part can store them in int8 by row."""
    return nn.ParameterList(nn.Parameter(first.clone()) for _ in range(K))


def augmented(block: Block, h: Tensor, past: Past) -> Tensor:
    """Last states h [n, d] of the model, behind those that `past` holds -> a [n, d]; each sees those before it."""
    at = torch.arange(past.length, past.length + len(h), device=h.device)
    k, v = past.add(*block.seen(h, at))
    return block(h, at, k, v, torch.arange(k.shape[1], device=h.device)[None] <= at[:, None])


def drafter_of(tensors: Mapping[str, Tensor], link: bool = True) -> CloverDrafter | BlockHeads | None:
    """The drafter of a part's tensors, in float32; without the link the control, or None where the part has none."""
    prefix = OWN if link else CONTROL
    own = {name.removeprefix(prefix): t.float() for name, t in tensors.items() if name.startswith(prefix)}
    own.pop("accuracy", None)
    if not own:
        return None
    (K, d), f = own["b"].shape, own["block.down"].shape[1]
    return frozen(CloverDrafter(K, d, f) if link else BlockHeads(K, d, f), own)
