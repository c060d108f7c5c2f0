"""Golden cases of draft heads: tree buffers, both acceptance rules, PPD's rows and its dynamic sparse trees, EAGLE-2's
tree with a bigram table in the place of the draft layer, where a Kangaroo round stops, DEL's counts, choice and draft
end, lexical units, and Falcon's mask."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from engines.core.golden_cases import Case, checks, differ
from engines.core.lazy import torch
from engines.core.trees import row_depths
from engines.methods.heads._rows import Fan, expanded, reranked
from engines.methods.heads._template import filled, parents_of
from engines.methods.heads.del_ import ended
from engines.methods.heads.del_.exit_choice import Counts, choose
from engines.methods.heads.kangaroo import stopped
from engines.methods.heads.lud import accepted, marked
from engines.methods.heads.medusa import accepted_path, thresholds
from engines.methods.heads.ppd import above, layout
from engines.methods.heads.ppd.dynamic_tree import Node, search
from engines.methods.speculative._verify import Draft, emitted_tokens

from .cases import Given, Values, ancestors, chain, computes, float64, leaf_paths, sees, walked

TOLERANCE = 1e-6


def padded(rows: Sequence[Sequence[int]]) -> list[list[int]]:
    """Paths to the leaves, the last leaf first, filled up with -1."""
    width = max(map(len, rows))
    return [[*row, *[-1] * (width - len(row))] for row in reversed(rows)]


def slots(paths: Sequence[tuple[int, ...]], top_k: int) -> list[int]:
    """Index of each path's token in [root, top_k of depth 1, top_k of depth 2, ...]."""
    deepest = max(map(len, paths))
    return filled(paths, 0, [[1 + top_k * d + r for r in range(top_k)] for d in range(deepest)])


@checks("tree_buffers")
def tree_buffers(case: Case, _: Given, __: Path) -> str | None:
    """Order, parents, depths, mask, token slots and rows of a template."""
    given, expect = case["in"], case["out"]
    try:
        paths, parents = parents_of(map(tuple, given["paths"]))
    except ValueError:
        return None if "error" in expect else "refused a tree that is whole"
    got = {
        "order": [list(path) for path in paths[1:]],
        "parents": parents,
        "depth": row_depths(parents),
        "ancestors": ancestors(sees(parents)),
        "token_slot": slots(paths, given["top_k"]),
        "rows": padded(leaf_paths(parents)),
    }
    return differ("", got, expect, TOLERANCE)


def draft_of(given: Given) -> Draft:
    """The tree that rows of nodes describe."""
    parents = [-1] * len(given["tokens"])
    for row in given["rows"]:
        for above_it, node in pairwise(row):
            if node >= 0:
                parents[node] = above_it
    return Draft.of(given["tokens"], parents, "draft")


@computes("greedy_accept", tolerance=TOLERANCE, partly=True)
def greedy_accept(given: Given) -> Values:
    draft = draft_of(given)
    verdict = walked(given["argmax"], draft)
    return kept(draft, verdict.path) | {"next_root": verdict.emitted}


def kept(draft: Draft, path: list[int]) -> Values:
    return {"accept_length": len(path) - 1, "path": path, "emitted": [draft.tokens[row] for row in path]}


@computes("typical_accept", tolerance=TOLERANCE, partly=True)
def typical_accept(given: Given) -> Values:
    draft, p = draft_of(given), float64(given["probs"])
    return kept(draft, accepted_path(p, draft, given["epsilon"], given["delta"])) | {
        "entropy": (-(p * (p + 1e-5).log()).sum(-1)).tolist(),
        "threshold": thresholds(p, given["epsilon"], given["delta"]).tolist(),
    }


@computes("ppd_buffers", tolerance=TOLERANCE)
def ppd_buffers(given: Given) -> Values:
    """Order, mask, positions and kinds of the rows of a forward with prompt tokens."""
    rows = layout([Node(tuple(path), 0.0, 0.0, k) for path, k in given["nodes"]], given["n_prompt"])
    hang, known = above(rows), [path for path, j in rows if not j]
    slot = iter(slots(known, given["top_k"]))
    prompt_rows = [[i for i, (path, j) in enumerate(rows) if j and path == one] for one in known]
    return {
        "input_length": len(rows),
        "paths": [[*path, *range(-1, -j - 1, -1)] for path, j in rows[1:]],
        "ancestors": ancestors(sees(hang)),
        "position_offset": row_depths(hang),
        "prompt_rank": [j for _, j in rows],
        "token_slot": [None if j else next(slot) for _, j in rows],
        "token_rows": [i for i, (_, j) in enumerate(rows) if not j],
        "prompt_rows_of_token": {str(n): found for n, found in enumerate(prompt_rows)},
        "retrieve_rows": padded(leaf_paths(parents_of(known)[1])),
    }


@computes("ppd_dynamic_tree", tolerance=TOLERANCE, partly=True)
def ppd_dynamic_tree(given: Given) -> Values:
    """The trees that the search finds for a budget, their transitions and both scores."""
    found = search(given["accuracy"], given["limit"])
    trees = {str(s): [[list(node.path), node.q, node.prompts] for node in one] for s, one in enumerate(found.states, 1)}
    return {
        "sizes": {s: len(tree) for s, tree in trees.items()},
        "trees": trees,
        "transition": found.transition,
        "value": found.value,
        "expected_accept_official": found.score,
        "expected_accept_no_wasted_step": found.score_no_wasted_step,
    }


@computes("eagle2_tree", tolerance=TOLERANCE)
def eagle2_tree(given: Given) -> Values:
    """Tokens, parents and scores of the nodes that are verified, what each sees, and the paths to the leaves."""
    table = given["draft_logprob"]

    def fan(rows: Sequence[int], tokens: Sequence[int], _: Sequence[int]) -> Fan:
        said = [table[tokens[row]] for row in rows]
        best = [sorted(range(len(one)), key=lambda t: -one[t])[: given["top_k"]] for one in said]
        return best, [[one[t] for t in ranked] for one, ranked in zip(said, best, strict=True)]

    pool = expanded(fan, given["root"], given["top_k"], given["depth"])
    tokens, parents, scores = reranked(pool, given["total_tokens"] - 1)
    return {
        "tokens": tokens,
        "parents": parents,
        "depth": row_depths(parents),
        "score": scores,
        "ancestors": ancestors(sees(parents)),
        "rows": padded(leaf_paths(parents))[::-1],
    }


@computes("kangaroo_stop")
def kangaroo_stop(given: Given) -> Values:
    """One round, given the confidences and the model's greedy tokens."""
    n = 0
    while not (why := stopped(given["confidence"][:n], given["eta"], given["gamma"])):
        n += 1
    draft = chain([-1, *given["draft"][:n]])
    found = emitted_tokens(draft, walked(given["target"][: n + 1], draft, frozenset({given["eos"]})))
    return {
        "drafted": n,
        "stopped_by": why,
        "verify_positions": n + 1,
        "accepted": len(found) - 1,
        "emitted": found,
        "hit_eos": given["eos"] in found,
    }


def counted(given: Given) -> Counts:
    seen = Counts(given["counts"])
    seen.n = float64(given["counts"])
    return seen


@computes("del_update", tolerance=TOLERANCE)
def del_update(given: Given) -> Values:
    """Counts, confidences and the stop line after a round."""
    seen = counted(given)
    seen.sums = float64(given["conf_sums"])
    match = torch.tensor(given["shadow"]) == torch.tensor(given["verified"])
    exit_row, context, d = given["exit_layer"] - given["first_layer"], given["context_len"], given["selected_d"]
    kept = seen.update(match, float64(given["confidence"]), exit_row, context, d, given["omega"])
    return {
        "kept_positions": kept,
        "counts": seen.n.tolist(),
        "conf_sums": seen.sums.tolist(),
        "avg_conf": seen.means(),
        "tau": seen.tau(),
    }


@computes("del_choice", tolerance=TOLERANCE)
def del_choice(given: Given) -> Values:
    """Exit and length with the most expected tokens per layer."""
    seen = counted(given)
    alpha, L = seen.alpha(), given["n_layers"]
    exits = range(given["first_layer"], given["first_layer"] + len(alpha))
    best = choose(alpha, exits, L, given["gamma_max"], given["gamma_min"])
    return {"alpha": alpha, "exit_layer": best.exit_layer, "d": best.d, "tpl": best.tpl, "autoregressive_tpl": 1 / L}


@computes("del_stop")
def del_stop(given: Given) -> Values:
    """Tokens drafted at a confidence line."""
    n = 0
    while not ended(given["confidence"][:n], given["tau"], given["d_max"], given["eos_at"] == n - 1):
        n += 1
    return {"drafted": n}


@computes("lud", tolerance=TOLERANCE)
def lud(given: Given) -> Values:
    """The leading tokens above the line, or the units of a text."""
    if "beta" in given:
        return {"accepted": accepted(given["confidence"], given["beta"])}
    return {"units": [list(unit) for unit in marked(given["prob"], given["alpha"])]}


@computes("falcon_mask", tolerance=0.0)
def falcon_mask(given: Given) -> Values:
    """How many leading positions each row sees."""
    from engines.models.networks.falcon_layer import visible  # it needs torch

    return {"visible": visible(given["n"], given["k"], given["past"])}
