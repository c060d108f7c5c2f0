"""Every method on a GPU: run where torch has one (`pytest -m cuda`), skipped with a reason elsewhere. What the kernels
of another device round differently may flip a near-tie, so texts are not held against those of the CPU; logits are."""

import pytest
import torch

import engines
from engines.core.kinds import KINDS
from engines.core.trace import check_consistency

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(
        not torch.cuda.is_available(), reason="torch has no GPU here: run `pytest -m cuda` where it has"
    ),
]
METHODS = {info.slug: info for info in engines.list_methods()}
PROMPT = "sort: Zoe, Mia, Leo, Ada, Kim"


def loaded(slug: str, **options):
    """The example of the method's kind, float32 unless something else is said."""
    name = KINDS[METHODS[slug].needs[METHODS[slug].role]].example
    return engines.load_model(name, **{"device": "cuda", "dtype": "float32", **options})


@pytest.mark.parametrize("slug", METHODS)
def test_a_run_on_the_gpu_is_a_whole_run_and_the_same_again(slug):
    """In float32 twice, and once in bfloat16."""
    models = [*[loaded(slug)] * 2, loaded(slug, dtype="bfloat16")]
    runs = [engines.run(slug, model, PROMPT, seed=3, params={"max_new_tokens": 48}) for model in models]
    for trace in runs:
        check_consistency(trace)
        assert trace.end.reason == "complete" and trace.steps
        assert all(model.device.startswith("cuda") for model in trace.header.models)
        assert sum(step.model_seconds for step in trace.steps) > 0
    assert runs[0].end.output_ids == runs[1].end.output_ids and runs[2].header.models[0].dtype == "bfloat16"


def test_the_gpu_and_the_cpu_choose_the_same_where_it_is_no_near_tie():
    """Greedy on the causal example: up to the first difference, whose two logits must lie close."""
    name = KINDS["causal"].example
    models = [engines.load_model(name, device=device, dtype="float32") for device in ("cuda", "cpu")]
    runs = [engines.run("greedy", model, PROMPT, params={"max_new_tokens": 24}) for model in models]
    here, there = (trace.end.output_ids for trace in runs)
    if here == there:
        return
    at = next(i for i, (one, other) in enumerate(zip(here, there, strict=False)) if one != other)
    focus = runs[1].steps[at].candidates
    first, second = focus.probabilities.array()[0][:2].tolist()
    assert first - second < 1e-3, f"token {at} differs, and it is no near-tie: {first} against {second}"
