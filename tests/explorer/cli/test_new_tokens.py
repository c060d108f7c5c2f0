"""`--max-new-tokens`: one spelling in every command that decodes, the same as the parameter `max_new_tokens`."""

import argparse
import json

import pytest

import engines
from engines import Trace
from explorer import cli
from explorer.cli.options import OPTION, positive
from tests.explorer.commands import call, refused

OTHERS = {"attach", "diagnose"}  # decode without naming a method
SETTLED = {"fork"}  # names one, and goes on with an answer whose length is settled
MODEL = ("--model", "tiny-ar-s")
METHOD = "token-recycling"
RUN = ("run", "--method", METHOD, *MODEL, "--prompt", "copy: Mia, Leo, Ada")
COMPARE = ("compare", *RUN[1:], "--method", "greedy", "--json")
CERTIFY = ("certify", "--method", METHOD, *MODEL, "--prompts", "1", "--json")
ADVISE = ("advise", "--method", METHOD, *MODEL, "--prompt", "copy: Mia, Leo")


def options() -> dict[str, dict[str, argparse.Action]]:
    """Of each command its options by all of their spellings."""
    commands = next(one for one in cli.parser()._actions if isinstance(one, argparse._SubParsersAction)).choices
    return {name: parser._option_string_actions for name, parser in commands.items()}


def test_every_command_that_decodes_spells_it_alike():
    naming = {name for name, own in options().items() if "--method" in own}
    having = {name: own[OPTION] for name, own in options().items() if OPTION in own}
    assert {*having} == naming - SETTLED | OTHERS
    assert len({one.help.partition(" (default ")[0] for one in having.values()}) == 1
    assert {(one.type, one.metavar, one.default) for one in having.values()} == {(positive, "N", None)}


def test_a_server_is_asked_for_so_many(monkeypatch, capsys):
    def attached(*given, max_tokens, **options):
        raise engines.UserError(f"{max_tokens} were asked for.")

    monkeypatch.setattr("explorer.attach.Attached", attached)
    assert "5 were asked for" in refused(capsys, "attach", "http://localhost:1/v1", "--prompt", "x", OPTION, "5")


def test_it_is_the_parameter_and_two_lengths_are_refused(capsys):
    runs = [
        Trace.from_json(call(capsys, *RUN, "--json", "-", *given)[1])
        for given in ((OPTION, "3"), ("--param", "max_new_tokens=3"), (OPTION, "3", "--param", "max_new_tokens=3.0"))
    ]
    assert [(run.header.params["max_new_tokens"], len(run.output_ids)) for run in runs] == [(3, 3)] * 3
    rows = json.loads(call(capsys, *COMPARE, OPTION, "2")[1])
    assert [row["tokens"] for row in rows] == [2, 2]
    assert "cut at 2 tokens: raise --max-new-tokens" in call(capsys, *RUN, OPTION, "2", "--stats")[2]
    for command, key in ((RUN, "max_new_tokens"), (COMPARE, "greedy:max_new_tokens")):
        said = refused(capsys, *command, OPTION, "3", "--param", f"{key}=4")
        assert f"--param {key}=4 and {OPTION} 3 are two lengths; leave one of them out." in said
    assert "'0' is not a whole number above 0" in refused(capsys, *RUN, OPTION, "0")
    assert "max_new_tokens=9999 is out of range" in refused(capsys, *RUN, OPTION, "9999")


@pytest.mark.usefixtures("registry_unchanged")
def test_a_method_without_the_parameter_names_what_it_has(capsys, tmp_path):
    file, text = tmp_path / "my.py", (cli.TEMPLATES / "causal.py").read_text()
    file.write_text(text.replace("        max_new_tokens(),\n", "").replace("p.max_new_tokens", "4"))
    asked = ("run", "--method-file", str(file), *RUN[3:])
    assert call(capsys, *asked)[0] == 0
    said = refused(capsys, *asked, OPTION, "4")
    assert f"{OPTION} sets the parameter max_new_tokens, which my-causal has not; what it has is part, temp" in said


def test_methods_that_are_measured_have_one_length_with_their_control(capsys):
    for given in ((OPTION, "3"), ("--param", "max_new_tokens=3")):
        found = json.loads(call(capsys, *CERTIFY, *given)[1])
        assert found["max_new_tokens"] == 3 and found["kept"][0]["tokens"] == 3 and not found["kept"][0]["params"]
    bench = ("bench", "--method", METHOD, *MODEL)
    for command in (CERTIFY, ADVISE, bench, (*bench, "--by-class")):
        said = refused(capsys, *command, OPTION, "8", "--param", f"{METHOD}:max_new_tokens=4")
        assert f"{METHOD}:max_new_tokens=4 is another length than the 8 tokens" in said and said.count(OPTION) == 1
    assert f"leave {OPTION} out" in refused(capsys, "bench", "--names", *MODEL, OPTION, "4")


def test_a_sweep_has_it_in_its_control_and_its_curve_too():
    from explorer.cli.sweep import _asked

    words = ["sweep", "--method", "creditdecoding", "--model", "tiny-dlm", "--prompts", "1", "--task", "sort"]
    args = cli.parser().parse_args([*words, OPTION, "16", "--param", "max_new_tokens=16"])
    settings = _asked(args, engines.load_model("tiny-dlm")).settings
    assert {one.method for one in settings} > {"creditdecoding"} and any(one.control for one in settings)
    assert {one.params["max_new_tokens"] for one in settings} == {16}
