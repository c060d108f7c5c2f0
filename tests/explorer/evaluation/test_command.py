"""The command `eval`: what it prints, writes and refuses."""

import json
import re
import sys

import pytest

from explorer import cli
from explorer.evaluation.items import Item
from explorer.figures.verdict import judge
from explorer.links import read_query
from explorer.runs.store import RunStore
from tests.explorer.commands import refused

pytest.importorskip("lm_eval", reason="lm_eval is not installed (the extra eval)")

MASKED = ["--method", "threshold", "--model", "tiny-dlm"]


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
        trace = store.get(one["run"])
        mark = judge(trace)
        assert not mark.right and one["step"] == mark.step + 1, "where its first wrong word was written"
        assert any(step.candidates for step in trace.steps), "everything is recorded"
    assert len(ours["failing"]) == 2 and all(one["same"] for one in ours["failing"])
    monkeypatch.setattr(Item, "work", lambda item, model: pytest.fail("it was answered before"))
    assert cli.main([*ask, "--limit", "10"]) == 0
    assert capsys.readouterr().out.count(" 10\n") == 1  # from before


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([*MASKED], "no task is given; give --tasks"),
        ([*MASKED, "--tasks", "nosuch"], "Tasks not found: nosuch; `lm-eval ls tasks` lists them"),
        ([*MASKED, "--tasks", "x", "--max-new-tokens", "8", "--param", "max_new_tokens=9"], "are two lengths"),
        ([*MASKED, "--tasks", "x", "--use_cache", "y"], "--use_cache is not taken: answers are kept anyway"),
        ([*MASKED, "--tasks", "x", "--limit", "2", "--samples", '{"x": [0]}'], "lm_eval refuses: If --samples"),
    ],
)
def test_bad_input_is_one_sentence(given, said, capsys):
    assert said in refused(capsys, "eval", *given)


def test_tasks_that_cannot_be_and_an_interrupt_are_a_sentence(choice, task, sorting, tmp_path, capsys, monkeypatch):
    gone = task("gone", [], output_type="generate_until", doc_to_text="{{q}}", doc_to_target="{{a}}")
    (tmp_path / "gone.jsonl").unlink()
    assert "gone.jsonl" in refused(capsys, "eval", *MASKED, "--tasks", str(gone))
    assert cli.main(["eval", *MASKED, "--tasks", str(choice)]) == 2
    assert "choose tasks whose output_type is generate_until, or a causal model" in capsys.readouterr().err

    def interrupt(item, model):
        raise KeyboardInterrupt

    monkeypatch.setattr(Item, "work", interrupt)
    assert cli.main(["eval", *MASKED, "--tasks", str(sorting(2))]) == 130
    assert "the same command goes on from here" in capsys.readouterr().err


@pytest.mark.usefixtures("registry_unchanged")
def test_the_tasks_that_ship_run_on_a_method_of_ones_own(tmp_path, capsys):
    own = tmp_path / "mine.py"
    own.write_text((cli.TEMPLATES / "causal.py").read_text("utf-8"), "utf-8")
    names = ("copy", "sort", "add")
    paths = ",".join(str(cli.ASSETS / "eval" / f"{name}.yaml") for name in names)
    ask = ["--tasks", paths, "--apply_chat_template", "--limit", "2", "--keep-failing", "0", "--model", "tiny-ar-l"]
    assert cli.main(["eval", "--method-file", str(own), "--method", "my-causal", *ask]) == 0
    out = capsys.readouterr().out
    assert "my-causal on tiny-ar-l" in out and all(f"explorer_{name}" in out for name in names)


def test_without_the_harness_the_command_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "lm_eval._cli.run", None)
    assert 'pip install "decoding-explorer[eval]"' in refused(capsys, "eval", *MASKED, "--tasks", "x")
