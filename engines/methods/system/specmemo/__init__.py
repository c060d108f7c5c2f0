"""SpecMemo: tree speculation inside a budget of bytes (Yildirim and Chen, arXiv:2506.01986).

Speculation buys speed with memory: rows of a cache for tokens that are thrown away, logits for every node of the tree,
a cache reserved for the longest conversation. So every byte is written down by purpose, the cache is allocated once for
just the positions that the answer needs, and the largest tree is taken that fits the budget. A budget
changes the speed and never a token; one that keeps the tree ends the text earlier.

Only the abstract was available: the account is ours, its reference side follows the tensor shapes of the code of
Medusa. The tree is filled from a table of what the model said last behind a token (2408.08696), so no heads are needed;
the sequences of a batch answer one prompt, whose keys and values they share. Bytes are those of the tensors that the
loop holds; what a forward allocates and frees within itself is not among them, but for the tree's mask, which is
modelled, as the weights are. The memory of the whole process stands beside them as a witness.

Letters: B sequences, T nodes of the tree with its root, n positions of the cache, V vocabulary, M the table, k guesses
of each of its rows."""

from collections.abc import Mapping, Sequence

import numpy as np

from engines.kit import (
    CausalLM,
    Choice,
    Float,
    Int,
    Interval,
    Params,
    Paths,
    Recorder,
    Steps,
    bytes_held,
    many,
    top_ids,
    torch,
)
from engines.methods.speculative._turn import Turn, drafting, judged, unfinished
from engines.methods.speculative._verify import Draft
from engines.methods.speculative.token_recycling import expand, update
from engines.methods.system.specmemo import plan as planning

LENGTH, TREE = "length", "tree"


@drafting(
    "specmemo",
    title="SpecMemo",
    own="after the abstract, own plan of memory",
    paper="arXiv:2506.01986",
    summary="Every byte of tree speculation is written down, and the largest tree is used that fits a budget.",
    needs="causal",
    new_tokens=48,
    params=[
        Float("budget", 0.0, 0.0, 2048.0, step=0.25, symbol="β"),
        Choice("keeps", LENGTH, [LENGTH, TREE], source="ours"),
        Int("nodes", 16, 1, planning.TREES[-1], symbol="T", source="64"),
        Int("batch", 1, 1, 8, symbol="B"),
        Choice("allocation", "lean", ["lean", planning.REFERENCE], source="lean"),
    ],
    signature="arena",
    emits={"intervals", "branches"},
    lossless=[{"keeps": LENGTH}, {"budget": 0.0}],
    paths={"batch": 3},
)
def decode(model: CausalLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """One round per step: plan, one forward over the trees of all sequences, verify, account."""
    plan = planning.Plan.of(model, len(prompt), p)
    if p.keeps == TREE:
        plan = plan.shortened(p.budget, p.nodes)
    most = plan.fit(p.budget, p.nodes, strict=True)  # no later tree is larger, as the cache is allocated once
    paths = Paths(model, prompt, rows=plan.rows(most) - len(prompt), rng=run.rng)
    end, M = len(prompt) + plan.new, np.full((model.vocab_size, planning.GUESSES), -1, dtype=np.int32)
    first, *_ = [paths.add() for _ in range(p.batch)]
    while living := unfinished(paths, len(prompt), end):
        T = min(most, plan.fit(p.budget, p.nodes))
        parents, ranks = planning.shape(T)
        trees = {path.id: grown(M, paths.read(path), parents, ranks, end - path.length - 1) for path in living}
        outputs = paths.feed({i: tree for i, tree in trees.items() if len(tree) > 1})
        gathered = [planning.by_path(fed.z, trees[i].parents) for i, fed in outputs.items()] if plan.whole else []
        logits = planning.live_bytes([*(fed.z for fed in outputs.values()), *(path.logits for path in living)])
        turns = {path.id: judged(paths, path, outputs[path.id], trees[path.id], p, end) for path in living}
        for iteration in turns.values():
            likeliest = top_ids(torch.cat([iteration.z_chain, iteration.z]), planning.GUESSES).cpu().numpy()
            update(M, [*iteration.chain, *iteration.draft.tokens], likeliest)
        left = unfinished(paths, len(prompt), end)
        first.fate = first.fate if left or first.fate == "alive" else "chosen"
        bytes_of = account(
            plan,
            T,
            paths.cache_bytes,
            turns,
            {"logits": logits, "paths": planning.live_bytes(gathered), "table": M.nbytes},
        )
        facts, lanes = describe(plan, T, p.budget, bytes_of)
        edit = yield run.step(
            **turns[first.id].groups() if first.id in turns else {},
            branches=paths.branches(),
            intervals=lanes if run.detail != "none" else [],
            facts={**tally(turns), **facts},
            note=f"{facts['accounted'] / planning.MB:.2f} MB in use, a tree of {many(T, 'node')}, "
            f"room for {many(plan.new, 'new token')}; "
            f"{turns[min(turns)].note()}",
        )
        paths.apply_edit(run, edit, first)


def grown(M: np.ndarray, ids: list[int], parents: Sequence[int], ranks: Sequence[int], deepest: int) -> Draft:
    """The tree below the last of the ids, as far as the table knows it."""
    tokens, _, tree = expand(M, ids[-1], parents, ranks, deepest=deepest)
    return Draft.of(tokens, tree, "matrix")


def account(
    plan: planning.Plan, T: int, cache: int, turns: Mapping[int, Turn], sizes: Mapping[str, int]
) -> dict[str, tuple[int, bool]]:
    """Purpose -> (bytes, whether measured) of a round, before the rows of refused drafts are given back. cache, held:
    bytes of the cache's buffers, of logits, gathered paths and table."""
    before = plan.start + sum(len(iteration.before) - plan.start for iteration in turns.values())
    accepted = sum(iteration.accepted for iteration in turns.values())
    refused = sum(len(iteration.draft) - 1 for iteration in turns.values()) - accepted
    text, thrown = plan.kv_row * (before + accepted), plan.kv_row * refused
    return {
        "weights": (plan.weights, False),  # numbers times bytes; the kernels may lay them out in another way
        "cache of the text": (text, True),
        "cache of refused drafts": (thrown, True),
        "cache in reserve": (cache - text - thrown, True),
        "logits": (sizes["logits"], True),
        **({"logits by path": (sizes["paths"], True)} if plan.whole else {}),
        "table of guesses": (sizes["table"], True),
        "mask of the tree": (plan.mask(T) if T > 1 else 0, False),
    }


def describe(
    plan: planning.Plan, T: int, budget: float, bytes_of: Mapping[str, tuple[int, bool]]
) -> tuple[dict[str, float], list[Interval]]:
    """(facts, lanes) of an account: the arena by purpose, what the reference would hold with the same tree, the budget,
    and the memory of the process."""
    total, reference = sum(size for size, _ in bytes_of.values()), plan.parts(T, whole=True)
    beside, usual = total - plan.weights, sum(reference.values())
    facts = {
        "T": T,
        "accounted": total,
        "planned": plan.total(T),
        "reference": plan.weights + usual,
        "saved": 1 - beside / usual,
        "limit": plan.limit(T, budget),
    }
    whole = {"weights": plan.weights, **reference}
    lanes = [
        *planning.stacked("arena", bytes_of),
        *planning.stacked("reference", {name.replace("_", " "): (size, False) for name, size in whole.items() if size}),
        bytes_held("process", "resident memory", 0, planning.resident_bytes()),
    ]
    limit = Interval("budget", 0, budget * planning.MB, "limit", False, "bytes", {"limit": True}, "bytes")
    return facts, [*lanes, limit] if budget else lanes


def tally(turns: Mapping[int, Turn]) -> dict[str, float]:
    """What all sequences did in a round."""
    return {
        "sequences": len(turns),
        "drafted": sum(len(iteration.draft) - 1 for iteration in turns.values()),
        "accepted": sum(iteration.accepted for iteration in turns.values()),
        "rows": sum(len(iteration.draft) for iteration in turns.values()),
    }
