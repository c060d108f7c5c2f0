"""What a forward made of parts costs here: SmolLM2 in bfloat16, layer by layer, beside the stock class's own forward.

    python -m tests.engines.models.layering [repeats]

The two take turns on the same weights, on n rows behind the same 200 positions, and then a forward of one row leaves
after some of its layers. Printed are medians in milliseconds of processor time (of all threads together, so that other
work on the machine spoils less than on the wall's clock) and ratios within the rounds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from statistics import median

import torch

from engines.core.errors import UserError
from engines.models.adapters.causal import HFCausalLM
from engines.models.adapters.layered import HFLayeredLM
from engines.models.slots import SlotCache
from engines.models.zoo import load_model

ROWS = (1, 4, 16, 64)
EXITS = (6, 15, 22, 30)
PAST = 200


def filled(model: HFLayeredLM, rows: int) -> SlotCache:
    """A cache that holds PAST positions, with room for `rows` more."""
    cache = model.new_cache(PAST + rows)
    model.extend([i % model.vocab_size for i in range(PAST)], cache, last_only=True)
    return cache


def alternating(calls: Sequence[Callable[[], object]], repeats: int) -> list[list[float]]:
    """Seconds of every call in each round; in every second round the calls come the other way round."""
    for call in calls:
        call()
    seconds: list[list[float]] = [[] for _ in calls]
    for i in range(repeats):
        for which in range(len(calls)) if i % 2 else reversed(range(len(calls))):
            began = time.process_time()
            calls[which]()
            seconds[which].append(time.process_time() - began)
    return seconds


def composed(model: HFLayeredLM, rows: int, repeats: int) -> tuple[list[float], list[float], bool]:
    """Seconds of the stock forward and of the composed one, and whether their logits are equal to the bit."""
    cache, tokens = filled(model, rows), [(i + 100) % model.vocab_size for i in range(rows)]

    def stock() -> torch.Tensor:
        cache.crop(PAST)
        return HFCausalLM.extend(model, tokens, cache).logits

    def parts() -> torch.Tensor:
        cache.crop(PAST)
        return model.extend(tokens, cache).logits

    one, other = alternating((stock, parts), repeats)
    return one, other, torch.equal(stock(), parts())


def leaving(model: HFLayeredLM, exits: Sequence[int], repeats: int) -> tuple[list[list[float]], list[float]]:
    """Seconds of the first l layers on one row for each l, and of norm and head."""
    cache = filled(model, 1)
    x = model.embed([1])

    def layers(last: int) -> None:
        cache.crop(PAST)
        model.layers(x, cache, 0, last)

    *through, head = alternating(
        [*(lambda last=last: layers(last) for last in exits), lambda: model.unembed(x)], repeats
    )
    return through, head


def ratio(a: Sequence[float], b: Sequence[float]) -> float:
    """Median over the rounds of b over a: what disturbs a round disturbs both."""
    return median(y / x for x, y in zip(a, b, strict=True))


def main(repeats: int = 31) -> None:
    """Print a line per number of rows and one per exit."""
    model = load_model("smollm2")
    assert isinstance(model, HFLayeredLM)
    print(
        f"{model.record.name}, {model.record.dtype}, {torch.get_num_threads()} threads, behind {PAST} positions, "
        f"medians of {repeats} alternating forwards"
    )
    for rows in ROWS:
        stock, parts, same = composed(model, rows, repeats)
        print(
            f"{rows:4d} rows: stock {1000 * median(stock):6.2f} ms, composed {1000 * median(parts):6.2f} ms, ratio "
            f"{median(parts) / median(stock):.3f} of the medians, {ratio(stock, parts):.3f} in the median round, "
            f"logits {'equal to the bit' if same else 'not equal to the bit'}"
        )
    through, head = leaving(model, EXITS, repeats)
    whole = through[-1]
    for last, took in zip(EXITS, through, strict=True):
        print(
            f"   1 row, exit after {last:2d} of {EXITS[-1]} layers: {1000 * median(took):6.2f} ms, "
            f"{ratio(whole, took):.3f} of all layers ({last / EXITS[-1]:.3f} expected), "
            f"with norm and head {1000 * (median(took) + median(head)):6.2f} ms"
        )
    print(f"   norm and head: {1000 * median(head):.2f} ms, as much as {30 * ratio(whole, head):.1f} layers")


if __name__ == "__main__":
    try:
        main(*(int(argument) for argument in sys.argv[1:]))
    except UserError as error:
        sys.exit(str(error))
