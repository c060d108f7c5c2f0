"""Prompt lookup: transformers' own candidates at its settings, the greedy text, the exact distribution, and spans that
say what was copied."""

import numpy as np
import pytest
import torch
from transformers.generation.candidate_generator import PromptLookupCandidateGenerator

import engines
from engines.core.params import Params
from engines.core.sampling import distribution
from engines.methods.speculative._retrieval import find, fuse, trie
from engines.methods.speculative._verify import Draft, verify
from engines.methods.speculative.prompt_lookup import look_up
from tests.engines.fakes import TableCausal, board, chi_square_p

V = 5


def decode(model, slug="prompt-lookup", prompt=(1, 2, 3, 1, 2), **params):
    return engines.run(slug, model, list(prompt), params={"max_new_tokens": 30, **params})


def settings(longest=2, length=10, matches=1, order="first"):
    return Params(longest=longest, length=length, matches=matches, order=order)


@pytest.mark.parametrize("longest", [1, 2, 4])
@pytest.mark.parametrize("length", [1, 3, 10])
def test_the_candidates_are_those_of_transformers(longest, length):
    rng, found = np.random.default_rng(longest * 10 + length), 0
    for case in range(200):
        ids, eos = rng.integers(0, 6, size=rng.integers(1, 25)).tolist(), 5 if case % 2 else None
        theirs = PromptLookupCandidateGenerator(
            torch.tensor([eos]) if case % 2 else None, length, longest, max_length=1000
        )
        wanted = theirs.get_candidates(torch.tensor([ids]))[0][0, len(ids) :].tolist()
        ours = look_up(ids, settings(longest, length), length, frozenset({eos} if case % 2 else ()))
        assert [list(match.tokens) for match in ours] == ([wanted] if wanted else [])
        found += bool(wanted)
    assert 50 < found < 200


def test_matches_are_earlier_places_that_end_as_the_text_does():
    ids = [3, 1, 2, 4, 1, 2, 0, 2, 1, 2]
    assert [(m.start, m.n, m.tokens) for m in find(np.array(ids), ids, 2, 1, 3, frozenset())] == [
        (3, 2, (4, 1, 2)),
        (6, 2, (0, 2, 1)),
    ]
    assert find(np.array(ids), ids, 3, 3, 3, frozenset()) == []
    assert look_up(ids, settings(order="newest"), 3, frozenset())[0].start == 6
    assert [m.start for m in look_up(ids, settings(matches=4), 3, frozenset())] == [3, 6]
    assert find(np.array([7]), [7], 2, 1, 3, frozenset()) == []


def test_several_matches_make_one_tree():
    counts = trie([(4, 1, 2), (4, 0), (4, 1)])
    assert counts == {(4,): 3, (4, 1): 2, (4, 1, 2): 1, (4, 0): 1}
    draft = Draft(9)
    fuse(draft, counts)
    assert (draft.tokens, draft.parents) == ([9, 4, 1, 2, 0], [-1, 0, 1, 2, 1])


@pytest.mark.parametrize("matches", [1, 8])
@pytest.mark.parametrize("order", ["first", "newest"])
@pytest.mark.parametrize("memory", [1, 2, None])
def test_at_temperature_0_the_text_is_the_greedy_one(matches, order, memory):
    for seed, grid in ((0, None), (1, 3.0)):
        model = TableCausal(vocab_size=V, seed=seed, memory=memory, grid=grid, eos_ids=(4,) if seed else ())
        ours, plain = decode(model, matches=matches, order=order, longest=3), decode(model, "greedy")
        assert ours.output_ids == plain.output_ids == board(ours)
        assert ours.totals.forwards <= plain.totals.forwards


def test_a_text_that_repeats_itself_is_copied():
    """A distribution of the last token runs into a cycle, which is then copied a whole match at a time."""
    trace = decode(TableCausal(vocab_size=V, memory=1), length=10)
    assert trace.totals.forwards < 15 and max(step.facts["accepted"] for step in trace.steps) > 5


def test_the_spans_hold_what_was_copied():
    trace = decode(TableCausal(vocab_size=V, memory=1, seed=3), matches=3)
    text, seen = trace.header.prompt_ids, 0
    for step in trace.steps:
        for query, match in [(step.spans[0], span) for span in step.spans[1:]]:
            n = query.end - query.start
            assert query.end == len(text) and text[match.start - n : match.start] == text[query.start :]
            seen += 1
        if len(step.spans) == 2:
            assert step.tree.tokens[1:] == text[step.spans[1].start : step.spans[1].end]
        text = text + step.commits.tokens
    assert seen > 5


def test_a_whole_run_has_the_distribution_of_plain_sampling():
    """Two tokens behind a prompt whose end is found twice in it; and a verifier that keeps whatever was copied is found
    out."""
    model, prompt = TableCausal(vocab_size=V, memory=2, seed=4), [1, 2, 3, 0, 1, 2, 4, 4, 1, 2]
    p1 = distribution(model.logits(prompt)[0].double(), 1.0)
    wanted = torch.stack(
        [p1[a] * distribution(model.logits([*prompt, a])[0].double(), 1.0) for a in range(V)]
    ).flatten()
    counts = torch.zeros(V * V)
    for seed in range(500):
        params = {"max_new_tokens": 2, "temperature": 1.0, "matches": 2}
        a, b = engines.run("prompt-lookup", model, prompt, params=params, seed=seed, detail="none").output_ids
        counts[a * V + b] += 1
    assert chi_square_p(counts, wanted) > 1e-3


def test_copies_tested_as_if_drawn_break_the_distribution():
    """Control: a copied token for which a draft distribution is made up."""
    rng, z = torch.Generator().manual_seed(0), TableCausal(vocab_size=V).logits([1, 2], [1, 3])
    counts = {"right": torch.zeros(V), "wrong": torch.zeros(V)}
    for name, distributions in (("right", {}), ("wrong", {0: torch.full((V,), 1 / V)})):
        for _ in range(2500):
            draft = Draft(2, distributions=distributions)
            draft.add(0, 3)
            verdict = verify(z, draft, 1.0, rng)
            counts[name][draft.tokens[verdict.path[1]] if len(verdict.path) > 1 else verdict.emitted] += 1
    assert (
        chi_square_p(counts["right"], distribution(z[0], 1.0))
        > 1e-3
        > 1e-6
        > chi_square_p(counts["wrong"], distribution(z[0], 1.0))
    )


def test_the_draft_ends_where_the_answer_does():
    model = TableCausal(vocab_size=V, memory=1, max_positions=35)
    trace = decode(model, length=20)
    assert len(trace.output_ids) == 30 and trace.end.reason == "complete"
