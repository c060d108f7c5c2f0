"""Bad input of a watch: one sentence each, and what was recorded by then stays."""

import pytest
import torch
from transformers import DynamicCache

import engines
from tests.engines.watching import strangers
from tests.engines.watching.conftest import BLOCK, G, board, by_step


def test_a_model_without_logits_or_one_that_is_never_called(dlm, network, ids):
    three = torch.nn.Embedding(2048, 3)
    for watched, called, said in (
        (network.model, network, "returned no logits"),
        (three, three, "returned no logits"),
        (network, lambda x: None, "never called"),
    ):
        with engines.watch(watched, mask_id=dlm.mask_id) as seen:
            called(board(ids, dlm))
        with pytest.raises(engines.UserError, match=said):
            seen.trace()


def test_boards_that_do_not_go_on(dlm, network, ids):
    x = board(ids, dlm)
    filled, other = x.clone(), x.clone()
    filled[0, ids.shape[1]], other[0, 1] = 9, 77
    for boards, steps, said in (
        ((x, filled, filled[:, :-1], filled), 2, "without a cache"),
        ((x, other), 1, "another prompt began"),
        ((x, x.repeat(3, 1)), 1, "fed 1 rows and then 3"),
    ):
        with engines.watch(network, mask_id=dlm.mask_id) as seen:
            for one in boards:
                network(one)
        trace = seen.trace(boards[-1] if steps == 2 else None)
        assert trace.end.reason == "failed" and said in trace.end.message and len(trace.steps) == steps
        assert steps < 2 or by_step(trace)[0] == [(ids.shape[1], 9)]


@pytest.mark.parametrize(("first", "then"), [(1, 3), (3, 1), (3, 2)])
@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("alike", [True, False])
def test_a_batch_that_grows_or_shrinks_speaks_of_prompts_where_there_are_several(first, then, cached, alike):
    """Contrastive search feeds one prompt and then its candidates, best-of-n leaves out what has ended."""
    model, cache = strangers.tiny(), DynamicCache() if cached else None
    rows = torch.tensor([[5 + (0 if alike else b), 6, 7, 8] for b in range(3)])
    with engines.watch(model) as seen, torch.no_grad():
        model(rows[:first], past_key_values=cache)
        if cached:
            cache.batch_repeat_interleave(then) if first == 1 else cache.batch_select_indices(torch.arange(then))
        more = torch.arange(20, 20 + then)[:, None]
        model(more if cached else torch.cat([rows[:then], more], 1), past_key_values=cache)
    fault = seen.traces()[0].end.message
    assert f"fed {first} rows and then {then}" in fault
    assert ("prompts" in fault) == (not alike and (first > 1 or not cached))


@pytest.mark.parametrize("alike", [True, False])
def test_boards_tried_side_by_side_are_no_prompts(dlm, network, ids, alike):
    x = board(ids, dlm)
    more = x.repeat(3, 1)
    if not alike:
        more[1, 0] = 77
    with engines.watch(network, mask_id=dlm.mask_id) as seen:
        network(x)
        network(more)
    assert ("prompts" in seen.trace().end.message) == (not alike)


def test_a_tokenizer_that_does_not_fit(dlm, network, ids):
    class Small:
        def __len__(self):
            return 4

        def encode(self, text):
            return [0]

        def decode(self, ids):
            return "".join("abcd"[i] for i in ids)

    with engines.watch(network, mask_id=dlm.mask_id, tokenizer=Small()) as seen:
        out = strangers.llada(network, ids, length=G, block=BLOCK, steps=4, mask_id=dlm.mask_id)
    trace = seen.trace(out)
    assert "does not fit this model" in trace.end.message and len(trace.steps) == 4


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"model": torch.nn.Linear(2, 2), "kind": "masked"}, "needs the id of its mask token"),
        ({"model": "gpt2", "mask_id": 1}, "no forwards to watch"),
        ({"mask_id": 10**9}, "is not in the model's vocabulary"),
        ({"kind": "sideways"}, "is not known"),
        ({"mask_id": 1, "detail": "none"}, "full or at light"),
        ({"mask_id": 1, "tokenizer": 5}, "tokenizer is a int"),
    ],
)
def test_what_is_refused_before_the_loop(network, given, said):
    with pytest.raises(engines.UserError, match=said):
        engines.watch(**{"model": network, **given})


def test_an_output_a_mask_or_a_second_block_that_does_not_fit(dlm, network, ids):
    watch = engines.watch(network, mask_id=dlm.mask_id)
    with watch as seen:
        network(board(ids, dlm))
    trace = seen.trace([1] * 500)
    assert "does not fit the board" in trace.header.departures and "tokens" in trace.header.missing
    with pytest.raises(engines.UserError, match="not their text"):
        seen.trace("ada, leo")
    with pytest.raises(engines.UserError, match="used already"), watch:
        pass
    with engines.watch(network, mask_id=7) as seen:
        network(board(ids, dlm))
    trace = seen.trace(board(ids, dlm))
    assert "No position held the mask token 7" in trace.end.message and len(trace.steps) == 1


def test_a_loop_that_fails_keeps_what_was_seen(dlm, network, ids):
    x, p = board(ids, dlm), ids.shape[1]
    calls = iter([None, None, RuntimeError("out of memory")])

    def fail(module, args):
        if error := next(calls):
            raise error

    handle = network.dream[0].register_forward_pre_hook(fail)  # inside the module that is watched
    seen = engines.watch(network, mask_id=dlm.mask_id)
    try:
        with pytest.raises(RuntimeError, match="out of memory"), torch.no_grad(), seen:
            for place in range(4):
                network(x)
                x[0, p + place] = 9
    finally:
        handle.remove()
    trace = seen.trace(x)
    assert by_step(trace) == [[(p, 9)], [(p + 1, 9)]] and not network._forward_hooks
    assert trace.end.reason == "failed" and "ended with RuntimeError: out of memory" in trace.end.message
    assert engines.read_trace(trace.to_json()) == trace
