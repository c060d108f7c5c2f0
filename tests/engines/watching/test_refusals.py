"""Bad input of a watch: one sentence each, and what was recorded by then stays."""

import pytest
import torch

import engines
from tests.engines.watching import strangers
from tests.engines.watching.conftest import BLOCK, G, board, by_step


def test_a_model_without_logits(dlm, network, ids):
    with engines.watch(network.model, mask_id=dlm.mask_id) as seen:
        network(board(ids, dlm))
    with pytest.raises(engines.UserError, match="returned no logits"):
        seen.trace()
    head = torch.nn.Embedding(2048, 3)
    with engines.watch(head, mask_id=dlm.mask_id) as seen:
        head(board(ids, dlm))
    with pytest.raises(engines.UserError, match="returned no logits"):
        seen.trace()


def test_a_loop_that_never_calls_it(dlm, network):
    with engines.watch(network, mask_id=dlm.mask_id) as seen:
        pass
    with pytest.raises(engines.UserError, match="never called"):
        seen.trace()


def test_boards_of_changing_width(dlm, network, ids):
    x = board(ids, dlm)
    with engines.watch(network, mask_id=dlm.mask_id) as seen:
        network(x)
        x[0, ids.shape[1]] = 9
        network(x)
        network(x[:, :-1])
        network(x)
    trace = seen.trace(x)
    assert len(trace.steps) == 2 and trace.end.reason == "failed"
    assert "without a cache" in trace.end.message and by_step(trace)[0] == [(ids.shape[1], 9)]


def test_another_prompt_in_the_same_block(dlm, network, ids):
    x = board(ids, dlm)
    other = x.clone()
    other[0, 1] = 77
    with engines.watch(network, mask_id=dlm.mask_id) as seen:
        network(x)
        network(other)
    assert "another prompt began" in seen.trace().end.message


def test_rows_that_come_and_go(dlm, network, ids):
    x = board(ids, dlm)
    with engines.watch(network, mask_id=dlm.mask_id) as seen:
        network(x)
        network(x.repeat(3, 1))
    assert "fed 1 rows and then 3" in seen.trace(x).end.message


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
        ({"mask_id": 10**9}, "is not in the model's vocabulary"),
        ({"kind": "sideways"}, "is not known"),
        ({"mask_id": 1, "detail": "none"}, "full or at light"),
        ({"mask_id": 1, "tokenizer": 5}, "tokenizer is a int"),
    ],
)
def test_what_is_refused_before_the_loop(network, given, said):
    with pytest.raises(engines.UserError, match=said):
        engines.watch(**{"model": network, **given})


def test_what_is_no_module_is_refused():
    with pytest.raises(engines.UserError, match="no forwards to watch"):
        engines.watch("gpt2", mask_id=1)


def test_an_output_that_does_not_fit(dlm, network, ids):
    with engines.watch(network, mask_id=dlm.mask_id) as seen:
        network(board(ids, dlm))
    trace = seen.trace([1] * 500)
    assert "does not fit the board" in trace.header.departures and "tokens" in trace.header.missing
    with pytest.raises(engines.UserError, match="not their text"):
        seen.trace("ada, leo")


def test_a_mask_that_is_never_fed(dlm, network, ids):
    with engines.watch(network, mask_id=7) as seen:
        network(board(ids, dlm))
    trace = seen.trace(board(ids, dlm))
    assert "No position held the mask token 7" in trace.end.message and len(trace.steps) == 1


def test_a_loop_that_fails_keeps_what_was_seen(dlm, network, ids):
    x, calls = board(ids, dlm), []
    p = ids.shape[1]

    def fail(module, args):
        calls.append(1)
        if len(calls) == 3:
            raise RuntimeError("out of memory")

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


def test_a_watch_is_for_one_block(network, dlm, ids):
    seen = engines.watch(network, mask_id=dlm.mask_id)
    with seen:
        network(board(ids, dlm))
    with pytest.raises(engines.UserError, match="used already"), seen:
        pass
    assert not network._forward_hooks
