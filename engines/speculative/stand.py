"""STAND: model-free speculative sampling for test-time scaling (Song et al., arXiv:2506.04708, EMNLP 2025; no code was found).

Samples of one prompt repeat themselves and each other. Of every n-gram that was written the *law* of the target behind it is remembered, as a running
mean of its largest entries. A draft tree is drawn from those laws by Gumbel-top-k, on a fixed template, and verified against exactly the law that it was
drawn from: the text has the target's law whatever the store holds.

`trajectories` samples are decoded one after the other on one store (the paper decodes them side by side). Each is written on the board, the next one
starts from the prompt again, and the last one stays; the forwards of all of them count. At temperature 0 all samples are the greedy text.

The abstract and public summaries were read, not the paper. Ours, where they leave it open: keys of 3, 2 and 1 tokens; the prompt's positions are stored;
what is stored is the law at the sampling temperature, at temperature 0 the law at 1; fresh noise for every node; small templates for a CPU, by an
assumed chance per rank; `_templates.py` counts what is really accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from engines.core.errors import UserError
from engines.core.events import Branch, Edit, Memory, Step
from engines.core.lazy import torch
from engines.core.method import LaneInfo, method
from engines.core.models import CausalLM
from engines.core.params import Choice, Int, Params, max_new_tokens
from engines.core.recorder import Recorder
from engines.core.sampling import law, top_ids
from engines.core.trees import children, from_child_counts, row_depths
from engines.speculative._turn import EMITS, LANES, Target, Turn, temperature
from engines.speculative._verify import Draft

if TYPE_CHECKING:
    from torch import Tensor

# Children of each node, breadth first: of `broad(6, 10)` (780 nodes) the best under an assumed chance of 0.6 (rank + 1)^-1.5 to be accepted per level.
# `python -m engines.speculative._templates` counts what SmolLM2 really accepts (the paper's rule) and prints templates to put here.
_COUNTS = {
    "8": "32101001",
    "16": "5311002101010001",
    "32": "65211103110010100210101020000101",
    "80": "66321116221102112111042110021101021101001031101010100101000102101010101010000001",
}
TEMPLATES = {name: [int(count) for count in counts] for name, counts in _COUNTS.items()}
LISTED, SHOWN = 24, 5  # keys recorded per step, tokens recorded per key


def check(p: Params) -> None:
    """The shortest key is not longer than the longest."""
    if p.shortest > p.longest:
        raise UserError(f"shortest={p.shortest} is above longest={p.longest}; give a shortest key of at most {p.longest} tokens.")


@method(
    "stand",
    title="STAND",
    family="speculative",
    paper="arXiv:2506.04708",
    summary="The target's laws behind every n-gram are remembered, and later samples of the same prompt are drafted from them.",
    needs="causal",
    params=[
        max_new_tokens(64),
        Int(
            "trajectories",
            1,
            1,
            8,
            symbol="N",
            sees="Samples of the prompt, one after the other on one store; the last one stays, the forwards of all count.",
            source="4, 8, 16 in the paper",
        ),
        Choice("drafting", "stochastic", ["stochastic", "deterministic"], sees="Drafts drawn from the stored law, or its most likely tokens.", source="paper"),
        Choice("template", "16", ["8", "16", "32", "80"], sees="Nodes of the draft tree; more nodes hit more and cost more.", source="80 in the paper"),
        Int("longest", 3, 1, 5, symbol="n", sees="Tokens of the longest key; it is looked up first.", source="ours; up to 4 in the paper"),
        Int("shortest", 1, 1, 5, sees="Tokens of the shortest key: short ones hit more often and guess worse.", source="ours; 2 in the paper"),
        Int("stored", 10, 2, 20, symbol="K", sees="Tokens remembered behind every key.", source="paper"),
        temperature(),
    ],
    emits=(EMITS - {"lanes"}) | {"branches", "memory"},
    lanes={**LANES, "suffix": LaneInfo("count", "Tokens of the key whose stored law drafted each written token; 0 for what the target added.")},
    baseline="greedy",
    lossless=True,
    departures="Samples one after the other on one store; keys of 3 to 1 tokens; the prompt is stored; small templates.",
    check=check,
)
def decode(model: CausalLM, prompt: list[int], p: Params, run: Recorder) -> Generator[Step, Edit | None, None]:
    """Card steps 1-8. With nothing stored behind the text, or a text shorter than every key, nothing is drafted: plain decoding."""
    parents, _ = from_child_counts(TEMPLATES[p.template])
    store, target, samples = Store(), Target(model, prompt, p, rows=len(parents)), list[list[int]]()

    def noise(_: int, n: int) -> list[float]:
        return torch.rand(n, dtype=torch.float64, generator=run.rng).tolist()

    while len(samples) < p.trajectories:
        ids, forwards = prompt, 0
        target.cache.crop(min(target.cache.length, len(prompt) - 1))
        while target.unfinished(ids):
            drawn = noise if p.drafting == "stochastic" else None
            tree = grow(store, ids, parents, lengths(p), vocab_size=model.vocab_size, noise=drawn, deepest=target.room(ids))
            turn = target.verify(ids, tree.draft, run.rng)
            remember(store, turn, p)
            forwards += 1
            done, number, length = not target.unfinished(turn.ids), len(samples) + 1, len(turn.ids) - len(prompt)
            fate = "alive" if not done else "chosen" if number >= p.trajectories else "finished"
            edit = yield run.step(
                **groups(turn, tree, restart=len(prompt) if samples and forwards == 1 else None),
                memory=lambda: entries(store, turn, tree, lengths(p)),
                branches=[Branch(number - 1, -1, turn.gained, round(length / forwards, 3), fate)],
                facts=turn.facts(
                    trajectory=number,
                    hit_order=tree.orders.get(0, 0),
                    hits=sum(n > 0 for n in tree.orders.values()),
                    store_keys=len(store.entries),
                    sample_forwards=forwards,
                    tokens_per_forward=length / forwards,
                    **(overlaps(turn.ids[len(prompt) :], samples) if done else {}),
                ),
                note=f"Sample {number}: {f'done, {length} tokens in {forwards} forwards.' if done else turn.note()}",
            )
            ids = run.steer(edit, turn.ids, target.cache)
        samples.append(ids[len(prompt) :])


def lengths(p: Params) -> range:
    """Key lengths in the order of the look-up."""
    return range(p.longest, p.shortest - 1, -1)


@dataclass
class Entry:
    """What is known behind a key: how many laws were merged, and their mean on the largest entries."""

    count: int = 0
    law: dict[int, float] = field(default_factory=dict)

    def draft_law(self) -> tuple[list[int], Tensor]:
        """(the stored tokens by rising id, q [n]: their probabilities, renormalised), what is drawn from and verified with."""
        tokens = sorted(self.law)
        q = torch.tensor([self.law[x] for x in tokens], dtype=torch.float64)
        return tokens, q / q.sum()


class Store:
    """Laws behind n-grams: a key of token ids -> Entry."""

    def __init__(self) -> None:
        self.entries: dict[tuple[int, ...], Entry] = {}

    def merge(self, key: tuple[int, ...], found: Mapping[int, float], K: int) -> None:
        """p <- k/(k+1) p + 1/(k+1) found, absent = 0; the K largest stay, equal ones by rising id; k <- k + 1."""
        entry = self.entries.setdefault(key, Entry())
        k = entry.count
        mean = {x: (k * entry.law.get(x, 0.0) + found.get(x, 0.0)) / (k + 1) for x in {**entry.law, **found}}
        entry.count, entry.law = k + 1, dict(sorted(mean.items(), key=lambda pair: (-pair[1], pair[0]))[:K])

    def learn(self, text: Sequence[int], first: int, laws: Sequence[Mapping[int, float]], sizes: Sequence[int], K: int) -> None:
        """Merge the law behind each of the positions first, first + 1 ... of the text under its keys of all sizes; laws: the K largest entries of each."""
        for end, found in enumerate(laws, first + 1):
            for n in sizes:
                if n <= end:
                    self.merge(tuple(text[end - n : end]), found, K)

    def look_up(self, text: Sequence[int], sizes: Sequence[int]) -> tuple[int, Entry] | None:
        """(tokens of the key, entry) of the first suffix of the text that is known, in the order of `sizes`."""
        return next(((n, self.entries[key]) for n in sizes if n <= len(text) and (key := tuple(text[-n:])) in self.entries), None)


def remember(store: Store, turn: Turn, p: Params) -> None:
    """Store what the target said at the positions that are text now: those fed with the tree, row 0 and the accepted rows. Refused ones are not text."""
    laws = largest(torch.cat([turn.z_chain, turn.deciding()]), p.temperature, p.stored)
    store.learn(turn.ids, len(turn.before) - 1 - len(turn.chain), laws, lengths(p), p.stored)


def largest(z: Tensor, temperature: float, K: int) -> list[dict[int, float]]:
    """The K largest entries of the law of each row of logits z [m, V] at the temperature, at 1 where it is 0."""
    ids = top_ids(z, K)
    chances = law(z, temperature or 1.0).gather(-1, ids)
    return [{x: c for x, c in zip(*row, strict=True) if c > 0} for row in zip(ids.tolist(), chances.tolist(), strict=True)]


@dataclass
class Grown:
    """A drafted tree: rows[i] is the template's row of row i, orders the key length found (0: none) for each row that was looked up."""

    draft: Draft
    rows: list[int]
    orders: dict[int, int]


def grow(
    store: Store,
    ids: Sequence[int],
    parents: Sequence[int],
    sizes: Sequence[int],
    *,
    vocab_size: int,
    noise: Callable[[int, int], Sequence[float]] | None,
    deepest: int,
) -> Grown:
    """Draft on the template, breadth first: at a node with c children the c largest of log q + Gumbel noise, q the law stored behind its path.

    noise(template row, n): n uniforms for the stored tokens by rising id; None takes the c most likely tokens, which are then deterministic candidates.
    Where nothing is stored, or fewer than c tokens, the nodes left and what hangs below them stay empty.
    """
    below, depths, longest = children(parents), row_depths(parents), max(sizes)
    grown = Grown(Draft(ids[-1], "ngram"), [0], {})
    draft, place = grown.draft, {0: 0}
    for node in range(len(parents)):
        row = place.get(node)
        if row is None or not below[node] or depths[node] >= deepest:
            continue
        hit = store.look_up([*ids[-longest:], *draft.path(row)], sizes)
        grown.orders[row] = hit[0] if hit else 0
        if hit is None:
            continue
        tokens, q = hit[1].draft_law()
        gumbel = -(-torch.tensor(noise(node, len(tokens)), dtype=torch.float64).log()).log() if noise else torch.zeros_like(q)
        ranked = (q.log() + gumbel).argsort(descending=True, stable=True).tolist()
        for child, i in zip(below[node], ranked, strict=False):
            place[child] = draft.add(row, tokens[i], chance=float(q[i]))
            grown.rows.append(child)
        if noise:
            draft.laws[row] = torch.zeros(vocab_size, dtype=torch.float64).scatter(0, torch.tensor(tokens), q)
    return grown


def groups(turn: Turn, tree: Grown, restart: int | None) -> dict[str, Any]:
    """The groups of the record; restart: where the sample before is taken off the board."""
    found = dict(turn.groups())
    at, gained, causes, chance = found["commits"]
    used = [tree.orders[tree.draft.parents[row]] for row in turn.verdict.path[1:]]
    scores: Callable[[], dict[str, Any]] = found["scores"]
    found["scores"] = lambda: {**scores(), "suffix": (at, [float(n) for n in (*used, 0)][: len(at)])}
    if restart is not None:
        found["commits"] = ([restart, *at], [-1, *gained], ["withdrawn", *causes], [None, *chance.tolist()])
    return found


def entries(store: Store, turn: Turn, tree: Grown, sizes: Sequence[int]) -> list[Memory]:
    """The keys that were drafted from, and those that were merged: of a long prompt the last ones; with the most likely tokens behind each."""
    ids, first = turn.ids, len(turn.before) - len(turn.chain)
    read = {tuple([*turn.before, *tree.draft.path(row)][-n:]) for row, n in tree.orders.items() if n}
    written = [tuple(ids[end - n : end]) for end in range(first, len(ids)) for n in sorted(sizes) if n <= end]
    latest = list(dict.fromkeys(reversed([*written, *read])))[:LISTED]
    found = {key: list(store.entries[key].law.items())[:SHOWN] for key in reversed(latest)}
    return [Memory([*key], [x for x, _ in law], [round(c, 4) for _, c in law], key in read, key in written, f"{len(key)}-gram") for key, law in found.items()]


def overlaps(text: Sequence[int], earlier: Sequence[Sequence[int]]) -> dict[str, float]:
    """Share of the text's 2- and 4-grams that stand in earlier texts; nothing for a first text."""
    shares = {}
    for n in (2, 4):
        known = {tuple(one[i : i + n]) for one in earlier for i in range(len(one) - n + 1)}
        mine = [tuple(text[i : i + n]) for i in range(len(text) - n + 1)]
        if earlier and mine:
            shares[f"overlap_{n}"] = sum(gram in known for gram in mine) / len(mine)
    return shares


if __name__ == "__main__":
    import sys

    import engines

    chosen = sys.argv[1] if len(sys.argv) > 1 else "tiny-ar-l"
    question = "Tom has 3 boxes with 12 pencils each. How many pencils has he? Think step by step." if chosen == "smollm2" else "add: 457 + 86"
    for drafting in ("stochastic", "deterministic"):
        options = {"trajectories": 4, "temperature": 0.7, "drafting": drafting}
        run = engines.run("stand", chosen, question, params=options, detail="light")
        for last in (step for step in run.steps if step.branches[0].fate != "alive"):
            shown = {name: round(last.facts[name], 2) for name in ("sample_forwards", "tokens_per_forward", "overlap_2", "overlap_4") if name in last.facts}
            print(drafting, "sample", int(last.facts["trajectory"]), shown)
