"""The command `eval`: what it prints, writes and refuses."""

from __future__ import annotations

import json
import re
import sys

import pytest

from engines.core.registry import registry
from explorer import cli
from explorer.evaluation.items import Item
from explorer.page.links import read_query
from explorer.runs.store import RunStore
from tests.engines.conftest import GOLDEN
from tests.explorer.commands import refused

MASKED = ["--method", "threshold", "--model", "tiny-dlm"]


@pytest.mark.usefixtures("harness")
def test_accuracy_costs_and_failing_runs_are_told_and_written(sorting, tmp_path, capsys, monkeypatch):
    out = tmp_path / "out"
    ask = ["eval", *MASKED, "--param", "threshold=0.1", "--tasks", str(sorting(12)), "--keep-failing", "2"]
    ask += ["--seed", "7"]
    assert cli.main([*ask, "--limit", "10", "--output_path", str(out), "--log_samples"]) == 0
    said = capsys.readouterr()
    assert "threshold (threshold=0.1) on tiny-dlm" in said.out and "|sorting|" in said.out
    head, line = (found for found in said.out.splitlines() if found.startswith(("task ", "sorting ")))
    shown = dict(zip(re.split(r"\s{2,}", head), re.split(r"\s{2,}", line), strict=True))
    written = json.loads(next((out / "tiny-dlm").glob("results_*.json")).read_text())
    ours = written["config"]["decoding_explorer"]
    cost = ours["cost"]["sorting"]
    assert shown["answers"] == "10" == str(cost["answers"]) and shown["from before"] == "0"
    assert float(shown["model calls"]) == pytest.approx(cost["target_calls"], rel=0.01)
    assert 0 < written["results"]["sorting"]["exact_match,stripped"] < 1
    assert ours["params"] == {"threshold": 0.1} and ours["seed"] == 7
    assert len(next((out / "tiny-dlm").glob("samples_sorting_*.jsonl")).read_text().splitlines()) == 10
    store = RunStore.from_env()
    for one in ours["failing"]:
        assert one["link"] in said.err and "the step that wrote word" in said.err
        link = read_query(one["link"].removeprefix("/"))  # the page follows it
        assert link.names == (one["run"],) and link.view == {"step": one["step"]}
        assert 0 < one["step"] <= len(store.get(one["run"]).steps)
    assert len(ours["failing"]) == 2
    monkeypatch.setattr(Item, "work", lambda item, model: pytest.fail("it was answered before"))
    assert cli.main([*ask, "--limit", "10"]) == 0
    assert capsys.readouterr().out.count(" 10\n") == 1  # from before


@pytest.mark.usefixtures("harness")
def test_an_interrupt_says_that_the_same_command_goes_on(sorting, capsys, monkeypatch):
    def interrupt(item, model):
        raise KeyboardInterrupt

    monkeypatch.setattr(Item, "work", interrupt)
    assert cli.main(["eval", *MASKED, "--tasks", str(sorting(2))]) == 130
    assert "the same command goes on from here" in capsys.readouterr().err


@pytest.mark.usefixtures("harness")
@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--method", "threshold", "--model", "nope", "--tasks", "x"], "no model 'nope'"),
        ([*MASKED, "--param", "speed=1", "--tasks", "x"], "'threshold' has no parameter 'speed'"),
        ([*MASKED], "no task is given; give --tasks"),
        ([*MASKED, "--tasks", "nosuch"], "Tasks not found: nosuch; `lm-eval ls tasks` lists them"),
        ([*MASKED, "--tasks", "x", "--speed", "9"], "unrecognized arguments: --speed 9"),
        ([*MASKED, "--tasks", "x", "--use_cache", "y"], "--use_cache is not taken: answers are kept anyway"),
        ([*MASKED, "--tasks", "x", "--batch_size", "8"], "a run decodes one answer"),
        ([*MASKED, "--tasks", "x", "--keep-failing", "-1"], "--keep-failing -1 is not allowed"),
        ([*MASKED, "--tasks", "x", "--limit", "2", "--samples", '{"x": [0]}'], "lm_eval refuses: If --samples"),
        (["--model", "tiny-dlm", "--tasks", "x"], "--method"),
    ],
)
def test_bad_input_is_one_sentence(given, said, capsys):
    assert said in refused(capsys, "eval", *given)


@pytest.mark.usefixtures("harness")
def test_a_choice_needs_a_causal_model(choice, capsys):
    assert cli.main(["eval", *MASKED, "--tasks", str(choice)]) == 2
    assert "choose tasks whose output_type is generate_until, or a causal model" in capsys.readouterr().err
    assert cli.main(["eval", "--method", "greedy", "--model", "tiny-ar-l", "--tasks", str(choice)]) == 0
    assert "|acc" in capsys.readouterr().out


@pytest.mark.usefixtures("harness")
def test_data_that_is_not_there_is_named(task, tmp_path, capsys):
    path = task("gone", [], output_type="generate_until", doc_to_text="{{q}}", doc_to_target="{{a}}")
    (tmp_path / "gone.jsonl").unlink()
    assert "gone.jsonl" in refused(capsys, "eval", *MASKED, "--tasks", str(path))


@pytest.mark.usefixtures("harness")
def test_the_tasks_that_ship_run(capsys):
    names = ("copy", "sort", "add")
    paths = ",".join(str(cli.ASSETS / "eval" / f"{name}.yaml") for name in names)
    ask = ["--tasks", paths, "--apply_chat_template", "--limit", "2", "--keep-failing", "0"]
    assert cli.main(["eval", "--method", "greedy", "--model", "tiny-ar-l", *ask]) == 0
    out = capsys.readouterr().out
    assert all(f"explorer_{name}" in out for name in names)


@pytest.mark.usefixtures("harness", "registry_unchanged")
def test_an_own_method_is_evaluated_like_any_other(sorting, tmp_path, capsys):
    own = tmp_path / "mine.py"
    own.write_text((cli.TEMPLATES / "masked.py").read_text("utf-8"), "utf-8")
    before = set(registry().methods)
    cli.main(["run", "--method-file", str(own), "--model", "tiny-dlm", "--prompt", "sort: Mia"])
    (slug,) = set(registry().methods) - before
    ask = ["eval", "--method-file", str(own), "--method", slug, "--model", "tiny-dlm", "--tasks", str(sorting(2))]
    capsys.readouterr()
    assert cli.main(ask) == 0
    assert f"{slug} on tiny-dlm" in capsys.readouterr().out


@pytest.mark.usefixtures("harness")
def test_a_published_drafter_drafts_beside_the_model(task, tmp_path):
    drafters = GOLDEN / "drafters" / "medusa"
    path = task(
        "ids",
        [{"q": "13 59 30 58 48 5 57 44 56", "a": "1"}],  # this model has no tokenizer
        output_type="generate_until",
        doc_to_text="{{q}}",
        doc_to_target="{{a}}",
        generation_kwargs={"until": [], "max_gen_toks": 16},
    )
    ask = ["eval", "--method", "medusa", "--model", str(drafters / "verifier"), "--tasks", str(path)]
    out = ["--output_path", str(tmp_path / "out.json")]
    assert cli.main([*ask, "--part", f"head={drafters / 'drafter'}", *out]) == 0
    ours = json.loads(next(tmp_path.glob("out_*.json")).read_text())["config"]["decoding_explorer"]
    assert [one["kind"] for one in ours["models"]] == ["causal", "part"]
    assert ours["cost"]["ids"]["tokens"] == 16 and ours["cost"]["ids"]["other_calls"] > 0


def test_without_the_harness_the_command_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "lm_eval._cli.run", None)
    assert 'pip install "decoding-explorer[eval]"' in refused(capsys, "eval", *MASKED, "--tasks", "x")
