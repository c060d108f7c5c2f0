"""RASD: what is pruned and merged, the ablations, the greedy text with any store."""

import json

import numpy as np
import pytest
import torch

import engines
from engines.core.errors import UserError
from engines.methods.speculative._retrieval import fuse, trie
from engines.methods.speculative._verify import Draft
from engines.methods.speculative.rasd.pruning import Found, prune
from engines.models.stores import store_of
from tests.engines.methods.speculative.toys import pair

V, PROMPT = 5, [1, 2, 3, 1, 2, 0, 1, 2]


def decode(models, slug="rasd", seed=0, **params):
    return engines.run(slug, models, PROMPT, params={"max_new_tokens": 24, **params}, seed=seed)


# --- prune and fuse


def random_case(seed):
    rng = np.random.default_rng(seed)
    counts = trie(tuple(rng.integers(0, V, size=rng.integers(1, 6)).tolist()) for _ in range(8))
    draft, distributions = Draft(0), {(): torch.from_numpy(rng.dirichlet(np.ones(V)))}
    for parent in (0, 0, 1, 2):
        row = draft.add(parent, int(rng.integers(0, V)))
        distributions[tuple(draft.path(row))] = torch.from_numpy(rng.dirichlet(np.ones(V)))
    return counts, draft, distributions


@pytest.mark.parametrize("seed", range(12))
def test_what_is_kept_is_closed_and_fits(seed):
    counts, draft, distributions = random_case(seed)
    drafted = {tuple(draft.path(row)) for row in range(1, len(draft))}
    everything = prune([Found(counts)], distributions, V, len(counts), drafted, 99)
    assert (
        set(everything.kept) == set(counts) == set(everything.scores)
        and everything.not_in_top_k == everything.over_budget == 0
    )
    for top_k, budget, room in ((2, 4, 99), (0, 6, 2), (1, 99, 99), (3, 5, -1)):
        found = prune([Found(counts)], distributions, top_k, budget, drafted, room)
        kept = set(found.kept)
        assert all(len(node) == 1 or node[:-1] in kept for node in kept) and len(kept) <= budget
        assert len(kept - drafted) <= max(room, 0) and found.shared == len(kept & drafted)
        assert len(kept) + found.not_in_top_k + found.too_unlikely + found.over_budget == len(counts)
        assert top_k or found.not_in_top_k == 0
        assert all(found.scores[node] <= found.scores[node[:-1]] + 1e-12 for node in found.scores if len(node) > 1)
        for node in found.scores:
            assert (
                not top_k
                or node[:-1] not in distributions
                or int((distributions[node[:-1]] > distributions[node[:-1]][node[-1]]).sum()) < top_k
            )


@pytest.mark.parametrize("seed", range(12))
def test_the_merged_tree_is_the_union(seed):
    counts, draft, distributions = random_case(seed)
    mine = {tuple(draft.path(row)) for row in range(1, len(draft))}
    before = list(draft.tokens)
    kept = prune([Found(counts)], distributions, 3, 6, mine, 99).kept
    fuse(draft, kept)
    paths = [tuple(draft.path(row)) for row in range(1, len(draft))]
    assert set(paths) == mine | set(kept) and draft.tokens[: len(before)] == before
    new = [path for row, path in enumerate(paths, 1) if draft.sources[row] == "retrieval"]
    assert len(new) == len(set(new)) and set(new) == set(kept) - mine
    assert {path for row, path in enumerate(paths, 1) if draft.sources[row] == "both"} == mine & set(kept)
    assert max(draft.depths()) <= max(map(len, mine | set(kept)))


def test_a_token_outside_the_drafters_vocabulary_is_not_pruned():
    """It has no probability there (-inf before the softmax); the share of the continuations counts instead."""
    counts = trie([(4, 1), (4, 1), (3,)])
    q = torch.tensor([0.4, 0.3, 0.2, 0.1, 0.0], dtype=torch.float64)
    found = prune([Found(counts)], {(): q}, 2, 9, set(), 9)
    assert (
        found.scores == {(4,): pytest.approx(2 / 3), (4, 1): pytest.approx(2 / 3)} and found.not_in_top_k == 1
    )  # 3 is known and not in the first 2


def test_trust_and_floor_by_hand():
    counts = trie(
        [(1, 2), (1, 3), (4,)]
    )  # behind a match of two tokens: 1 in two of three, then 2 or 3; 4 in one of three
    plain, trusted = prune([Found(counts)], {}, 0, 9, set(), 9), prune([Found(counts, 2)], {}, 0, 9, set(), 9)
    assert plain.scores == {
        (1,): pytest.approx(2 / 3),
        (4,): pytest.approx(1 / 3),
        (1, 2): pytest.approx(1 / 3),
        (1, 3): pytest.approx(1 / 3),
    }
    first, second = 2 / 3, 3 / 4  # the rule of succession for two tokens that agreed, then for three
    assert trusted.scores[(1,)] == pytest.approx(2 / 3 * first) and trusted.scores[(1, 2)] == pytest.approx(
        2 / 3 * first * 1 / 2 * second
    )
    above = prune([Found(counts, 2)], {}, 0, 9, set(), 9, floor=0.2)
    assert above.kept == [(1,), (4,)] and above.too_unlikely == 2 and above.over_budget == 0


def test_what_two_corpora_have_takes_the_better_score():
    text, store = Found(trie([(1, 2)]), 4), Found(trie([(1, 3), (2, 3)]), 2)
    found = prune([text, store], {}, 0, 9, set(), 9)
    alone = [prune([one], {}, 0, 9, set(), 9).scores for one in (text, store)]
    assert found.scores == {
        node: max(a.get(node, 0.0) for a in alone) for node in {*alone[0], *alone[1]}
    } and found.scores[(1,)] == pytest.approx(4 / 5)


def test_fused_accepts_at_least_what_its_parts_do():
    """At temperature 0, one forward on the same context: the merged tree holds both trees."""
    for seed in range(6):
        models = pair(seed, memory=2)
        one = {
            name: decode(models, max_new_tokens=12, rows=48, **given).steps[0].facts["accepted"]
            for name, given in PARTS.items()
        }
        assert one["both"] >= max(one["draft"], one["copied"])


PARTS = {"both": {"top_k": 0}, "draft": {"budget": 0}, "copied": {"drafter": False}}


# --- whole runs


def test_the_ablations_are_their_parts(monkeypatch):
    """Budget 0: only drafted rows, of the drafter's first choices. Without the drafter: no forward of it, only copied
    rows."""
    models = pair(2, memory=1)
    alone, copied = decode(models, budget=0), decode(models, drafter=False)
    assert {source for step in alone.steps for source in step.tree.sources} == {"root", "draft"} and all(
        s.facts["matches"] == 0 for s in alone.steps
    )
    assert all(len(step.tree.tokens) == 7 for step in alone.steps[:3])
    assert {source for step in copied.steps for source in step.tree.sources} <= {"root", "retrieval"} and set(
        copied.totals.forwards_by_role
    ) == {"target"}
    monkeypatch.setattr("engines.methods.speculative.rasd.LONGEST", 8)
    lookup = decode(models["target"], "prompt-lookup", longest=8, length=8)
    same = decode(models, drafter=False, retriever="first")
    assert [step.tree.tokens for step in same.steps] == [step.tree.tokens for step in lookup.steps]


def test_each_row_is_linked_to_the_places_that_it_comes_from():
    for step in decode(pair(1, memory=1)).steps:
        tree, linked = step.tree, {"model": set(), "text": set(), "store": set()}
        for source in tree.guessed_from:
            linked[source.kind] |= {row for row, _ in source.links}
        assert linked["model"] == {row for row, name in enumerate(tree.sources) if name in ("draft", "both")}
        assert linked["text"] == {row for row, name in enumerate(tree.sources) if name in ("retrieval", "both")}


def test_rows_and_facts_add_up():
    models = pair(1, memory=1)
    for given in ({}, {"rows": 4}, {"rows": 8, "fan": 4, "depth": 6}, {"top_k": 1}):
        trace = decode(models, **given)
        for step in trace.steps:
            f, tree = step.facts, step.tree
            assert (
                len(tree.tokens) <= trace.header.params["rows"]
                and f["retrieved"] == f["kept"] + f["not_in_top_k"] + f["too_unlikely"] + f["over_budget"]
            )
            assert f["kept"] - f["shared"] == tree.sources.count("retrieval") and f["shared"] == tree.sources.count(
                "both"
            )
            assert f["accepted"] == f["accepted_draft"] + f["accepted_retrieval"] + f["accepted_both"]


# --- the store


def test_a_store_of_random_tokens_changes_no_text(tmp_path, monkeypatch):
    monkeypatch.setenv("DECODING_EXPLORER_ASSETS", str(tmp_path))
    models = pair(4, memory=1)
    models["target"].record.tokenizer = "abc"
    with pytest.raises(UserError, match=r"no store in the tokens of table \(there is no store at all\)"):
        decode(models, retriever="store")
    folder = tmp_path / "models" / "table-store"
    folder.mkdir(parents=True)
    np.save(folder / "tokens.npy", np.random.default_rng(0).integers(0, V, size=400))
    (folder / "card.json").write_text(json.dumps({"tokenizer": "other"}))
    with pytest.raises(UserError, match=r"no store in the tokens of table \(there is table-store\)"):
        store_of(models["target"].record)
    (folder / "card.json").write_text(json.dumps({"tokenizer": "abc"}))
    trace = decode(models, retriever="store", top_k=0)
    assert trace.output_ids == decode(models["target"], "greedy").output_ids and any(
        step.facts["kept"] for step in trace.steps
    )
    both = decode(models, retriever="both", top_k=0, budget=32, rows=48)
    assert both.output_ids == trace.output_ids
    for step in both.steps:  # only places in the text are marked in it; the store's are counted
        marked = [span for span in step.spans if span.kind == "match"]
        assert len(marked) < step.facts["matches"] and all(span.end <= len(PROMPT) + 24 for span in marked)
    np.save(folder / "tokens.npy", np.zeros((2, 2), dtype=int))
    with pytest.raises(UserError, match="not a store, which is one row"):
        store_of(models["target"].record)
