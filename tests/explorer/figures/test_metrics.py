"""Each figure against values computed by hand, and the metric names of the golden data."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import msgspec
import pytest

from engines import Trace, Tree
from explorer.figures import acceptance, calls, curves
from explorer.figures.clock import steps_within
from explorer.figures.metrics import measure
from explorer.figures.work import lasting, work
from tests.explorer.figures.lookback import looked

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "speculative" / "metrics.json"


def trace(steps: list[dict], output: list[int], **header) -> Trace:
    body = msgspec.to_builtins(looked([], canvas=None))
    models = [{"role": "target", "name": "big", "kind": "causal", "parameters": 100}]
    body["header"] |= {"prompt_ids": [1, 2], "eos_ids": [9], "warmup_seconds": 0.5, "models": models, **header}
    each = {"forwards": {"target": 1}, "tokens_fed": 3, "model_seconds": 0.2, "method_seconds": 0.05}
    body["steps"] = [{"index": i, **each, **step} for i, step in enumerate(steps)]
    body["end"] |= {"output_ids": output, "wall_seconds": 2.0, "record_seconds": 0.1}
    return Trace.from_json(json.dumps(body))


def commits(positions: list[int], tokens: list[int], chances: list[float | None] | None = None) -> dict:
    written = {"positions": positions, "tokens": tokens, "causes": ["greedy"] * len(tokens)}
    return written | ({"probabilities": chances} if chances else {})


def tree(accepted: int, drafted: int) -> dict:
    why = ["root"] + ["accepted"] * accepted + ["mismatch"] * (drafted - accepted)
    return {
        "start": 1,
        "parents": list(range(-1, drafted)),
        "tokens": [3] * (drafted + 1),
        "accepted": [w != "mismatch" for w in why],
        "why": why,
        "emitted": [3] * (accepted + 1),
    }


def values(one: Trace) -> dict[str, float | None]:
    return {metric.name: metric.value for metric in measure(one)}


def test_counts_and_times():
    one = trace([{}, {"forwards": {"target": 2}}, {}], [3, 4, 5, 9, 9])
    found = values(one)
    counted = ("steps", "target_calls", "tokens_fed", "tokens", "end_tokens")
    assert [found[name] for name in counted] == [3, 4, 9, 3, 2]
    assert found["tokens_per_call"] == 3 / 4
    assert found["model_seconds"] == pytest.approx(0.6) and found["method_seconds"] == pytest.approx(0.15)
    assert found["tokens_per_second"] == pytest.approx(3 / 0.75)
    assert found["recording_overhead"] == pytest.approx(0.1 / 0.75)
    assert found["warmup_seconds"] == 0.5 and found["wall_seconds"] == 2.0


def test_nothing_to_divide_by_is_shown_as_missing():
    found = {metric.name: metric for metric in measure(trace([], []))}
    assert found["tokens_per_call"].value is None and found["tokens_per_call"].shown == "–"


def test_masks_are_no_tokens():
    found = values(trace([{}], [3, 8, 9], mask_id=8, canvas=5))
    assert (found["tokens"], found["masks_left"]) == (1, 1)


def test_tree_figures():
    found = values(trace([{}, {"tree": tree(2, 4)}, {"tree": tree(0, 3)}], [3, 3, 3, 3, 3]))
    assert found["mean_accepted_excluding_bonus"] == 1.0
    assert found["block_efficiency"] == 2.0
    assert found["acceptance_rate_of_drafted"] == pytest.approx(2 / 7)
    assert found["wasted_nodes"] == 5
    assert found["verified_rows_per_emitted_token"] == pytest.approx(7 / 4)
    assert "mbsu" not in found, "no draft model, no memory-bound model of one"


def test_a_draft_model_is_weighed():
    models = [
        {"role": "target", "name": "big", "kind": "causal", "parameters": 100},
        {"role": "draft", "name": "small", "kind": "causal", "parameters": 10},
    ]
    one = trace([{"tree": tree(2, 4), "forwards": {"target": 1, "draft": 4}}], [3, 3, 3], models=models)
    found = {metric.name: metric for metric in measure(one)}
    assert found["mbsu"].value == pytest.approx(3 / 1.4) and found["mbsu"].kind == "modelled"
    assert (found["target_calls"].value, found["calls_draft"].value) == (1, 4)
    assert found["target_calls"].label == "Model calls" and found["tokens_per_call"].value == 3


def test_work_is_summed_over_roles_and_early_exits_pay_for_their_layers_only():
    models = [{"role": "target", "name": "m", "kind": "layered"}, {"role": "draft", "name": "d", "kind": "causal"}]
    steps = [{"work": {"target": 6}, "forwards": {"target": 1}}, {"work": {"target": 24, "draft": 2}}]
    found = {metric.name: metric for metric in measure(trace(steps, [3, 3], models=models))}
    assert found["work"].value == 32 and found["work"].terms == "target 30 + draft 2"
    one = trace(steps, [3, 3], models=models)
    assert one.totals.work_by_role == {"target": 30, "draft": 2}
    assert [steps_within(one, "work", budget) for budget in (5, 6, 31, 32)] == [0, 1, 1, 2]


def test_calls_of_the_target_come_first_and_are_never_added_to_those_of_a_draft():
    models = [{"role": role, "name": role, "kind": "causal"} for role in ("target", "draft")]
    both = trace([{"forwards": {"draft": 4, "target": 1}}, {"forwards": {"draft": 3}}], [3], models=models)
    assert calls.in_words(both.steps, calls.target_role(both)) == "1 model call, 7 draft calls"
    assert [steps_within(both, "forwards", n) for n in (0, 1)] == [0, 2]
    alone = trace([{"forwards": {"target": 2}}], [3], models=models[:1])
    assert calls.in_words(alone.steps, calls.target_role(alone)) == "2 model calls"
    assert values(alone)["target_calls"] == 2 and "calls_draft" not in values(alone)


def test_acceptance_by_draft_position_counts_the_steps_that_drafted_there():
    found = values(trace([{"tree": tree(2, 4)}, {"tree": tree(0, 3)}], [3, 3, 3, 3]))
    assert [found.get(f"acceptance_at_{place}") for place in (1, 2, 3, 4, 5)] == [0.5, 0.5, 0, 0, None]
    forked = Tree(0, [-1, 0, 0, 1, 2], [1] * 5, [True, False, True, False, True],
                  ["root", "mismatch", "accepted", "unreached", "accepted"], [1])  # fmt: skip
    assert acceptance.by_position([forked]) == [(1, 1), (1, 1)]


def test_choices_are_shared_and_weighed():
    models = [
        {"role": "large", "name": "l", "kind": "causal", "parameters": 100},
        {"role": "small", "name": "s", "kind": "causal", "parameters": 25},
    ]
    choice = {"options": ["small", "large"], "quantity": "entropy", "value": 1.0, "threshold": 0.5}
    steps = [{"forwards": {"small": 1}, "choice": {**choice, "chosen": "small"}}] * 3
    steps.append({"forwards": {"large": 1}, "choice": {**choice, "chosen": "large", "switched": True}})
    found = values(trace(steps, [3, 3, 3, 3], models=models))
    assert (found["share_small"], found["share_large"], found["switches"]) == (0.75, 0.25, 1)
    assert found["weighted_cost"] == pytest.approx((3 * 25 + 100) / (4 * 100))


def test_growth_follows_writing_taking_back_and_the_end_mark():
    steps = [
        {"commits": commits([2, 3], [3, 4])},
        {"commits": commits([3], [8])},
        {"commits": commits([3, 4, 5], [5, 9, 3])},
    ]
    assert curves.growth(trace(steps, [3, 5, 9, 3], mask_id=8, canvas=6)) == [(0, 0), (1, 2), (2, 1), (3, 2)]
    causal = [{"commits": commits([2, 3], [3, 4])}, {"commits": commits([3, 3], [-1, 5])}]
    assert curves.growth(trace(causal, [3, 5])) == [(0, 0), (1, 2), (2, 2)]


def test_confidence_by_step_is_the_mean_of_what_is_known():
    steps = [{"commits": commits([2, 3], [3, 4], [0.5, 1.0])}, {}, {"commits": commits([4], [3], [None])}]
    assert curves.confidence_by_step(trace(steps, [3, 4, 3])) == [(1, 0.75)]


def test_every_number_says_how_it_was_obtained():
    for metric in measure(trace([{"tree": tree(1, 2)}], [3, 3])):
        assert metric.kind in ("measured", "derived", "modelled", "published")
        assert metric.formula and metric.label and metric.unit
        assert isinstance(metric.shown, str) and msgspec.json.encode(metric)


@pytest.mark.parametrize("case", json.loads(GOLDEN.read_text())["cases"], ids=lambda case: case["id"])
def test_golden_names(case: dict):
    given, expect = case["input"], case["expect"]
    accepted, nodes = given["accepted_per_step"], given["verified_nodes_per_step"]
    got = {
        "mean_accepted_excluding_bonus": acceptance.mean_accepted(accepted),
        "block_efficiency": acceptance.block_efficiency(accepted),
        "acceptance_rate_of_drafted": acceptance.acceptance_rate(accepted, given["drafted_per_step"]),
        "mbsu": acceptance.memory_bound_speedup(
            accepted, given["draft_forwards_per_step"], float(Fraction(given["draft_to_target_size_ratio"]))
        ),
        "target_forwards_per_token": acceptance.forwards_per_token(accepted),
        "verified_rows_per_emitted_token": acceptance.rows_per_token(accepted, nodes),
        "wasted_nodes": acceptance.wasted_nodes(accepted, nodes),
    }
    assert got == pytest.approx(expect, rel=1e-12)


def call(track: str, start: float, end: float, measured: bool = True, part_of: str = "") -> dict:
    about = {"about": {"part_of": part_of}} if part_of else {}
    return {"track": track, "start": start, "end": end, **({} if measured else {"measured": False}), **about}


def test_two_models_at_once():
    """Two steps with half a second of recording between them; modelled work does not count, and the calls keep their
    places inside their step."""
    first = [call("draft", 1.0, 1.1), call("draft", 1.1, 1.3), call("target", 1.2, 1.5)]
    first.append(call("draft on its own", 0.0, 9.0, measured=False))
    second = [call("target", 2.1, 2.4), call("draft", 2.0, 2.2)]
    steps = [
        {"intervals": first, "model_seconds": 0.5, "method_seconds": 0.1},
        {"intervals": second, "model_seconds": 0.4, "method_seconds": 0.0},
    ]
    one = trace(steps, [3, 4])
    done = work(one)
    assert {lane: [pytest.approx(spell) for spell in spells] for lane, spells in done.rows.items()} == {
        "draft": [(0.0, 0.3), (0.6, 0.8)],
        "target": [(0.2, 0.5), (0.7, 1.0)],
    }
    assert done.at_once == [pytest.approx((0.2, 0.3)), pytest.approx((0.7, 0.8))] and done.seconds == pytest.approx(1.0)
    found = {metric.name: metric for metric in measure(one)}
    assert found["busy_draft"].value == pytest.approx(0.5) and found["busy_target"].value == pytest.approx(0.6)
    assert found["shared_seconds"].value == pytest.approx(0.2) and found["shared_share"].shown == "22.2 %"
    assert found["shared_share"].terms == "0.200000 s ÷ 0.900000 s" and found["shared_seconds"].kind == "derived"


def test_one_model_or_no_clock_has_no_work_to_compare():
    alone = trace([{"intervals": [call("target", 0, 1)]}], [3])
    untimed = trace([{"intervals": [call("target", 0, 1), call("draft", 0, 1)]}], [3], missing=["model_seconds"])
    for one in (alone, untimed):
        assert not [n for n in values(one) if n.startswith(("busy_", "shared_")) and n != "busy_seconds"]
    assert list(work(alone).rows) == ["target"] and work(untimed).rows == {}
    assert lasting([(0, 2), (1, 3), (1, 1.5), (4, 5)], 1) == [(0, 3), (4, 5)]
    assert lasting([(0, 2), (1, 3), (2, 4)], 2) == [(1, 3)]


def test_what_is_made_behind_a_step_or_within_a_call_is_no_work_beside_it():
    """A reference that the recording computes, and the part of a forward in which an operator was made."""
    lanes = [
        call("target", 0, 0.5),
        call("target: G", 0, 0.3, part_of="target"),
        call("reference", 0.6, 0.9),
        call("reference: G", 0.6, 0.7, part_of="reference"),
    ]
    one = trace([{"intervals": lanes, "model_seconds": 0.5, "method_seconds": 0.1}], [3])
    assert work(one).rows == {"target": [(0, 0.5)]} and work(one).at_once == []
    assert "shared_seconds" not in values(one)
