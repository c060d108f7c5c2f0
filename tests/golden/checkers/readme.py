"""Golden cases of Read-ME: expert masks, hits of caches on one stream, batches by expert."""

from __future__ import annotations

from pathlib import Path

from engines.core.verify import Case, checks, differ
from engines.methods.routing.read_me.experts import (
    BELADY,
    HIT,
    LOOKAHEAD,
    LRU,
    NEVER,
    batch_of,
    channel_ranks,
    masks,
    permanent,
    served,
)

from .cases import Given, float64

RULES = {"belady": (BELADY, NEVER), "lru": (LRU, NEVER), "lookahead_4": (LOOKAHEAD, 4)}


@checks("readme")
def check(case: Case, _: Given, __: Path) -> str | None:
    """Everything that a case asks for."""
    given, wanted = case["inputs"], case["expected"]
    mask = masks(channel_ranks(float64(given["activations"])), given["keep"])
    stream, queues = given["expert_sequence"], given["queues"]
    batch, taken = batch_of(queues, given["batch_capacity"])
    left, counts = [len(queue) for queue in queues], dict(taken)
    found = {
        "masks": {
            "binary": mask.int().tolist(),
            "permanent": permanent(mask).int().tolist(),
            "expert": (mask & ~permanent(mask)).int().tolist(),
        },
        "hits": {
            c: {name: served(stream, int(c), *RULES[name]).count(HIT) for name in by_rule}
            for c, by_rule in wanted["hits"].items()
        },
        "belady_evictions": {c: served(stream, int(c), BELADY) for c in wanted["belady_evictions"]},
        "batch": {
            "batch": batch,
            "taken": [list(pair) for pair in taken],
            "left": [n - counts.get(i, 0) for i, n in enumerate(left)],
            "unique_experts": len(taken),
        },
    }
    return differ("", found, wanted)
