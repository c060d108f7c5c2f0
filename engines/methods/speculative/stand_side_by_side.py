"""STAND side by side, as in the paper (Song et al., arXiv:2506.04708): all samples in every forward.

Every forward feeds a draft tree for each sample that is not done, in one cache, each drafted from the store as it stood
before; what the target says at all of them is remembered. The board shows the first sample, which stays (choosing by
length would not be a draw of the target's distribution), and `branches` hold all. The forwards of all samples count.

Store, draft, check and what is ours in them are those of `stand`, which writes one sample after the other."""

from engines.kit import (
    CausalLM,
    Int,
    Params,
    Paths,
    Recorder,
    Steps,
    from_child_counts,
    many,
)
from engines.methods.speculative._turn import drafting, judged, unfinished
from engines.methods.speculative.stand.rounds import (
    SHARED,
    TEMPLATES,
    Suffixes,
    check,
    drafted,
    entries,
    groups,
    lengths,
    remember,
    sample_step,
)
from engines.methods.speculative.stand.store import Store


@drafting(
    "stand-side-by-side",
    title="STAND side by side",
    own="after the abstract and reviews",
    paper="arXiv:2506.04708",
    summary="Several samples of one prompt in every forward, each with a draft tree from what all of them have shown "
    "of the target.",
    needs="causal",
    params=[
        Int("trajectories", 4, 1, 8, symbol="N", source="4, 8, 16 in the paper"),
        *SHARED,
    ],
    signature="samplebands",
    emits={"branches", "memory"},
    records={"suffixes": Suffixes},
    lanes={"suffix": "count"},
    paths={},
    check=check,
)
def decode(model: CausalLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """Draft a tree for each sample, one forward for all, verify each, remember: a round per step."""
    parents, _ = from_child_counts(TEMPLATES[p.template])
    end, store, forwards = len(prompt) + p.max_new_tokens, Store(), 0
    paths = Paths(model, prompt, rows=p.trajectories * (p.max_new_tokens + len(parents)), rng=run.rng)
    first, *_ = [paths.add() for _ in range(p.trajectories)]

    while living := unfinished(paths, len(prompt), end):
        trees = {
            path.id: drafted(
                store, paths.read(path), parents, p, path.rng, model.vocab_size, deepest=end - path.length - 1
            )
            for path in living
        }
        fed = paths.feed({i: tree.draft for i, tree in trees.items()})
        turns = {path.id: judged(paths, path, fed[path.id], trees[path.id].draft, p, end) for path in living}
        for iteration in turns.values():
            remember(store, iteration, p)
        forwards += 1
        left, shown = unfinished(paths, len(prompt), end), next(iter(turns))
        first.fate = first.fate if left or first.fate == "alive" else "chosen"
        for path in living:
            path.scores["tokens per call"] = round((path.length - len(prompt)) / forwards, 3)
        token_count = sum(path.length - len(prompt) for path in paths.paths)
        edit = yield run.step(
            **groups(turns[first.id], trees[first.id], restart=None) if first.id in turns else {},
            memory=lambda: entries(store, turns[shown], trees[shown], lengths(p)),
            branches=paths.branches(),
            records={
                "suffixes": lambda: Suffixes([sample_step(i, len(prompt), turns[i], trees[i]) for i in sorted(turns)])
            },
            facts={
                "samples": len(living),
                "drafted": sum(len(tree.draft) - 1 for tree in trees.values()),
                "accepted": sum(iteration.accepted for iteration in turns.values()),
                "rows": sum(len(tree.draft) for tree in trees.values()),
                "hit_order": trees[shown].orders.get(0, 0),
                "hits": sum(n > 0 for tree in trees.values() for n in tree.orders.values()),
                "store_keys": len(store.entries),
                "tokens_per_forward": token_count / forwards,
            },
            note=f"{many(len(living), 'sample')}, {len(left)} left; sample {shown + 1}: {turns[shown].note()}",
        )
        paths.apply_edit(run, edit, first)
