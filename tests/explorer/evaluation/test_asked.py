"""What a task asks of generation, as parameters of a method."""

from __future__ import annotations

import pytest

import engines
from explorer.evaluation.asked import asked_of, checked

pytest.importorskip("lm_eval", reason="lm_eval is not installed (the extra eval)")


def asked(method, own=None, **gen_kwargs):
    return asked_of(engines.get_method(method).info, own or {}, gen_kwargs)


def test_length_and_ends_are_the_tasks():
    params, until = asked("greedy", until=["\n", ""], max_gen_toks=17)
    assert (params, until) == ({"max_new_tokens": 17}, ["\n"])
    assert asked("greedy", until="Q:", max_tokens=17) == ({"max_new_tokens": 17}, ["Q:"])  # the harness's other names


def test_a_task_without_a_length_has_that_of_the_harness():
    from lm_eval.models.huggingface import HFLM

    theirs = HFLM.max_gen_toks.fget(None)
    assert asked("greedy")[0] == {"max_new_tokens": theirs}


def test_a_persons_parameter_stands_before_the_tasks():
    own = {"max_new_tokens": 8, "temperature": 0.5}
    assert asked("temperature", own, max_gen_toks=99, do_sample=False)[0] == own


def test_a_fixed_number_of_steps_follows_the_length():
    """As in a sweep: the same tokens per forward as at the defaults."""
    several = [(info.slug, {p.name: p.default for p in info.params}) for info in engines.list_methods()]
    slug, defaults = next((slug, usual) for slug, usual in several if usual.get("steps"))
    found = asked(slug, max_gen_toks=defaults["max_new_tokens"] // 2)[0]
    assert found["steps"] == defaults["steps"] // 2


@pytest.mark.parametrize(
    ("asks", "heat"),
    [
        ({"do_sample": False}, 0),
        ({"do_sample": False, "temperature": 0.7}, 0),
        ({"temperature": 0.0}, 0),
        ({"temperature": 0.7}, 0.7),
        ({"do_sample": True}, 1),
        ({"do_sample": True, "temperature": 0.7}, 0.7),
    ],
)
def test_temperature_is_the_tasks_by_the_harness_rule(asks, heat):
    assert asked("temperature", **asks)[0]["temperature"] == heat


def test_a_task_that_says_nothing_of_sampling_leaves_the_methods_temperature():
    assert "temperature" not in asked("temperature", max_gen_toks=8)[0]


def test_what_a_method_cannot_do_is_refused_in_one_sentence():
    with pytest.raises(engines.UserError, match=r"'greedy' has no temperature; .* --gen_kwargs do_sample=False"):
        asked("greedy", do_sample=True, temperature=0.7)
    with pytest.raises(engines.UserError, match="asks for num_beams=4, and 'greedy' has no such parameter"):
        asked("greedy", num_beams=4)
    with pytest.raises(engines.UserError, match=r"max_gen_toks=100000; give a whole .* from 1 to .* --param max_new"):
        asked("greedy", max_gen_toks=100_000)
    params = [(info.slug, p) for info in engines.list_methods() for p in info.params]
    always = next(slug for slug, p in params if p.name == "temperature" and p.low > 0)
    with pytest.raises(engines.UserError, match=f"greedy decoding, .*'{always}' cannot do that: give a number from"):
        asked(always, do_sample=False)


@pytest.mark.parametrize(
    "asks",
    [
        {"do_sample": False, "temperature": 0.0, "top_p": 0.9, "num_beams": 1, "seed_me": None},  # changes nothing
        {"do_sample": None, "temperature": None, "top_p": None, "num_beams": None},  # takes a wish of the task out
    ],
)
def test_what_changes_nothing_is_no_reason_to_refuse(asks):
    assert asked("greedy", max_gen_toks=8, **asks) == ({"max_new_tokens": 8}, [])


def test_a_parameter_of_the_method_can_be_asked_for_by_the_task():
    assert asked("threshold", max_gen_toks=16, threshold="0.8")[0]["threshold"] == 0.8


def test_parameters_are_checked_before_anything_runs():
    info = engines.get_method("threshold").info
    assert checked(info, {"threshold": "0.8"}) == {"threshold": 0.8}
    with pytest.raises(engines.UserError, match="'threshold' has no parameter 'speed'; it has block_length"):
        checked(info, {"speed": "1"})
