"""Small helpers for masked boards x [L]: masks, the next block, how many tokens a fixed schedule commits."""

from engines.core.errors import UserError
from engines.core.lazy import Tensor, torch


def mask_positions(x: Tensor, mask_id: int) -> Tensor:
    """Positions of the masks, rising, [m]."""
    return (x == mask_id).nonzero()[:, 0]


def on_board(values: Tensor, positions: Tensor, length: int) -> Tensor:
    """Values [m] at their positions of a board, -inf elsewhere, [length].

    LLaDA's and Dream's loops rank and draw positions on the whole board. Sure positions are often *equal* in float32,
    and which of equal values torch.topk takes depends on all that it is given, so ours is given the same.
    """
    board = values.new_full((length,), -torch.inf)
    board[positions] = values
    return board


def block_of(position: int, start: int, length: int, end: int) -> tuple[int, int]:
    """The block [a, b) that holds a position, blocks of `length` counted from `start`, the last one cut at `end`."""
    a = start + (position - start) // length * length
    return a, min(a + length, end)


def transfer_schedule(masks: int, steps: int) -> list[int]:
    """How many of `masks` tokens each of `steps` forwards commits: equal shares, the remainder to the first (LLaDA,
    linear schedule)."""
    return [masks // steps + (i < masks % steps) for i in range(steps)]


def require_divisor(small_name: str, small: int, large_name: str, large: int) -> None:
    """Raise UserError unless `small` divides `large`; the message proposes values that do."""
    if large % small:
        fitting = [d for d in range(1, large + 1) if large % d == 0]
        near = sorted(sorted(fitting, key=lambda d: abs(d - small))[:3])
        raise UserError(f"{small_name}={small} must divide {large_name}={large}; try {', '.join(map(str, near))}.")
