"""DEL: rounds load the layers they say, and the choice obeys its rules. Counts, choice and stop are golden cases."""

import pytest

from engines.core.errors import UserError
from engines.models.networks.exits import maps_of
from engines.models.parts import load_part
from tests.engines.methods.heads.conftest import decoder

decode = decoder("del", "story: Mia, boat", 28)


def test_a_round_loads_the_layers_it_says(model):
    trace = decode(model)
    for step in trace.steps:
        depth, d = step.facts["exit_layer"], step.facts["drafted"]
        assert step.facts["layers_loaded"] == d * depth + 6 and step.work.get("draft", 0) == d * depth
        assert step.forwards["target"] == 1 and step.facts["accepted"] <= d <= 18
        assert step.facts["tokens_per_layer"] == pytest.approx(len(step.commits.tokens) / (d * depth + 6))
        assert all(0 <= a <= 1 for name, a in step.facts.items() if name.startswith("alpha"))
    assert trace.steps[0].facts["exit_layer"] == trace.steps[0].facts["drafted"] == 1
    assert len({s.facts["exit_layer"] for s in trace.steps}) > 1  # it really moves


def test_the_length_rule_drafts_what_was_chosen_and_without_hope_nothing(model):
    """DELE; costs of the output head count, and a dear head makes plain decoding the better choice."""
    left = 28
    for step in decode(model, stop="length", cost_verify=2.0).steps:
        chosen = min(step.facts["chosen_d"], left - 1)
        assert step.facts["drafted"] == chosen or (
            step.facts["drafted"] < chosen and step.tree.tokens[-1] in model.eos_ids
        )
        assert step.choice.threshold == pytest.approx(1 / 8)
        left -= len(step.commits.tokens)
    dear = [s.facts["drafted"] for s in decode(model, stop="length", exits="raw", cost_draft=8.0).steps]
    assert 0 in dear and sum(dear) < sum(s.facts["drafted"] for s in decode(model, exits="raw").steps)


def test_an_exit_without_a_map_is_refused(model):
    with pytest.raises(UserError, match="6 layers"):
        maps_of(load_part("exit-maps", [model.record]), [6], 6)
