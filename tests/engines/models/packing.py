"""What weights in oneDNN's layout are worth here: forwards of SmolLM2 in bfloat16 with plain and with packed linear
layers:  python -m tests.engines.models.packing

Both take turns on n rows behind the same 200 positions. Printed are the medians in milliseconds and their ratio. Other
work on the machine spoils the times. (That packed rows are right is a test of `test_quantised.py`.)"""

import sys
from statistics import median
from unittest import mock

import torch

from engines.core.measure import row_costs
from engines.models.files.smollm2 import NAME, ensure
from engines.models.layers.packed import can_pack
from engines.models.loading.loader import load_folder

ROWS, PAST, REPEATS = (1, 2, 4, 8, 16, 32, 64, 256), 200, 9


def main() -> None:
    """Print a line per number of rows."""
    if not can_pack():
        sys.exit("this processor or build of torch has no kernels for packed weights, so there is nothing to compare.")
    with mock.patch("engines.models.layers.packed.can_pack", return_value=False):
        plain = load_folder(ensure()[0], NAME, kind="causal")
    packed = load_folder(ensure()[0], NAME, kind="causal")
    rounds = [[row_costs(model, ROWS, repeats=1, past=PAST) for model in (plain, packed)] for _ in range(REPEATS)]
    print(f"{torch.get_num_threads()} threads, {torch.backends.cpu.get_cpu_capability()}")
    for n in ROWS:
        a, b = (1000 * median(costs[n] for costs in each) for each in zip(*rounds, strict=True))
        print(f"{n:4d} rows: plain {a:6.1f} ms, packed {b:6.1f} ms, ratio {b / a:.2f}")


if __name__ == "__main__":
    main()
