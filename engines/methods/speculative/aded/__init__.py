"""ADED: adaptive draft-verification (Liu et al., arXiv:2407.12021; code liuxukun2000/Adaptix @ 241dad8, Apache-2.0,
built on REST and Medusa).

A table of tri-gram weights P(c | a, b) takes the drafter's place. Every step the tri-grams of the last tokens gain
weight in it, then a small Monte-Carlo tree search (PUCT) from the last pair picks the few continuations that are worth
verifying: likely ones against rarely tried ones. Their paths form one tree for one forward of the target.

The code differs from its own intent in places; `reward` keeps the first as a switch, in the others we do what is meant.
(1) Its score looks up the weight of the *previous* token of each transition, which is nearly always absent: all values
are then close to 1 and the prior alone decides ("released"); "intended" takes the new token's weight. (2) The order of
a hash map breaks its ties and picks the child behind an expansion; here it is the heaviest successor, then the smaller
id. (3) Its table is changed in a shared reader, so later prompts inherit it; here it lives for one run. (4) It cuts to
the heaviest successors at load only; `keep` does so while learning too, and is off. (5) Above temperature 0 it starts
with the argmax and lets every path draw targets of its own, the longest match winning, which changes the distribution;
here candidates chosen without chance are verified exactly.

Ours besides: a pair without successors drafts nothing (officially a dummy token), `learn_from_prompt` reads the whole
prompt once where the code never sees more than its last window, and fewer iterations, paths and nodes for a CPU. A run
starts from an empty table, or from answers that the model itself gave to other prompts (`corpus`), the store of its
tokens. The code was read in full, of the paper only the abstract."""

import itertools
from collections.abc import Collection, Sequence

from engines.kit import (
    Bool,
    CausalLM,
    Choice,
    Float,
    GuessSource,
    Int,
    Memory,
    Params,
    Recorder,
    Steps,
    torch,
)
from engines.methods.speculative._turn import Target, drafting
from engines.methods.speculative._verify import Draft
from engines.methods.speculative.aded import trigrams
from engines.methods.speculative.aded.searched import TableSearch, searched
from engines.models.parts.stores import answers_of

MOST_NODES = 64
KEEP = 12  # successors per pair of a corpus
SHOWN = 5  # successors recorded per pair


@drafting(
    "aded",
    title="ADED",
    paper="arXiv:2407.12021",
    code="https://github.com/liuxukun2000/Adaptix",
    summary="A tri-gram table that learns from the text as it is written, searched like a game tree for the drafts "
    "worth verifying.",
    needs="causal",
    params=[
        Int("window", 16, 3, 64, source="code"),
        Float("increment", 0.04, 0.0, 0.5, source="code"),
        Float("cap", 3.0, 0.1, 5.0, step=0.1, source="code"),
        Int("keep", 50, 1, 50, source="12, at load only, in the code"),
        Choice("corpus", "none", ["none", "store"]),
        Bool("learn_from_prompt", False, source="no in the code"),
        Int("iterations", 60, 10, 300, symbol="I", source="150 in the code"),
        Int("depth", 3, 1, 6, source="code"),
        Int("paths", 8, 1, 32, neutral=1, source="24 in the code"),
        Int("node_limit", 16, 1, MOST_NODES, source="64 in the code"),
        Float("c1", 32.0, 0.0, 64.0, step=1, symbol="c1", source="code"),
        Float("c2", 8.0, 1.0, 64.0, step=1, symbol="c2", source="code"),
        Choice("reward", "intended", ["intended", "released"]),
    ],
    signature="searchtree",
    emits={"memory"},
    records={"table_search": TableSearch},
)
def decode(model: CausalLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """Search, verify, learn (the official `aded_model.py`). A text of fewer than three tokens teaches nothing, one of
    fewer than two has no pair to search from: then it is plain decoding."""
    table, total = trigrams.Table.of(answers_of(model.record, model.eos_ids) if p.corpus == "store" else [], KEEP), 0.0
    loaded, target = trigrams.Table(table.weights), Target(model, prompt, p, rows=MOST_NODES + 1)
    if p.learn_from_prompt:
        total += table.learn(prompt, p.increment, p.cap, p.keep)
    ids = prompt
    while target.unfinished(ids):
        gain = table.learn(ids[-p.window :], p.increment, p.cap, p.keep)
        total += gain
        uniforms: list[float] = torch.rand(p.iterations * p.depth, dtype=torch.float64, generator=run.rng).tolist()
        done: list[trigrams.Iteration] = []
        nodes = trigrams.search(
            table, ids[-2:], p.iterations, p.depth, iter(uniforms), reward=p.reward, c1=p.c1, c2=p.c2, done=done
        )
        room = target.room(ids)
        draft = merge(table, ids, trigrams.trim(trigrams.drafts(table, nodes, ids[-2:], p.paths), p.node_limit), room)
        iteration = target.verify(ids, draft, run.rng)
        best = max(nodes[0].children, key=lambda node: node.visits, default=None)
        edit = yield run.step(
            **iteration.groups(),
            memory=lambda: entries(table, draft, iteration.before, p.window if p.increment else 0, loaded.weights),
            records={"table_search": lambda: searched(table, loaded, ids[-2:], nodes, done, uniforms, room, p)},
            facts=iteration.facts(
                table_size=table.size,
                pairs=len(table.weights),
                learned_now=gain,
                learned_weight=total,
                successors=len(nodes[0].children),
                search_nodes=len(nodes) - 1,
                value=best.score / best.visits if best and best.visits else 0.0,
                exploration=trigrams.exploration(best, nodes[0].visits, p.c1, p.c2) if best else 0.0,
            ),
            note=iteration.note() if len(draft) > 1 else undrafted(nodes),
        )
        ids = run.apply_edit(edit, iteration.ids, target.cache)


def undrafted(nodes: Sequence[trigrams.Node]) -> str:
    """Why a step has no drafts."""
    if nodes[0].children:
        return "One token is left to write, so nothing is drafted; one token from the target."
    return "The table has no entry for this pair; one token from the target."


def merge(table: trigrams.Table, ids: Sequence[int], paths: Sequence[Sequence[int]], room: int) -> Draft:
    """The trie of the paths, cut at depth `room`. What is noted as the drafter's chance is a token's share of the
    weights behind its pair."""
    draft = Draft(ids[-1], "ngram")
    rows: dict[tuple[int, ...], int] = {(): 0}
    drawn: dict[tuple[int, int], tuple[dict[int, float], list[int]]] = {}  # the weights as they were, and the rows
    for path in paths:
        for end in range(1, min(len(path), room) + 1):
            at = tuple(path[:end])
            if at not in rows:
                a, b = (*ids[-2:], *at[:-1])[-2:]
                successors = table.weights[a, b]
                rows[at] = draft.add(rows[at[:-1]], at[-1], chance=successors[at[-1]] / sum(successors.values()))
                drawn.setdefault((a, b), (successors, []))[1].append(rows[at])
    draft.traced.append(lambda: [_read(draft, pair, *read) for pair, read in drawn.items()])
    return draft


def _read(draft: Draft, pair: tuple[int, int], weights: dict[int, float], rows: Sequence[int]) -> GuessSource:
    """A pair's successors, the heaviest first, with the rows that were taken from them."""
    order = [token for token, _ in trigrams.heaviest(weights)]
    return GuessSource("table", "", [*pair], order, [(row, order.index(draft.tokens[row])) for row in rows])


def entries(
    table: trigrams.Table, draft: Draft, ids: Sequence[int], window: int, corpus: Collection[tuple[int, int]]
) -> list[Memory]:
    """The pairs that the drafts were taken from, and those that the window taught, with their heaviest successors."""
    read = {tuple([*ids, *draft.path(row)][-2:]) for row in set(draft.parents[1:])}
    taught = ids[len(ids) - min(len(ids), window) :]
    updated = set(itertools.pairwise(taught[:-1]))
    known = {pair: table.successors(pair)[:SHOWN] for pair in sorted(updated | read, key=lambda pair: pair in read)}
    return [
        Memory(
            [*pair],
            [c for c, _ in successors],
            [round(w, 4) for _, w in successors],
            pair in read,
            pair in updated,
            "corpus" if pair in corpus else "adapted",
        )
        for pair, successors in known.items()
    ]
