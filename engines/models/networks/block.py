"""One decoder layer beside a model, as drafters have it: the augmenting block of arXiv 2405.00263, the full context
encoder of arXiv 2402.15758.

Shapes: n rows, m rows that they see, d hidden size, H heads of size e, f channels of the feed-forward part."""

import torch
from torch import Tensor, nn

from engines.models.networks.exit_adapter import turned
from engines.models.networks.exits import scaled


class Block(nn.Module):
    """x + O attention(x), then x + down(SiLU(gate) * up) of the normed rows. Attention reads rows at root mean square
    1 and turns them by their positions. O and down are 0 at the start, so that it begins as the identity. Keys and
    values are made apart from queries, so that rows may be seen that are not read on."""

    def __init__(self, d: int, f: int) -> None:
        super().__init__()
        self.q, self.kv = nn.Parameter(torch.randn(d, d) * d**-0.5), nn.Parameter(torch.randn(2 * d, d) * d**-0.5)
        self.O, self.g = nn.Parameter(torch.zeros(d, d)), nn.Parameter(torch.ones(d))
        self.gate_up = nn.Parameter(torch.randn(2 * f, d) * d**-0.5)
        self.down = nn.Parameter(torch.zeros(d, f))
        self.heads = max(2, d // 64)

    def _split(self, x: Tensor) -> Tensor:
        return x.view(len(x), self.heads, -1).transpose(0, 1)  # [H, n, e]

    def seen(self, x: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values [H, n, e] of rows x [n, d] at the positions `at` [n]."""
        k, v = (scaled(x) @ self.kv.T).chunk(2, -1)
        return turned(self._split(k), at), self._split(v)

    def looks(self, x: Tensor, at: Tensor, k: Tensor) -> Tensor:
        """The share of attention [n, m] that rows x [n, d] pay to each of m keys [H, m, e], the mean of the heads."""
        q = turned(self._split(scaled(x) @ self.q.T), at)
        return ((q @ k.mT) * q.shape[-1] ** -0.5).softmax(-1).mean(0)

    def forward(self, x: Tensor, at: Tensor, k: Tensor, v: Tensor, sees: Tensor) -> Tensor:
        """Rows x [n, d] at the positions `at` [n], with the keys and values [H, m, e] of what they may see -> [n, d].
        sees [n, m]: which row sees which."""
        q = turned(self._split(scaled(x) @ self.q.T), at)
        read = nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=sees)[0]
        x = x.float() + read.transpose(0, 1).reshape(len(x), -1) @ self.O.T
        gate, up = ((scaled(x) * self.g) @ self.gate_up.T).chunk(2, -1)
        return x + (nn.functional.silu(gate) * up) @ self.down.T
