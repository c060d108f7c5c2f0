"""EasySpec: groups and times, the greedy text for every N, an exact draft at N = 1, and keys and values that a
calibration puts right."""

import pytest
import torch

import engines
import engines.golden.easyspec  # the checker
from engines.core.kinds import KINDS
from engines.core.meter import Meter
from engines.methods.system.easyspec import forward, groups_of, schedule
from tests.engines.fakes import board
from tests.engines.methods.speculative.toys import passes

MODEL = "tiny-ar-m"


def model():
    return engines.load_model(MODEL, dtype="float32")


def decode(prompt="add: 45 + 86", slug="easyspec", **params):
    return engines.run(slug, model(), prompt, params={"max_new_tokens": 32, **params})


def test_the_golden_cases_pass():
    assert passes("easyspec") is True


def test_groups_and_the_time_they_save():
    assert list(groups_of(8, 3, 1).values()) == [0, 1, 1, 1, 4, 4, 4, 7]
    assert list(groups_of(5, 4, 0).values()) == [0, 0, 0, 0, 4]
    a, m = [2.0, 3.0, 1.0, 2.0], [1.0] * 4
    assert schedule(a, m, groups_of(4, 1, 1), 9.0) == (12.0, 12.0)
    assert schedule(a, m, groups_of(4, 2, 1), 0.25) == (12.0, 11.25)


@pytest.mark.parametrize("calibrate", [True, False])
@pytest.mark.parametrize("size", [1, 2, 7])
def test_the_text_is_the_targets_own(size, calibrate):
    for prompt in ("add: 45 + 86", "story: Mia, boat"):
        ours = decode(prompt, size=size, calibrate=calibrate, ends=0)
        assert ours.output_ids == decode(prompt, "greedy").output_ids == board(ours)
        if size == 1:  # the draft is the model itself
            ends = ours.header.eos_ids
            assert all(s.facts["accepted"] == s.facts["drafted"] or s.commits.tokens[-1] in ends for s in ours.steps)


def test_a_group_reads_what_entered_it_and_leaves_fuzzy_keys():
    counted = KINDS["layered"].counted(model(), "draft", Meter())
    ids, layers = counted.tokenizer.encode_prompt("story: Mia, boat"), counted.num_layers
    exact, fuzzy, mended = (counted.new_cache(len(ids) + 4) for _ in range(3))
    z = forward(counted, ids, exact, {})
    assert torch.allclose(z, model().extend(ids, model().new_cache(len(ids))).logits[-1], atol=1e-4)
    first = groups_of(layers, layers, 0)
    blurred = forward(counted, ids, fuzzy, first)
    assert not torch.allclose(z, blurred, atol=1e-3)
    same = [
        torch.allclose(a.keys[:, :, : len(ids)], b.keys[:, :, : len(ids)], atol=1e-5) for a, b in pairs(exact, fuzzy)
    ]
    assert same[0] and not any(same[1:])
    forward(counted, ids, mended, first)
    mended.crop(0)
    forward(counted, ids, mended, {})
    assert all(
        torch.allclose(a.keys[:, :, : len(ids)], b.keys[:, :, : len(ids)], atol=1e-5) for a, b in pairs(exact, mended)
    )


def pairs(a, b):
    return zip(a.layers, b.layers, strict=True)


def test_after_a_calibration_at_most_gamma_minus_one_rows_are_fuzzy():
    trace = decode("story: Mia, boat", gamma=4, size=3)
    assert {s.facts["fuzzy_rows"] for s in trace.steps} <= {0, 1, 2, 3}
    assert max(s.facts["fuzzy_rows"] for s in trace.steps) == 3
    assert all(
        s.facts["calibrated"] == s0.facts["accepted"] + 1
        for s0, s in zip(trace.steps, trace.steps[1:], strict=False)
        if s.facts["drafted"]
    )
