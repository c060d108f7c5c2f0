"""`--part head=`: a published drafter in the commands, and what is said where it does not fit."""

import json

import pytest

import engines
from explorer.bench import chosen
from explorer.cli import main
from tests.engines.conftest import GOLDEN

DRAFTERS = GOLDEN / "drafters"
IDS = ["--prompt-ids", "13 59 30 58 48 5 57 44 56", "--param", "max_new_tokens=16"]


def of(folder, drafter="drafter"):
    return ["--model", str(DRAFTERS / folder / "verifier"), "--part", f"head={DRAFTERS / folder / drafter}"]


def test_run_drafts_with_it_and_the_trace_says_so(capsys, tmp_path):
    file = tmp_path / "run.json"
    assert main(["run", "--method", "medusa", *of("medusa"), *IDS, "--json", str(file)]) == 0
    out, told = capsys.readouterr()
    header = json.loads(file.read_text("utf-8"))["header"]
    assert header["parts"][0]["name"] == "drafter" and out.strip()
    assert "config.json says 2 heads, and the file has 5." in told
    assert "config.json says 2 heads, and the file has 5." in header["departures"]


def test_compare_lets_the_others_be(capsys):
    assert main(["compare", "--method", "greedy", "--method", "hydra", *of("hydra"), *IDS, "--json"]) == 0
    greedy, ours = json.loads(capsys.readouterr().out)
    assert ours["first_difference"] == "same" and ours["target_calls"] < greedy["target_calls"]
    assert ours["other_calls"] > 0 == greedy["other_calls"]


def test_certify_holds_it_against_greedy(capsys):
    command = ["certify", "--method", "eagle", *of("eagle12-legacy"), "--prompts", "1", "--max-new-tokens", "8"]
    code = main(command)
    told = capsys.readouterr().err
    assert code == 2 and "no tokenizer" in told  # the golden targets have ids alone, and the prompts are texts


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["--method", "eagle", *of("medusa"), *IDS], "is a drafter of the format medusa-heads, and eagle cannot draft"),
        (["--method", "eagle", *of("eagle3-legacy"), *IDS], "no method here drafts with the format eagle-3 yet"),
        (["--method", "medusa", *of("medusa", "drafter-refuse-hidden"), *IDS], "should be [32, 32]"),
        (["--method", "medusa", *of("medusa"), *of("medusa")[2:], *IDS], "--part was given 2 times"),
        (["--method", "medusa", *of("medusa")[:2], "--part", "tail=x", *IDS], "names no part"),
        (["--method", "llada", "--model", "tiny-dlm", "--part", "head=x", *IDS], "needs a Llama- or Qwen-like target"),
        (["--method", "medusa", *of("medusa")[:2], "--part", "head=nobody here", *IDS], "no drafter 'nobody here'"),
    ],
)
def test_what_does_not_fit_is_one_sentence(command, words, capsys):
    assert main(["run", *command]) == 2
    told = capsys.readouterr().err
    assert words in told and told.count("\n") == 1


def test_advise_tries_the_method_that_drafts_with_it():
    target = engines.load_model(DRAFTERS / "medusa" / "verifier", dtype="float32")
    alone = [info.slug for info in chosen.chosen(target)]
    drafter = engines.load_drafter(DRAFTERS / "medusa" / "drafter", target)
    with_it = [info.slug for info in chosen.chosen(engines.with_drafter(target, drafter))]
    assert with_it == [*alone, "medusa"]


def test_advise_refuses_a_drafter_that_nothing_drafts_with(capsys):
    assert main(["advise", *of("dflash"), "--prompt", "x"]) == 2
    assert "the methods here cannot draft with it; no method here drafts with" in capsys.readouterr().err
