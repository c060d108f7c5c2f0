"""A watched loop has no engine: a fork says so, and a method takes over from its board."""

import pytest
import torch

import engines
from engines.driver.watched import board_after, nearest_method
from tests.engines.watching import strangers
from tests.engines.watching.conftest import PROMPT

G, BLOCK = 32, 16  # long enough that something is left when a second method takes over


@pytest.fixture(scope="module")
def watched(dlm, network, ids):
    with engines.watch(network, mask_id=dlm.mask_id, tokenizer=dlm.tokenizer) as seen:
        out = strangers.llada(network, ids, length=G, block=BLOCK, steps=16, mask_id=dlm.mask_id)
    return seen.trace(out)


@pytest.fixture(scope="module")
def text():
    model = engines.load_model("tiny-ar-m")
    with engines.watch(model) as seen:
        ids = torch.tensor([model.tokenizer.encode_prompt(PROMPT)])
        out = model.model.generate(ids, max_new_tokens=8, do_sample=False, eos_token_id=sorted(model.eos_ids))
    return seen.trace(out)


def test_a_fork_without_a_method_says_why_and_what_is_nearest(watched, text):
    for trace in (watched, text):
        near = nearest_method(trace)
        assert near.kind == trace.header.models[0].kind and near.baseline is None  # one token or two in every step
        with pytest.raises(engines.UserError, match=f"no engine here.*method='{near.slug}'"):
            engines.fork(trace, 1)
        with pytest.raises(engines.UserError, match="watched in a loop that has no engine here"):
            engines.run(trace.header.method, "tiny-dlm", PROMPT)


@pytest.mark.parametrize("step", [0, 3])
def test_a_method_takes_over_from_the_board(watched, dlm, step):
    fork = engines.fork(watched, step, method="threshold", model=dlm)
    start, board = len(fork.header.prompt_ids), board_after(watched, step)
    known = {p: token for p, token in enumerate(board) if p >= start and token != dlm.mask_id}
    assert len(known) == 2 * step and all(fork.output_ids[p - start] == token for p, token in known.items())
    assert fork.steps[:step] == watched.steps[:step]  # what the loop did is part of it, with what it cost
    assert fork.totals.forwards == step + len(fork.steps[step:]) and list(fork.totals.forwards_by_role) == ["model"]
    own = [p for one in fork.steps[step:] if one.commits for p in one.commits.positions]
    assert sorted([*own, *known]) == list(range(start, start + G))
    assert fork.header.canvas == watched.header.canvas and fork.header.method == watched.header.method
    assert (fork.header.origin.step, fork.header.origin.trace) == (step, engines.digest(watched))
    assert engines.read_trace(fork.to_json()) == fork
    if step:
        again = engines.fork(fork, step + 1, method="llada", params={"steps": 0}, model=dlm)
        assert again.steps[: step + 1] == fork.steps[: step + 1]
    else:
        assert fork.output_ids == engines.run("threshold", dlm, PROMPT, params={"max_new_tokens": G}).output_ids


def test_a_board_may_be_changed_before_it_is_taken_over(watched, dlm):
    start, board = len(watched.header.prompt_ids), board_after(watched, 4)
    hidden = next(p for p in range(start, len(board)) if board[p] != dlm.mask_id)
    edit = engines.Edit(force={start + 1: 77}, remask=[hidden])
    fork = engines.fork(watched, 4, edit=edit, method="threshold", model=dlm)
    first = fork.steps[4].commits
    assert fork.output_ids[1] == 77
    assert list(zip(first.positions, first.causes, strict=True))[:2] == [(start + 1, "forced"), (hidden, "remasked")]


def test_a_text_goes_on_and_its_model_is_found_by_name(text):
    near = nearest_method(text)
    fork = engines.fork(text, 2, method=near.slug)
    assert fork.steps[:2] == text.steps[:2] and len(fork.steps) == len(text.steps)
    assert fork.output_ids == text.output_ids and fork.header.models[0].name == "tiny-ar-m"
    sampled = engines.fork(text, 1, method="temperature", params={"temperature": 1.0})
    assert sampled.output_ids[:1] == text.output_ids[:1]


def test_what_cannot_take_over(watched, text, dlm):
    for trace, step, more, said in (
        (watched, 1, {"method": "greedy"}, "is for causal models"),
        (watched, 1, {"method": "threshold"}, "not available here"),  # a module of the test has no name here
        (text, 99, {"method": "greedy"}, "cannot be forked"),
        (watched, len(watched.steps), {"method": "threshold", "model": dlm}, "nothing is left to decode"),
    ):
        with pytest.raises(engines.UserError, match=said):
            engines.fork(trace, step, **more)
