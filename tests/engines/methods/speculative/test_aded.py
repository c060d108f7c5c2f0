"""ADED: a table that learns as its rule says, a search that follows it, and what is told of both."""

import itertools

import pytest
import torch

import engines
from engines.core.sampling import distribution
from engines.core.trees import children
from engines.methods.speculative._verify import verify
from engines.methods.speculative.aded import merge
from engines.methods.speculative.aded.trigrams import Table, drafts, search, trim
from tests.engines.fakes import TableCausal, chi_square_p


def decode(model, slug="aded", prompt=(1, 2, 3), **params):
    return engines.run(slug, model, list(prompt), params={"max_new_tokens": 40, **params})


def filled(seed=0, vocab_size=6, length=80):
    """A table over every kind of pair."""
    rng = torch.Generator().manual_seed(seed)
    return Table.of([torch.randint(vocab_size, (length,), generator=rng).tolist() for _ in range(3)], 12)


def uniforms(seed=0):
    rng = torch.Generator().manual_seed(seed)
    return iter(lambda: float(torch.rand((), generator=rng)), None)


# --- the text


def test_an_empty_table_feeds_one_row_per_step():
    model = TableCausal(memory=1, vocab_size=4)
    trace = decode(model, increment=0.0)
    assert trace.totals.forwards == 40 and all(
        len(step.tree.tokens) == 1 and step.facts["table_size"] == 0 for step in trace.steps
    )
    assert [step.tokens_fed for step in trace.steps] == [3] + [1] * 39


def test_adaptation_pays_on_a_text_that_repeats_itself():
    """The aha of the method: with increment 0 nothing is ever accepted, with it a cycle is."""
    trace = decode(TableCausal(memory=1, vocab_size=5), node_limit=64)
    assert trace.totals.forwards < 25
    early, late = ([step.facts["accepted"] for step in part] for part in (trace.steps[:4], trace.steps[-4:-1]))
    assert sum(early) < sum(late) and trace.steps[-1].facts["learned_weight"] > trace.steps[0].facts["learned_weight"]


def test_the_prompt_can_be_learned_as_a_whole():
    model, prompt = TableCausal(memory=1, vocab_size=5), [*range(5)] * 10
    sizes = [
        decode(model, prompt=prompt, window=3, learn_from_prompt=yes).steps[0].facts["table_size"]
        for yes in (False, True)
    ]
    assert sizes == [1, 5]


# --- the table


def test_the_shipped_store_fills_the_table_and_changes_no_text():
    model = engines.load_model("tiny-ar-m", dtype="float32")
    prompt = "python: class Boat(name: str, speed: int, crew: int)"
    cold, warm = (engines.run("aded", model, prompt, params={"corpus": corpus}) for corpus in ("none", "store"))
    assert warm.output_ids == cold.output_ids and warm.totals.forwards < cold.totals.forwards
    assert warm.steps[0].facts["table_size"] > 1000 > cold.steps[0].facts["table_size"]
    assert any(entry.source == "corpus" for step in warm.steps for entry in step.memory)
    with pytest.raises(engines.UserError, match="no store in the tokens of table"):
        engines.run("aded", TableCausal(), [1, 2, 3], params={"corpus": "store"})


def test_the_record_shows_the_pairs_read_and_taught():
    trace = decode(TableCausal(memory=1, vocab_size=5), window=4)
    text = trace.header.prompt_ids + trace.output_ids
    for step in trace.steps:
        tree, before = step.tree, text[: step.tree.start + 1]
        assert {tuple(m.key) for m in step.memory if m.written} == set(itertools.pairwise(before[-4:-1]))
        assert any(m.read for m in step.memory) == (len(tree.tokens) > 1)
        for m in step.memory:
            assert (
                m.source == "adapted"
                and m.weights == sorted(m.weights, reverse=True)
                and len(m.tokens) == len(m.weights) > 0
            )
            assert not (m.read and m.key == before[-2:]) or set(m.tokens) >= {tree.tokens[1]}
    assert not any(step.memory for step in decode(TableCausal(), increment=0.0).steps)


def test_what_was_learnt_stands_beside_what_was_loaded():
    """A copy of the weights keeps what the table was; the same search in it is the baseline, with the same numbers
    drawn."""
    model = engines.load_model("tiny-ar-m", dtype="float32")
    prompt = "python: class Boat(name: str, speed: int, crew: int)"
    trace = engines.run("aded", model, prompt, params={"corpus": "store", "max_new_tokens": 40})
    plain = engines.run("aded", model, prompt, params={"corpus": "store", "max_new_tokens": 40, "increment": 0.0})
    assert "table_search" in trace.header.records
    learnt = 0
    for step in trace.steps:
        search = step.records["table_search"]
        text = (trace.header.prompt_ids + trace.output_ids)[: step.tree.start + 1]
        assert search["pair"] == text[-2:] and search["tokens"][0] == text[-1]
        assert all(w >= old >= 0 for w, old in zip(search["weights"], search["loaded"], strict=True))
        assert len(search["ends"]) == len(search["scores"]) == len(search["rollouts"]) in (0, 60)
        assert all(len(path) <= 4 for path in search["fixed"])
        learnt += search["weights"] != search["loaded"]
    assert learnt > 3
    for step in plain.steps:
        search = step.records["table_search"]
        assert search["weights"] == search["loaded"]
        paths = {tuple(path[: n + 1]) for path in search["fixed"] for n in range(min(len(path), search["room"]))}
        assert len(paths) == len(step.tree.tokens) - 1  # nothing was learnt, so the baseline is the run itself
    short = decode(TableCausal(memory=1), prompt=[1], max_new_tokens=3)
    assert "table_search" not in short.steps[0].records and "table_search" in short.steps[1].records


# --- the search


@pytest.mark.parametrize("reward", ["intended", "released"])
def test_visits_of_children_sum_to_their_parents(reward):
    table = filled()
    nodes = search(table, [1, 2], 200, 3, uniforms(), reward=reward)
    assert nodes[0].visits == 200 and max(len(node.path) for node in nodes) == 3
    for node in nodes:
        below = sum(child.visits for child in node.children)
        assert below <= node.visits <= below + 1 or not node.children
        text = [1, 2, *node.path]
        assert [child.path[-1] for child in node.children] in ([], [c for c, _ in table.successors(text)])


def test_each_iteration_is_told_with_what_it_gained():
    table, done = filled(), []
    nodes = search(table, [1, 2], 50, 3, uniforms(), done=done)
    assert len(done) == 50
    for iteration in done:
        text = [1, 2, *iteration.node.path, *iteration.rollout]
        weights = [table.weight(*text[i : i + 3]) for i in range(len(text) - 2)]
        assert iteration.score == pytest.approx(1 + sum(weights)) and all(weights) and len(text) <= 5
    assert nodes[0].score == pytest.approx(sum(iteration.score for iteration in done))


def test_many_iterations_rank_the_roots_successors_by_weight():
    table = Table()
    table.weights = {(0, 0): {1: 0.5, 2: 0.3, 3: 0.15, 4: 0.05}}
    for reward in ("intended", "released"):
        nodes = search(table, [0, 0], 1000, 3, uniforms(), reward=reward)
        assert [node.path for node in sorted(nodes[1:], key=lambda node: -node.visits)] == [[1], [2], [3], [4]]
    assert nodes[1].visits / nodes[2].visits == pytest.approx(0.5 / 0.3, abs=0.1)  # all values equal: the prior alone


@pytest.mark.parametrize("limit", [1, 2, 5, 16, 64])
def test_drafts_are_distinct_paths_of_the_table_within_the_limit(limit):
    table, text = filled(), [0, 1, 2]
    paths = drafts(table, search(table, text[-2:], 100, 3, uniforms()), text[-2:], 24)
    assert len(paths) == 23 and all(2 <= len(path) <= 4 for path in paths)
    left = trim([*paths, paths[0]], limit)
    assert len(set(map(tuple, left))) == len(left) and sum(len(set(path)) for path in left) <= limit
    for room in (0, 1, 9):
        draft = merge(table, text, left, room)
        assert max(draft.depths()) <= room
        for row in range(1, len(draft)):
            a, b = [*text, *draft.path(draft.parents[row])][-2:]
            assert draft.chances[row] == pytest.approx(
                table.weights[a, b][draft.tokens[row]] / sum(table.weights[a, b].values())
            )
        for below in children(draft.parents):
            assert len({draft.tokens[row] for row in below}) == len(below)


# --- above temperature 0


def test_the_first_token_of_a_step_has_the_targets_distribution():
    """And the released rule, the argmax as the first token of a step, has not: the control."""
    V, rng = 5, torch.Generator().manual_seed(1)
    table, text = filled(vocab_size=V), [0, 1, 2]
    draft = merge(table, text, trim(drafts(table, search(table, text[-2:], 60, 3, uniforms()), text[-2:], 8), 16), 9)
    z = torch.randn(len(draft), V, generator=rng)
    counts, released = torch.zeros(V), torch.zeros(V)
    for _ in range(2000):
        verdict = verify(z, draft, 1.0, rng)
        counts[draft.tokens[verdict.path[1]] if len(verdict.path) > 1 else verdict.emitted] += 1
        released[z[0].argmax()] += 1
    assert chi_square_p(counts, distribution(z[0], 1.0)) > 1e-3 > 1e-6 > chi_square_p(released, distribution(z[0], 1.0))


def test_a_step_without_drafts_says_why():
    notes = {}
    for step in decode(TableCausal(memory=1, vocab_size=5)).steps:
        if len(step.tree.tokens) == 1:
            notes[bool(step.facts["successors"])] = step.note
    assert notes[False] == "The table has no entry for this pair; one token from the target."
    last = decode(TableCausal(memory=1, vocab_size=5), prompt=[*range(5)] * 4, learn_from_prompt=True, max_new_tokens=1)
    assert last.steps[0].note == "One token is left to write, so nothing is drafted; one token from the target."
