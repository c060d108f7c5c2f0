"""DEL: counts, choice and stop obey their invariants."""

import pytest
import torch

import engines
from engines.core.errors import UserError
from engines.methods.heads.del_ import ended
from engines.methods.heads.del_.exit_choice import Counts, choose
from engines.models.exits import maps_of
from engines.models.parts import load_part

PROMPTS = ("add: 457 + 86", "story: Mia, boat")


def decode(model, prompt=PROMPTS[1], slug="del", **params):
    return engines.run(slug, model, prompt, params={"max_new_tokens": 28, **params})


def test_a_round_loads_the_layers_it_says(ar):
    trace = decode(ar)
    for step in trace.steps:
        depth, d = step.facts["exit_layer"], step.facts["drafted"]
        assert step.facts["layers_loaded"] == d * depth + 6 and step.work.get("draft", 0) == d * depth
        assert step.forwards["target"] == 1 and step.facts["accepted"] <= d <= 18
        assert step.facts["tokens_per_layer"] == pytest.approx(len(step.commits.tokens) / (d * depth + 6))
        assert all(0 <= a <= 1 for name, a in step.facts.items() if name.startswith("alpha"))
    assert trace.steps[0].facts["exit_layer"] == trace.steps[0].facts["drafted"] == 1
    assert len({s.facts["exit_layer"] for s in trace.steps}) > 1  # it really moves


def test_without_hope_it_decodes_plainly(ar):
    """With the length rule d = 0 drafts nothing; the head's cost makes it the better choice."""
    dear = decode(ar, stop="length", exits="raw", cost_draft=8.0)
    drafted = [s.facts["drafted"] for s in dear.steps]
    assert 0 in drafted and sum(drafted) < sum(s.facts["drafted"] for s in decode(ar, exits="raw").steps)


def test_the_length_rule_drafts_what_was_chosen(ar):
    """DELE; the line of plain decoding counts the output head where its cost is given."""
    trace, left = decode(ar, stop="length", cost_verify=2.0), 28
    for step in trace.steps:
        assert step.facts["drafted"] <= min(step.facts["chosen_d"], left - 1)
        ended = step.tree.tokens[-1] in ar.eos_ids
        assert ended or step.facts["drafted"] == min(step.facts["chosen_d"], left - 1)
        assert step.choice.threshold == pytest.approx(1 / 8)
        left -= len(step.commits.tokens)


def test_the_choice_depends_on_ratios_only():
    rng = torch.Generator().manual_seed(0)
    for _ in range(30):
        counts = torch.rand(5, 2, generator=rng, dtype=torch.float64) * 10
        found = []
        for factor in (1, 0.01, 1000):
            seen = Counts(range(1, 6))
            seen.n = counts * factor
            found.append(choose(seen.alpha(), range(1, 6), 6, 18))
        assert {(one.exit_layer, one.d) for one in found} == {(found[0].exit_layer, found[0].d)}
        assert found[0].tpl >= 1 / 6


def test_the_first_token_costs_all_layers_and_no_counts_are_no_choice():
    assert choose([0.0, 0.0], [1, 2], 6, 18) == choose([None, None], [1, 2], 6, 18).__class__(1, 0, 1 / 6)
    assert choose([None, 0.9], [1, 2], 30, 18).exit_layer == 2
    assert choose([0.9], [1], 6, 18, 0, 8.0, 8.0).tpl < choose([0.9], [1], 6, 18).tpl


def test_counts_fade_and_stop_at_the_first_mismatch():
    seen, match = Counts([1, 2]), torch.tensor([[True, False, True, True], [True, True, True, False]])
    sure = torch.full((2, 4), 0.5)
    assert seen.update(match, sure, exit_row=0, context=0, d=3, omega=0.9) == 2
    assert seen.n.tolist() == [[1, 1], [2, 0]] and seen.tau() == [0.5, None]
    assert seen.update(match, sure, exit_row=0, context=0, d=0, omega=0.9) == 4
    assert seen.n.tolist() == [[pytest.approx(3.9), pytest.approx(1.9)], [pytest.approx(4.8), pytest.approx(1.0)]]
    assert seen.update(match, sure, exit_row=0, context=2, d=3, omega=0.9) == 4  # the context stays, then no mismatch
    for _ in range(200):
        seen.update(match, sure, 0, 0, 0, 0.9)
    assert bool((seen.n.sum(-1) <= 4 / (1 - 0.9) + 1e-6).all())


def test_a_draft_ends_at_its_line_cap_or_end_mark():
    assert ended([], 0.5, 3, False) == "" and ended([], 0.5, 0, False) == "cap"
    assert ended([0.4], 0.5, 3, False) == "tau" and ended([0.4], None, 3, False) == ""
    assert ended([0.9], 0.5, 3, True) == "eos"


def test_an_exit_without_a_map_is_refused(ar):
    with pytest.raises(UserError, match="6 layers"):
        maps_of(load_part("exit-maps", [ar.record]), [6], 6)
