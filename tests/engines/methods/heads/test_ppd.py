"""PPD: rows and budget of every step, one forward in training and decoding. The search is a golden case."""

from types import SimpleNamespace

import pytest
import torch

from engines.core.kinds.layered import CountedLayered
from engines.core.meter import Meter
from engines.methods.heads._template import filled, parents_of
from engines.methods.heads.ppd import forward, layout
from engines.methods.heads.ppd.dynamic_tree import SMALLEST, search
from engines.methods.speculative._turn import Target
from engines.methods.speculative._verify import Draft
from engines.training.heads.prompt_tokens import Embeddings, PromptTraining
from tests.engines.methods.heads.conftest import PROMPTS, decoder

A = [[0.4, 0.2, 0.1, *[0.02] * 7], [0.3, 0.1, 0.1, *[0.02] * 7], [0.2, 0.1, 0.05, *[0.02] * 7]]
decode = decoder("ppd")


def target_of(model, ids):
    p = SimpleNamespace(max_new_tokens=24, temperature=0.0)
    return Target(CountedLayered(model, "target", Meter()), ids, p, rows=99)


@pytest.mark.parametrize("budget", [20, 33])
def test_rows_states_and_target_calls(model, budget):
    state = 0
    for step in decode(model, budget=budget).steps:
        f, tails = step.facts, step.tree.tails
        assert f["state"] == state and f["prompt_rows"] == sum(tails) and tails[0] == 3 and min(tails) >= 1
        assert f["rows"] - 1 + f["prompt_rows"] - 3 <= budget
        assert step.forwards["target"] == 1
        assert step.work["target"] == model.num_layers * step.tokens_fed >= 6 * (f["rows"] + f["prompt_rows"])
        last = max(i for i, kept in enumerate(step.tree.accepted) if kept)
        assert f["next_state"] == tails[last] and 1 <= len(step.commits.tokens) <= 4
        state = f["next_state"]


def test_prompt_rows_change_no_candidates_logits(model):
    """A tree with prompt tokens, whatever they hold, and the same tree without: one walk, logits within 1e-4."""
    ids, e = model.tokenizer.encode_prompt(PROMPTS[0]), 5 * torch.randn(3, 128, generator=torch.Generator())
    rows = layout(search(A, 40).states[2], 3)
    known = [path for path, j in rows if not j]
    tokens = filled(known, ids[-1], [list(range(30 + 10 * d, 40 + 10 * d)) for d in range(3)])
    draft = Draft.of(tokens, parents_of(known)[1], "draft")
    ours, h = forward(target_of(model, ids), ids, draft, rows, e, torch.Generator())
    plain = target_of(model, ids).verify(ids, draft, torch.Generator())
    assert torch.allclose(ours.z, plain.z, atol=1e-4) and ours.verdict.path == plain.verdict.path
    assert len(rows) > len(known) + len(known) // 2 and h.shape == (3, 128)


@torch.no_grad()
def test_training_and_decoding_have_one_forward(model):
    """All cuts of a text at once, each seeing its own, against a forward of the text up to the cut."""
    p, ids = 0.3 * torch.randn(3, 128, generator=torch.Generator().manual_seed(4)), [1, 7, 30, 12, 44, 9, 21, 60]
    read = SimpleNamespace(logits=lambda states: states)  # the states as they are, float32
    training = SimpleNamespace(network=Embeddings(p), body=model.model.base_model, teacher=read)
    cuts = torch.tensor([2, 5, 7])
    said = PromptTraining.said(training, SimpleNamespace(tokens=torch.tensor(ids)), cuts)  # [3, 3, d]
    for cut, wanted in zip(cuts.tolist(), said, strict=True):
        text = ids[: cut + 1]
        _, h = forward(target_of(model, text), text, Draft(text[-1]), layout([], 3), p, torch.Generator())
        assert torch.allclose(h, wanted, atol=1e-4)


def test_the_same_random_numbers_give_plain_samplings_text(model):
    ours, plain = (
        decode(model, slug=slug, temperature=1.2, seed=2, **given)
        for slug, given in (("ppd", {}), ("medusa", {"nodes": 0}))
    )
    assert ours.output_ids == plain.output_ids


def test_a_search_in_too_small_a_budget_is_refused():
    with pytest.raises(ValueError, match=str(SMALLEST)):
        search(A, SMALLEST - 1)
