"""Token Recycling: turning trash into treasure (Luo et al., arXiv:2408.08696; code Luowaterbi/TokenRecycling).

Every forward ranks the whole vocabulary at every fed row, and plain decoding keeps one token of it. Here the top k of each row are kept in a
matrix M: "after token a, these came last time". M is expanded breadth-first from the newest token into a static draft tree, one forward
verifies the tree, and the rows of all its nodes, refused ones too, refresh M.

We depart from the released code in: unknown entries are -1 and draft nothing (officially 0, a real token); M learns from the prompt
(switchable) and lives as long as the run; at temperature > 0 the tree is verified exactly (the official flag is ignored); small templates
for a CPU, chosen by hits on other prompts than the ones shipped with the app.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

import numpy as np

from engines.core.events import Edit, Step, Tree
from engines.core.lazy import torch
from engines.core.method import LaneInfo, method
from engines.core.models import CausalLM
from engines.core.params import Bool, Choice, Float, Int, Params, max_new_tokens
from engines.core.recorder import Recorder
from engines.core.sampling import draw, entropy, law, token_probability, top_ids
from engines.core.trees import children, from_child_counts, row_depths

# Children of each node, breadth first (row 0 is the root). "80" is the paper's "2.2.2"; the small ones are its nodes that were accepted most often
# by SmolLM2-135M-Instruct on ten prompts that are not among the bundled ones.
TEMPLATES: dict[str, list[int]] = {
    "7": [3, 2, 1, 0, 1],
    "16": [4, 3, 1, 1, 0, 1, 1, 0, 1, 1, 2, 0, 0, 0, 1],
    "80": [8, 8, 4, 3, 2, 1, 1, 1, 1, 8, 3, 2, 1, 1, 1, 1, 1, 2, 1, 0, 0, 1, 0, 0, 1, 0, 1, 1, 0, 0, 5, 2, 1, 1, 1, 0, 0, 0, 1, 0, 0]
    + [1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 3, 1, 1, 0, 0, 1, 0, 0, 0, 0, 1, 0, 1, 0, 0, 2, 0, 0, 1]
    + [0] * 7,
}


@method(
    "token-recycling",
    title="Token Recycling",
    family="speculative",
    paper="arXiv:2408.08696",
    code="https://github.com/Luowaterbi/TokenRecycling",
    summary="Guesses that were thrown away are kept in a table and come back as a draft tree, verified in one forward.",
    needs="causal",
    params=[
        max_new_tokens(64),
        Choice("template", "16", list(TEMPLATES), sees="Nodes of the draft tree; more nodes hit more and cost more.", source="80 in the paper"),
        Int("k", 8, 1, 16, symbol="k", sees="Candidates remembered per token.", source="paper"),
        Bool("learn_from_prompt", True, sees="Whether the prompt's own forward already fills the table.", source="no in the official code"),
        Bool("learn_from_rejected", True, sees="Whether refused nodes refresh the table too: that is the recycling.", source="paper"),
        Float("temperature", 0.0, 0.0, 2.0, step=0.05, symbol="T", sees="Above 0 tokens are drawn; the law stays that of plain sampling."),
    ],
    emits={"commits", "scores", "candidates", "tree", "facts", "note"},
    lanes={
        "confidence": LaneInfo("probability", "Probability of each written token under the target."),
        "entropy": LaneInfo("nats", "Entropy of the target's law at each written token."),
    },
    baseline="greedy",
    lossless=True,
    departures="Unknown entries draft nothing; the table learns from the prompt and lives for one run; exact verification above temperature 0.",
)
def decode(model: CausalLM, prompt: list[int], p: Params, run: Recorder) -> Generator[Step, Edit | None, None]:
    """Card steps 1-8. Before every turn the cache lacks the last id, the root of the next tree (at the start the whole prompt before it, too)."""
    parents, ranks = from_child_counts(TEMPLATES[p.template])
    M = np.full((model.vocab_size, p.k), -1, dtype=np.int64)
    end = len(prompt) + p.max_new_tokens
    cache = model.new_cache(end + len(parents))
    ids = prompt
    while len(ids) < end and not (len(ids) > len(prompt) and ids[-1] in model.eos_ids):
        base = cache.length
        *chain, root = ids[base:]
        c = len(chain)
        tokens, rows, tree = expand(M, root, parents, ranks, deepest=model.max_positions - len(ids))
        z = model.extend(chain + tokens, cache, parents=[*range(-1, c - 1), *(c + t if t >= 0 else c - 1 for t in tree)]).logits  # [c + n, V]
        top = top_ids(z, M.shape[1]).cpu().numpy()  # [c + n, k]
        path, emitted = verify(z[c:], top[c:], tree, tokens, p, run)
        cache.keep(base, [*range(c), *(c + r for r in path)])
        learned = [*(range(c) if p.learn_from_prompt else ()), *(c + r for r in (range(len(tokens)) if p.learn_from_rejected else path))]
        fed = chain + tokens
        update(M, [fed[r] for r in learned], top[learned])
        gained = cut([*(tokens[r] for r in path[1:]), emitted], model.eos_ids, end - len(ids))
        at = list(range(len(ids), len(ids) + len(gained)))
        deciding = z[[c + r for r in path[: len(gained)]]]  # [len(gained), V]
        written = torch.tensor(gained, device=z.device)
        chance = token_probability(deciding, written)
        ids = [*ids, *gained]
        cache.crop(min(cache.length, len(ids) - 1))
        edit = yield run.step(
            commits=(at, gained, (["accepted"] * (len(path) - 1) + ["bonus"])[: len(gained)], chance),
            scores=lambda: {"confidence": (at, chance), "entropy": (at, entropy(deciding))},
            candidates=lambda: (at, deciding),
            tree=lambda: record_tree(z[c:], tree, tokens, [ranks[r] for r in rows], path, emitted, base + c, p),
            facts={"matrix_filled": int((M[:, 0] >= 0).sum()), "unknown_nodes": len(parents) - len(rows), "accepted": len(path) - 1},
            note=f"{len(path) - 1} of {len(tokens) - 1} drafted tokens accepted, one more from the target."
            if len(tokens) > 1
            else "Nothing to draft from yet.",
        )
        ids = run.steer(edit, ids, cache)


def expand(M: np.ndarray, root: int, parents: Sequence[int], ranks: Sequence[int], deepest: int | None = None) -> tuple[list[int], list[int], list[int]]:
    """Grow the template below `root` from M [V, k]: tokens, template rows and parents of the nodes that are known, breadth first, root included.

    deepest: no node lies deeper than this, so that a tree near the end of the model's positions still fits.
    """
    depths = row_depths(parents) if deepest is not None else ()
    place: dict[int, int] = {0: 0}  # template row -> row of the grown tree
    tokens, grown = [root], [-1]
    for row in range(1, len(parents)):
        above = place.get(parents[row])
        if above is None or (deepest is not None and depths[row] > deepest) or ranks[row] >= M.shape[1] or (token := int(M[tokens[above], ranks[row]])) < 0:
            continue
        place[row] = len(tokens)
        tokens.append(token)
        grown.append(above)
    return tokens, list(place), grown


def update(M: np.ndarray, tokens: Sequence[int], top: np.ndarray) -> None:
    """M[token of row] = top ids of that row [n, k], in place; of a token that occurs twice the last row in BFS order stays."""
    for token, best in zip(tokens, top, strict=True):
        M[token, : len(best)] = best


def choose(z: torch.Tensor, p: Params, run: Recorder) -> int:
    """The target's token for one row of logits [V]: the argmax, or a draw."""
    return int(z.argmax()) if p.temperature == 0 else draw(law(z, p.temperature), run.rng)


def verify(z: torch.Tensor, top: np.ndarray, tree: Sequence[int], tokens: Sequence[int], p: Params, run: Recorder) -> tuple[list[int], int]:
    """Walk from the root: take the target's own token at each node, go to the first child that carries it, else stop and emit it.

    At temperature 0 this is the greedy walk; above, one draw per node keeps the exact law (deterministic candidates). Returns (path, emitted).
    """
    below, path = children(tree), [0]
    while True:
        wanted = int(top[path[-1], 0]) if p.temperature == 0 else choose(z[path[-1]], p, run)
        child = next((c for c in below[path[-1]] if tokens[c] == wanted), None)
        if child is None:
            return path, wanted
        path.append(child)


def cut(gained: list[int], eos_ids: frozenset[int], room: int) -> list[int]:
    """What may be written of the tokens gained: up to the first end mark and the room left."""
    first_end = next((i + 1 for i, token in enumerate(gained) if token in eos_ids), len(gained))
    return gained[: min(first_end, room)]


def record_tree(z: torch.Tensor, tree: list[int], tokens: list[int], ranks: list[int], path: list[int], emitted: int, start: int, p: Params) -> Tree:
    """The record of one verified tree, with the target's log-probability of every node at its parent."""
    accepted = [row in path for row in range(len(tree))]
    why = ["root"] + ["accepted" if accepted[r] else "mismatch" if accepted[tree[r]] else "unreached" for r in range(1, len(tree))]
    log_p = token_probability(z[tree[1:]], torch.tensor(tokens[1:], device=z.device), torch.float32).log().clamp(min=-99).tolist() if len(tree) > 1 else []
    return Tree(
        start=start,
        parents=tree,
        tokens=tokens,
        accepted=accepted,
        why=why,
        emitted=[tokens[r] for r in path[1:]] + [emitted],
        sources=["root"] + ["matrix"] * (len(tree) - 1),
        ranks=ranks,
        target_logprobs=[None, *log_p],
        emitted_source="argmax" if p.temperature == 0 else "target",
    )


if __name__ == "__main__":
    from engines.core.show import show

    show("token-recycling", "tiny-ar-l", "add: 457 + 86")
