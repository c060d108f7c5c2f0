"""STAND: model-free speculative sampling for test-time scaling (Song et al., arXiv:2506.04708, EMNLP 2025; no code was
found).

Samples of one prompt repeat themselves and each other. Of every n-gram that was written the *distribution* of the
target behind it is remembered, as a running mean of its largest entries. A draft tree is drawn from those distributions
by Gumbel-top-k, on a fixed template, and verified against exactly the distribution that it was
drawn from: the text has the target's distribution whatever the store holds.

`trajectories` samples are decoded on one store, one after the other: each is written on the board, the next one starts
from the prompt again, and the last one stays. The forwards of all samples count. At temperature 0 all samples are the
greedy text. Side by side, as in the paper, every forward feeds a draft tree for each sample that is not done, in one
cache, each drafted from the store as it stood before; what the target says at all of them is remembered. The board then
shows the first sample, which stays (choosing by length would not be a draw of the target's distribution), and
`branches` hold all.

The abstract and public summaries were read, not the paper. Ours, where they leave it open: keys of 3, 2 and 1 tokens;
the prompt's positions are stored; what is stored is the distribution at the sampling temperature, at temperature 0 the
distribution at 1; fresh noise for every node; small templates for a CPU, by an assumed chance per rank; `templates.py`
counts what is really accepted."""

from typing import Any

from engines.kit import (
    Branch,
    CausalLM,
    Int,
    Params,
    Paths,
    Recorder,
    Steps,
    from_child_counts,
    many,
)
from engines.methods.speculative._turn import Target, drafting, judged, unfinished
from engines.methods.speculative.stand import rounds
from engines.methods.speculative.stand.store import Store, overlaps

STAND: dict[str, Any] = {  # what both declare
    "own": "after the abstract and reviews",
    "paper": "arXiv:2506.04708",
    "needs": "causal",
    "signature": "samplebands",
    "emits": {"branches", "memory"},
    "records": {"suffixes": rounds.Suffixes},
    "lanes": {"suffix": "count"},
    "check": rounds.check,
}


@drafting(
    "stand",
    title="STAND",
    summary="The target's distributions after every n-gram are remembered, and later samples of the same prompt are "
    "drafted from them.",
    params=[
        Int("trajectories", 1, 1, 8, symbol="N", source="4, 8, 16 in the paper"),
        *rounds.SHARED,
    ],
    **STAND,
)
def decode(model: CausalLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """Draft from the store, verify against the target, remember what it said, for one sample after the other. With
    nothing stored behind the text, or a text shorter than every key, nothing is drafted: plain decoding."""
    parents, _ = from_child_counts(rounds.TEMPLATES[p.template])
    store, target, samples = Store(), Target(model, prompt, p, rows=len(parents)), list[list[int]]()
    while len(samples) < p.trajectories:
        ids, forwards = prompt, 0
        target.cache.crop(min(target.cache.length, len(prompt) - 1))
        while target.unfinished(ids):
            tree = rounds.drafted(store, ids, parents, p, run.rng, model.vocab_size, target.room(ids))
            iteration = target.verify(ids, tree.draft, run.rng)
            rounds.remember(store, iteration, p)
            forwards += 1
            done, number, length = (
                not target.unfinished(iteration.ids),
                len(samples) + 1,
                len(iteration.ids) - len(prompt),
            )
            fate = "alive" if not done else "chosen" if number >= p.trajectories else "finished"
            edit = yield run.step(
                **rounds.groups(iteration, tree, restart=len(prompt) if samples and forwards == 1 else None),
                memory=lambda: rounds.entries(store, iteration, tree, rounds.lengths(p)),
                records={
                    "suffixes": lambda: rounds.Suffixes(
                        [rounds.sample_step(len(samples), len(prompt), iteration, tree)]
                    )
                },
                branches=[
                    Branch(
                        number - 1, -1, iteration.gained, length, {"tokens per call": round(length / forwards, 3)}, fate
                    )
                ],
                facts=iteration.facts(
                    trajectory=number,
                    hit_order=tree.orders.get(0, 0),
                    hits=sum(n > 0 for n in tree.orders.values()),
                    store_keys=len(store.entries),
                    sample_forwards=forwards,
                    tokens_per_forward=length / forwards,
                    **(overlaps(iteration.ids[len(prompt) :], samples) if done else {}),
                ),
                note=(
                    f"Sample {number}: "
                    f"{summary(iteration.ids[len(prompt) :], model, forwards) if done else iteration.note()}"
                ),
            )
            ids = run.apply_edit(edit, iteration.ids, target.cache)
        samples.append(ids[len(prompt) :])


def summary(sample: list[int], model: CausalLM, forwards: int) -> str:
    """What a sample came to: its tokens, and whether an end mark stands behind them."""
    ended = bool(sample) and sample[-1] in model.eos_ids
    n = len(sample) - ended
    counted = f"{many(n, 'token')}{' and its end mark' if ended else ''}"
    return f"done, {counted} in {many(forwards, 'forward')}."


@drafting(
    "stand-side-by-side",
    title="STAND side by side",
    summary="Several samples of one prompt in every forward, each with a draft tree from what all of them have shown "
    "of the target.",
    params=[
        Int("trajectories", 4, 1, 8, symbol="N", source="4, 8, 16 in the paper"),
        *rounds.SHARED,
    ],
    paths={},
    **STAND,
)
def decode_side_by_side(model: CausalLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """Draft a tree for each sample, one forward for all, verify each, remember: a round per step."""
    parents, _ = from_child_counts(rounds.TEMPLATES[p.template])
    end, store, forwards = len(prompt) + p.max_new_tokens, Store(), 0
    paths = Paths(model, prompt, rows=p.trajectories * (p.max_new_tokens + len(parents)), rng=run.rng)
    first, *_ = [paths.add() for _ in range(p.trajectories)]

    while living := unfinished(paths, len(prompt), end):
        trees = {
            path.id: rounds.drafted(
                store, paths.read(path), parents, p, path.rng, model.vocab_size, deepest=end - path.length - 1
            )
            for path in living
        }
        fed = paths.feed({i: tree.draft for i, tree in trees.items()})
        turns = {path.id: judged(paths, path, fed[path.id], trees[path.id].draft, p, end) for path in living}
        for iteration in turns.values():
            rounds.remember(store, iteration, p)
        forwards += 1
        left, shown = unfinished(paths, len(prompt), end), next(iter(turns))
        first.fate = first.fate if left or first.fate == "alive" else "chosen"
        for path in living:
            path.scores["tokens per call"] = round((path.length - len(prompt)) / forwards, 3)
        token_count = sum(path.length - len(prompt) for path in paths.paths)
        edit = yield run.step(
            **rounds.groups(turns[first.id], trees[first.id], restart=None) if first.id in turns else {},
            memory=lambda: rounds.entries(store, turns[shown], trees[shown], rounds.lengths(p)),
            branches=paths.branches(),
            records={
                "suffixes": lambda: rounds.Suffixes(
                    [rounds.sample_step(i, len(prompt), turns[i], trees[i]) for i in sorted(turns)]
                )
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
