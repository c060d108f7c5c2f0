"""`--part head=`: a published drafter in the commands, and what is said where it does not fit."""

import json

import pytest

import engines
from engines.diagnosis.loops import SLIPS
from explorer.cli import main
from tests.engines.conftest import GOLDEN
from tests.engines.models.drafters.test_drafters import FORMATS
from tests.engines.test_diagnosis import record_of

DRAFTERS = GOLDEN / "drafters"
RUN = ["run", "--method"]
IDS = ["--prompt-ids", "13 59 30 58 48 5 57 44 56", "--param", "max_new_tokens=16"]


def of(folder, drafter="drafter"):
    return ["--model", str(DRAFTERS / folder / "verifier"), "--part", f"head={DRAFTERS / folder / drafter}"]


def test_run_drafts_with_it_and_the_trace_says_so(capsys, tmp_path):
    file = tmp_path / "run.json"
    assert main([*RUN, "medusa", *of("medusa"), *IDS, "--json", str(file)]) == 0
    out, told = capsys.readouterr()
    header = json.loads(file.read_text("utf-8"))["header"]
    assert header["parts"][0]["name"] == "drafter" and out.strip()
    assert "config.json says 2 heads, and the file has 5." in told
    assert "config.json says 2 heads, and the file has 5." in header["departures"]


@pytest.mark.parametrize("folder", FORMATS)
def test_every_format_runs_from_the_command_and_writes_greedys_text(folder, capsys):
    assert main([*RUN, "greedy", *of(folder)[:2], *IDS]) == 0
    plain = capsys.readouterr().out
    drafted = [i.slug for i in engines.list_methods() if any(FORMATS[folder] in one for one in i.drafters.values())]
    assert drafted
    for slug in drafted:
        assert main([*RUN, slug, *of(folder), *IDS, "--stats"]) == 0
        assert capsys.readouterr().out == plain != "", slug


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ([*RUN, "eagle", *of("eagle3-legacy"), *IDS], "eagle cannot draft with it; choose eagle3"),
        ([*RUN, "medusa", *of("medusa", "drafter-refuse-hidden"), *IDS], "should be [32, 32]"),
        ([*RUN, "medusa", *of("medusa")[:2], "--part", "head=nobody here", *IDS], "no drafter 'nobody here'"),
        # the golden targets have ids alone, and the prompts of certify are texts
        (["certify", "--method", "eagle", *of("eagle12-legacy"), "--prompts", "1"], "no tokenizer"),
        (["diagnose", *of("medusa")], "no prompt is given"),
        (["diagnose", *of("medusa"), "--prompt", "1 2 3", "--max-new-tokens", "1"], "fewer than three tokens"),
    ],
)
def test_what_does_not_fit_is_one_sentence(command, words, capsys):
    assert main(command) == 2
    *_, line = capsys.readouterr().err.splitlines()  # before it, what was told on the way
    assert line.startswith("decoding-explorer: ") and words in line


IDS_AS_TEXT = ["--prompt", "15 35 30 50 41 30 56 28 11", "--max-new-tokens", "24"]


def test_diagnose_says_what_the_drafts_are_worth_and_what_another_acceptance_would_be(capsys, tmp_path):
    file, page = tmp_path / "why.json", tmp_path / "why.html"
    ask = ["diagnose", *of("eagle3-speculators"), *IDS_AS_TEXT]
    assert main([*ask, "--html", str(page), "--json", str(file), "--what-if", "0.9"]) == 0
    told, text = json.loads(file.read_text("utf-8")), page.read_text("utf-8")
    assert told["format"] == "eagle-3" and told["depths"][0]["places"] > 20 and told["tried"]
    assert "<h2>What a round costs here</h2>" in text and "diagnose --model" in text and "<script" not in text
    capsys.readouterr()
    assert main([*ask, "--what-if", "0.9"]) == 0
    out = capsys.readouterr().out
    assert f"{told['accepted']:.2f} of 4 drafted tokens accepted" in out and "No known slip" in out
    assert "What a round costs here" in out and "If 90 % were accepted at every depth: " in out
    assert main([*ask, "--no-times"]) == 0
    assert "What a round costs" not in capsys.readouterr().out


def test_diagnose_names_the_slip_of_a_record(capsys, tmp_path):
    *_, ids, rounds = record_of("mtp", "drafter", SLIPS[0])
    file = tmp_path / "drafted.json"
    file.write_text(json.dumps({"ids": ids, "rounds": [{"place": r.place, "drafted": r.drafted} for r in rounds]}))
    command = ["diagnose", *of("mtp"), *IDS_AS_TEXT, "--no-times", "--record"]
    assert main([*command, str(file)]) == 0
    assert f"The record was drafted with this slip: {SLIPS[0].name}." in capsys.readouterr().out
    file.write_text('{"ids": [1, 2], "rounds": [{"place": "x", "drafted": [1]}]}')
    assert main([*command, str(file)]) == 2
    assert "is no record of drafts (Expected `int`, got `str`" in capsys.readouterr().err
