"""What weights in oneDNN's layout are worth here: forwards of SmolLM2 in bfloat16 with plain and with packed linear
layers.

    python -m tests.engines.models.packing [repeats]

Two models of the same weights take turns on n rows behind the same 200 positions. Printed are the medians in
milliseconds, their ratio, and whether the logits are equal to the bit. Other work on the machine spoils the times, not
the logits."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from statistics import median
from unittest import mock

import torch

from engines.core.errors import UserError
from engines.core.measure import row_costs
from engines.models.adapters.causal import HFCausalLM
from engines.models.loader import load_folder
from engines.models.packed import can_pack
from engines.models.smollm2 import NAME, ensure

ROWS = (1, 2, 4, 8, 16, 32, 64, 256)
PAST = 200


@dataclass(frozen=True)
class Cost:
    """A forward of `rows` rows: medians in seconds of the plain and the packed model. same: their logits are equal to
    the bit."""

    rows: int
    plain: float
    packed: float
    same: bool


def pair() -> tuple[HFCausalLM, HFCausalLM]:
    """SmolLM2 with plain and with packed layers, both warm. Raises UserError where this processor or build of torch
    cannot pack."""
    if not can_pack():
        raise UserError(
            "this processor or build of torch has no kernels for packed weights, so there is nothing to compare."
        )
    folder = ensure()[0]
    with mock.patch("engines.models.packed.can_pack", return_value=False):
        plain = load_folder(folder, NAME, kind="causal")
    packed = load_folder(folder, NAME, kind="causal")
    assert isinstance(plain, HFCausalLM) and isinstance(packed, HFCausalLM)
    return plain, packed


def measure(plain: HFCausalLM, packed: HFCausalLM, rows: tuple[int, ...], repeats: int) -> list[Cost]:
    """The two models in turns, all sizes in each, and then the logits of every size once."""
    rounds = [[row_costs(model, rows, repeats=1, past=PAST) for model in (plain, packed)] for _ in range(repeats)]
    logits = [[_logits(model, n) for n in rows] for model in (plain, packed)]
    return [
        Cost(n, median(a[n] for a, _ in rounds), median(b[n] for _, b in rounds), torch.equal(one, other))
        for n, one, other in zip(rows, *logits, strict=True)
    ]


def _logits(model: HFCausalLM, rows: int) -> torch.Tensor:
    """[rows, V] behind PAST other tokens."""
    cache = model.new_cache(PAST + rows)
    model.extend([i % 4000 + 500 for i in range(PAST)], cache, last_only=True)
    return model.extend([i % 4000 + 100 for i in range(rows)], cache).logits


def main(repeats: int = 9) -> None:
    """Print a line per number of rows."""
    plain, packed = pair()
    print(
        f"{torch.get_num_threads()} threads, {torch.backends.cpu.get_cpu_capability()}, medians of {repeats} "
        f"alternating forwards behind {PAST} positions"
    )
    for cost in measure(plain, packed, ROWS, repeats):
        print(
            f"{cost.rows:4d} rows: plain {1000 * cost.plain:6.1f} ms, packed {1000 * cost.packed:6.1f} ms, ratio "
            f"{cost.packed / cost.plain:.2f}, "
            f"logits {'equal to the bit' if cost.same else 'not equal to the bit'}"
        )


if __name__ == "__main__":
    try:
        main(*(int(argument) for argument in sys.argv[1:]))
    except UserError as error:
        sys.exit(str(error))
