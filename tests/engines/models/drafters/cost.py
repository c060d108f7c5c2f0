"""What the wrapper around a drafter costs beside its own forwards, on random weights of SmolLM2's size; the aim is 5 %:

    python -m tests.engines.models.drafters.cost

A draft of K tokens behind a text is made by the drafter's own functions and by the counted drafter that methods see, in
turn; what is compared are the medians."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import engines
from engines.core.kinds import counted
from engines.core.meter import Meter
from engines.diagnosis.cost import _rows
from tests.engines.models.drafters import made

K, TEXT, ROUNDS = 5, 64, 60


class Plain:
    """The same drafter and the target's network, with nothing counted."""

    def __init__(self, drafter: Any, target: Any) -> None:
        self.drafter, self.E = drafter, target.model.get_input_embeddings().weight

    def __getattr__(self, name: str) -> Any:
        return getattr(self.drafter, name)

    def embed(self, tokens: list[int]) -> Any:
        """Embeddings of tokens."""
        return torch.nn.functional.embedding(torch.as_tensor(tokens), self.E)

    def call(self, fed: int, compute: Callable[[], Any]) -> Any:
        """A pass."""
        return compute()

    def logits(self, h: Any, predicts: Any) -> Any:
        """Of the target's head."""
        return torch.nn.functional.linear(h, self.E).float()

    def tokens(self, columns: Any) -> Any:
        """The target's tokens."""
        return columns


def main() -> None:
    """Print medians and their ratio."""
    with tempfile.TemporaryDirectory() as folder:
        target = engines.load_model(made.target(Path(folder) / "target", **made.SMOLLM2), dtype="float32")
        drafter = engines.load_drafter(made.eagle(Path(folder) / "drafter", **made.SMOLLM2), target)
        meter = Meter()
        ids = list(range(100, 101 + TEXT))
        ways = {}
        with torch.inference_mode():
            S = torch.randn(TEXT, made.SMOLLM2["hidden_size"])
            for name, run in (
                ("plain", Plain(drafter, target)),
                ("counted", drafter.counted(counted(target, "target", meter, "layered"), meter)),
            ):
                ways[name] = _rows(run, ids, S)
            assert ways["plain"](K) == ways["counted"](K)
            took: dict[str, list[float]] = {name: [] for name in ways}
            for n in range(ROUNDS):
                for name in sorted(ways, reverse=bool(n % 2)):
                    began = time.perf_counter()
                    ways[name](K)
                    took[name].append(time.perf_counter() - began)
    plain, ours = (statistics.median(took[name]) for name in ("plain", "counted"))
    print(f"a draft of {K} tokens: {1000 * plain:.2f} ms plain, {1000 * ours:.2f} ms counted, {ours / plain - 1:+.1%}")


if __name__ == "__main__":
    main()
