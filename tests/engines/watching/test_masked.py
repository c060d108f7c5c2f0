"""Watched loops over a board with masks: what is read off them is what our own engines commit, step by step."""

import numpy as np
import pytest
import torch

import engines
from engines.models.adapters.masked import HFMaskedLM
from tests.engines.watching import strangers
from tests.engines.watching.conftest import BLOCK, PROMPT, G, board, by_step
from tests.engines.watching.strangers import FastDllm, Llada, Silent


def chances(trace):
    return [dict(zip(s.commits.positions, s.commits.probabilities, strict=True)) for s in trace.steps]


def lane(step, name):
    found = next(one for one in step.scores if one.name == name)
    return found.start, found.values.array()


def watched_llada(dlm, network, ids, **more):
    with engines.watch(network, mask_id=dlm.mask_id, tokenizer=dlm.tokenizer, **more) as seen:
        out = strangers.llada(network, ids, length=G, block=BLOCK, steps=8, mask_id=dlm.mask_id)
    return seen, out


def test_a_loop_like_llada_shows_the_commits_of_ours(dlm, network, ids):
    seen, out = watched_llada(dlm, network, ids)
    trace = seen.trace(out)
    ours = engines.run(
        "llada", dlm, PROMPT, params={"max_new_tokens": G, "block_length": BLOCK, "steps": 8, "cache": "none"}
    )
    assert by_step(trace) == by_step(ours)
    assert trace.header.canvas == ours.header.canvas and trace.text == ours.text
    for mine, theirs in zip(chances(ours), chances(trace), strict=True):
        assert mine == pytest.approx(theirs, abs=1e-4)
    for mine, theirs in zip(ours.steps, trace.steps, strict=True):
        for name in ("confidence", "entropy"):
            a, b = lane(mine, name), lane(theirs, name)
            assert a[0] == b[0]
            np.testing.assert_allclose(a[1], b[1], atol=0.03)
        np.testing.assert_array_equal(mine.candidates.tokens.array()[:, 0], theirs.candidates.tokens.array()[:, 0])
    assert engines.read_trace(trace.to_json()) == trace
    assert trace.totals.forwards == 8 and trace.totals.model_seconds > 0
    assert {"params", "seed"} <= set(trace.header.missing) and "tokens" not in trace.header.missing
    assert "distribution of token i:" in trace.header.departures  # found out, and said


def test_results_are_the_same_bits_and_the_hooks_go(dlm, network, ids):
    bare = strangers.llada(network, ids, length=G, block=BLOCK, steps=8, mask_id=dlm.mask_id)
    before = network(board(ids, dlm)).logits
    _, out = watched_llada(dlm, network, ids)
    with engines.watch(network, mask_id=dlm.mask_id) as again:
        inside = network(board(ids, dlm)).logits
    assert torch.equal(bare, out) and torch.equal(before, inside)
    assert not network._forward_hooks and not network._forward_pre_hooks
    with pytest.raises(RuntimeError, match="mine"), engines.watch(network, mask_id=dlm.mask_id):
        raise RuntimeError("mine")
    assert not network._forward_hooks and not network._forward_pre_hooks
    assert len(again.trace().steps) == 1 and "tokens" in again.trace().header.missing


@pytest.fixture(scope="module")
def flat(dlm):
    """The same weights as a model whose row i is the distribution of token i: it writes nonsense, token by token."""
    return HFMaskedLM(dlm.model, dlm.tokenizer, dlm.record, dlm.mask_id, shift=False, eos_ids=dlm.eos_ids)


@pytest.mark.parametrize("cache", ["prefix", "dual"])
def test_a_part_behind_a_cache_is_put_where_it_belongs(flat, ids, cache):
    module, x = FastDllm(flat), board(ids, flat)
    with engines.watch(module, mask_id=flat.mask_id, tokenizer=flat.tokenizer, kind="masked", shift=False) as seen:
        out = strangers.fast_dllm(
            module, x, ids.shape[1], block=BLOCK, threshold=0.99999, mask_id=flat.mask_id, dual=cache == "dual"
        )
    trace = seen.trace(out)
    params = {"max_new_tokens": G, "block_length": BLOCK, "threshold": 0.99999, "cache": cache}
    ours = engines.run("threshold", flat, PROMPT, params=params)
    assert by_step(trace) == by_step(ours)
    spans = [[(s.kind, s.start, s.end) for s in step.spans if s.kind == "cache"] for step in trace.steps]
    assert spans == [[(s.kind, s.start, s.end) for s in step.spans if s.kind == "cache"] for step in ours.steps]
    assert any(spans) and [s.tokens_fed for s in trace.steps] == [s.tokens_fed for s in ours.steps]
    for mine, theirs in zip(chances(ours), chances(trace), strict=True):
        assert mine == pytest.approx(theirs, abs=1e-4)


@pytest.mark.parametrize("length", [BLOCK, G])
def test_a_part_without_a_word_on_its_place_is_put_where_it_alone_fits(flat, ids, length):
    module, a = Silent(flat), ids.shape[1]
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


def test_shift_is_found_out_or_told(dlm, network, ids):
    class Shifted(torch.nn.Module):
        def forward(self, x):
            return dlm.model(x).logits  # row i predicts token i + 1, as Dream's does

    module = Shifted()
    x = board(ids, dlm)

    def loop():
        y = x.clone()
        while (y == dlm.mask_id).any():
            z = module(y)
            z = torch.cat([z[:, :1], z[:, :-1]], 1)
            z[..., dlm.mask_id] = -torch.inf
            p, best = z.softmax(-1).max(-1)
            at = torch.where(y == dlm.mask_id, p, -1.0).argmax()
            y[0, at] = best[0, at]
        return y

    with engines.watch(module, mask_id=dlm.mask_id) as seen, torch.inference_mode():
        out = loop()
    with engines.watch(module, mask_id=dlm.mask_id, shift=True) as told, torch.inference_mode():
        loop()
    found, said = seen.trace(out), told.trace(out)
    assert "distribution of token i + 1" in found.header.departures
    assert [s.scores for s in found.steps] == [s.scores for s in said.steps]
    assert all(min(s.commits.probabilities) > 0.1 for s in found.steps if s.commits)
    with engines.watch(module, mask_id=dlm.mask_id) as idle:
        module(x)
    assert "did not show itself" in idle.trace(x).header.departures


def test_guidance_is_one_answer_whose_chances_are_not_known(dlm, network, ids):
    with engines.watch(network, mask_id=dlm.mask_id) as seen:
        out = strangers.llada(network, ids, length=G, block=BLOCK, steps=8, mask_id=dlm.mask_id, scale=1.0)
    trace = seen.trace(out)
    ours = engines.run(
        "llada",
        dlm,
        PROMPT,
        params={"max_new_tokens": G, "block_length": BLOCK, "steps": 8, "cfg_scale": 1.0},
    )
    assert by_step(trace) == by_step(ours)
    assert all(not step.commits.probabilities for step in trace.steps)
    assert "guidance" in trace.header.departures and "distribution of token i:" in trace.header.departures
    assert seen.trace(out) == trace  # asked again, the same
    assert trace.steps[0].tokens_fed == 2 * (ids.shape[1] + G)


def test_guidance_in_two_calls_is_one_step(dlm, network, ids):
    x = board(ids, dlm)
    blind = x.clone()
    blind[:, : ids.shape[1]] = dlm.mask_id
    with engines.watch(network, mask_id=dlm.mask_id) as seen:
        for place in range(2):
            network(x)
            network(blind)
            x[0, ids.shape[1] + place] = blind[0, ids.shape[1] + place] = 5
    trace = seen.trace(x)
    assert [s.forwards for s in trace.steps] == [{"model": 2}] * 2
    assert by_step(trace) == [[(ids.shape[1], 5)], [(ids.shape[1] + 1, 5)]]


def test_remasking_and_changing_show(dlm, network, ids):
    x, p = board(ids, dlm), ids.shape[1]
    with engines.watch(network, mask_id=dlm.mask_id, tokenizer=dlm.tokenizer) as seen:
        network(x)
        x[0, p] = x[0, p + 1] = 9
        network(x)
        x[0, p], x[0, p + 1] = dlm.mask_id, 11
        network(x)
        x[0, p + 2] = 12
    trace = seen.trace(x)
    assert [list(s.commits.causes) for s in trace.steps] == [["filled", "filled"], ["remasked", "changed"], ["filled"]]


def test_a_batch_has_a_trace_for_each_prompt(dlm, network):
    first, second = (dlm.tokenizer.encode_prompt(text) for text in ("sort: Mia, Leo, Ada", "sort: Leo, Mia, Ada"))
    assert len(first) == len(second)
    both = torch.tensor([first, second])
    with engines.watch(network, mask_id=dlm.mask_id) as seen:
        out = strangers.llada(network, both, length=G, block=BLOCK, steps=8, mask_id=dlm.mask_id)
    traces = seen.traces(out)
    for row, trace in enumerate(traces):
        with engines.watch(network, mask_id=dlm.mask_id) as alone:
            one = strangers.llada(network, both[row : row + 1], length=G, block=BLOCK, steps=8, mask_id=dlm.mask_id)
        assert by_step(trace) == by_step(alone.trace(one))
    with pytest.raises(engines.UserError, match="2 prompts were decoded at once"):
        seen.trace(out)


def test_light_keeps_what_was_written_alone(dlm, network, ids):
    seen, out = watched_llada(dlm, network, ids, detail="light")
    full, _ = watched_llada(dlm, network, ids)
    light, whole = seen.trace(out), full.trace(out)
    assert by_step(light) == by_step(whole)
    assert not any(s.scores or s.candidates or s.commits.probabilities for s in light.steps)


def test_inference_mode_and_bf16(dlm, network, ids):
    import copy

    low = Llada(copy.deepcopy(dlm.model).to(torch.bfloat16))
    with torch.inference_mode(), engines.watch(low, mask_id=dlm.mask_id) as seen:
        out = strangers.llada(low, ids, length=G, block=BLOCK, steps=8, mask_id=dlm.mask_id)
    bare = strangers.llada(low, ids, length=G, block=BLOCK, steps=8, mask_id=dlm.mask_id)
    trace = seen.trace(out)
    assert torch.equal(out, bare) and trace.header.models[0].dtype == "bfloat16" and len(trace.steps) == 8


def test_a_model_that_accelerate_has_put_on_devices(dlm, ids):
    import copy

    from accelerate.hooks import AlignDevicesHook, add_hook_to_module

    placed = copy.deepcopy(dlm.model)
    add_hook_to_module(placed, AlignDevicesHook(execution_device="cpu", io_same_device=True))  # as a device_map does
    with engines.watch(placed, mask_id=dlm.mask_id, shift=True) as seen:
        out = strangers.llada(placed, ids, length=G, block=BLOCK, steps=4, mask_id=dlm.mask_id)
    trace = seen.trace(out)
    assert len(trace.steps) == 4 and all(step.commits and step.scores for step in trace.steps)


@pytest.mark.exhaustive
def test_a_compiled_module_is_watched_from_outside_or_refused(dlm, network, ids):
    compiled = torch.compile(network, backend="eager")
    with engines.watch(compiled, mask_id=dlm.mask_id) as seen:
        out = strangers.llada(compiled, ids, length=G, block=BLOCK, steps=4, mask_id=dlm.mask_id)
    assert len(seen.trace(out).steps) == 4
    inner = torch.nn.Linear(2, 2)
    inner.compile(backend="eager")
    with pytest.raises(engines.UserError, match="compiled in place"), engines.watch(inner, mask_id=0):
        pass
    assert not inner._forward_hooks


class Growing(torch.nn.Module):
    """A table of logits; with a cache it returns the keys of all that was fed, as block-diffusion models do."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table = torch.nn.Embedding(32, 32)

    def forward(self, input_ids, past_key_values=None, store=False):
        logits = self.table(input_ids)
        keys = torch.zeros(1, 1, input_ids.shape[1], 2)
        if past_key_values is not None:
            keys = torch.cat([past_key_values[0][0], keys], 2) if store else past_key_values[0][0]
        return {"logits": logits, "past_key_values": [(keys, keys)]}


def test_a_board_that_grows_block_by_block():
    """Without a cache the whole text and the next block are fed; with one the prompt, then a block until it is full."""
    module, prompt, mask, told = Growing(), [3, 4, 5], 31, []
    for cached in (False, True):
        text, wrote = list(prompt), []
        with torch.no_grad(), engines.watch(module, mask_id=mask, kind="masked", shift=False) as seen:
            cache = module(torch.tensor([text]))["past_key_values"] if cached else None
            for _ in range(2):
                block = [mask] * 4
                for place in range(4):
                    fed = torch.tensor([block if cached else text + block])
                    z = module(fed, past_key_values=cache)["logits"]
                    token = int(z[0, place - 4, :mask].argmax()) if place % 2 else 7 + place
                    block[place] = token
                    wrote.append((len(text) + place, token))
                if cached:  # once more, to keep its keys
                    cache = module(torch.tensor([block]), past_key_values=cache, store=True)["past_key_values"]
                text += block
        trace = seen.trace(text)
        assert trace.end.reason == "complete", trace.end.message
        assert trace.header.prompt_ids == prompt and trace.header.canvas == 11
        told.append([one for one in by_step(trace) if one])
        assert told[-1] == [[one] for one in wrote] and trace.header.prompt_ids + trace.output_ids == text
    assert told[0] == told[1]
