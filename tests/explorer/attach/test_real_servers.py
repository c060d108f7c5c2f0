"""Answers of real servers: llama.cpp's and transformers' own run the weights of our tiny model, so what they send can
be compared with what our engine does."""

import pytest

import engines
from explorer.attach import attach
from explorer.cli import main
from explorer.figures.metrics import measure

pytestmark = pytest.mark.slow  # the servers take that long to start

PROMPT = "add: 457 + 286"
RAW = f"<user> {PROMPT}<turn>"  # as the chat format writes it
TOKENS = 16


@pytest.fixture(scope="module")
def ours():
    return engines.run("greedy", "tiny-ar-l", PROMPT, params={"max_new_tokens": TOKENS})


def figures(trace):
    return {one.name: one for one in measure(trace)}


@pytest.mark.parametrize(("api", "prompt"), [("llama", RAW), ("completions", RAW), ("chat", PROMPT)])
def test_llama_cpp_sends_the_tokens_and_probabilities_of_our_engine(llama, ours, api, prompt):
    trace = attach(llama, prompt=prompt, api=api, max_tokens=TOKENS)
    assert trace.output_ids == ours.output_ids and trace.text == ours.text and trace.end.reason == "complete"
    assert "tokens" not in trace.header.missing and "token_ids" not in trace.header.missing
    for step, own in zip(trace.steps, ours.steps, strict=True):
        assert step.commits.probabilities == pytest.approx(own.commits.probabilities, abs=1e-4)
        tokens, chances = (packed.array()[0] for packed in (step.candidates.tokens, step.candidates.probabilities))
        assert tokens[0] == step.commits.tokens[0] and (chances[:-1] >= chances[1:]).all() and len(tokens) == 5
        assert step.model_seconds >= 0
    assert engines.read_trace(trace.to_json()) == trace


def test_times_are_told_apart_as_far_as_they_can(llama):
    trace = attach(llama, prompt=RAW, api="llama", max_tokens=TOKENS)
    found = figures(trace)
    assert found["model_seconds"].label == "Waiting for the server" and found["model_seconds"].value > 0
    assert found["method_seconds"].absent and found["target_calls"].absent
    assert found["first_token_seconds"].value == trace.steps[0].model_seconds
    whole, parts = found["model_seconds"].value, found["between_tokens"].value * (TOKENS - 1)
    assert whole == pytest.approx(found["first_token_seconds"].value + parts)
    assert found["tokens_per_second"].value == pytest.approx(TOKENS / whole)
    assert found["connect_seconds"].value > 0 and 0 <= found["outside_seconds"].value < whole


def test_what_a_server_drafted_and_accepted(drafting, ours):
    trace = attach(drafting, prompt=RAW, api="llama", max_tokens=TOKENS)
    facts = trace.steps[-1].facts
    assert trace.output_ids == ours.output_ids
    assert 0 < facts["accepted drafts"] <= facts["drafted tokens"]


def test_speculated_tokens_without_probabilities_are_pieces(drafting, ours):
    """llama.cpp names no probabilities of drafts over the OpenAI interfaces: they are pieces, with numbers that are
    nobody's ids."""
    trace = attach(drafting, prompt=PROMPT, max_tokens=TOKENS)
    assert trace.text == ours.text and "tokens" in trace.header.missing
    kinds = {token >= 2**24 for step in trace.steps for token in step.commits.tokens}
    assert kinds == {True, False}
    assert "".join(piece.text for t in trace.output_ids for piece in trace.pieces if piece.id == t).strip() == ours.text


@pytest.mark.parametrize(("api", "prompt"), [("completions", RAW), ("chat", PROMPT)])
def test_transformers_serve_sends_text_without_probabilities(transformers, hub, ours, api, prompt):
    trace = attach(transformers, model=str(hub), prompt=prompt, api=api, max_tokens=TOKENS)
    assert trace.text == ours.text and trace.end.reason == "complete"
    assert {"tokens", "token_ids"} <= set(trace.header.missing)
    assert "no log-probabilities" in trace.steps[-1].note and not any(step.candidates for step in trace.steps)
    assert figures(trace)["tokens"].absent and figures(trace)["between_tokens"].value is None
    assert trace.steps[-1].facts["completion tokens"] == TOKENS


@pytest.mark.smollm2
def test_transformers_serve_with_smollm2(transformers):
    from engines.models.smollm2 import ensure  # the real weights, as they lie in the cache

    own = engines.run("greedy", "smollm2", "What is the capital of France?", params={"max_new_tokens": 12})
    trace = attach(transformers, model=str(ensure()[0]), prompt="What is the capital of France?", max_tokens=12)
    assert trace.text and trace.end.reason == "complete" and len(trace.steps) > 1
    assert trace.text[:8] == own.text[:8]


def test_a_race_of_two_servers_and_an_engine(llama, drafting, tmp_path, capsys):
    page = tmp_path / "race.html"
    command = ["attach", llama, drafting, "--api", "llama", "--prompt", RAW, "--max-tokens", str(TOKENS)]
    code = main([*command, "--against", "greedy@tiny-ar-l", "--traces", str(tmp_path), "--html", str(page)])
    said = capsys.readouterr().out
    assert code == 0 and said.count("tiny-ar-l") >= 2 and "Greedy autoregressive" in said
    assert "connecting is apart" in said and "beside the server's own time" in said
    lines = said.split("tokens after")[1].strip().splitlines()
    assert lines[-3].split()[-3:-1] == [str(TOKENS)] * 2 or str(TOKENS) in lines[-3]
    assert page.stat().st_size > 100_000
    assert engines.read_trace((tmp_path / "1.json").read_text()).header.arrivals
    assert not engines.read_trace((tmp_path / "3.json").read_text()).header.arrivals


def test_one_answer_in_the_terminal(llama, tmp_path, capsys):
    out = tmp_path / "answer.json"
    command = ["attach", f"{llama}/v1/completions", "--prompt", RAW, "--max-tokens", "8", "--stats", "--json", str(out)]
    assert main(command) == 0
    printed = capsys.readouterr()
    trace = engines.read_trace(out.read_text())
    assert printed.out.strip() == trace.text and "first token" in printed.err
    assert trace.header.params["api"] == "completions" and len(trace.steps) == 8
    assert main(["replay", str(out)]) == 0 and "not recorded by the server at" in capsys.readouterr().out
    assert main(["replay", str(out), "--rerun"]) != 0
    capsys.readouterr()
    assert main(["fork", str(out), "--step", "2"]) != 0
    assert "neither repeated nor forked" in capsys.readouterr().err
