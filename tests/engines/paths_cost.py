"""What several paths cost in one cache against as many separate runs:  python -m tests.engines.paths_cost [rounds]

Both sides draw as many samples of one question with the same settings, in turns; the ratio is that of the medians. The
engine alone, without recording (`detail="none"`)."""

import sys
import time
from statistics import median
from typing import Any

import engines

CASES = (
    ("tiny-reasoner", "8+9*3+0-8", 16, {"temperature": 1.0, "max_new_tokens": 96, "let_finish": True}),
    ("smollm2", "Tell me a fairy tale about a fox.", 8, {"temperature": 1.0, "max_new_tokens": 48, "let_finish": True}),
)


def seconds(model: Any, prompt: str, n: int, params: dict[str, object], seed: int) -> tuple[float, int]:
    """(seconds, forwards) of one run with n paths."""
    began = time.perf_counter()
    made = engines.run("ffs", model, prompt, params={**params, "n": n}, seed=seed, detail="none")
    return time.perf_counter() - began, made.totals.forwards


def main(rounds: int) -> None:
    """Print one line for each case."""
    for name, prompt, n, params in CASES:
        model = engines.load_model(name)
        seconds(model, prompt, 1, params, 0)
        together, apart = [], []
        for number in range(rounds):
            together.append(seconds(model, prompt, n, params, number))
            apart.append([seconds(model, prompt, 1, params, n * number + i) for i in range(n)])
        one, many = median(took for took, _ in together), median(sum(took for took, _ in row) for row in apart)
        calls = median(f for _, f in together), median(sum(f for _, f in row) for row in apart)
        print(
            f"{name}: {n} paths {one:.2f} s in {calls[0]:.0f} forwards, {n} runs {many:.2f} s in {calls[1]:.0f}: "
            f"{one / many:.2f} (medians of {rounds} rounds)"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
