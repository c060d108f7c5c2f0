"""Logits that are NaN or infinite: the step says so, and no probability is one of them."""

import math

import pytest
import torch

import engines
from tests.engines.watching import strangers
from tests.engines.watching.conftest import BLOCK, G, board
from tests.engines.watching.strangers import tiny

BAD = [float("nan"), float("inf")]


def failing(model, calls, bad):
    """A hook under which these calls of the model give such logits."""
    count = iter(range(99))

    def hook(module, args, kwargs, out):
        if next(count) in calls:
            out.logits[..., 7] = bad

    return model.register_forward_hook(hook, with_kwargs=True)


def is_told(trace, steps):
    """Asserts that these steps say it, and that there is no number that is none."""
    assert [i for i, step in enumerate(trace.steps) if "NaN or infinite" in step.note] == steps
    told = [p for step in trace.steps if step.commits for p in step.commits.probabilities]
    assert all(p is None or 0 <= p <= 1 for p in told)
    assert not any(step.scores or step.candidates for i, step in enumerate(trace.steps) if i in steps)
    assert engines.read_trace(trace.to_json()) == trace


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("detail", ["full", "light"])
@pytest.mark.parametrize("rows", [1, 2])
def test_a_watched_forward_that_gave_no_numbers_is_named(bad, detail, rows):
    model, x = tiny(), torch.tensor([[5, 6, 7], [8, 9, 10]])[:rows]
    handle = failing(model, {1}, bad)
    with engines.watch(model, detail=detail) as seen, torch.no_grad():
        for _ in range(3):
            x = torch.cat([x, model(x, use_cache=False).logits[:, -1:].argmax(-1)], 1)
    handle.remove()
    for trace in seen.traces(x):
        is_told(trace, [1])
        known = [bool(step.commits.probabilities) for step in trace.steps]
        assert known == ([True, False, True] if detail == "full" else [False] * 3)


@pytest.mark.parametrize("bad", BAD)
def test_drafts_of_which_one_models_numbers_are_none(bad):
    model, draft, text = tiny(), tiny(), [5, 6, 7]
    handles = [failing(model, {1}, bad), failing(draft, {0}, bad)]
    with engines.watch({"target": model, "draft": draft}) as seen, torch.no_grad():
        for _ in range(3):
            guess = int(draft(torch.tensor([text]), use_cache=False).logits[0, -1].argmax())
            said = model(torch.tensor([[*text, guess]]), use_cache=False).logits[0, -2:].argmax(-1).tolist()
            text += [guess, said[1]] if said[0] == guess else said[:1]
    for handle in handles:
        handle.remove()
    trace = seen.trace([text])
    is_told(trace, [1])
    trees = [step.tree for step in trace.steps]
    known = [p for tree in trees for p in (*tree.draft_logprobs, *tree.target_logprobs) if p is not None]
    assert all(math.isfinite(p) for p in known)
    assert not trees[0].draft_logprobs and trees[0].target_logprobs and not trees[1].target_logprobs


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("detail", ["full", "light"])
def test_a_board_whose_numbers_are_none(dlm, network, ids, bad, detail):
    handle = failing(network, {1, 2}, bad)
    with engines.watch(network, mask_id=dlm.mask_id, detail=detail) as seen:
        out = strangers.llada(network, ids, length=G, block=BLOCK, steps=4, mask_id=dlm.mask_id)
    handle.remove()
    is_told(seen.trace(out), [1, 2])
    assert seen.trace(board(ids, dlm)).end.reason == "complete"
