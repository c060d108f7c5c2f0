"""What weights in oneDNN's layout are worth here: forwards of SmolLM2 in bfloat16 with plain and with packed linear layers.

    python -m tests.engines.models.packing [repeats]

Two models of the same weights take turns on n rows behind the same 200 positions. Printed are the medians in milliseconds, their ratio, and whether
the logits are equal to the bit. Other work on the machine spoils the times, not the logits.
"""

from __future__ import annotations

import statistics
import sys
import time
from dataclasses import dataclass
from unittest import mock

import torch

from engines.core.errors import UserError
from engines.models.causal import HFCausalLM
from engines.models.loader import load_folder
from engines.models.packed import can_pack
from engines.models.smollm2 import NAME, ensure

ROWS = (1, 2, 4, 8, 16, 32, 64, 256)
PAST = 200


@dataclass(frozen=True)
class Cost:
    """A forward of `rows` rows: medians in seconds of the plain and the packed model. same: their logits are equal to the bit."""

    rows: int
    plain: float
    packed: float
    same: bool


def pair() -> tuple[HFCausalLM, HFCausalLM]:
    """SmolLM2 with plain and with packed layers, both warm. Raises UserError where this processor or build of torch cannot pack."""
    if not can_pack():
        raise UserError("this processor or build of torch has no kernels for packed weights, so there is nothing to compare.")
    folder = ensure()[0]
    with mock.patch("engines.models.packed.can_pack", return_value=False):
        plain = load_folder(folder, NAME, kind="causal")
    packed = load_folder(folder, NAME, kind="causal")
    assert isinstance(plain, HFCausalLM) and isinstance(packed, HFCausalLM)
    return plain, packed


def measure(plain: HFCausalLM, packed: HFCausalLM, rows: int, repeats: int) -> Cost:
    """Alternating forwards; what a forward wrote into the cache is dropped before the next one."""
    tokens, past = [i % 4000 + 100 for i in range(rows)], [i % 4000 + 500 for i in range(PAST)]
    seconds: dict[int, list[float]] = {0: [], 1: []}
    logits: dict[int, torch.Tensor] = {}
    caches = [model.new_cache(PAST + rows) for model in (plain, packed)]
    for model, cache in zip((plain, packed), caches, strict=True):
        model.extend(past, cache, last_only=True)
    for turn in range(repeats + 1):
        for i, model in enumerate((plain, packed)):
            begun = time.perf_counter()
            logits[i] = model.extend(tokens, caches[i]).logits
            if turn:  # the first one is warm-up
                seconds[i].append(time.perf_counter() - begun)
            caches[i].crop(PAST)
    return Cost(rows, statistics.median(seconds[0]), statistics.median(seconds[1]), torch.equal(logits[0], logits[1]))


def main(repeats: int = 9) -> None:
    """Print a line per number of rows."""
    plain, packed = pair()
    print(f"{torch.get_num_threads()} threads, {torch.backends.cpu.get_cpu_capability()}, medians of {repeats} alternating forwards behind {PAST} positions")
    for rows in ROWS:
        cost = measure(plain, packed, rows, repeats)
        print(
            f"{rows:4d} rows: plain {1000 * cost.plain:6.1f} ms, packed {1000 * cost.packed:6.1f} ms, ratio {cost.packed / cost.plain:.2f}, "
            f"logits {'equal to the bit' if cost.same else 'not equal to the bit'}",
            flush=True,
        )


if __name__ == "__main__":
    try:
        main(*(int(argument) for argument in sys.argv[1:]))
    except UserError as error:
        sys.exit(str(error))
