"""Each figure against values computed by hand, and the metric names of the golden data."""

import json
import re
from pathlib import Path

import msgspec
import pytest

import engines
from engines import Trace, Tree
from explorer.cli.run import row
from explorer.figures import acceptance, calls, clock
from explorer.figures.clock import steps_within
from explorer.figures.definitions import COUNTED, DEFINITIONS, KINDS, PLAYED
from explorer.figures.metrics import facts, measure, numbers, receipt
from explorer.figures.samples import all_tokens, gained
from explorer.figures.work import lasting, work
from explorer.importers import import_trace
from explorer.runs.gallery import gallery
from tests.explorer.figures.lookback import looked


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
    masks = values(trace([{}], [3, 8, 9], mask_id=8, canvas=5))
    assert (masks["tokens"], masks["masks_left"]) == (1, 1), "masks are no tokens"
    empty = {metric.name: metric for metric in measure(trace([], []))}
    assert empty["tokens_per_call"].value is None and empty["tokens_per_call"].shown == "–"


def test_tree_figures():
    found = values(trace([{}, {"tree": tree(2, 4)}, {"tree": tree(0, 3)}], [3, 3, 3, 3, 3]))
    names = ("mean_accepted_excluding_bonus", "block_efficiency", "wasted_nodes", "verified_rows_per_emitted_token")
    assert [found[name] for name in names] == [1.0, 2.0, 5, pytest.approx(7 / 4)]
    assert found["acceptance_rate_of_drafted"] == pytest.approx(2 / 7)
    assert [found.get(f"acceptance_at_{place}") for place in (1, 2, 3, 4, 5)] == [0.5, 0.5, 0, 0, None]
    ended = {"tree": tree(2, 2) | {"emitted": [3, 9]}, "commits": commits([2, 3], [3, 9])}
    found = values(trace([ended, {"tree": tree(0, 2)}], [3, 9, 3]))
    assert (found["block_efficiency"], found["verified_rows_per_emitted_token"]) == (1.5, 4 / 3), "none behind the end"
    assert "mbsu" not in found, "no draft model, no memory-bound model of one"
    forked = Tree(0, [-1, 0, 0, 1, 2], [1] * 5, [True, False, True, False, True],
                  ["root", "mismatch", "accepted", "unreached", "accepted"], [1])  # fmt: skip
    assert acceptance.by_position([forked]) == [(1, 1), (1, 1)]


def test_calls_of_the_target_come_first_and_are_never_added_to_those_of_a_draft():
    models = [{"role": "target", "name": "big", "kind": "causal", "parameters": 100}]
    models.append({"role": "draft", "name": "small", "kind": "causal", "parameters": 10})
    steps = [{"forwards": {"draft": 4, "target": 1}, "work": {"target": 6}, "tree": tree(2, 4)}]
    steps.append({"forwards": {"draft": 3}, "work": {"target": 24, "draft": 2}})
    both = trace(steps, [3, 3, 3], models=models)
    assert calls.in_words(both.steps, calls.target_role(both)) == "1 model call, 7 draft calls"
    assert [steps_within(both, "forwards", n) for n in (0, 1)] == [0, 2]
    assert [steps_within(both, "work", budget) for budget in (5, 6, 31, 32)] == [0, 1, 1, 2]
    found = {metric.name: metric for metric in measure(both)}
    assert found["work"].value == 32 and found["work"].terms == "target 30 + draft 2"
    assert found["mbsu"].kind == "modelled" and (found["target_calls"].value, found["calls_draft"].value) == (1, 7)
    alone = trace([{"forwards": {"target": 2}}], [3], models=models[:1])
    assert calls.in_words(alone.steps, calls.target_role(alone)) == "2 model calls"
    assert values(alone)["target_calls"] == 2 and "calls_draft" not in values(alone)


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
        {"commits": commits([2, 3], [3, 4], [0.5, 1.0])},
        {"commits": commits([3], [8], [None])},
        {"commits": commits([3, 4, 5], [5, 9, 3])},
    ]
    one = trace(steps, [3, 5, 9, 3], mask_id=8, canvas=6)
    assert clock.growth(one) == [(0, 0), (1, 2), (2, 1), (3, 2)] and clock.confidence_by_step(one) == [(1, 0.75)]
    causal = [{"commits": commits([2, 3], [3, 4])}, {"commits": commits([3, 3], [-1, 5])}]
    assert clock.growth(trace(causal, [3, 5])) == [(0, 0), (1, 2), (2, 2)]


def test_every_number_says_how_it_was_obtained():
    for metric in measure(trace([{"tree": tree(1, 2)}], [3, 3])):
        assert metric.kind in ("measured", "derived", "modelled", "published")
        assert metric.formula and metric.label and metric.unit
        assert isinstance(metric.shown, str) and msgspec.json.encode(metric)


def call(track: str, start: float, end: float, measured: bool = True, part_of: str = "") -> dict:
    about = {"about": {"part_of": part_of}} if part_of else {}
    return {"track": track, "start": start, "end": end, **({} if measured else {"measured": False}), **about}


def test_work_of_two_models_at_once_is_compared_and_of_one_or_behind_a_step_is_not():
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
    alone = trace([{"intervals": [call("target", 0, 1)]}], [3])
    untimed = trace([{"intervals": [call("target", 0, 1), call("draft", 0, 1)]}], [3], missing=["model_seconds"])
    lanes = [call("target", 0, 0.5), call("target: G", 0, 0.3, part_of="target"), call("reference", 0.6, 0.9)]
    behind = trace([{"intervals": lanes, "model_seconds": 0.5, "method_seconds": 0.1}], [3])
    for one in (alone, untimed, behind):
        assert not [n for n in values(one) if n.startswith(("busy_", "shared_")) and n != "busy_seconds"]
    assert list(work(alone).rows) == ["target"] and work(untimed).rows == {}
    assert work(behind).rows == {"target": [(0, 0.5)]} and work(behind).at_once == []
    assert lasting([(0, 2), (1, 3), (1, 1.5), (4, 5)], 1) == [(0, 3), (4, 5)]
    assert lasting([(0, 2), (1, 3), (2, 4)], 2) == [(1, 3)]


PROMPT = "add: 457 + 86"


def run(slug: str, **params):
    return engines.run(slug, engines.load_model("tiny-ar-l", dtype="float32"), PROMPT, params=params)


@pytest.mark.parametrize("slug", ["stand", "stand-side-by-side"])
def test_samples_on_one_store(slug):
    trace = run(slug, trajectories=3, temperature=1.0, max_new_tokens=24)
    each: dict[int, list[int]] = {}
    for step in trace.steps:
        for branch in step.branches:
            each.setdefault(branch.id, []).extend(branch.tokens)
    words = [len([token for token in ids if token not in trace.header.eos_ids]) for ids in each.values()]
    assert len(words) == 3 and trace.totals.tokens in words
    assert all_tokens(trace) == sum(words) > trace.totals.tokens
    found = values(trace)
    calls = trace.totals.forwards_by_role["target"]
    assert found["tokens_per_call"] == row(trace, trace)["tokens_per_call"] == sum(words) / calls
    assert found["all_tokens"] == sum(words) and found["tokens"] == trace.totals.tokens


def test_paths_of_other_methods_count_too_and_one_text_and_guesses_are_no_samples():
    for slug in ("ffs", "rpc", "beam"):
        trace = run(slug, max_new_tokens=16)
        assert all_tokens(trace) > trace.totals.tokens
    for slug, params in (("greedy", {}), ("stand", {"trajectories": 1}), ("mirror-sd", {}), ("adadec", {})):
        trace = run(slug, max_new_tokens=16, **params)
        assert all_tokens(trace) is None and gained(trace) == trace.totals.tokens
        assert "all_tokens" not in {metric.name for metric in measure(trace)}


RECORDS = Path(__file__).parent.parent / "records"


def drafted() -> Trace:
    """A recorded run that got tokens for nothing from accepted drafts."""
    traces = (gallery().get(card.id) for card in gallery().cards)
    return next(t for t in traces if any(s.commits and "bonus" in s.commits.causes for s in t.steps))


def test_definitions_name_only_what_there_is():
    known = {"remasked", "changed", "cut", "final", "kept", *numbers(drafted())}
    for name, one in DEFINITIONS.items():
        assert set(re.findall(r"\{(\w+)\}", one.terms)) <= known, name
        assert set(one.counts) <= set(COUNTED) and one.kind in KINDS and one.formula
    assert {name for rows in COUNTED.values() for _, name, _ in rows} - {""} <= known
    assert set(PLAYED) <= set(DEFINITIONS)


def value_of(terms: str) -> float | None:
    """The value of a formula with numbers put in; None where it is words."""
    plain = re.sub(r"(?<=\d),(?=\d)|(?<=\d) s\b", "", terms)
    plain = re.sub(r" \([a-z ]+\)", "", plain)  # what a number is of
    plain = plain.replace("÷", "/").replace("×", "*").replace("−", "-")
    return eval(plain) if re.fullmatch(r"[\d\s.()+*/-]+", plain) else None


def formulas_give_their_numbers(trace: Trace) -> None:
    """Each formula of a run's numbers with its own numbers put in; `test_recordings` asks it of every recorded run."""
    checked = 0
    for metric in measure(trace):
        found = value_of(metric.terms) if metric.terms else None
        if found is not None and metric.value is not None:
            assert found == pytest.approx(metric.value, rel=5e-3), (metric.name, metric.terms)
            checked += 1
    assert checked >= 4
    told = {m.name for m in measure(trace) if m.terms and value_of(m.terms) is not None}
    assert {"tokens_per_call", "tokens_per_second", "tokens"} <= told


def test_a_receipt_holds_everything_that_a_person_may_ask_and_counts_in_each_number_what_is_in_it():
    trace = drafted()
    shared, metric = facts(trace), next(m for m in measure(trace) if m.name == "tokens_per_second")
    told = receipt(metric)
    assert (told["kind"], told["value"], told["terms"]) == ("derived", metric.shown, metric.terms)
    assert told["counts"] == ["gained", "time"] and told["label"] and told["formula"] and told["note"]
    header, known = shared["header"], shared["numbers"]
    assert header["models"][0]["sha256"] and header["versions"] and header["machine"]
    assert known["bonus"] == sum(s.commits.causes.count("bonus") for s in trace.steps if s.commits) > 0
    assert sum(known[name] for name in ("tokens", "end_tokens", "padding", "masks")) == len(trace.output_ids)
    trace = gallery().get("33-stand-python")
    known = numbers(trace)
    everywhere = sum(step.commits.causes.count("bonus") for step in trace.steps if step.commits)
    assert 0 < known["bonus"] + known["corrections"] <= known["tokens"] < known["gained"]
    assert known["bonus"] < everywhere
    for name, counts in (("tokens", ["tokens"]), ("tokens_per_call", ["gained", "calls"])):
        assert DEFINITIONS[name].counts == counts
    trace = import_trace((RECORDS / "vllm-detailed.json").read_text("utf-8"))
    found = {metric.name: metric for metric in measure(trace)}
    assert found["tokens"].value and found["tokens"].terms == ""
    assert not [metric.name for metric in measure(trace) if "–" in metric.terms]
    assert found["work"].conditions == "not in vLLM's per-request speculative metrics: work"
