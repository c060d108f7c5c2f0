"""Golden cases of the methods that draft from n-grams: the tri-gram table and its search, the store of distributions,
its drafts and its templates."""

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engines.core.golden_cases import Case, checks, differ
from engines.core.trees import from_child_counts
from engines.methods.speculative.aded.trigrams import Node, Table, drafts, heaviest, puct, search
from engines.methods.speculative.stand.store import Entry, Store, grow
from engines.methods.speculative.stand.templates import most_accepted, pruned

from .cases import Given, Values, by_kind
from .speculative import context_of, key, row


def shown(table: Table) -> dict[str, dict[str, float]]:
    return {key(pair): {str(c): w for c, w in found.items()} for pair, found in table.weights.items()}


def table(given: Given) -> Values:
    """A table built from a corpus, then taught by the windows of successive calls."""
    found = Table.of(given["corpus"], given["keep"])
    built = shown(found)
    for call in given["calls"]:
        found.learn(call["sequence"][-given["window"] :], given["increment"], given["cap"])
    return {"built": built, "after_calls": shown(found)}


def mcts(given: Given) -> Values:
    """The search and the drafts extracted from it; the file lists nodes by falling visits, shorter paths and smaller
    ids first."""
    known = Table()
    for pair, found in given["table"].items():
        first, second = context_of(pair)
        known.weights[first, second] = {int(c): w for c, w in found.items()}
    nodes = search(
        known,
        given["root"],
        given["iterations"],
        given["length"] - 1,
        itertools.cycle(given["rollout_u"]),
        reward=given["reward"],
    )
    visits = sorted(
        ({"path": node.path, "visits": node.visits} for node in nodes),
        key=lambda entry: (-entry["visits"], len(entry["path"]), entry["path"]),
    )
    return {"drafts": drafts(known, nodes, given["root"], given["top_k"]), "visits": visits}


def puct_value(given: Given) -> Values:
    node = Node([], given["prior"], given["visits"], given["score_sum"])
    value = puct(node, given["parent_visits"], given["c1"], given["c2"])
    return {"value": None if math.isinf(value) else value, "infinite": math.isinf(value)}


@checks("aded")
def aded(case: Case, data: Given, folder: Path) -> str | None:
    """aded.json. A table is compared from both sides: it holds no pair or successor that is not expected."""
    if case["kind"] == "table":
        got = table(case["input"])
        return differ("", got, case["expect"]) or differ("", case["expect"], got)
    return by_kind({"mcts": mcts, "puct": puct_value}, case)


def as_text(distribution: Mapping[int, float]) -> dict[str, float]:
    return {str(x): distribution[x] for x in sorted(distribution)}


def store(given: Given) -> Values:
    known = stored(given)
    told = {key(n): {"count": one.count, "probs": as_text(one.distribution)} for n, one in known.entries.items()}
    return {"store": told}


def stored(given: Given) -> Store:
    """The store that a text and the distributions behind its positions fill."""
    known = Store()
    distributions = [
        dict(heaviest(dict(enumerate(row(distribution).tolist())))[: given["K"]]) for distribution in given["next_dist"]
    ]
    known.learn(given["tokens"], 0, distributions, given["orders"], given["K"])
    return known


def look_ups(given: Given, contexts: Sequence[Given]) -> list[dict[str, Any]]:
    known, found = stored(given), []
    for one in contexts:
        hit = known.look_up(one["context"], sorted(given["orders"], reverse=True))
        found.append({"context": one["context"], "hit": one["context"][-hit[0] :] if hit else None})
    return found


def draft(given: Given) -> Values:
    """A tree drafted on the template with its noise given, and the distributions to verify it with."""
    known = Store()
    known.entries = {
        context_of(key): Entry(1, {int(x): float(chance) for x, chance in distribution.items()})
        for key, distribution in given["store"].items()
    }
    parents, _ = from_child_counts(given["children_per_node_bfs"])
    noise = given["u_by_node_over_sorted_tokens"]
    vocab_size = 1 + max(x for entry in known.entries.values() for x in entry.distribution)
    sizes = range(given["max_context"], 0, -1)
    grown = grow(
        known,
        given["last_tokens"],
        parents,
        sizes,
        vocab_size=vocab_size,
        noise=lambda node, n: noise[str(node)][:n],
        deepest=len(parents),
    )
    place = {node: at for at, node in enumerate(grown.rows)}
    distributions = {
        str(grown.rows[at]): as_text({x: q for x, q in enumerate(distribution.tolist()) if q > 0})
        for at, distribution in grown.draft.distributions.items()
    }
    for node, at in place.items():  # the file gives the leaves' distributions too, from which nothing is drawn
        hit = known.look_up([*given["last_tokens"], *grown.draft.path(at)], sizes)
        if hit and str(node) not in distributions:
            tokens, q = hit[1].draft_distribution()
            distributions[str(node)] = as_text(dict(zip(tokens, q.tolist(), strict=True)))
    return {
        "tokens": [grown.draft.tokens[place[node]] if node in place else None for node in range(len(parents))],
        "q_at_node": distributions,
    }


def optimise_tree(given: Given) -> Values:
    """The most accepted nodes of a template; what they make is a tree."""
    kept = most_accepted(given["accepted_count"], given["keep"])
    parents, _ = from_child_counts(pruned(given["children_per_node_bfs"], kept))
    return {"kept_nodes": kept if len(parents) == len(kept) + 1 else []}


@checks("stand")
def stand(case: Case, data: Given, folder: Path) -> str | None:
    given, expected = case["input"], case["expect"]
    if case["kind"] == "store" and (
        wrong := differ("lookups", look_ups(given, expected["lookups"]), expected["lookups"])
    ):
        return wrong
    if case["kind"] == "store":
        expected = {"store": expected["store"]}
    return by_kind({"store": store, "draft": draft, "optimise_tree": optimise_tree}, {**case, "expect": expected})
