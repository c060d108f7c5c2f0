"""A method as a model of the harness: its answers are those of `engines.run`, and nothing is answered twice."""

import itertools
from types import SimpleNamespace

import pytest

import engines
from explorer.bench.workers import on_ray, task
from explorer.cli.run import row
from explorer.evaluation.items import Item, Scored, key
from explorer.evaluation.lm import asked_of
from explorer.figures.verdict import judge
from explorer.runs.store import RunStore

pytest.importorskip("lm_eval", reason="lm_eval is not installed (the extra eval)")

THREE = [("greedy", "tiny-ar-l"), ("threshold", "tiny-dlm"), ("fast-dllm-v2", "tiny-blockdlm")]


def evaluated(lm, path, **options):
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager
    from lm_eval.tasks._yaml_loader import load_yaml

    config = load_yaml(path, resolve_func=True)
    return simple_evaluate(lm, tasks=[config], task_manager=TaskManager(), bootstrap_iters=0, **options)


def model_of(*args, **options):
    from explorer.evaluation import DecodingLM

    return DecodingLM(*args, **options)


def ours(results):
    return results["config"]["decoding_explorer"]


@pytest.mark.parametrize(("method", "model"), THREE)
def test_answers_and_costs_are_those_of_runs(method, model, sorting):
    results = evaluated(model_of(method, model, seed=3), sorting(2))
    samples = results["samples"]["sorting"]
    runs = [engines.run(method, model, s["doc"]["prompt"][7:-6], params={"max_new_tokens": 32}) for s in samples]
    assert [s["filtered_resps"][0] for s in samples] == [run.text for run in runs]
    right = [judge(run).right for run in runs]
    assert results["results"]["sorting"]["exact_match,stripped"] == sum(right) / 2
    cost, rows = ours(results)["cost"]["sorting"], [row(run, run) for run in runs]
    for name in ("steps", "target_calls", "other_calls", "work", "tokens_fed", "tokens"):
        assert cost[name] == sum(one[name] for one in rows) / 2, name
    assert cost["tokens_per_call"] == sum(one["tokens"] for one in rows) / sum(one["target_calls"] for one in rows)
    assert (cost["answers"], cost["reused"], cost["cut"]) == (2, 0, 0) and cost["seconds"] > 0
    assert ours(results)["models"][0]["name"] == model and ours(results)["seed"] == 3


def test_what_is_answered_is_not_answered_again(sorting, monkeypatch):
    path, work, asked = sorting(4), Item.work, itertools.count(1)

    def interrupted(item, model):
        if next(asked) == 3:
            raise KeyboardInterrupt
        return work(item, model)

    monkeypatch.setattr(Item, "work", interrupted)
    with pytest.raises(KeyboardInterrupt):
        evaluated(model_of("threshold", "tiny-dlm"), path)
    again = []
    monkeypatch.setattr(Item, "work", lambda item, model: again.append(item) or work(item, model))
    resumed = evaluated(model_of("threshold", "tiny-dlm"), path)
    assert len(again) == 2 and ours(resumed)["cost"]["sorting"]["reused"] == 2
    whole = evaluated(model_of("threshold", "tiny-dlm", resume=False), path)
    assert len(again) == 6 and ours(whole)["cost"]["sorting"]["reused"] == 0
    assert [s["resps"] for s in resumed["samples"]["sorting"]] == [s["resps"] for s in whole["samples"]["sorting"]]
    evaluated(model_of("threshold", "tiny-dlm", {"threshold": 0.5}), path)
    assert len(again) == 10  # other parameters, other answers


def test_everything_that_decides_an_answer_is_in_its_key():
    fields = ("m", {"a": 1}, [1, 2], ["\n"], 0)
    item, others = Item(*fields), [Scored("m", [1, 2], 1)]
    for at, other in enumerate(("n", {"a": 2}, [1, 3], [], 1)):
        others.append(Item(*fields[:at], other, *fields[at + 1 :]))
    names = {key(one, ["weights"]) for one in [item, *others]} | {key(item, ["other weights"])}
    assert len(names) == 8 and key(item, ["weights"]) == key(Item(*fields), ["weights"])
    assert key(item, None) is None  # weights that cannot be told from others


def test_repeats_of_a_request_are_drawn_apart():
    lm = model_of("temperature", "tiny-ar-s", {"temperature": 2.0})
    context = ("<user> sort: Mia, Leo<turn>", {"max_gen_toks": 16, "do_sample": True})
    requests = [SimpleNamespace(args=context, task_name="sorting")] * 3
    three = lm.generate_until(requests)
    assert len(set(three)) == 3 and lm.generate_until(requests) == three


COPY = "<user> copy: Mia, Leo, Ada, Tom, Eva, Ida<turn>"


@pytest.mark.parametrize("method", ["greedy", "token-recycling"])
def test_an_answer_that_only_grows_ends_at_the_string_that_ends_it(method):
    lm = model_of(method, "tiny-ar-l")
    whole = lm.item(COPY, {"max_gen_toks": 32}).work(lm.model)
    item = lm.item(COPY, {"max_gen_toks": 32, "until": ["Ada"]})
    ended = item.work(lm.model)
    assert "Ada" in whole.text and ended.text == whole.text.partition("Ada")[0]
    assert 0 < ended.target_calls < whole.target_calls
    assert item.run(lm.model).end.reason == "stopped"


def test_a_masked_board_is_finished_and_cut_afterwards():
    lm = model_of("threshold", "tiny-dlm")
    whole, ended = (
        lm.item(COPY, {"max_gen_toks": 32, "until": until}).work(lm.model) for until in ([], ["Tom", "Ada"])
    )
    assert ended.text == whole.text.partition("Ada")[0]
    assert (ended.target_calls, ended.tokens) == (whole.target_calls, whole.tokens)


def test_items_that_are_scored_cost_a_forward_and_leave_no_run(choice, tmp_path):
    from explorer.evaluation import keep_failing

    lm = model_of("greedy", "tiny-ar-l")
    results = evaluated(lm, choice)
    assert results["results"]["choice"]["acc,none"] == 1
    cost = ours(results)["cost"]["choice"]
    assert (cost["answers"], cost["target_calls"], cost["tokens"], cost["tokens_per_call"]) == (4, 1, 0, None)
    for sample in results["samples"]["choice"]:
        sample["acc"] = 0.0
    assert keep_failing(results, lm, 5, RunStore(tmp_path)) == []


@pytest.mark.slow
@pytest.mark.parametrize("ray", ["", pytest.param("local", marks=pytest.mark.ray)])
def test_several_at_once_answer_the_same(ray):
    if ray:
        pytest.importorskip("ray")
    alone = model_of("threshold", "tiny-dlm", resume=False)
    two = model_of("threshold", "tiny-dlm", resume=False, workers=2, threads=1, **({"ray": ray} if ray else {}))
    items = [alone.item(f"<user> copy: {name}, Leo<turn>", {"max_gen_toks": 16}) for name in ("Mia", "Ada", "Eva")]
    found = [[(a.text, a.target_calls, a.work) for a in lm._answers(items, ["t"] * 3)] for lm in (two, alone)]
    assert found[0] == found[1]
    if ray:
        with pytest.raises(engines.UserError, match="no Ray cluster answers"):
            list(on_ray(task("tiny-dlm", {}, 1), 1, "127.0.0.1:1", [None], lambda: False))
    bad = Item("threshold", {"max_new_tokens": 1000}, items[0].prompt, [], 0)
    with pytest.raises(engines.UserError, match=r"^the prompt has .* tiny-dlm has room for 512"):
        two._answers([bad], ["t"])


@pytest.mark.parametrize(("method", "model"), THREE)
def test_a_long_document_costs_its_beginning_and_no_other_answer(method, model):
    lm = model_of(method, model, batch_size=8, max_batch_size="auto")
    contexts = ["sort: " + ", ".join(["Mia", "Leo", "Ada"] * 400), COPY]
    asks = {"max_gen_toks": 16}
    texts = lm.generate_until([SimpleNamespace(args=(one, asks), task_name="t") for one in contexts])
    long, short = (lm.item(one, asks) for one in contexts)
    assert long.left_out == len(lm.tok_encode(contexts[0])) - len(long.prompt) > 0 == short.left_out
    assert long.prompt == lm.tok_encode(contexts[0])[-len(long.prompt) :]
    assert texts == [
        one.text(engines.run(method, model, one.prompt, params=one.params), lm.model) for one in (long, short)
    ]
    assert lm.get_model_info()["decoding_explorer"]["cost"]["t"]["shortened"] == 1


def asked(method, own=None, **gen_kwargs):
    return asked_of(engines.get_method(method).info, own or {}, gen_kwargs)


def test_length_ends_and_parameters_are_the_tasks_behind_a_persons_and_before_the_harness():
    from lm_eval.models.huggingface import HFLM

    assert asked("greedy", until=["\n", ""], max_gen_toks=17) == ({"max_new_tokens": 17}, ["\n"])
    assert asked("greedy", until="Q:", max_tokens=17) == ({"max_new_tokens": 17}, ["Q:"])  # the harness's other names
    assert asked("greedy")[0] == {"max_new_tokens": HFLM.max_gen_toks.fget(None)}
    own = {"max_new_tokens": 8, "temperature": 0.5}
    assert asked("temperature", own, max_gen_toks=99, do_sample=False)[0] == own
    assert asked("threshold", max_gen_toks=16, threshold="0.8")[0]["threshold"] == 0.8
    nothing = {"temperature": 0.0, "top_p": 0.9, "num_beams": 1, "seed_me": None}
    for asks in ({"do_sample": False, **nothing}, dict.fromkeys(["do_sample", *nothing])):
        assert asked("greedy", max_gen_toks=8, **asks) == ({"max_new_tokens": 8}, []), "that changes nothing"


@pytest.mark.parametrize(
    ("asks", "heat"),
    [
        ({"do_sample": False, "temperature": 0.7}, 0),
        ({"temperature": 0.7}, 0.7),
        ({"do_sample": True}, 1),
        ({"do_sample": True, "temperature": 0.7}, 0.7),
        ({}, None),
    ],
)
def test_temperature_is_the_tasks_by_the_harness_rule(asks, heat):
    assert asked("temperature", **asks)[0].get("temperature") == heat


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
