"""diffusers' LLaDA2Pipeline, unchanged, on the public checkpoint: watched, it writes and replaces what ours does."""

import json

import pytest
import torch
from diffusers import BlockRefinementScheduler, LLaDA2Pipeline
from transformers.modeling_outputs import CausalLMOutput

import engines
from tests.engines.conftest import GOLDEN
from tests.golden.checkers.llada2 import as_pipeline, forwards, loaded

FOLDER = GOLDEN / "diffusion2026" / "llada2"
DATA = json.loads((FOLDER / "cases_diffusers.json").read_text())
CASES = {case["id"]: case for case in DATA["cases"]}
MASK = DATA["mask_id"]


class Network(torch.nn.Module):
    """The checkpoint as a module that makes its block mask itself, whatever mask it is given."""

    device, dtype = torch.device("cpu"), torch.float32

    def __init__(self, model):
        super().__init__()
        self.inner, self.ours = model.model, [model]

    def forward(self, input_ids, attention_mask=None, position_ids=None):
        return CausalLMOutput(logits=self.ours[0](input_ids))


def decoded(module, case, eos=DATA["eos_id"], **more):
    p = {**case["params"], "mask_token_id": MASK, "eos_token_id": eos, "output_type": "seq", **more}
    pipe = LLaDA2Pipeline(module, BlockRefinementScheduler(), None)
    pipe.set_progress_bar_config(disable=True)
    return pipe(input_ids=torch.tensor([case["prompt"]]), **p)


def model_of(case, eos=DATA["eos_id"]):
    return loaded(DATA, FOLDER, case["params"]["block_length"], eos)


def ours(case, model):
    """Our engine under the names of the pipeline; only forwards that look at the open block."""
    return forwards(as_pipeline(case, model))


def written(step, end):
    """Position, token, whether it replaced another one, and its probability; up to the end of what is asked for."""
    c = step.commits
    rows = zip(c.positions, c.tokens, c.causes, c.probabilities, strict=True) if c else ()
    return sorted((p, token, cause == "changed", q) for p, token, cause, q in rows if p < end)


@pytest.mark.parametrize("name", CASES)
def test_the_pipeline_is_followed_step_by_step(name):
    case = CASES[name]
    model, end = model_of(case), len(case["prompt"]) + case["params"]["gen_length"]
    watched, mine = Network(model), ours(case, model)
    with engines.watch(watched, mask_id=MASK, shift=False, eos_ids=[DATA["eos_id"]]) as seen:
        out = decoded(watched, case)
    trace = seen.trace(out)
    assert trace.end.reason == "complete", trace.end.message
    assert len(trace.steps) == len(mine) == case["expected"]["nfe"]
    for a, b in zip(mine, trace.steps, strict=True):
        one, other = written(a, end), written(b, end)
        assert [row[:3] for row in one] == [row[:3] for row in other]
        assert [row[3] for row in other] == pytest.approx([row[3] for row in one], abs=1e-4)
    assert trace.output_ids[: len(case["expected"]["answer"])] == case["expected"]["answer"]


def test_an_end_before_the_last_block_leaves_masks_that_were_never_fed():
    case = CASES["pipe-no-editing"]
    eos = case["expected"]["answer"][0]
    model = model_of(case, eos)
    with engines.watch(Network(model), mask_id=MASK, shift=False) as seen:
        out = decoded(seen._hooks[0].module, case, eos)
    assert MASK in out.sequences[0].tolist()
    trace = seen.trace(out)
    assert "tokens" not in trace.header.missing and trace.output_ids[0] == eos


def test_a_mask_of_two_dimensions_is_told_where_a_block_mask_is_meant():
    case = CASES["pipe-default"]
    model = model_of(case)
    with engines.watch(model, mask_id=MASK) as seen:  # the stock network alone: it takes the mask for padding
        out = decoded(model.model, case)
    said = seen.trace(out).header.departures
    assert said.count("mask of two dimensions") == 1 and "true where j // B <= i // B" in said
    with engines.watch(model, mask_id=MASK) as seen, torch.no_grad():
        model(torch.tensor([*case["prompt"], *[MASK] * 8]))
    assert "two dimensions" not in seen.trace().header.departures  # a mask of blocks
