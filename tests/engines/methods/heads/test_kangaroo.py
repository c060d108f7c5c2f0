"""Kangaroo: both exits do what they say, and every row goes through every layer once."""

import dataclasses
from math import exp

import pytest
import torch

import engines
from engines.core.errors import UserError
from engines.driver.roles import parts_of
from engines.driver.run import assign_roles
from engines.methods.heads.kangaroo import EarlyExit
from engines.models.networks.exit_adapter import ExitAdapter, adapter_of
from engines.models.networks.exits import Past
from engines.models.parts import load_part
from tests.engines.methods.heads.conftest import decoder

decode = decoder("kangaroo", "story: Mia, boat", 28)


def test_the_second_exit_ends_the_drafts_and_the_record_says_where_and_how_sure_they_were(model):
    """eta 0 always drafts gamma, above 1 always one; between, only the last draft of a round is below the line."""
    for given, wanted in (({"eta": 0.0, "gamma": 4}, 4), ({"eta": 1.05}, 1)):
        left = 28
        for step in decode(model, **given).steps:
            assert step.facts["drafted"] == min(wanted, left - 1)
            left -= len(step.commits.tokens)
    stops, most = set(), 0
    for step in decode(model, exit_layer=2, eta=0.6).steps:
        told = step.record("early_exit", EarlyExit)
        assert (told.exit_layer, told.layers, told.eta) == (2, model.num_layers, 0.6)
        sure = told.confidence
        assert sure == pytest.approx([exp(one) for one in step.tree.draft_logprobs[1:]], rel=1e-4)
        assert all(one >= 0.6 for one in sure[:-1])
        assert (step.choice.chosen == "threshold") == (sure[-1] < 0.6 and len(sure) < 6)
        stops.add(step.choice.chosen)
        most = max(most, len(sure))
    assert stops == {"threshold", "length"} and most > 2


@pytest.mark.parametrize("exit_layer", [1, 3, 5])
def test_every_row_goes_through_every_layer_once(model, exit_layer):
    """While drafts stand in the first layers only, the last one lags; after a round all hold the text but its last."""
    trace = decode(model, exit_layer=exit_layer)
    length = len(trace.header.prompt_ids)
    for step in trace.steps:
        drafted = step.facts["drafted"]
        assert step.forwards["target"] == 1 and step.work.get("draft", 0) == drafted * exit_layer
        assert sum(step.work.values()) == 6 * step.tokens_fed == step.facts["layer_evals"]
        assert step.facts["rows_first_layer"] - step.facts["rows_last_layer"] == step.facts["shallow_rows"]
        assert step.facts["deep_rows"] == drafted + 1 or not step.index
        length += len(step.commits.tokens)
        assert step.facts["adapter_rows"] == length - 1


def test_the_adapter_reads_rows_one_by_one_as_all_at_once():
    torch.manual_seed(0)
    adapter, h, past = ExitAdapter(128).requires_grad_(False), torch.randn(9, 128), Past()
    adapter.O.normal_()
    whole = adapter(h)
    parts = torch.cat([adapter(h[:4], past), *(adapter(row[None], past) for row in h[4:])])
    assert torch.allclose(whole, parts, atol=1e-4) and past.length == 9
    changed = torch.cat([h[:5], torch.randn(4, 128)])
    assert torch.allclose(adapter(changed)[:5], whole[:5], atol=1e-4)
    assert not torch.allclose(adapter(changed)[5:], whole[5:], atol=1e-2)


def test_bad_exits_are_refused(model, monkeypatch):
    with pytest.raises(UserError, match=r"exit_layer 6 was given and tiny-ar-m has 6 layers; .* after 1 to 5"):
        decode(model, exit_layer=6)
    part = load_part("exit-adapters", [model.record])
    fewer = dataclasses.replace(part, tensors={n: t for n, t in part.tensors.items() if n[0] in "24"})
    with pytest.raises(UserError, match=r"no exit after layer 3; choose one of 2, 4"):
        adapter_of(fewer, 3, 6)
    info = engines.get_method("kangaroo").info
    other = assign_roles(info, "tiny-ar-m")["target"]
    monkeypatch.setattr(other.record, "name", "headless")  # the model is loaded for all tests
    with pytest.raises(UserError, match=r"no exit-adapters for headless .*training exit-adapters headless"):
        parts_of(info, other)
