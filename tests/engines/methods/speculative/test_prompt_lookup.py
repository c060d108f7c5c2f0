"""Prompt lookup: transformers' own candidates at its settings, and spans that say what was copied."""

import numpy as np
import pytest
import torch
from transformers.generation.candidate_generator import PromptLookupCandidateGenerator

import engines
from engines.core.params import Params
from engines.methods.speculative._retrieval import find, fuse, trie
from engines.methods.speculative._verify import Draft
from engines.methods.speculative.prompt_lookup import look_up
from tests.engines.fakes import TableCausal


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


def test_matches_are_earlier_places_that_end_as_the_text_does_and_several_make_one_tree():
    ids = [3, 1, 2, 4, 1, 2, 0, 2, 1, 2]
    found = find(np.array(ids), ids, 2, 1, 3, frozenset())
    assert [(m.start, m.n, m.tokens) for m in found] == [(3, 2, (4, 1, 2)), (6, 2, (0, 2, 1))]
    assert find(np.array(ids), ids, 3, 3, 3, frozenset()) == find(np.array([7]), [7], 2, 1, 3, frozenset()) == []
    assert look_up(ids, settings(order="newest"), 3, frozenset())[0].start == 6
    assert [m.start for m in look_up(ids, settings(matches=4), 3, frozenset())] == [3, 6]
    draft = Draft(9)
    fuse(draft, trie([(4, 1, 2), (4, 0), (4, 1)]))
    assert (draft.tokens, draft.parents) == ([9, 4, 1, 2, 0], [-1, 0, 1, 2, 1])


def test_a_text_that_repeats_itself_is_copied_and_the_spans_say_from_where():
    """A distribution of the last token runs into a cycle, which is then copied a whole match at a time."""
    params = {"max_new_tokens": 30, "length": 10, "matches": 3}
    trace = engines.run("prompt-lookup", TableCausal(vocab_size=5, memory=1, seed=3), [1, 2, 3, 1, 2], params=params)
    assert trace.totals.forwards < 15 and max(step.facts["accepted"] for step in trace.steps) > 5
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
