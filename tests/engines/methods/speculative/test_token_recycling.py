"""Token Recycling: what each step gains, what the table is told to hold, and the exact distribution above
temperature 0."""

import itertools

import pytest
import torch

import engines
from engines.core.sampling import distribution
from engines.core.trees import children, from_child_counts, row_depths
from engines.methods.speculative._turn import Turn
from engines.methods.speculative._verify import Draft, verify, written
from engines.methods.speculative.token_recycling import TEMPLATES
from tests.engines.fakes import TableCausal, chi_square_p


def decode(model, slug="token-recycling", prompt=(1, 2, 3), **params):
    return engines.run(slug, model, list(prompt), params={"max_new_tokens": 40, **params})


# --- temperature 0


def test_what_is_fed_continues_the_text():
    """After every turn the cache holds exactly the text before the new root: gathered rows are the accepted ones."""
    model = TableCausal(memory=None, seed=2, vocab_size=4)
    trace = decode(model)
    text = trace.header.prompt_ids + trace.output_ids
    length = 3
    for step, (cached, fed) in zip(trace.steps, model.calls, strict=True):
        assert cached == text[: len(cached)]
        assert len(cached) + fed.index(step.tree.tokens[0], length - 1 - len(cached)) == length - 1
        length += len(step.commits.tokens)


@pytest.mark.parametrize("template", list(TEMPLATES))
def test_every_step_gains_and_never_more_than_the_depth_allows(template):
    depth = max(row_depths(from_child_counts(TEMPLATES[template])[0]))
    trace = decode(TableCausal(memory=1, vocab_size=5), template=template)
    for step in trace.steps:
        tree, gained = step.tree, len(step.commits.tokens)
        assert 1 <= gained <= depth + 1
        accepted = [row for row, yes in enumerate(tree.accepted) if yes]
        assert accepted[0] == 0 and all(tree.parents[b] == a for a, b in itertools.pairwise(accepted))
        assert len(tree.emitted) == len(accepted) and tree.emitted[:gained] == step.commits.tokens
        assert step.tokens_fed >= len(tree.parents) and sum(step.forwards.values()) == 1
    assert trace.totals.forwards < 40  # it does recycle


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_nothing_is_accepted_behind_an_end_mark(temperature):
    """Everything drafted is what the target would write, so without end marks all of it stays; with one the walk ends
    at it and draws nothing more."""
    chain = [5, 1, 7, 3]
    z = torch.full((4, 9), -1e4)
    z[torch.arange(4), torch.tensor([1, 7, 3, 2])] = 0.0
    draft = Draft.of(chain, [-1, 0, 1, 2], "matrix")
    whole = verify(z, draft, temperature, torch.Generator().manual_seed(0))
    assert written(draft, whole) == [1, 7, 3, 2] and whole.path == [0, 1, 2, 3]
    ended = verify(z, draft, temperature, torch.Generator().manual_seed(0), frozenset({7}))
    assert (
        written(draft, ended) == [1, 7] and ended.path == [0, 1, 2] and ended.emitted == -1 and ended.source == "draft"
    )
    root = verify(z, draft, temperature, torch.Generator().manual_seed(0), frozenset({5}))
    assert root.path == whole.path  # the root is text already


# --- the table


def test_the_record_shows_the_rows_read_and_written():
    for step in decode(TableCausal(memory=1)).steps:
        inner = {step.tree.tokens[parent] for parent in step.tree.parents[1:]}
        assert {m.key[0] for m in step.memory if m.read} == inner
        assert {m.key[0] for m in step.memory if m.written} >= set(step.tree.tokens)
        assert all(len(m.tokens) == 8 and m.source == "matrix" for m in step.memory)


def test_every_drafted_node_is_linked_to_the_cell_that_it_was_read_from():
    before: dict[int, list[int]] = {}  # rows of the table as earlier steps left them
    for step in decode(TableCausal(memory=1)).steps:
        tree, sources = step.tree, step.tree.guessed_from
        assert sorted(row for source in sources for row, _ in source.links) == list(range(1, len(tree.tokens)))
        for source in sources:
            assert all([tree.tokens[tree.parents[row]]] == source.key for row, _ in source.links)
            assert source.tokens == before.get(source.key[0], source.tokens)
            before[source.key[0]] = source.after
        before |= {m.key[0]: m.tokens for m in step.memory if m.written}


# --- above temperature 0: the exact distribution

PARENTS, TOKENS = [-1, 0, 0, 1, 1, 3], [9, 0, 2, 2, 1, 0]
V, STEPS = 4, 3000


def context(row):
    path = []
    while row > 0:
        path, row = [TOKENS[row], *path], PARENTS[row]
    return tuple(path)


LAW = TableCausal(vocab_size=V, memory=None, scale=1.0)  # a distribution for every path below the root


def p_after(path, temperature):
    return distribution(LAW.logits(list(path))[0], temperature)


def leaving_blocks(temperature):
    """Every block a step can give (a path and the token that leaves it) with its chance under plain sampling."""
    below, found = children(PARENTS), {}
    for row in range(len(PARENTS)):
        chance, path = 1.0, context(row)
        for i, token in enumerate(path):
            chance *= float(p_after(path[:i], temperature)[token])
        for token in range(V):
            if token not in [TOKENS[c] for c in below[row]]:
                found[(*path, token)] = chance * float(p_after(path, temperature)[token])
    return found


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_verification_keeps_the_exact_distribution(temperature):
    expected = leaving_blocks(temperature)
    assert abs(sum(expected.values()) - 1) < 1e-5
    z = LAW.logits(*(list(context(row)) for row in range(len(PARENTS))))
    rng, draft = torch.Generator().manual_seed(0), Draft.of(TOKENS, PARENTS, "matrix")
    counts = dict.fromkeys(expected, 0)
    for _ in range(STEPS):
        verdict = verify(z, draft, temperature, rng)
        counts[(*draft.path(verdict.path[-1]), verdict.emitted)] += 1
    assert chi_square_p(list(counts.values()), list(expected.values())) > 0.001


def test_a_round_that_the_limit_cut_claims_no_token_behind_its_drafts():
    draft = Draft(1, "table")
    draft.add(draft.add(0, 2), 3)
    z = torch.eye(6)[[2, 3, 4]]  # the model's own choices: both drafts, and 4 behind them
    verdict = verify(z, draft, 0.0, torch.Generator())
    told = {room: Turn([1], draft, verdict, z, z[:0], [2, 3, 4][:room], []).note() for room in (1, 2, 3)}
    assert told == {
        1: "2 of 2 drafted tokens accepted; the maximum length leaves room for 1 token.",
        2: "2 of 2 drafted tokens accepted; the maximum length leaves room for 2 tokens.",
        3: "2 of 2 drafted tokens accepted; the bonus token is the target's own.",
    }
