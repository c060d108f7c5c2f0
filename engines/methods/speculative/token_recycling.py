"""Token Recycling: turning trash into treasure (Luo et al., arXiv:2408.08696; code Luowaterbi/TokenRecycling).

Every forward ranks the whole vocabulary at every fed row, and plain decoding keeps one token of it. Here the top k of
each row are kept in a
matrix M: "after token a, these came last time". M is expanded breadth-first from the newest token into a static draft
tree, one forward verifies the tree, and the rows of all its nodes, refused ones too, refresh M.

We depart from the released code in: unknown entries are -1 and draft nothing (officially 0, a real token); M learns
from the prompt (switchable) and lives as long as the run; at temperature > 0 the tree is verified exactly (the official
flag is ignored); small templates for a CPU, chosen by hits on other prompts than the ones shipped with the app."""

from collections.abc import Collection, Sequence
from functools import partial

import numpy as np

from engines.kit import (
    Bool,
    CausalLM,
    Choice,
    GuessSource,
    Int,
    Memory,
    Params,
    Recorder,
    Steps,
    from_child_counts,
    row_depths,
    top_ids,
    torch,
)
from engines.methods.speculative._turn import Target, drafting
from engines.methods.speculative._verify import Draft

# Children of each node, breadth first (row 0 is the root). "80" is the paper's "2.2.2"; the small ones are its nodes
# that were accepted most often by SmolLM2-135M-Instruct on ten prompts that are not among the bundled ones.
_COUNTS = {
    "7": "32101",
    "16": "431101101120001",
    "80": "884321111832111112100100101100521110001001000000100110031100100001010020010000000",
}
TEMPLATES = {name: [int(count) for count in counts] for name, counts in _COUNTS.items()}

LISTED = 24  # rows of the table recorded per step


@drafting(
    "token-recycling",
    title="Token Recycling",
    paper="arXiv:2408.08696",
    code="https://github.com/Luowaterbi/TokenRecycling",
    summary="Guesses that were discarded are kept in a table and come back as a draft tree, verified in one forward.",
    needs="causal",
    params=[
        Choice("template", "16", list(TEMPLATES), source="80 in the paper"),
        Int("k", 8, 1, 16, symbol="k", source="paper"),
        Bool("learn_from_prompt", True, source="no in the official code"),
        Bool("learn_from_rejected", True, source="paper"),
    ],
    signature="tree",
    emits={"memory"},
)
def decode(model: CausalLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """The official `inference_recycling.py`. Before every turn the cache lacks the last id, the root of the next tree
    (at the start the whole prompt before it, too)."""
    parents, ranks = from_child_counts(TEMPLATES[p.template])
    M = np.full((model.vocab_size, p.k), -1, dtype=np.int64)
    target = Target(model, prompt, p, rows=len(parents))
    ids = prompt
    while target.unfinished(ids):
        tokens, rows, tree = expand(M, ids[-1], parents, ranks, deepest=model.max_positions - len(ids))
        draft = Draft.of(tokens, tree, "matrix")
        draft.traced.append(partial(rows_read, tokens, tree, [ranks[row] for row in rows], M[tokens], M))
        iteration = target.verify(ids, draft, run.rng)
        top = top_ids(torch.cat([iteration.z_chain, iteration.z]), M.shape[1]).cpu().numpy()  # [c + n, k]
        fed, c = [*iteration.chain, *tokens], len(iteration.chain)
        learned = [
            *(r for r in range(c if p.learn_from_prompt else 0) if fed[r] < len(M)),  # parts of a picture are no tokens
            *(c + r for r in (range(len(tokens)) if p.learn_from_rejected else iteration.verdict.path)),
        ]
        update(M, [fed[r] for r in learned], top[learned])
        read, updated = {tokens[at] for at in tree[1:]}, [fed[r] for r in learned]
        edit = yield run.step(
            **iteration.groups([ranks[r] for r in rows]),
            memory=lambda: entries(M, read, updated),
            facts=iteration.facts(matrix_filled=int((M[:, 0] >= 0).sum()), unknown_nodes=len(parents) - len(rows)),
            note=iteration.note(),
        )
        ids = run.apply_edit(edit, iteration.ids, target.cache)


def expand(
    M: np.ndarray, root: int, parents: Sequence[int], ranks: Sequence[int], deepest: int | None = None
) -> tuple[list[int], list[int], list[int]]:
    """Grow the template below `root` from M [V, k]: tokens, template rows and parents of the nodes that are known,
    breadth first, root included.

    deepest: no node lies deeper than this, so that a tree near the end of the model's positions still fits.
    """
    depths = row_depths(parents) if deepest is not None else ()
    place: dict[int, int] = {0: 0}  # template row -> row of the grown tree
    tokens, grown = [root], [-1]
    for row in range(1, len(parents)):
        above = place.get(parents[row])
        if (
            above is None
            or (deepest is not None and depths[row] > deepest)
            or ranks[row] >= M.shape[1]
            or (token := int(M[tokens[above], ranks[row]])) < 0
        ):
            continue
        place[row] = len(tokens)
        tokens.append(token)
        grown.append(above)
    return tokens, list(place), grown


def rows_read(
    tokens: Sequence[int], tree: Sequence[int], ranks: Sequence[int], before: np.ndarray, M: np.ndarray
) -> list[GuessSource]:
    """The rows of the table that a tree was read from, each with the nodes that came from it, as they were (`before`
    [n, k], by row of the tree) and as the step leaves them (M [V, k]). ranks: of the nodes."""
    sources: dict[int, GuessSource] = {}
    for row in range(1, len(tokens)):
        key = tokens[tree[row]]
        if key not in sources:
            sources[key] = GuessSource("table", "", [key], before[tree[row]].tolist(), after=M[key].tolist())
        sources[key].links.append((row, ranks[row]))
    return [*sources.values()]


def update(M: np.ndarray, tokens: Sequence[int], top: np.ndarray) -> None:
    """M[token of row] = top ids of that row [n, k], in place; of a token that occurs twice the last row in BFS order
    stays."""
    for token, best in zip(tokens, top, strict=True):
        M[token, : len(best)] = best


def entries(M: np.ndarray, read: Collection[int], updated: Sequence[int]) -> list[Memory]:
    """The rows of M that the tree was grown from, and those that the step wrote: of a long prompt the last ones."""
    latest = list(dict.fromkeys(reversed([*updated, *read])))[:LISTED]
    return [
        Memory([t], [x for x in M[t].tolist() if x >= 0], read=t in read, written=t in updated, source="matrix")
        for t in reversed(latest)
    ]
