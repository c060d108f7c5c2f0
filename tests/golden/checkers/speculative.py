"""Golden cases of the speculative family: exact distributions, tapes, tree masks, and the recycling table;
the judge, reflective verification and aggressive decoding."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np

from engines.core.golden_cases import Case, checks, differ
from engines.core.lazy import torch
from engines.core.sampling import (
    accept_probability,
    inverse_cdf,
    residual,
)
from engines.core.trees import from_child_counts, row_depths
from engines.methods.speculative._verify import Draft, emitted_tokens, verify
from engines.methods.speculative.aggressive_decoding import anchor, occurrences
from engines.methods.speculative.generalized_aggressive_decoding import bifurcation
from engines.methods.speculative.judge_decoding.rule import or_mask
from engines.methods.speculative.reflective_verification import fuse
from engines.methods.speculative.token_recycling import TEMPLATES, expand, update

from .cases import (
    Given,
    Values,
    by_kind,
    chain,
    computes,
    float64,
    kinds,
    leaf_paths,
    recursive_rejection,
    sees,
    walked,
)

Row = Sequence[str]
Context = tuple[int, ...]
Distribution = dict[Context, float]


def row(values: Row) -> torch.Tensor:
    """A distribution given as exact rationals, as float64 [V]."""
    return torch.tensor([float(Fraction(v)) for v in values], dtype=torch.float64)


def one_row(given: Given) -> Values:
    """Accept probability, residual and the distribution of one accept-or-resample step."""
    p, q = row(given["p"]), row(given["q"])
    left = residual(p, q)
    overlap = float(torch.minimum(p, q).sum())
    emitted = torch.minimum(p, q) + (1 - overlap) * (left if left is not None else 0)
    return {
        "accept_prob": accept_probability(p, q, given["token"]),
        "residual": left.tolist() if left is not None else None,
        "accept_rate": overlap,
        "tv": 1 - overlap,
        "law": emitted.tolist(),
    }


def chain_tape(given: Given) -> Values:
    """Speculative sampling with its random numbers given: u for the tests, v for the last token."""
    p, q = [row(r) for r in given["p"]], [row(r) for r in given["q"]]
    chances = [accept_probability(p[i], q[i], x) for i, x in enumerate(given["draft"])]
    n = next((i for i, chance in enumerate(chances) if not given["u"][i] < chance), len(chances))
    left = p[n] if n == len(chances) else residual(p[n], q[n])
    final = p[n] if left is None else left
    tested = chances[: n + 1]
    return {
        "n_accepted": n,
        "tokens": [*given["draft"][:n], inverse_cdf(final, given["v"])],
        "final_dist": final.tolist(),
        "accept_prob": tested,
    }


def greedy_chain(given: Given) -> Values:
    """At temperature 0 a chain is a one-branch tree walked by the argmax."""
    verdict = walked(given["target_argmax"], draft := chain([0, *given["draft"]]))
    return {"n_accepted": len(verdict.path) - 1, "tokens": emitted_tokens(draft, verdict)}


def key(context: Sequence[int]) -> str:
    """How a context is written in the files."""
    return ",".join(map(str, context))


def context_of(key: str) -> Context:
    """ "2,0" as (2, 0); the root is ""."""
    return tuple(int(token) for token in key.split(",") if token)


def draws(q: torch.Tensor, k: int, replacement: bool) -> Iterator[tuple[tuple[int, ...], float]]:
    """Every way to draw k tokens that can happen, with its chance."""
    tokens = range(len(q))
    for drawn in itertools.product(tokens, repeat=k) if replacement else itertools.permutations(tokens, k):
        chance, left = 1.0, 1.0
        for token in drawn:
            chance *= float(q[token]) / left
            left -= 0.0 if replacement else float(q[token])
        if chance > 0:
            yield drawn, chance


def fan_distribution(given: Given, branch: Sequence[int], *, replacement: bool, context: Context = ()) -> Distribution:
    """Exact distribution of one step of a tree with constant branching, by enumeration of all draws; the trees below
    siblings are independent."""
    p, tokens = row(given["p"][key(context)]), range(given["vocab"])
    if len(context) == len(branch):
        return {(*context, t): float(p[t]) for t in tokens}
    q, k = row(given["q"][key(context)]), branch[len(context)]
    k = k if replacement else min(k, int((q > 0).sum()))
    deeper = [fan_distribution(given, branch, replacement=replacement, context=(*context, t)) for t in tokens]
    total: Distribution = {}
    for drawn, chance in draws(q, k, replacement):
        merge(total, spread(p, q, context, drawn, [deeper[t] for t in drawn], replacement=replacement), chance)
    return total


def spread(
    p: torch.Tensor, q: torch.Tensor | None, context: Context, drawn: Sequence[int], deeper: Sequence[Distribution],
    *, replacement: bool = False,
) -> Distribution:  # fmt: skip
    """Exact distribution of the walk from a node whose children were drawn from q: below the one accepted its own
    distribution, else a draw of the residual."""
    distribution: Distribution = {}
    chances, left = [], p
    if q is not None and drawn:
        chances, left = recursive_rejection(p, q, list(drawn), replacement=replacement)
    alive = 1.0
    for chance, below in zip(chances, deeper, strict=False):
        merge(distribution, below, alive * chance)
        alive *= 1 - chance
    rest = left.tolist() if left is not None else []
    merge(distribution, {(*context, t): value for t, value in enumerate(rest)}, alive)
    return distribution


def merge(distribution: Distribution, other: Distribution, weight: float) -> None:
    """Add `other` to `distribution`, in place."""
    for block, chance in other.items():
        distribution[block] = distribution.get(block, 0.0) + weight * chance


def mean_block(distribution: Distribution) -> float:
    return sum(chance * len(block) for block, chance in distribution.items())


def summary(distribution: Distribution, vocab: int) -> Values:
    """What every distribution case asks for."""
    blocks = {key(block): chance for block, chance in distribution.items()}
    return {
        "block_law": blocks,
        "first_token": [sum(c for block, c in distribution.items() if block[0] == t) for t in range(vocab)],
    }


def chain_distribution(given: Given) -> Values:
    """The exact distribution of the tokens of one whole step."""
    found = fan_distribution(given, [1] * given["gamma"], replacement=False)
    possible = {block: chance for block, chance in found.items() if chance > 0}
    return summary(possible, given["vocab"]) | {"mean_block": mean_block(possible)}


kinds("chain", row=one_row, chain_tape=chain_tape, greedy_chain=greedy_chain, chain_law=chain_distribution)


def stages(p: torch.Tensor, q: torch.Tensor, k: int, *, replacement: bool) -> tuple[list[float], torch.Tensor]:
    """Chance that the j-th candidate is the accepted one, and the distribution of the emitted token, by enumeration of
    all draws."""
    accepted, emitted = [0.0] * k, torch.zeros_like(p)
    for drawn, alive in draws(q, k, replacement):
        accept, rest = recursive_rejection(p, q, list(drawn), replacement=replacement)
        for j, token in enumerate(drawn[: len(accept)]):
            accepted[j] += alive * accept[j]
            emitted[token] += alive * accept[j]
            alive *= 1 - accept[j]
        if rest is not None:
            emitted += alive * rest
    return accepted, emitted


def rrs(given: Given) -> Values:
    """Recursive rejection sampling with and without replacement."""
    p, q, k = row(given["p"]), row(given["q"]), given["k"]
    wo, distribution = stages(p, q, k, replacement=False)
    with_, _ = stages(p, q, k, replacement=True)
    return {
        "law": distribution.tolist(),
        "stage_accept_wo": wo,
        "accept_wo": sum(wo),
        "reject_wo": 1 - sum(wo),
        "stage_accept_with": with_,
        "accept_with": sum(with_),
        "iid_upper_bound": float(torch.minimum(p, 1 - (1 - q) ** k).sum()),
    }


def rrs_ordered(given: Given) -> Values:
    """Accept probabilities of fixed candidates in their order."""
    chances, left = recursive_rejection(
        row(given["p"]), row(given["q"]), given["candidates"], replacement=not given["without_replacement"]
    )
    return {"accept_prob": chances, "residual": left.tolist() if left is not None else None}


@checks("multi_candidate")
def multi_candidate(case: Case, data: Given, folder: Path) -> str | None:
    """multi_candidate.json. The negative cases give the distribution of a wrong verifier: ours must reproduce p and
    stay away from it."""
    if not case["kind"].startswith("negative_"):
        return by_kind({"rrs": rrs, "rrs_ordered": rrs_ordered}, case)
    p, q = row(case["input"]["p"]), row(case["input"]["q"])
    _, distribution = stages(p, q, case["input"]["k"], replacement=False)
    apart = float((distribution - float64(case["expect"]["wrong_law"])).abs().sum() / 2)
    got = {"law": distribution.tolist(), "distance to the wrong one": apart}
    return differ("", got, {"law": p.tolist(), "distance to the wrong one": case["expect"]["tv_to_target"]})


def tree_mask(given: Given) -> Values:
    """A tree behind a prefix, and what is kept of the cache."""
    parents, past = given["parents"], given["prefix_len"]
    depth = row_depths(parents)
    keep = [*range(past), *(past + r for r in given["accepted_nodes"])]
    return {
        "depth": depth,
        "mask": sees(parents).int().tolist(),
        "position_ids": [past + d for d in depth],
        "leaf_paths": leaf_paths(parents),
        "cache_keep": keep,
        "cache_len_after": len(keep),
    }


kinds("tree_mask", tree_mask=tree_mask)


def official_template(given: Given) -> Values:
    parents, ranks = from_child_counts(TEMPLATES["80"])
    depth = row_depths(parents)
    same = TEMPLATES["80"] == given["children_per_node_bfs"]
    return {
        "n_nodes": len(parents) if same else -1,
        "nodes_per_depth": [depth.count(d) for d in range(max(depth) + 1)],
        "n_leaf_paths": len(leaf_paths(parents)),
        "parents": parents,
        "candidate_index": ranks,
    }


def recycle(
    M: np.ndarray, root: int, counts: Sequence[int], target: Callable[[list[int]], list[int]]
) -> tuple[list[int], list[int], list[int]]:
    """One turn against a target given as a function path-of-tokens -> ranked ids: tree tokens, accepted nodes, emitted
    tokens; M is updated."""
    tokens, _, tree = expand(M, root, *from_child_counts(counts))
    ranked = []
    for node in range(len(tokens)):
        path, at = [tokens[node]], tree[node]
        while at >= 0:
            path, at = [tokens[at], *path], tree[at]
        ranked.append(target(path))
    path = walked([r[0] for r in ranked], Draft.of(tokens, tree, "draft")).path
    update(M, tokens, np.array(ranked))
    return tokens, path, [*(tokens[r] for r in path[1:]), ranked[path[-1]][0]]


def one_step(given: Given) -> Values:
    """One turn with the target's ranking given per node."""
    M, ranked = np.array(given["matrix"]), iter(given["topk"])
    tokens, path, out = recycle(M, given["root"], given["children_per_node_bfs"], lambda _: next(ranked))
    return {
        "tokens": tokens,
        "accepted_nodes": path,
        "out_tokens": out,
        "accept_length": len(out),
        "matrix_after": M.tolist(),
    }


def episode(given: Given) -> Values:
    """A whole decoding from an all-zero table against a target that ranks by the last two tokens; the prompt's forward
    gives the first token."""
    M = np.zeros((given["vocab"], given["K"]), dtype=np.int64)
    first = given["target_top_by_last_two"][",".join(map(str, given["prompt"][-2:]))][0]
    ids, lengths, trees = [*given["prompt"], first], [], []
    while len(ids) < len(given["prompt"]) + given["max_new"]:
        context = ids[:-1]

        def target(path: list[int], context: list[int] = context) -> list[int]:
            last = [*context, *path][-2:]
            return given["target_top_by_last_two"][f"{last[0]},{last[1]}"]

        tokens, _, out = recycle(M, ids[-1], given["children_per_node_bfs"], target)
        ids, lengths, trees = [*ids, *out], [*lengths, len(out)], [*trees, tokens]
    written = ids[len(given["prompt"]) :][: given["max_new"]]
    return {"out_tokens": written, "accept_lengths": lengths, "first_trees": trees[:4], "matrix_after": M.tolist()}


kinds("token_recycling", official_template=official_template, step=one_step, episode=episode)


def judged(given: Given) -> Values:
    """The mask and how many tokens it keeps, with and without the judge, from the judge's logits."""
    plain = given["standard_accept"]
    score = float64(given["judge_logits"]).sigmoid().tolist()
    accept, accepted = or_mask(plain, score, given["delta"])
    return {"accept": accept, "accepted": accepted, "accepted_standard": or_mask(plain, score, 1.0)[1]}


kinds("judge", or_mask=judged)


def fusion(given: Given) -> Values:
    """Fused logits and distributions, which drafted tokens they put first, and what a greedy walk keeps and writes."""
    z0, zr = (float64(given[name]) for name in ("original_logits", "reflective_logits"))
    z, d = fuse(z0, zr, given["alpha"]), given["draft"]
    verdict = verify(z, chain([0, *d]), 0.0, torch.Generator())
    return {
        "fused_logits": z.tolist(),
        "fused_probs": z.softmax(-1).tolist(),
        "greedy_match": (z.argmax(-1) == torch.tensor(d)).tolist(),
        "accepted": len(verdict.path) - 1,
        "correction": verdict.emitted if verdict.emitted >= 0 else None,
    }


kinds("reflective", fusion=fusion)


GRAM = 3  # of the official loop


@computes("iad_match")
def match(given: Given) -> Values:
    longest = given["max_gram"]
    return {"resume_at": anchor(occurrences(given["source"], longest), given["tokens"], longest).at}


@computes("iad_spans")
def spans(given: Given) -> Values:
    """Every step of an edit whose greedy text is given: what a forward would put first follows from the place alone,
    for only right copies are kept."""
    x, y = given["source"], given["greedy_output"][: given["max_len"]]
    index, steps = occurrences(x, GRAM), []
    tokens: list[int] = []
    while len(tokens) < len(y):
        at = anchor(index, tokens, GRAM).at if tokens else 0
        pasted = x[at:] if at >= 0 else []
        ahead = [*y[len(tokens) :], *[given["eos"]] * len(pasted)][: len(pasted) + 1]
        draft = chain([0, *pasted])
        verdict = walked(ahead, draft, frozenset({given["eos"]}))
        gained = emitted_tokens(draft, verdict)
        steps.append(
            {
                "mode": "copy" if pasted else "single",
                "source_index": at if pasted else -1,
                "drafted": len(pasted),
                "accepted": len(verdict.path) - 1,
                "emitted": gained,
            }
        )
        tokens += gained
    return {"steps": steps, "forward_passes": len(steps), "output": tokens}


@computes("gad_block")
def block(given: Given) -> Values:
    """The bifurcation of a block; tokens that are not in the verifier's list are out of question."""
    k, beta = given["k"], len(given["topk"][0])
    tokens = max(*given["block"], *(t for row in given["topk"] for t in row)) + 1
    z = torch.full((k + 1, tokens), -torch.inf, dtype=torch.float64)
    for row, (ids, scores) in enumerate(zip(given["topk"], given["topk_score"], strict=True)):
        z[row, ids] = float64(scores)
    b = bifurcation(z, given["block"], beta, given["tau"])
    return {"bifurcation": b, "emitted": [*given["block"][:b], int(z[b].argmax())]}
