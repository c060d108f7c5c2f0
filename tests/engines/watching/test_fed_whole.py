"""Texts that are fed whole in every call, without a cache, with guesses behind them: the first guess that the next call
does not repeat was refused, and the token there is the model's."""

from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import engines
from tests.engines.watching.strangers import PLAIN, followed, said, tiny, written

PROMPT = [5, 6, 7, 8, 9, 10]


@pytest.fixture(scope="module")
def model():
    return tiny()


@pytest.fixture(scope="module")
def oracle():
    """The same network, which nobody watches."""
    return tiny()


@torch.no_grad()
def best(model, text):
    """The likeliest token behind every row."""
    return model(torch.tensor([text]), use_cache=False).logits[0].argmax(-1).tolist()


def greedy(oracle, text, n):
    """The next n tokens."""
    text = list(text)
    for _ in range(n):
        text.append(best(oracle, text)[-1])
    return text[len(text) - n :]


@dataclass
class Guessing:
    """Greedy decoding with guesses behind the text, which is fed whole. plan: of each call how many guesses are right
    and how many there are; jacobi: the guesses are what the call before said behind the first wrong one, and the plan
    says how many there are at least. first: whether the prompt is fed alone before. kept: guesses kept in each call."""

    plan: list[tuple[int, int]]
    first: bool
    jacobi: bool = False
    kept: list[int] = field(default_factory=list)

    def __call__(self, model, oracle, prompt):
        text, said = list(prompt), []
        if self.first:
            text.append(best(model, text)[-1])
        for right, size in self.plan:
            known = said if self.jacobi else greedy(oracle, text, min(right, size))
            guesses = [*known, *[3] * (size - len(known))]
            said = best(model, text + guesses)[len(text) - 1 :]
            n = next((i for i, guess in enumerate(guesses) if guess != said[i]), len(guesses))
            text, said = [*text, *guesses[:n], said[n]], said[n + 1 :]
            self.kept.append(n)
        return text


def is_read(trace, prompt, text, kept):
    """Asserts that each token was written once, at its place, and `kept` of them were drafted."""
    assert trace.end.reason == "complete", trace.end.message
    assert trace.header.prompt_ids == prompt and prompt + trace.output_ids == text
    found = written(trace)
    assert [(p, t) for p, t, _ in found] == list(enumerate(text))[len(prompt) :]
    assert [cause for _, _, cause in found].count("accepted") == kept
    assert {cause for _, _, cause in found} <= {"written", "accepted", "correction", "bonus"}


def read_as_written(model, oracle, loop, prompt, *, cut=0, alone=False, detail="full"):
    """Watches a loop whose answer is cut by some tokens, those of its last call at most, and holds the trace against
    it."""
    told = {} if loop.first else {"prompt": prompt}
    with engines.watch(model, detail=detail, **told) as seen:
        text = loop(model, oracle, prompt)
    cut = min(cut, loop.kept[-1] + 1)
    text = text[: len(text) - cut]
    if len(text) == len(prompt):
        return
    out = torch.tensor([text[len(prompt) if alone else 0 :]])
    trace = seen.trace(out)
    is_read(trace, prompt, text, sum(loop.kept) - max(0, cut - 1))
    assert seen.trace(out) == trace


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("jacobi", [True, False])
@pytest.mark.parametrize("cut", [0, 2])
@pytest.mark.parametrize("alone", [True, False])
def test_guesses_behind_a_text_that_is_fed_anew_each_time(model, oracle, first, jacobi, cut, alone):
    loop = Guessing([(2, 3), (0, 3), (3, 3), (1, 4), (0, 0), (2, 2)], first, jacobi)
    read_as_written(model, oracle, loop, PROMPT, cut=cut, alone=alone)
    assert jacobi or loop.kept == [2, 0, 3, 1, 0, 2]


LOOPS = st.builds(
    Guessing,
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=6),
    st.booleans(),
    st.booleans(),
)
PROMPTS = st.lists(st.integers(3, 38), min_size=1, max_size=7)
RUNS = (LOOPS, PROMPTS, st.integers(0, 5), st.booleans(), st.sampled_from(["full", "light"]))


@given(*RUNS)
@settings(PLAIN, max_examples=100)
def test_every_loop_of_guesses_is_read_as_it_wrote(model, oracle, loop, prompt, cut, alone, detail):
    read_as_written(model, oracle, loop, prompt, cut=cut, alone=alone, detail=detail)


@pytest.mark.loops
@given(*RUNS)
@settings(PLAIN, max_examples=10_000)
def test_many_loops_of_guesses_are_read_as_they_wrote(model, oracle, loop, prompt, cut, alone, detail):
    read_as_written(model, oracle, loop, prompt, cut=cut, alone=alone, detail=detail)


@pytest.mark.parametrize("detail", ["full", "light"])
@pytest.mark.parametrize("at", [0, 2])
def test_what_the_loop_puts_behind_its_text_was_not_drafted(model, detail, at):
    """Another turn, of which all stays and which the model would not have written."""

    def loop():
        text = list(PROMPT)
        for turn in range(5):
            text.append(best(model, text)[-1])
            text += [20, 21, 22] if turn == at else []
        return torch.tensor([text])

    trace, _ = followed(model, loop, detail=detail)
    assert [cause for _, _, cause in written(trace)] == [
        "written" if place < at + 1 or place > at + 3 else "constraint" for place in range(8)
    ]
    assert "put in by the loop" in said(trace) and "prompt in pieces" not in said(trace)
    assert trace.header.prompt_ids == PROMPT and len(trace.steps) == 5


def test_guesses_that_were_all_kept_are_drafts_where_others_were_refused(model):
    """Sampled ones, which the model would not have written first."""
    calls = [PROMPT, [*PROMPT, 20, 21, 22], [*PROMPT, 20, 21, 22, 23, 24, 25], [*PROMPT, 20, 21, 22, 23, 30, 31]]
    with engines.watch(model) as seen:
        for text in calls:
            best(model, text)
    found = [cause for _, _, cause in written(seen.trace([*PROMPT, 20, 21, 22, 23, 30, 31, 32]))]
    assert found == ["written", "accepted", "accepted", "bonus", "correction", "accepted", "bonus"]


def test_a_first_guess_that_no_forward_wrote_is_a_guess(model, oracle):
    """Jacobi decoding whose guesses are drawn, behind a prompt that was fed alone for its keys or for nothing."""
    loop = Guessing([(0, 4)] * 6, False, jacobi=True)
    with engines.watch(model) as seen:
        best(model, PROMPT)
        text = loop(model, oracle, PROMPT)
    is_read(seen.trace([text]), PROMPT, text, sum(loop.kept))


@torch.no_grad()
def by_trees(model, oracle, prompt, known, told=True):
    """A draft tree of two branches behind the text; known: whether the call tells its mask. Returns the text and the
    rows kept in each call."""
    text, kept, above = list(prompt), [], [-1, 0, 0, 1, 2]
    for wanted in (2, 1, 0, 2):
        right, n = greedy(oracle, text, 3), len(text)
        guesses = {2: [4, right[0], 3, right[1]], 1: [right[0], 4, 3, 3], 0: [4, 3, 3, 3]}[wanted]
        sees = torch.ones(n + 4, n + 4).tril().bool()
        sees[n:, n:] = False
        for row, parent in enumerate(above[1:], n):
            sees[row] = sees[n - 1 + parent]
            sees[row, row] = True
        mask = torch.zeros(1, 1, n + 4, n + 4).masked_fill_(~sees, torch.finfo(torch.float32).min)
        at = torch.cat([torch.arange(n), n + torch.tensor([0, 0, 1, 1])])[None]
        more = {"attention_mask": mask} if known else {}
        model(torch.tensor([text + guesses]), position_ids=at, use_cache=False, **more)
        text, kept = text + right[: wanted + 1], [*kept, wanted]
    return text, kept


def test_a_tree_behind_a_text_that_is_fed_whole(model, oracle):
    with engines.watch(model, prompt=PROMPT) as seen:
        text, kept = by_trees(model, oracle, PROMPT, True)
    trace = seen.trace([text])
    is_read(trace, PROMPT, text, sum(kept))
    assert [step.tree.parents for step in trace.steps] == [[-1, 0, 0, 1, 2]] * 4
    assert [sum(step.tree.accepted) - 1 for step in trace.steps] == kept
    with engines.watch(model, prompt=PROMPT) as seen:
        by_trees(model, oracle, PROMPT, False)
    assert "say how the drafts hang together" in seen.trace().end.message


def test_a_text_that_is_taken_back_is_no_refused_guess(model):
    with engines.watch(model) as seen:
        for text in (PROMPT, [*PROMPT, 20], [*PROMPT, 20, 21], [*PROMPT, 20, 22], [*PROMPT, 20]):
            best(model, text)
    trace = seen.trace([*PROMPT, 20, 23])
    found = [(p, t) for p, t, _ in written(trace)]
    assert found == [(6, 20), (7, 21), (7, -1), (7, 22), (7, -1), (7, 23)]
    assert trace.end.reason == "complete"


def test_an_output_that_begins_with_the_prompt_is_not_all_answer(model, oracle):
    """The first call held guesses, and nobody said so."""
    loop = Guessing([(1, 3)], False)
    with engines.watch(model) as seen:
        text = loop(model, oracle, PROMPT)
    trace = seen.trace([text])
    assert "tokens" in trace.header.missing and "say prompt=" in said(trace)
    assert not written(trace)
