"""RASD: what is pruned and the ablations. The plain rule and the merged tree are golden cases."""

import json

import numpy as np
import pytest
import torch

import engines
from engines.core.errors import UserError
from engines.methods.speculative._retrieval import trie
from engines.methods.speculative.rasd.pruning import Found, prune
from engines.models.parts.stores import store_of
from tests.engines.methods.speculative.toys import pair

PROMPT = [1, 2, 3, 1, 2, 0, 1, 2]


def decode(models, slug="rasd", **params):
    return engines.run(slug, models, PROMPT, params={"max_new_tokens": 24, **params})


def pruned(*sources, top_k=0, budget=9, drafted=(), room=9, distributions=None, **options):
    return prune([*sources], distributions or {}, top_k, budget, set(drafted), room, **options)


def test_trust_floor_and_room_by_hand():
    # behind a match of two tokens: 1 in two of three, then 2 or 3; 4 in one of three
    counts = trie([(1, 2), (1, 3), (4,)])
    plain, trusted = pruned(Found(counts)), pruned(Found(counts, 2))
    assert plain.scores == pytest.approx({(1,): 2 / 3, (4,): 1 / 3, (1, 2): 1 / 3, (1, 3): 1 / 3})
    first, second = 2 / 3, 3 / 4  # the rule of succession for two tokens that agreed, then for three
    assert trusted.scores[(1,)] == pytest.approx(2 / 3 * first)
    assert trusted.scores[(1, 2)] == pytest.approx(2 / 3 * first * 1 / 2 * second)
    above = pruned(Found(counts, 2), floor=0.2)
    assert above.kept == [(1,), (4,)] and above.too_unlikely == 2 and above.over_budget == 0
    for room, kept in ((-1, [(1,)]), (1, [(1,), (4,)]), (2, [(1,), (4,), (1, 2)])):  # what is drafted takes no room
        found = pruned(Found(counts), drafted=[(1,), (7,)], room=room)
        assert found.kept == kept and found.shared == 1 and found.over_budget == 4 - len(kept)


def test_a_token_outside_the_drafters_vocabulary_is_not_pruned():
    """It has no probability there (-inf before the softmax); the share of the continuations counts instead."""
    q = torch.tensor([0.4, 0.3, 0.2, 0.1, 0.0], dtype=torch.float64)
    found = pruned(Found(trie([(4, 1), (4, 1), (3,)])), top_k=2, distributions={(): q})
    assert found.scores == pytest.approx({(4,): 2 / 3, (4, 1): 2 / 3})
    assert found.not_in_top_k == 1  # 3 is known and not in the first 2


def test_what_two_corpora_have_takes_the_better_score():
    text, store = Found(trie([(1, 2)]), 4), Found(trie([(1, 3), (2, 3)]), 2)
    found, alone = pruned(text, store).scores, [pruned(one).scores for one in (text, store)]
    assert found == {node: max(a.get(node, 0.0) for a in alone) for node in {*alone[0], *alone[1]}}
    assert found[(1,)] == pytest.approx(4 / 5)


def test_the_ablations_are_their_parts(monkeypatch):
    """Budget 0: only drafted rows, of first choices. Without the drafter: no forward of it, only copied rows."""
    models = pair(2, memory=1)
    alone, copied = decode(models, budget=0), decode(models, drafter=False)
    assert {source for step in alone.steps for source in step.tree.sources} == {"root", "draft"}
    assert all(step.facts["matches"] == 0 for step in alone.steps)
    assert all(len(step.tree.tokens) == 7 for step in alone.steps[:3])
    assert {source for step in copied.steps for source in step.tree.sources} <= {"root", "retrieval"}
    assert set(copied.totals.forwards_by_role) == {"target"}
    monkeypatch.setattr("engines.methods.speculative.rasd.LONGEST", 8)
    lookup = decode(models["target"], "prompt-lookup", longest=8, length=8)
    same = decode(models, drafter=False, retriever="first")
    assert [step.tree.tokens for step in same.steps] == [step.tree.tokens for step in lookup.steps]


@pytest.mark.parametrize("given", [{}, {"rows": 4}, {"rows": 8, "fan": 4, "depth": 6}, {"top_k": 1}])
def test_rows_and_facts_add_up_and_each_row_is_linked_to_the_places_that_it_comes_from(given):
    trace = decode(pair(1, memory=1), **given)
    for step in trace.steps:
        f, tree, linked = step.facts, step.tree, {"model": set(), "text": set(), "store": set()}
        assert len(tree.tokens) <= trace.header.params["rows"]
        assert f["retrieved"] == f["kept"] + f["not_in_top_k"] + f["too_unlikely"] + f["over_budget"]
        assert f["kept"] - f["shared"] == tree.sources.count("retrieval") and f["shared"] == tree.sources.count("both")
        assert f["accepted"] == f["accepted_draft"] + f["accepted_retrieval"] + f["accepted_both"]
        for source in tree.guessed_from:
            linked[source.kind] |= {row for row, _ in source.links}
        assert linked["model"] == {row for row, name in enumerate(tree.sources) if name in ("draft", "both")}
        assert linked["text"] == {row for row, name in enumerate(tree.sources) if name in ("retrieval", "both")}


def test_a_store_of_random_tokens_changes_no_text(tmp_path, monkeypatch):
    monkeypatch.setenv("DECODING_EXPLORER_ASSETS", str(tmp_path))
    models = pair(4, memory=1)
    models["target"].record.tokenizer = "abc"
    with pytest.raises(UserError, match=r"no store in the tokens of table \(there is no store at all\)"):
        decode(models, retriever="store")
    folder = tmp_path / "models" / "table-store"
    folder.mkdir(parents=True)
    np.save(folder / "tokens.npy", np.random.default_rng(0).integers(0, 5, size=400))
    (folder / "card.json").write_text(json.dumps({"tokenizer": "other"}))
    with pytest.raises(UserError, match=r"no store in the tokens of table \(there is table-store\)"):
        store_of(models["target"].record)
    (folder / "card.json").write_text(json.dumps({"tokenizer": "abc"}))
    trace, plain = decode(models, retriever="store", top_k=0), decode(models["target"], "greedy")
    both = decode(models, retriever="both", top_k=0, budget=32, rows=48)
    assert trace.output_ids == both.output_ids == plain.output_ids
    assert any(step.facts["kept"] for step in trace.steps)
    for step in both.steps:  # only places in the text are marked in it; the store's are counted
        marked = [span for span in step.spans if span.kind == "match"]
        assert len(marked) < step.facts["matches"] and all(span.end <= len(PROMPT) + 24 for span in marked)
