"""What a server reports of its drafts beside a local run of the same pair: in one race, in one report, under the same
names, each with who counted it."""

import pytest

from explorer.attach import attach
from explorer.cli import main
from explorer.figures.acceptance import tree_metrics
from tests.engines.conftest import GOLDEN
from tests.explorer.attach.servers import Scripted, piece, stream

PAIR = GOLDEN / "drafters" / "eagle12-legacy"
LAST = {"choices": [{"delta": {}, "finish_reason": "stop"}]}
VLLM = {"num_spec_steps": 4, "num_accepted_draft_tokens": 6, "num_draft_tokens": 12}
SGLANG = {"spec_verify_ct": 4, "spec_num_correct_drafts": 6, "spec_num_proposed_drafts": 12}
TOLD = {
    "vllm": {**LAST, "metrics": {"speculative_decoding": VLLM}},
    "sglang": {"choices": [], "sglext": {"spec_tokens_details": SGLANG}},
    "llama.cpp": {"choices": [], "timings": {"draft_n": 12, "draft_n_accepted": 6}},
}


def answer(last):
    return stream(piece("a b c"), last)


@pytest.mark.parametrize("server", TOLD)
def test_what_a_server_reports_has_the_names_of_what_is_counted_here(server):
    with Scripted(answer(TOLD[server]), owner=server) as running:
        found = {one.name: one for one in tree_metrics(attach(running.url, prompt="x"))}
    assert found["acceptance_rate_of_drafted"].value == 0.5
    assert all("counted by the server" in one.conditions for one in found.values())
    if server == "llama.cpp":  # it counts no rounds
        assert [*found] == ["acceptance_rate_of_drafted"]
    else:
        assert (found["block_efficiency"].value, found["mean_accepted_excluding_bonus"].value) == (2.5, 1.5)
        assert found["block_efficiency"].terms == "(6 + 4) ÷ 4"


def test_an_answer_without_such_numbers_has_no_such_figures():
    with Scripted(answer(LAST)) as running:
        assert tree_metrics(attach(running.url, prompt="x")) == []


def test_server_and_drafter_stand_in_one_race_and_one_report(tmp_path, capsys):
    rival = f"eagle@{PAIR / 'verifier'} + {PAIR / 'drafter'}"
    with Scripted(answer(TOLD["vllm"]), owner="vllm") as running:
        command = ["attach", running.url, "--prompt", "42 41 12 39", "--max-tokens", "12", "--against", rival]
        assert main([*command, "--traces", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    (line,) = (one.split() for one in said.splitlines() if one.startswith("Block efficiency τ"))
    assert line[-2] == "2.50" and float(line[-1]) > 1
    files = [str(tmp_path / f"{n}.json") for n in (1, 2)]
    page = tmp_path / "report.html"
    assert main(["report", *files, "--html", str(page)]) == 0
    text = page.read_text("utf-8")
    assert "Block efficiency τ" in text and "counted by the server, which reported it" in text
    assert "It drafts with the published checkpoint drafter" in text
