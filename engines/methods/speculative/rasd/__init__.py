"""RASD, retrieval-augmented speculative decoding (Quan et al., arXiv:2503.03434; no code was published).

A small drafter is good at free text and its drafts are short; text copied from the prompt or from a store of documents
is long and often beside the point. RASD takes both: what was retrieved becomes a trie, the drafter's distributions,
which are there already, prune it, the rest is merged with the draft tree along common beginnings, and one forward
verifies it all.

Known to us from the abstract and from reviews; the details are ours. The draft tree holds the drafter's first choices
(fan at the first depth, one child each below), the trie holds all earlier places that end as the text does, newest
first. A node of the trie whose parent the drafter has read must be among the drafter's top_k there and counts as its
probability, any other as its share of the continuations times what the length of the match is worth; the best products
along the path stay, if they reach `floor`. A token outside the drafter's vocabulary has no probability there and counts
as unread. All candidates are verified as chosen without chance.

Letters: q(x|P) the drafter's distribution after path P, c(prefix) the continuations through a node of the trie, B the
retrieval budget."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from engines.kit import (
    Bool,
    Choice,
    Float,
    Int,
    Params,
    Recorder,
    Roles,
    Steps,
    Tensor,
    top_ids,
)
from engines.methods.speculative._retrieval import Match, Prefix, copied, find, fuse, spans, trie
from engines.methods.speculative._turn import VERBS, Drafter, Target, Turn, drafting
from engines.methods.speculative._verify import Draft
from engines.methods.speculative.rasd.pruning import Found, Pruned, prune
from engines.models.parts.stores import store_of

FAN, DEPTH, ROWS, MATCHES = 4, 6, 48, 64  # the most of each
LONGEST = 16  # the most last tokens that are looked up, as in REST


@drafting(
    "rasd",
    title="RASD",
    own="after the abstract, own pruning rule",
    paper="arXiv:2503.03434",
    summary="The drafter's tree and what was copied from the text, pruned by the drafter and merged into one tree for "
    "one forward.",
    needs={"target": "causal", "draft": "causal"},
    params=[
        Bool("drafter", True, source="paper"),
        Int("fan", 2, 1, FAN, symbol="f", source="ours"),
        Int("depth", 3, 1, DEPTH, symbol="D", source="ours"),
        Choice("retriever", "prompt", ["prompt", "first", "store", "both"], source="prompt and store in the paper"),
        Int("shortest", 1, 1, LONGEST, symbol="n", source="ours"),
        Int("length", 8, 2, 20, source="ours; 10 in REST"),
        Int("top_k", 4, 0, 50, symbol="k", source="ours"),
        Int("budget", 8, 0, 32, symbol="B", source="ours"),
        Float("floor", 0.0, 0.0, 1.0, source="ours"),
        Int("rows", 16, 4, ROWS, source="ours, for a CPU"),
    ],
    signature="tree",
    emits={"intervals", "spans"},
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """Draft, retrieve, prune, fuse, verify: one round per step."""
    target = Target(models.target, prompt, p, rows=ROWS)
    drafter = Drafter(models.draft, prompt, p, rows=FAN * DEPTH, vocab_size=models.target.vocab_size)
    ids = prompt
    while target.unfinished(ids):
        room = target.room(ids)
        draft, distributions = (
            draft_tree(drafter, ids, p.fan, min(p.depth, room), p.rows) if p.drafter else (Draft(ids[-1]), {})
        )
        in_text, in_store = retrieve(models, ids, p, min(p.length, room))
        drafted = {tuple(draft.path(row)) for row in range(1, len(draft))}
        sources = [Found(trie(m.tokens for m in matches), matches[0].n) for matches in (in_text, in_store) if matches]
        pruned = prune(sources, distributions, p.top_k, p.budget, drafted, p.rows - len(draft), p.floor)
        for row in range(1, len(draft)):
            draft.taken(row, "model", "draft model")
        fuse(draft, pruned.kept)
        draft.traced += [partial(copied, draft, "text", ids, in_text), partial(copied, draft, "store", ids, in_store)]
        iteration = target.verify(ids, draft, run.rng)
        drafter.settle(iteration.verdict.path)
        edit = yield run.step(
            **iteration.groups(),
            spans=spans(in_text, len(ids)),
            intervals=run.calls(VERBS),
            facts=iteration.facts(matches=len(in_text) + len(in_store), **pruned.facts(), **by_source(iteration)),
            note=note(iteration, pruned),
        )
        ids = run.apply_edit(edit, iteration.ids, target.cache, drafter.cache)


def draft_tree(
    drafter: Drafter, ids: Sequence[int], fan: int, depth: int, rows: int
) -> tuple[Draft, dict[Prefix, Tensor]]:
    """The draft tree: the drafter's `fan` first choices and one child of each below, `depth` deep, and q [V] of every
    path that it read."""
    draft, distributions = Draft(ids[-1]), {}
    layer = [0]
    for level in range(depth):
        z = drafter.behind(ids, draft, layer).logits  # [len(layer), V]
        q = z.softmax(-1)
        best = top_ids(z, fan if level == 0 else 1).tolist()
        grown = []
        for row, distribution, tokens in zip(layer, q, best, strict=True):
            distributions[tuple(draft.path(row))] = distribution
            grown += [
                draft.add(row, x, chance=float(distribution[x]))
                for x in tokens
                if len(draft) < rows and distribution[x] > 0
            ]
        if not (layer := grown):
            break
    return draft, distributions


def retrieve(models: Roles, ids: Sequence[int], p: Params, length: int) -> tuple[list[Match], list[Match]]:
    """What is copied: earlier places that end as the text does, newest first: those in the text, and those in the
    target's store."""

    def look(corpus: np.ndarray, chosen: slice) -> list[Match]:
        matches = find(corpus, ids, LONGEST, p.shortest, length, models.target.eos_ids, chosen)
        return [match for match in reversed(matches) if match.tokens]

    if p.budget == 0 or length < 1:
        return [], []
    in_text = (
        look(np.array(ids), slice(1) if p.retriever == "first" else slice(-MATCHES, None))
        if p.retriever != "store"
        else []
    )
    in_store = look(store_of(models.target.record), slice(-MATCHES, None)) if p.retriever in ("store", "both") else []
    return in_text, in_store


def by_source(iteration: Turn) -> dict[str, float]:
    """Accepted tokens by who guessed them."""
    sources = [iteration.draft.sources[row] for row in iteration.verdict.path[1:]]
    return {f"accepted_{source}": sources.count(source) for source in ("draft", "retrieval", "both")}


def note(iteration: Turn, pruned: Pruned) -> str:
    """One sentence on the round."""
    drafted, copied, accepted = (
        sum(source in ("draft", "both") for source in iteration.draft.sources),
        len(pruned.kept),
        by_source(iteration),
    )
    if drafted + copied == 0:
        return "Nothing was drafted and there was nothing to copy; one token from the target."
    guesses = [f"{drafted} drafted"] * (drafted > 0) + [
        f"{copied} copied" + f", {pruned.shared} of them in both" * (pruned.shared > 0)
    ] * (copied > 0)
    only = f", {accepted['accepted_retrieval']} of them from retrieval alone" if accepted["accepted_retrieval"] else ""
    return f"Candidates: {' and '.join(guesses)}. {iteration.accepted} accepted{only}{iteration.ending()}."
