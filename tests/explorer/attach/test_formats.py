"""Answers of servers that cannot run here, written by hand after the public documentation of their formats."""

import math

import pytest

from explorer.attach import attach
from explorer.attach.address import counters
from explorer.cli import main
from explorer.figures.acceptance import tree_metrics
from tests.engines.conftest import GOLDEN
from tests.explorer.attach.servers import Scripted, piece, status, stream


def ask(reply, **options):
    more = {name: options.pop(name) for name in ("models", "owner", "get") if name in options}
    with Scripted(reply, **more) as server:
        trace = attach(server.url, prompt="Hello", **options)
    return trace, server.asked


def texts(trace):
    named = {piece.id: piece.text for piece in trace.pieces}
    return [[named[token] for token in step.commits.tokens] for step in trace.steps]


def test_older_logprobs_of_completions():
    def event(tokens, finish=None):
        told = {"tokens": tokens, "token_logprobs": [math.log(0.5)] * len(tokens)}
        return {"model": "m", "choices": [{"text": "".join(tokens), "logprobs": told, "finish_reason": finish}]}

    trace, asked = ask(stream(event([" a", " b"]), event([" c"], "length")), api="completions", seed=7)
    assert texts(trace) == [[" a", " b"], [" c"]] and trace.text == "a b c" and trace.header.seed == 7
    assert trace.steps[0].commits.probabilities == [0.5, 0.5] and "length" in trace.steps[1].note
    path, _, body = asked[-1]
    assert path == "/v1/completions" and body["prompt"] == "Hello" and body["stream"] and body["logprobs"] == 5


def test_vllm_names_ids_metrics_and_counts_its_drafts():
    seen = iter((10, 14))

    def metrics(_):
        n = next(seen)
        return (
            "# TYPE vllm:spec_decode_num_drafts counter\n"
            f'vllm:spec_decode_num_drafts_total{{model_name="m"}} {n}\n'
            'vllm:spec_decode_num_accepted_tokens_total{model_name="m"} broken\n'
        )

    def event(text, number):
        told = {"content": [{"token": text, "logprob": -0.1}]}
        return {"choices": [{"delta": {"content": text}, "logprobs": told, "token_ids": [number]}]}

    spec = {"num_spec_steps": 2, "num_accepted_draft_tokens": 3, "num_draft_tokens": 6}
    timing = {"time_to_first_token_ms": 12.5, "speculative_decoding": {**spec, "acceptance_histogram": [0, 1, 1]}}
    last = {"choices": [{"delta": {}, "finish_reason": "stop"}], "metrics": timing}
    trace, _ = ask(stream(event(" a", 5), event(" b", 9), last), owner="vllm", get={"/metrics": metrics})
    assert trace.output_ids == [5, 9] and "token_ids" not in trace.header.missing
    facts = trace.steps[-1].facts
    assert facts["num_accepted_draft_tokens"] == 3 and facts["steps that accepted 2"] == 1
    assert facts["time_to_first_token_ms"] == 12.5 and "vllm" in trace.header.imported_from
    assert facts["spec_decode_num_drafts (whole server, meanwhile)"] == 4


@pytest.mark.parametrize("mark", ["\u2028", "\x85", "\f"])
def test_a_line_of_metrics_ends_at_cr_and_lf_alone(mark):
    name = f'vllm:spec_decode_num_drafts_total{{model_name="a{mark}b"}}'
    assert counters(f"{name} 3\r\n# a comment\n{name} 4") == {"vllm:spec_decode_num_drafts": 7}


@pytest.mark.parametrize("whole", [True, False])
def test_sglang_streams_from_the_beginning_or_what_is_new(whole):
    rows = [[math.log(0.5), 5, " a"], [math.log(0.8), 6, " b"], [math.log(0.9), 7, " c"]]
    tops = [[row, [math.log(0.1), 99, " z"]] for row in rows]

    def event(begin, end, **more):
        a = 0 if whole else begin
        meta = {"completion_tokens": end, "output_token_logprobs": rows[a:end], "output_top_logprobs": tops[a:end]}
        return {"text": "".join(row[2] for row in rows[a:end]), "meta_info": meta | more}

    spec = {"finish_reason": {"type": "length"}, "spec_verify_ct": 2, "spec_accept_length": 1.5}
    trace, asked = ask(stream(event(0, 1), event(1, 3, **spec)), api="sglang")
    assert trace.output_ids == [5, 6, 7] and texts(trace) == [[" a"], [" b", " c"]] and trace.text == "a b c"
    assert trace.steps[1].commits.probabilities == [0.8, 0.9]
    assert trace.steps[1].candidates.tokens.array().tolist() == [[6, 99], [7, 99]]
    assert trace.steps[1].facts["verifications"] == 2 and trace.steps[1].facts["tokens per verification"] == 1.5
    assert asked[-1][0] == "/generate" and asked[-1][2]["return_text_in_logprobs"]


def test_thoughts_of_a_chat_are_part_of_what_arrived_and_without_a_stream_there_is_one_step():
    deltas = [{"role": "assistant", "content": None}, {"reasoning_content": "Hm."}, {"content": " Yes"}]
    trace, _ = ask(stream(*({"choices": [{"delta": one}]} for one in deltas)))
    assert trace.text == "Hm. Yes" and len(trace.steps) == 2 and tree_metrics(trace) == []
    whole = {"choices": [{"message": {"content": "Hi there"}, "finish_reason": "stop"}]}
    trace, _ = ask(status(200, whole, [("content-type", "application/json; charset=utf-8")]))
    assert trace.text == "Hi there" and len(trace.steps) == 1 and trace.end.reason == "complete"


def test_odd_values_are_left_out():
    tops = [{"token": 5, "logprob": "x"}, 7]
    odd = {"token": "\ud800", "logprob": float("nan"), "id": -3, "top_logprobs": tops}
    told = {"content": [odd, "nothing", {"token": "b", "logprob": 3.0, "id": True}]}
    usage = {"prompt_tokens": 10**400, "x": None}
    trace, _ = ask(stream({"choices": [{"delta": {"content": "ab"}, "logprobs": told}], "usage": usage}))
    assert trace.steps[0].commits.probabilities == [None, 1.0] and len(trace.pieces) == 2
    assert "prompt tokens" not in trace.steps[0].facts


LAST = {"choices": [{"delta": {}, "finish_reason": "stop"}]}
VLLM = {"num_spec_steps": 4, "num_accepted_draft_tokens": 6, "num_draft_tokens": 12}
SGLANG = {"spec_verify_ct": 4, "spec_num_correct_drafts": 6, "spec_num_proposed_drafts": 12}
TOLD = {
    "vllm": {**LAST, "metrics": {"speculative_decoding": VLLM}},
    "sglang": {"choices": [], "usage": {"prompt_tokens": 4}, "sglext": {"spec_tokens_details": SGLANG}},
    "llama.cpp": {"choices": [], "timings": {"draft_n": 12, "draft_n_accepted": 6}},
}


@pytest.mark.parametrize("server", TOLD)
def test_what_a_server_reports_has_the_names_of_what_is_counted_here(server):
    trace, asked = ask(stream(piece("a b c"), TOLD[server]), owner=server)
    assert ("return_spec_tokens_details" in asked[-1][2]) == (server == "sglang")
    found = {one.name: one for one in tree_metrics(trace)}
    assert found["acceptance_rate_of_drafted"].value == 0.5
    assert all("counted by the server" in one.conditions for one in found.values())
    if server == "llama.cpp":  # it counts no rounds
        assert [*found] == ["acceptance_rate_of_drafted"]
    else:
        assert (found["block_efficiency"].value, found["mean_accepted_excluding_bonus"].value) == (2.5, 1.5)
        assert found["block_efficiency"].terms == "(6 + 4) ÷ 4"


def test_older_llama_cpp_says_probabilities():
    probs = [{"tok_str": " a", "prob": 0.75}, {"tok_str": " b", "prob": 0.2}]
    one = {"content": " a", "completion_probabilities": [{"content": " a", "probs": probs}]}
    trace, asked = ask(stream(one, {"content": "", "stop": True}, end=False), api="llama")
    assert trace.text == "a" and trace.steps[0].commits.probabilities == [0.75]
    assert trace.end.reason == "complete" and asked[-1][2]["n_probs"] == 5


def test_server_and_drafter_stand_in_one_race_and_one_report(tmp_path, capsys):
    pair, page = GOLDEN / "drafters" / "eagle12-legacy", tmp_path / "report.html"
    with Scripted(stream(piece("a b c"), TOLD["vllm"]), owner="vllm") as running:
        command = ["attach", running.url, "--prompt", "42 41 12 39", "--max-new-tokens", "12"]
        command += ["--traces", str(tmp_path), "--against", f"eagle@{pair / 'verifier'} + {pair / 'drafter'}"]
        assert main(command) == 0
    said = capsys.readouterr().out
    (line,) = (one.split() for one in said.splitlines() if one.startswith("Block efficiency τ"))
    assert line[-2] == "2.50" and float(line[-1]) > 1
    assert main(["report", str(tmp_path / "1.json"), str(tmp_path / "2.json"), "--html", str(page)]) == 0
    text = page.read_text("utf-8")
    assert "Block efficiency τ" in text and "counted by the server, which reported it" in text


THOUGHT = {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]}
CALL = {"tool_calls": [{"index": 0, "id": "x", "type": "function", "function": {"name": "look", "arguments": ""}}]}
MORE = {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}
PARTS = {
    "parts": ([THOUGHT, {"content": [{"type": "text", "text": "Blue"}]}], "hmBlue", ""),
    "one part": ([{"content": {"type": "text", "text": "Blue"}}], "Blue", ""),
    "a call": ([CALL, MORE], "", "a call of look"),
    "a call behind a text": ([{"content": "Blue"}, CALL, MORE], "Blue", "a call of look"),
    "a function": ([{"function_call": {"name": "look", "arguments": "{}"}}], "", "a call of look"),
    "a custom call": ([{"tool_calls": [{"type": "custom", "custom": {"name": "look"}}]}], "", "a call of look"),
    "a refusal": ([{"refusal": "I will not"}], "I will not", ""),
    "a picture": ([{"content": [{"type": "image_url", "image_url": {"url": "x"}}]}], "", "image_url"),
    "thoughts twice": ([{"reasoning_content": "hm", "reasoning": "hm"}], "hm", ""),
    "thoughts under the newer name": ([{"reasoning_content": "", "reasoning": "hm"}], "hm", ""),
    "nothing": ([{"content": None}, {"content": []}, {"tool_calls": []}], "", "The server's answer is empty."),
}

WHOLE = {
    "parts": {"content": [*THOUGHT["content"], {"type": "text", "text": "Blue"}]},
    "a call behind a text": {"content": "Blue", **CALL},
    "nothing": {"content": None, "tool_calls": []},
}


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("kind", PARTS)
def test_an_answer_in_parts_is_shown_as_text_or_named(kind, whole):
    deltas, text, said = PARTS[kind]
    told = {"choices": [{"message": WHOLE.get(kind, deltas[0]), "finish_reason": "stop"}]}
    reply = status(200, told, [("content-type", "application/json")])
    if not whole:
        reply = stream(*({"choices": [{"delta": one}]} for one in deltas), LAST)
    trace, _ = ask(reply)
    assert trace.text == text and trace.end.reason == "complete"
    found = f"{trace.end.message} {trace.steps[-1].note if trace.steps else ''}"
    assert said in found and ("empty" in found) == (kind == "nothing")


def test_whole_messages_beside_the_pieces_are_not_read_twice():
    """open-webui/open-webui#9927: Perplexity's events hold the new piece and the whole message so far, its whole answer
    an empty piece beside the message."""

    def both(new, whole, finish=None):
        said = {"delta": {"role": "assistant", "content": new}, "message": {"role": "assistant", "content": whole}}
        return {"choices": [{"index": 0, "finish_reason": finish, **said}]}

    trace, _ = ask(stream(both("Blue", "Blue"), both(" sky", "Blue sky"), both("", "Blue sky", "stop")))
    assert trace.text == "Blue sky" and len(trace.steps) == 2
    trace, _ = ask(status(200, both("", "Blue sky", "stop"), [("content-type", "application/json")]))
    assert trace.text == "Blue sky"


def test_a_part_without_log_probabilities_is_said_to_be_one():
    named = {"delta": {"content": "a"}, "logprobs": {"content": [{"token": "a", "logprob": -0.1}]}}
    trace, _ = ask(stream({"choices": [named]}, piece("b"), LAST))
    assert "A part of the answer came without" in trace.steps[-1].note and "tokens" in trace.header.missing
    trace, _ = ask(stream(piece("a"), piece("b"), LAST))
    assert "The server sent no log-probabilities" in trace.steps[-1].note


def test_an_answer_that_was_not_asked_for_is_left_out_and_told():
    other = {"choices": [{"index": 1, "delta": {"content": "blue"}}]}
    trace, _ = ask(stream(piece("red"), other, piece(" car"), LAST))
    assert trace.text == "red car" and "more than one answer" in trace.steps[-1].note


def test_a_running_server_names_ids_and_texts_as_a_saved_answer_does():
    likely = [{"id": 230, "token": "\ufffd", "logprob": -0.5}]

    def event(text, number):
        named = {"id": number, "token": text, "logprob": -0.3, "top_logprobs": likely}
        return {"content": text, "tokens": [number], "stop": False, "completion_probabilities": [named]}

    events = [event(" 散", 96), event("教", 230), event("效", 96), {"content": "", "stop": True, "stopped_limit": True}]
    trace, _ = ask(stream(*events, end=False), api="llama")
    assert texts(trace) == [[" 散"], ["教"], ["效"]] and trace.output_ids == [96, 230, 96]
    assert "'limit'" in trace.steps[-1].note and "token_ids" not in trace.header.missing
    told = {"tokens": ["token_id:7151"], "token_logprobs": [-0.5], "top_logprobs": [{"token_id:12": -2.0}]}
    trace, _ = ask(stream({"choices": [{"text": " hi", "logprobs": told, "finish_reason": "stop"}]}), api="completions")
    assert trace.output_ids == [7151] and texts(trace) == [[" hi"]] and "token_ids" not in trace.header.missing
    assert [piece.text for piece in trace.pieces] == [" hi", "‹token 12›"]
