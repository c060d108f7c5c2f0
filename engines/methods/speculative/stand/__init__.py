"""STAND: model-free speculative sampling for test-time scaling (Song et al., arXiv:2506.04708, EMNLP 2025; no code was
found).

Samples of one prompt repeat themselves and each other. Of every n-gram that was written the *distribution* of the
target behind it is remembered, as a running mean of its largest entries. A draft tree is drawn from those distributions
by Gumbel-top-k, on a fixed template, and verified against exactly the distribution that it was
drawn from: the text has the target's distribution whatever the store holds.

`trajectories` samples are decoded on one store. One after the other: each is written on the board, the next one starts
from the prompt again, and the last one stays. `side_by_side`, as in the paper: every forward feeds a draft tree for
each sample that is not done, in one cache; the board shows the first one, which stays (choosing by length would not be
a draw of the target's distribution), and `branches` hold all. The forwards of all samples count. At temperature 0 all
samples are the greedy text.

The abstract and public summaries were read, not the paper. Ours, where they leave it open: keys of 3, 2 and 1 tokens;
the prompt's positions are stored; what is stored is the distribution at the sampling temperature, at temperature 0 the
distribution at 1; fresh noise for every node; small templates for a CPU, by an assumed chance per rank; `templates.py`
counts what is really accepted."""

from __future__ import annotations

from engines.kit import (
    Bool,
    Branch,
    CausalLM,
    Choice,
    Fed,
    Int,
    LaneInfo,
    Params,
    Path,
    Paths,
    Recorder,
    Steps,
    from_child_counts,
    max_new_tokens,
    method,
)
from engines.methods.speculative._turn import EMITS, LANES, Target, Turn, temperature
from engines.methods.speculative._verify import verify
from engines.methods.speculative.stand.rounds import TEMPLATES, check, drafted, entries, groups, lengths, remember
from engines.methods.speculative.stand.store import Grown, Store, overlaps


@method(
    "stand",
    title="STAND",
    own="after the abstract and reviews",
    family="speculative",
    paper="arXiv:2506.04708",
    summary="The target's distributions behind every n-gram are remembered, and later samples of the same prompt are "
    "drafted "
    "from them.",
    needs="causal",
    params=[
        max_new_tokens(64),
        Int(
            "trajectories",
            1,
            1,
            8,
            symbol="N",
            sees="Samples of the prompt on one store, one after the other or side by side; the forwards of all count.",
            source="4, 8, 16 in the paper",
        ),
        Bool(
            "side_by_side",
            False,
            sees="All samples in every forward, each with a draft tree of its own; the first one stays.",
            source="on in the paper",
        ),
        Choice(
            "drafting",
            "stochastic",
            ["stochastic", "deterministic"],
            sees="Drafts drawn from the stored distribution, or its most likely tokens.",
            source="paper",
        ),
        Choice(
            "template",
            "16",
            ["8", "16", "32", "80"],
            sees="Nodes of the draft tree; more nodes hit more and cost more.",
            source="80 in the paper",
        ),
        Int(
            "longest",
            3,
            1,
            5,
            symbol="n",
            sees="Tokens of the longest key; it is looked up first.",
            source="ours; up to 4 in the paper",
        ),
        Int(
            "shortest",
            1,
            1,
            5,
            sees="Tokens of the shortest key: short ones hit more often and guess worse.",
            source="ours; 2 in the paper",
        ),
        Int("stored", 10, 2, 20, symbol="K", sees="Tokens remembered behind every key.", source="paper"),
        temperature(),
    ],
    signature="tree",
    emits=(EMITS - {"lanes"}) | {"branches", "memory"},
    lanes={
        **LANES,
        "suffix": LaneInfo(
            "count",
            "Tokens of the key whose stored distribution drafted each written token; 0 for what the target added.",
        ),
    },
    baseline="greedy",
    lossless=True,
    departures="Samples one after the other on one store unless side_by_side is set; keys of 3 to 1 tokens; the prompt "
    "is stored; small templates.",
    paths={"trajectories": 3, "side_by_side": True},
    check=check,
)
def decode(model: CausalLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """Card steps 1-8. With nothing stored behind the text, or a text shorter than every key, nothing is drafted: plain
    decoding."""
    if p.side_by_side:
        yield from side_by_side(model, prompt, p, run)
        return
    parents, _ = from_child_counts(TEMPLATES[p.template])
    store, target, samples = Store(), Target(model, prompt, p, rows=len(parents)), list[list[int]]()
    while len(samples) < p.trajectories:
        ids, forwards = prompt, 0
        target.cache.crop(min(target.cache.length, len(prompt) - 1))
        while target.unfinished(ids):
            tree = drafted(store, ids, parents, p, run.rng, model.vocab_size, target.room(ids))
            turn = target.verify(ids, tree.draft, run.rng)
            remember(store, turn, p)
            forwards += 1
            done, number, length = not target.unfinished(turn.ids), len(samples) + 1, len(turn.ids) - len(prompt)
            fate = "alive" if not done else "chosen" if number >= p.trajectories else "finished"
            edit = yield run.step(
                **groups(turn, tree, restart=len(prompt) if samples and forwards == 1 else None),
                memory=lambda: entries(store, turn, tree, lengths(p)),
                branches=[
                    Branch(number - 1, -1, turn.gained, length, {"tokens per call": round(length / forwards, 3)}, fate)
                ],
                facts=turn.facts(
                    trajectory=number,
                    hit_order=tree.orders.get(0, 0),
                    hits=sum(n > 0 for n in tree.orders.values()),
                    store_keys=len(store.entries),
                    sample_forwards=forwards,
                    tokens_per_forward=length / forwards,
                    **(overlaps(turn.ids[len(prompt) :], samples) if done else {}),
                ),
                note=f"Sample {number}: {told(turn.ids[len(prompt) :], model, forwards) if done else turn.note()}",
            )
            ids = run.apply_edit(edit, turn.ids, target.cache)
        samples.append(ids[len(prompt) :])


def told(sample: list[int], model: CausalLM, forwards: int) -> str:
    """What a sample came to: its tokens, and whether an end mark stands behind them."""
    ended = bool(sample) and sample[-1] in model.eos_ids
    n = len(sample) - ended
    said = f"{n} token{'' if n == 1 else 's'}{' and its end mark' if ended else ''}"
    return f"done, {said} in {forwards} forward{'' if forwards == 1 else 's'}."


def side_by_side(model: CausalLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """The same rounds for all samples at once: every tree is drafted from the store as it stood before the forward."""
    parents, _ = from_child_counts(TEMPLATES[p.template])
    end, store, forwards = len(prompt) + p.max_new_tokens, Store(), 0
    paths = Paths(model, prompt, rows=p.trajectories * (p.max_new_tokens + len(parents)), rng=run.rng)
    first, *_ = [paths.add() for _ in range(p.trajectories)]

    def rest(living: list[Path]) -> list[Path]:
        """Those with something left to write; the others end here."""
        for path in living:
            if path.length >= end or (path.length > len(prompt) and path.tip.token in model.eos_ids):
                paths.drop(path, "finished")
        return paths.living

    while living := rest(paths.living):
        trees = {
            path.id: drafted(
                store, paths.read(path), parents, p, path.rng, model.vocab_size, deepest=end - path.length - 1
            )
            for path in living
        }
        found = paths.feed({i: tree.draft for i, tree in trees.items()})
        turns = {path.id: judged(paths, path, found[path.id], trees[path.id], p, end) for path in living}
        for turn in turns.values():
            remember(store, turn, p)
        forwards += 1
        left, shown = rest(living), next(iter(turns))
        first.fate = first.fate if left or first.fate == "alive" else "chosen"
        for path in living:
            path.scores["tokens per call"] = round((path.length - len(prompt)) / forwards, 3)
        written = sum(path.length - len(prompt) for path in paths.paths)
        edit = yield run.step(
            **groups(turns[first.id], trees[first.id], restart=None) if first.id in turns else {},
            memory=lambda: entries(store, turns[shown], trees[shown], lengths(p)),
            branches=paths.branches(),
            facts={
                "samples": len(living),
                "drafted": sum(len(tree.draft) - 1 for tree in trees.values()),
                "accepted": sum(turn.accepted for turn in turns.values()),
                "rows": sum(len(tree.draft) for tree in trees.values()),
                "hit_order": trees[shown].orders.get(0, 0),
                "hits": sum(n > 0 for tree in trees.values() for n in tree.orders.values()),
                "store_keys": len(store.entries),
                "tokens_per_forward": written / forwards,
            },
            note=f"{len(living)} sample{'s' if len(living) > 1 else ''}, {len(left)} left; "
            f"sample {shown + 1}: {turns[shown].note()}",
        )
        paths.apply_edit(run, edit, first)


def judged(paths: Paths, path: Path, fed: Fed, tree: Grown, p: Params, end: int) -> Turn:
    """Walk a sample's tree with what the target said, and write what was accepted and the token behind it."""
    ids, draft = paths.read(path), tree.draft
    verdict = verify(fed.z, draft, p.temperature, path.rng, paths.model.eos_ids)
    rows = verdict.path[1:][: end - len(ids)]
    behind = [verdict.emitted] if verdict.emitted >= 0 and len(rows) < end - len(ids) else []
    return Turn(ids, draft, verdict, fed.z, fed.z_before, paths.accept(path, rows, behind), fed.before)
