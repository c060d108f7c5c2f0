"""What weights in oneDNN's layout are worth here: forwards of SmolLM2 in bfloat16 with plain and with packed linear
layers:  python -m tests.engines.models.packing [repeats]

Both take turns on n rows behind the same 200 positions. Printed are the medians in milliseconds, their ratio, and
whether the logits are equal to the bit. Other work on the machine spoils the times, not the logits."""

from __future__ import annotations

import sys
from statistics import median
from unittest import mock

import torch

from engines.core.measure import row_costs
from engines.models.adapters.causal import HFCausalLM
from engines.models.loader import load_folder
from engines.models.packed import can_pack
from engines.models.smollm2 import NAME, ensure

ROWS = (1, 2, 4, 8, 16, 32, 64, 256)
PAST = 200


def loaded() -> HFCausalLM:
    """SmolLM2, its layers packed where that can be."""
    model = load_folder(ensure()[0], NAME, kind="causal")
    assert isinstance(model, HFCausalLM)
    return model


def logits(model: HFCausalLM, rows: int) -> torch.Tensor:
    """[rows, V] behind PAST other tokens."""
    cache = model.new_cache(PAST + rows)
    model.extend([i % 4000 + 500 for i in range(PAST)], cache, last_only=True)
    return model.extend([i % 4000 + 100 for i in range(rows)], cache).logits


def main(repeats: int = 9) -> None:
    """Print a line per number of rows."""
    if not can_pack():
        sys.exit("this processor or build of torch has no kernels for packed weights, so there is nothing to compare.")
    with mock.patch("engines.models.packed.can_pack", return_value=False):
        plain = loaded()
    packed = loaded()
    rounds = [[row_costs(model, ROWS, repeats=1, past=PAST) for model in (plain, packed)] for _ in range(repeats)]
    here = f"{torch.get_num_threads()} threads, {torch.backends.cpu.get_cpu_capability()}"
    print(f"{here}, medians of {repeats} alternating forwards behind {PAST} positions")
    for n in ROWS:
        a, b = (1000 * median(costs[n] for costs in each) for each in zip(*rounds, strict=True))
        bits = "equal" if torch.equal(logits(plain, n), logits(packed, n)) else "not equal"
        print(f"{n:4d} rows: plain {a:6.1f} ms, packed {b:6.1f} ms, ratio {b / a:.2f}, logits {bits} to the bit")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
