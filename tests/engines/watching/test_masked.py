"""Watched loops over a board with masks: what is read off them is what our own engines commit, step by step."""

import copy

import numpy as np
import pytest
import torch
from accelerate.hooks import AlignDevicesHook, add_hook_to_module

import engines
from engines.models.adapters.masked import HFMaskedLM
from tests.engines.fakes import lane
from tests.engines.watching import strangers
from tests.engines.watching.conftest import BLOCK, PROMPT, G, board, by_step, same_commits
from tests.engines.watching.strangers import FastDllm, Llada, followed


def llada(network, ids, mask_id, steps=8, **more):
    return strangers.llada(network, ids, length=G, block=BLOCK, steps=steps, mask_id=mask_id, **more)


def run_llada(dlm, **more):
    params = {"max_new_tokens": G, "block_length": BLOCK, "steps": 8, "cache": "none", **more}
    return engines.run("llada", dlm, PROMPT, params=params)


def test_a_loop_like_llada_shows_the_commits_of_ours(dlm, network, ids):
    """At light it keeps what was written alone; and the results are the same bits."""
    told = {"mask_id": dlm.mask_id, "tokenizer": dlm.tokenizer}
    bare = llada(network, ids, dlm.mask_id)
    trace, out = followed(network, lambda: llada(network, ids, dlm.mask_id), **told)
    ours = run_llada(dlm)
    same_commits(trace, ours)
    assert torch.equal(bare, out) and trace.header.canvas == ours.header.canvas and trace.text == ours.text
    for mine, theirs in zip(ours.steps, trace.steps, strict=True):
        for name in ("confidence", "entropy"):
            assert lane(theirs, name) == pytest.approx(lane(mine, name), abs=0.03)
        np.testing.assert_array_equal(mine.candidates.tokens.array()[:, 0], theirs.candidates.tokens.array()[:, 0])
    assert trace.totals.forwards == 8 and trace.totals.model_seconds > 0
    assert {"params", "seed"} <= set(trace.header.missing) and "tokens" not in trace.header.missing
    assert "distribution of token i:" in trace.header.departures  # found out, and said
    light, _ = followed(network, lambda: llada(network, ids, dlm.mask_id), detail="light", **told)
    assert by_step(light) == by_step(trace)
    assert not any(s.scores or s.candidates or s.commits.probabilities for s in light.steps)


@pytest.fixture(scope="module")
def flat(dlm):
    """The same weights as a model whose row i is the distribution of token i: it writes nonsense, token by token."""
    return HFMaskedLM(dlm.model, dlm.tokenizer, dlm.record, dlm.eos_ids, mask_id=dlm.mask_id)


@pytest.mark.parametrize("length", [4, 8, 9, 16])
@pytest.mark.parametrize("cut", [0, 3])
def test_an_answer_alone_may_be_shorter_than_its_prompt(dlm, network, ids, length, cut):
    """Also cut off behind its end. With nine tokens it is as long as the prompt."""
    with engines.watch(network, mask_id=dlm.mask_id) as seen:
        out = strangers.llada(network, ids, length=length, block=length, steps=length, mask_id=dlm.mask_id)
    answer = out[0, ids.shape[1] : out.shape[1] - cut]
    trace = seen.trace(answer)
    assert "tokens" not in trace.header.missing and trace.output_ids[: len(answer)] == answer.tolist()
    assert by_step(trace)[:-1] == by_step(seen.trace(out))[:-1]


@pytest.mark.parametrize("cache", ["prefix", "dual"])
def test_a_part_behind_a_cache_is_put_where_it_belongs(flat, ids, cache):
    module, x = FastDllm(flat), board(ids, flat)
    how = {"block": BLOCK, "threshold": 0.99999, "mask_id": flat.mask_id, "dual": cache == "dual"}
    trace, _ = followed(
        module, lambda: strangers.fast_dllm(module, x, ids.shape[1], **how), mask_id=flat.mask_id, kind="masked"
    )
    params = {"max_new_tokens": G, "block_length": BLOCK, "threshold": 0.99999, "cache": cache}
    ours = engines.run("threshold", flat, PROMPT, params=params)
    same_commits(trace, ours)
    spans, wanted = (
        [[(s.start, s.end) for s in step.spans if s.kind == "cache"] for step in one.steps] for one in (trace, ours)
    )
    assert any(spans) and spans == wanted
    assert [s.tokens_fed for s in trace.steps] == [s.tokens_fed for s in ours.steps]


@pytest.mark.parametrize("length", [BLOCK, G])
def test_a_part_without_a_word_on_its_place_is_put_where_it_alone_fits(flat, ids, length):
    module, a = FastDllm(flat), ids.shape[1]
    x, b = board(ids, flat)[:, : a + length], a + BLOCK
    where = torch.zeros_like(x, dtype=torch.bool)
    where[:, a:b] = True
    with engines.watch(module, mask_id=flat.mask_id, kind="masked") as seen:
        out = module(x, use_cache=True)
        x[0, a] = 7
        module(x[:, a:b], past_key_values=out.past_key_values, use_cache=True, where=where)
        x[0, a + 1] = 8
    trace = seen.trace(x)
    if length == BLOCK:
        assert by_step(trace) == [[(a, 7)], [(a + 1, 8)]]
    else:  # it could stand anywhere among the masks
        assert by_step(trace) == [[], [(a, 7), (a + 1, 8)]]
        assert "which ones cannot be seen" in trace.steps[1].note and not trace.steps[1].scores


def test_shift_is_found_out_or_told(dlm, ids):
    module = torch.nn.Module()  # row i predicts token i + 1, as Dream's does
    module.inner = dlm.model
    module.forward = lambda x: dlm.model(x).logits

    def loop():
        y = board(ids, dlm)
        while (y == dlm.mask_id).any():
            z = module(y)
            z = torch.cat([z[:, :1], z[:, :-1]], 1)
            z[..., dlm.mask_id] = -torch.inf
            p, best = z.softmax(-1).max(-1)
            at = torch.where(y == dlm.mask_id, p, -1.0).argmax()
            y[0, at] = best[0, at]
        return y

    found, _ = followed(module, loop, mask_id=dlm.mask_id)
    said, _ = followed(module, loop, mask_id=dlm.mask_id, shift=True)
    assert "distribution of token i + 1" in found.header.departures
    assert [s.scores for s in found.steps] == [s.scores for s in said.steps]
    assert all(min(s.commits.probabilities) > 0.1 for s in found.steps if s.commits)
    with engines.watch(module, mask_id=dlm.mask_id) as idle:
        module(board(ids, dlm))
    assert "did not show itself" in idle.trace(board(ids, dlm)).header.departures


def test_guidance_is_one_answer_whose_chances_are_not_known(dlm, network, ids):
    trace, _ = followed(network, lambda: llada(network, ids, dlm.mask_id, scale=1.0), mask_id=dlm.mask_id)
    assert by_step(trace) == by_step(run_llada(dlm, cfg_scale=1.0))
    assert all(not step.commits.probabilities for step in trace.steps)
    assert "guidance" in trace.header.departures and "distribution of token i:" in trace.header.departures
    assert trace.steps[0].tokens_fed == 2 * (ids.shape[1] + G)


def test_guidance_in_two_calls_is_one_step_and_remasking_and_changing_show(dlm, network, ids):
    x, p = board(ids, dlm), ids.shape[1]
    blind = x.clone()
    blind[:, :p] = dlm.mask_id
    with engines.watch(network, mask_id=dlm.mask_id) as seen:
        for place in range(2):
            network(x)
            network(blind)
            x[0, p + place] = blind[0, p + place] = 5
    trace = seen.trace(x)
    assert [s.forwards for s in trace.steps] == [{"model": 2}] * 2 and by_step(trace) == [[(p, 5)], [(p + 1, 5)]]
    x = board(ids, dlm)
    with engines.watch(network, mask_id=dlm.mask_id) as seen:
        for tokens in ([9, 9], [dlm.mask_id, 11], [dlm.mask_id, 11, 12]):
            network(x)
            x[0, p : p + len(tokens)] = torch.tensor(tokens)
    found = [list(s.commits.causes) for s in seen.trace(x).steps]
    assert found == [["filled", "filled"], ["remasked", "changed"], ["filled"]]


def test_a_batch_has_a_trace_for_each_prompt(dlm, network):
    both = torch.tensor([dlm.tokenizer.encode_prompt(f"sort: {names}") for names in ("Mia, Leo, Ada", "Leo, Mia, Ada")])
    with engines.watch(network, mask_id=dlm.mask_id) as seen:
        out = llada(network, both, dlm.mask_id)
    for row, trace in enumerate(seen.traces(out)):
        alone, _ = followed(network, lambda k=row: llada(network, both[k : k + 1], dlm.mask_id), mask_id=dlm.mask_id)
        assert by_step(trace) == by_step(alone)
    with pytest.raises(engines.UserError, match="2 prompts were decoded at once"):
        seen.trace(out)


def test_inference_mode_bf16_and_a_model_that_accelerate_has_put_on_devices(dlm, ids):
    low = Llada(copy.deepcopy(dlm.model).to(torch.bfloat16))
    with torch.inference_mode():
        trace, out = followed(low, lambda: llada(low, ids, dlm.mask_id), mask_id=dlm.mask_id)
    assert torch.equal(out, llada(low, ids, dlm.mask_id))
    assert trace.header.models[0].dtype == "bfloat16" and len(trace.steps) == 8
    placed = copy.deepcopy(dlm.model)
    add_hook_to_module(placed, AlignDevicesHook(execution_device="cpu", io_same_device=True))  # as a device_map does
    trace, _ = followed(placed, lambda: llada(placed, ids, dlm.mask_id, steps=4), mask_id=dlm.mask_id, shift=True)
    assert len(trace.steps) == 4 and all(step.commits and step.scores for step in trace.steps)


@pytest.mark.exhaustive
def test_a_compiled_module_is_watched_from_outside_or_refused(dlm, network, ids):
    compiled = torch.compile(network, backend="eager")
    with engines.watch(compiled, mask_id=dlm.mask_id) as seen:
        out = llada(compiled, ids, dlm.mask_id, steps=4)
    assert len(seen.trace(out).steps) == 4
    inner = torch.nn.Linear(2, 2)
    inner.compile(backend="eager")
    with pytest.raises(engines.UserError, match="compiled in place"), engines.watch(inner, mask_id=0):
        pass
    assert not inner._forward_hooks


def test_a_board_that_grows_block_by_block(network):
    """The whole text and the next block are fed; behind a cache see test_blocks."""
    text, mask, wrote = [3, 4, 5], 31, []
    with torch.no_grad(), engines.watch(network, mask_id=mask, kind="masked", shift=False) as seen:
        for _ in range(2):
            block = [mask] * 4
            for place in range(4):
                z = network(torch.tensor([text + block])).logits
                block[place] = int(z[0, place - 4, :mask].argmax()) if place % 2 else 7 + place
                wrote.append([(len(text) + place, block[place])])
            text += block
    trace = seen.trace(text)
    assert trace.end.reason == "complete", trace.end.message
    assert trace.header.prompt_ids == text[:3] and trace.header.canvas == 11
    assert [one for one in by_step(trace) if one] == wrote and trace.output_ids == text[3:]
