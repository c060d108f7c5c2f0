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
    """Over the OpenAI interfaces it names no probabilities of drafts: they are pieces, with numbers that are nobody's
    ids."""
    trace = attach(drafting, prompt=RAW, api="llama", max_tokens=TOKENS)
    facts = trace.steps[-1].facts
    assert trace.output_ids == ours.output_ids and 0 < facts["accepted drafts"] <= facts["drafted tokens"]
    trace = attach(drafting, prompt=PROMPT, max_tokens=TOKENS)
    assert trace.text == ours.text and "tokens" in trace.header.missing
    assert {token >= 2**24 for step in trace.steps for token in step.commits.tokens} == {True, False}


@pytest.mark.parametrize(("api", "prompt"), [("completions", RAW), ("chat", PROMPT)])
def test_transformers_serve_sends_text_without_probabilities(transformers, hub, ours, api, prompt):
    trace = attach(transformers, model=str(hub), prompt=prompt, api=api, max_tokens=TOKENS)
    assert trace.text == ours.text and trace.end.reason == "complete"
    assert {"tokens", "token_ids"} <= set(trace.header.missing)
    assert "no log-probabilities" in trace.steps[-1].note and not any(step.candidates for step in trace.steps)
    assert figures(trace)["tokens"].absent and figures(trace)["between_tokens"].value is None
    assert trace.steps[-1].facts["completion tokens"] == TOKENS


def test_a_race_of_two_servers_and_an_engine(llama, drafting, tmp_path, capsys):
    command = ["attach", llama, drafting, "--api", "llama", "--prompt", RAW, "--max-new-tokens", str(TOKENS)]
    command += ["--against", "greedy@tiny-ar-l", "--traces", str(tmp_path), "--html", str(tmp_path / "race.html")]
    assert main(command) == 0
    said = capsys.readouterr().out
    assert said.count("tiny-ar-l") >= 2 and "Greedy autoregressive" in said
    assert "connecting is apart" in said and "next to the server's own time" in said
    assert (tmp_path / "race.html").stat().st_size > 100_000
    assert engines.read_trace((tmp_path / "1.json").read_text()).header.arrivals
    assert not engines.read_trace((tmp_path / "3.json").read_text()).header.arrivals
