"""Records of other programs: what is in them arrives, and what is not is said to be missing."""

import json
import math
from itertools import chain
from pathlib import Path

import pytest

from engines import Trace, TraceError, UserError
from explorer.cli import main
from explorer.export.events import events_csv
from explorer.export.python import lines
from explorer.figures.clock import confidence_by_step, growth
from explorer.figures.metrics import measure
from explorer.figures.verdict import positions
from explorer.importers import build, import_trace
from explorer.runs.gallery import read_pasted
from explorer.words import step_fields

RECORDS = Path(__file__).parent / "records"
FILES = {path.name: path.read_text("utf-8") for path in sorted(RECORDS.iterdir()) if path.name != "README.md"}
NEVER = {"target_calls", "tokens_per_call", "work", "model_seconds", "tokens_per_second", "tokens_fed", "wall_seconds"}


def words(trace: Trace) -> list[list[str]]:
    """What each step wrote, as text."""
    text = {piece.id: piece.text for piece in trace.pieces}
    return [[text[token] for token in step.commits.tokens] if step.commits else [] for step in trace.steps]


def shown(trace: Trace) -> dict[str, str]:
    return {metric.name: metric.shown for metric in measure(trace)}


@pytest.mark.parametrize("name", FILES)
def test_every_record_is_recognised_and_what_it_lacks_is_said(name):
    trace = import_trace(FILES[name])
    assert Trace.from_json(trace.to_json()) == trace == read_pasted(FILES[name])
    assert trace.header.imported_from and trace.header.machine == "" and trace.header.models[0].device == ""
    found = shown(trace)
    assert {found[metric] for metric in NEVER} == {"not recorded"}
    assert growth(trace) == [] and confidence_by_step(trace) == []
    for line in events_csv([trace]).splitlines()[1:]:
        assert line.endswith(",,,,")  # forwards and seconds are empty cells
    with pytest.raises(UserError, match="imported from"):
        lines(trace)


def test_vllm_steps_become_drafts_with_their_tokens_where_they_add_up():
    trace = import_trace(FILES["vllm-detailed.json"])
    assert words(trace) == [["The", " sky", " is", " blue"], [" because"], [" of", " it", "."]]
    first, second, third = [step.commits.causes for step in trace.steps]
    assert first == ["sampled", "accepted", "accepted", "correction"]
    assert (second, third) == (["correction"], ["accepted", "accepted", "correction"])
    trees = [step.tree.why for step in trace.steps]
    assert trees[:2] == [["root", "accepted", "accepted", "mismatch"], ["root", "mismatch"]]
    assert [(step.facts["drafted"], step.facts["accepted"]) for step in trace.steps] == [(3, 2), (1, 0), (3, 2)]
    found = {metric.name: metric for metric in measure(trace)}
    told = json.loads(FILES["vllm-detailed.json"])["metrics"]["speculative_decoding"]
    assert math.isclose(found["block_efficiency"].value, told["mean_acceptance_length"])
    assert math.isclose(found["acceptance_rate_of_drafted"].value, told["draft_acceptance_rate"])
    assert found["tokens"].value == 8 and found["steps"].value == 3 and trace.text == "The sky is blue because of it."
    assert trace.steps[-1].facts["generation_time_ms"] == 61.5 and "token_ids" in trace.header.missing
    alone = import_trace(json.dumps(json.loads(FILES["vllm-detailed.json"])["metrics"]))
    assert shown(alone)["tokens"] == "not recorded" and len(alone.steps) == 3
    body = json.loads(FILES["vllm-detailed.json"])
    body["usage"]["completion_tokens"] = 9
    del body["choices"][0]["logprobs"]
    trace = import_trace(json.dumps(body))
    assert [len(one) for one in words(trace)] == [0, 0, 9] and set(words(trace)[2]) == {"‹not recorded›"}
    assert "does not say which step" in trace.steps[-1].note
    assert {"token_ids", "token_texts"} <= set(trace.header.missing)
    assert [step.tree.why.count("accepted") for step in trace.steps] == [2, 0, 2]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"per_step_accepted": [2, 0]}, "must be equally many"),
        ({"per_step_accepted": [2, 2, 0]}, "accepted more tokens than were drafted"),
        ({"per_step_drafted": [10**8, 1, 0], "num_draft_tokens": 10**8 + 1}, "at most 16,384 and 131,072"),
        (
            {"num_draft_tokens": 0, "num_accepted_draft_tokens": 0, "num_spec_steps": (n := build.MAX_STEPS + 1)}
            | {"per_step_drafted": [0] * n, "per_step_accepted": [0] * n},
            "16,385 steps with 0 drafted tokens",
        ),
    ],
)
def test_vllm_records_that_contradict_themselves_are_refused(change, sentence):
    body = json.loads(FILES["vllm-detailed.json"])
    body["metrics"]["speculative_decoding"] |= change
    with pytest.raises(TraceError, match=sentence):
        import_trace(json.dumps(body))


def test_statistics_are_one_step_that_says_so():
    trace = import_trace(FILES["sglang.json"])
    assert words(trace) == [[" Paris", ",", " of", " course"]] and trace.output_ids == [11751, 13, 302, 2278]
    assert trace.steps[0].commits.probabilities == [0.9, 0.5, 1.0, 0.1]
    facts = trace.steps[0].facts
    assert (facts["verifications"], facts["accepted drafts"], facts["proposed drafts (as reported)"]) == (2, 2, 6)
    assert facts["verifications that accepted 2"] == 1 and facts["tokens per verification"] == 2
    trace = import_trace(FILES["vllm-summary.json"])
    assert len(trace.steps) == 1 and shown(trace)["steps"] == "not recorded" and "not the order" in trace.steps[0].note
    assert trace.steps[0].facts["num_spec_steps"] == 43 and trace.steps[0].facts["steps that accepted 3"] == 3
    assert shown(trace)["tokens"] == "54" and trace.text == " forty-two"
    meta = {"completion_tokens": 3, "spec_verify_ct": 2, "spec_accept_token_num": 1}
    trace = import_trace(json.dumps([{"text": "abc", "meta_info": meta}]))
    assert trace.steps[0].facts["accepted drafts"] == 1, "an earlier name, in a list of one"


def test_frames_of_diffusers_are_fills_changes_remasks_and_what_stands_in_two_of_noise_is_accepted():
    trace = import_trace(FILES["diffusers-llada2.json"])
    assert words(trace) == [[" was"], ["That"], ["[MASK]", "!"], ["It", " is", " blue"]]
    causes = [step.commits.causes for step in trace.steps]
    assert causes[:2] == [["filled"], ["filled"]]
    assert causes[2:] == [["remasked", "filled"], ["changed", "filled", "filled"]]
    assert trace.text == "It is blue!" and trace.header.canvas == 4 and trace.header.prompt == "Why is the sky blue?"
    assert trace.header.params == {"gen_length": 4, "block_length": 2} and shown(trace)["tokens"] == "not recorded"
    trace = import_trace(FILES["diffusers-gemma.json"])
    assert words(trace) == [["@", "#"], ["Hel", "#"], ["Hel", "lo", "@", "@"], ["Hel", "lo", " you", "@"]]
    assert trace.header.mask_id is None and trace.text == "Hello you@"
    causes = [step.commits.causes for step in trace.steps]
    assert causes[:2] == [["filled", "filled"], ["changed", "accepted"]]
    assert causes[2] == ["accepted", "changed", "filled", "filled"]
    assert causes[3] == ["accepted", "accepted", "changed", "accepted"]
    assert "1 that had been accepted is no longer there" in trace.steps[2].note
    assert "counts as accepted in the second" in trace.header.departures
    stays = FILES["diffusers-gemma.json"].replace("EntropyBoundScheduler", "DiscreteDDIMScheduler")  # noise may stay
    causes = [step.commits.causes for step in import_trace(stays).steps]
    assert not any("accepted" in one for one in causes) and "accepted" not in import_trace(stays).header.departures


GEMMA = Path(__file__).parents[1] / "golden" / "diffusion2026" / "diffusion_gemma" / "cases.json"
CANVASES = [c for c in json.loads(GEMMA.read_text())["cases"] if "ddim" not in c["id"]]


@pytest.mark.parametrize("case", CANVASES, ids=lambda case: case["id"])
def test_what_is_called_accepted_holds_no_noise_that_differs_from_it(case):
    """Of public runs, whose draws are known: every token called accepted is the model's, or the noise is the same."""
    first = [step for step in case["expected"]["steps"] if step["block"] == 0]
    frames = [{"step": i, "ids": step["after"]} for i, step in enumerate(first)]
    body = {"label": "", "mask_token_id": None, "frames": frames, "vocab": {}}
    taken = set()
    for step, told in zip(import_trace(json.dumps(body)).steps, first, strict=True):
        taken = taken | set(told["committed"]) if "committed" in told else set(told["accepted"])
        causes = zip(step.commits.positions, step.commits.causes, strict=True)
        called = [p for p, cause in causes if cause == "accepted"]
        noise = told["noise"] if "noise" in told else told["draws"][-1][1]
        assert told.get("stop") or all(p in taken or noise[p] == told["after"][p] for p in called)
        if step.index and "committed" not in told:
            stay = [p for p in taken if told["after"][p] == first[step.index - 1]["after"][p]]
            assert set(stay) <= set(called)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("1, *a&*b&\n2, *a&\n", "line 2 of the log has 1 positions"),
        ("1, *a&*b&\nhello\n", "line 2 of the log is not of the form"),
        ('{"frames": [{"step": 0, "ids": [1]}, {"step": 1, "ids": [1, 2]}], "vocab": {}}', "different lengths"),
        ("{}", "not a valid trace"),
        ('[{"meta_info": {"spec_verify_ct": 1}}, {"meta_info": {}}]', "2 responses; import them one by one"),
        ('{"meta_info": {"completion_tokens": 3}}', "without speculative decoding"),
    ],
)
def test_a_wrong_record_is_a_sentence(text, sentence):
    with pytest.raises(TraceError, match=sentence):
        import_trace(text)


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85", "\v", "\f", "\x1c"])
def test_a_token_of_a_log_may_hold_what_python_takes_for_a_line_end(mark):
    trace = import_trace(f"1, *a{mark}b&*<|mdm_mask|>&\r\n2, *a{mark}b&*{mark}&\r\n")
    assert words(trace) == [[f"a{mark}b"], [mark]]


def test_the_command_imports_and_says_what_is_missing(tmp_path, capsys):
    for name in FILES:
        out = tmp_path / f"{name}.json"
        assert main(["import", str(RECORDS / name), "--json", str(out)]) == 0
        assert Trace.from_json(out.read_bytes()) == import_trace(FILES[name])
        assert "not recorded: forwards, tokens fed, work, model seconds" in capsys.readouterr().err
        assert main(["replay", str(out)]) == 0
        said = capsys.readouterr().out
        assert "model calls not recorded" in said and " 0 model calls" not in said and "0.0 ms" not in said
        assert main(["replay", "--rerun", str(out)]) == 2 and "imported from" in capsys.readouterr().err
    for form, said in (("vllm", "not a record of the format vllm"), ("pickle", "choose one of")):
        assert main(["import", str(RECORDS / "sglang.json"), "--format", form, "--json", "-"]) == 2
        assert said in capsys.readouterr().err


def test_what_a_short_record_stands_for_is_bounded(monkeypatch):
    body = json.loads(FILES["sglang.json"])
    del body["output_ids"], body["meta_info"]["output_token_logprobs"]

    def of(count: int) -> str:
        body["meta_info"]["completion_tokens"] = count
        return json.dumps(body)

    for count in (2**17 + 1, 10**30):
        trace = import_trace(of(count))
        assert trace.output_ids == [] and {"tokens", "token_ids", "token_texts"} <= set(trace.header.missing)
    assert len(read_pasted(of(100_000), 4_000_000).output_ids) == 100_000
    with pytest.raises(TraceError, match=r"makes a trace of [\d,]+ characters; at most 100,000"):
        read_pasted(of(100_000), 100_000)
    monkeypatch.setattr(build, "MAX_PIECES", 500)
    log = "1, *" + "&*".join(map(str, range(499))) + "&"
    assert len(import_trace(log).pieces) == 500  # with the mask
    with pytest.raises(TraceError, match="more than 500 different tokens"):
        import_trace(log.replace("*0&", "*0&*a&"))


DRAFTED = {"num_spec_steps": 2, "num_accepted_draft_tokens": 5, "num_draft_tokens": 6}
DRAFTED |= {"per_step_accepted": [2, 3], "per_step_drafted": [3, 3]}


@pytest.mark.parametrize("left", [0, 1, 3, 4])
def test_vllm_an_answer_cut_inside_its_last_drafts_is_placed(left):
    """1 from the prompt, 2 + 1 of the first step; the second accepted 3 + 1, of which the limit left some."""
    letters = "abcdefgh"[: 4 + left]
    choice = {"text": letters, "finish_reason": "length", "logprobs": {"tokens": list(letters)}}
    usage = {"prompt_tokens": 2, "completion_tokens": len(letters)}
    body = {"choices": [choice], "usage": usage, "metrics": {"speculative_decoding": DRAFTED}}
    trace = import_trace(json.dumps(body))
    if not left:
        assert [len(one) for one in words(trace)] == [0, 4], "it is not placed"
        return
    assert words(trace) == [list("abcd"), list(letters[4:])]
    assert trace.steps[1].commits.causes == ["accepted", "accepted", "accepted", "bonus"][:left]
    assert (trace.steps[1].facts["accepted"], trace.steps[1].tree.why.count("accepted")) == (3, 3)
    assert ("without the last" in trace.steps[1].note) == (left < 4)


SPOKEN = {"content": [{"token": " a", "logprob": -0.5}, {"token": " b", "logprob": -0.1}]}


def test_an_answer_that_names_its_tokens_is_read_whole_or_event_by_event():
    tops = [{"a": math.log(0.5), "x": math.log(0.25)}, {"b": math.log(0.25), "y": math.log(0.125)}]
    logged = {"tokens": ["a", "b"], "token_logprobs": [math.log(0.5), math.log(0.25)], "top_logprobs": tops}
    body = {"model": "m", "choices": [{"text": "ab", "logprobs": logged, "finish_reason": "stop"}]}
    trace = import_trace(json.dumps(body))
    assert words(trace) == [["a", "b"]] and trace.steps[0].commits.probabilities == [0.5, 0.25]
    assert trace.steps[0].candidates.probabilities.array().tolist() == [[0.5, 0.25], [0.25, 0.125]]
    assert trace.header.models[0].name == "m" and {"steps", "token_ids"} <= set(trace.header.missing)
    llama = {"content": " a", "completion_probabilities": [{"id": 5, "token": " a", "logprob": 0.0}], "stop": True}
    assert import_trace(json.dumps(llama)).output_ids == [5]

    def streamed(*choices: dict, **end: object) -> str:
        events = [*({"choices": [one]} for one in choices), {"choices": [], **end}]
        return "".join(f"data: {json.dumps(one)}\n\n" for one in events) + "data: [DONE]\n\n"

    named = [{"delta": {"content": one["token"]}, "logprobs": {"content": [one]}} for one in SPOKEN["content"]]
    text = streamed(*named, usage={"completion_tokens": 2})
    trace = import_trace(text)
    assert words(trace) == [[" a"], [" b"]] and trace.text == "a b" and read_pasted(text) == trace
    assert trace.steps[1].facts["completion tokens"] == 2 and "steps" not in trace.header.missing
    with pytest.raises(TraceError, match="parts of the answer name no tokens"):
        import_trace(streamed(*named, {"delta": {"content": "b"}}))
    with pytest.raises(TraceError, match="the answer names no tokens"):
        import_trace('{"choices": [{"text": "Hi"}]}', "answer")


@pytest.mark.parametrize(
    "text",
    [
        '{"object": "chat.completion", "choices": [{"message": {"content": "Hi"}, "logprobs": null}]}',
        'vllm:spec_decode_num_drafts_total{engine="0"} 22.0\n',
    ],
)
def test_a_record_that_is_none_of_ours_is_told_which_are_read_and_how_to_get_one(text):
    with pytest.raises(TraceError) as said:
        import_trace(text)
    assert all(name in str(said.value) for name in ("vLLM", "SGLang", "llama.cpp", "decoding-explorer attach"))


def piece(text, index=0, finish=None, **more):
    """An event of a chat that names its token."""
    named = {"content": [{"token": text, "logprob": -0.1}]}
    return {
        "choices": [{"index": index, "delta": {"content": text}, "logprobs": named, "finish_reason": finish}],
        **more,
    }


def whole(text, index=0, finish="stop", **more):
    """A chat that came at once."""
    one = piece(text, index, finish)["choices"][0]
    return {
        "choices": [{name: value for name, value in one.items() if name != "delta"} | {"message": one["delta"]}],
        **more,
    }


def stream(*bodies, done=True):
    return "".join(f"data: {json.dumps(one)}\n\n" for one in bodies) + ("data: [DONE]\n\n" if done else "")


BOTH = [piece("red"), piece("blue", 1), piece(" car", 0, "stop"), piece(" sky", 1, "stop")]
TWO = {**whole("red car"), "choices": [whole("blue sky", 1)["choices"][0], whole("red car")["choices"][0]]}
NATIVE = {"content": "red car", "tokens": [3], "stop": True, "stop_type": "eos", "index": 0}
SEVERAL = {
    "streamed": stream(*BOTH),
    "streamed, the second one first": stream(BOTH[1], BOTH[0], BOTH[3], BOTH[2]),
    "one body": json.dumps(TWO),
    "one body, in two events": stream(TWO),
    "a list of bodies": json.dumps([whole("red car", id="a"), whole("blue sky", id="b")]),
    "a list without ids": json.dumps([whole("red car", id="a"), whole("blue sky")]),
    "a body a line": json.dumps(whole("red car")) + "\n" + json.dumps(whole("blue sky")) + "\n",
    "a batch of llama.cpp": json.dumps([NATIVE | {"content": "blue sky", "index": 1}, NATIVE]),
    "streams behind each other": stream(piece("red"), piece(" car", 0, "stop")) + stream(piece("blue", 0, "stop")),
    "without the mark between": stream(piece("red car", 0, "stop", id="a"), piece("blue", 0, "stop", id="b")),
    "two responses by turns": stream(
        piece("red", id="a"), piece("blue", id="b"), piece(" car", 0, "stop", id="a"), piece(" sky", 0, "stop", id="b")
    ),
    "llama.cpp's without a mark": stream(NATIVE, NATIVE | {"content": "blue"}, done=False),
}


def test_of_several_statistics_the_first_are_read():
    body = json.loads(FILES["vllm-detailed.json"])
    trace, alone = import_trace(json.dumps([body, body | {"choices": []}])), import_trace(json.dumps([body]))
    assert trace.output_ids == alone.output_ids == import_trace(json.dumps(body)).output_ids
    assert "more than one answer" in trace.steps[-1].note and "more than" not in alone.steps[-1].note


@pytest.mark.parametrize("kind", SEVERAL)
def test_of_several_answers_the_first_is_read_and_the_others_are_told(kind):
    trace = import_trace(SEVERAL[kind])
    assert trace.text == "red car" and "more than one answer" in trace.steps[-1].note
    assert trace.end.reason == "complete"


def test_events_of_one_answer_in_a_list_are_one_answer():
    trace = import_trace(json.dumps([piece("red", id="a"), piece(" car", 0, "length", id="a")]))
    assert (
        trace.text == "red car" and len(trace.steps) == 2 and trace.steps[1].note == "The server ended with 'length'."
    )


def test_counts_of_several_answers_are_not_one_answers():
    trace = import_trace(json.dumps(TWO | {"usage": {"completion_tokens": 4}}))
    assert trace.steps[0].facts == {"completion tokens of all answers": 4}
    told = {"num_spec_steps": 2, "num_accepted_draft_tokens": 2, "num_draft_tokens": 4}
    trace = import_trace(
        json.dumps(TWO | {"usage": {"completion_tokens": 4}, "metrics": {"speculative_decoding": told}})
    )
    assert words(trace) == [["red car"]] and "more than one answer" in trace.steps[0].note


A = piece("a")
BROKEN = {
    "cut": (stream(A, done=False), "closed the answer before its end"),
    "cut inside an event": (stream(A, done=False) + 'data: {"choices": [{"ind', "closed the answer before its end"),
    "no JSON in the middle": (stream(A, done=False) + "data: {\n\n" + stream(A), "an event is not JSON"),
    "an error": (stream(A, {"error": {"message": "no\nroom", "code": 500}}), "broke off: no room"),
    "an error as a text": (stream(A, {"error": "no room"}), "broke off: no room"),
    "an error beside the choices": (stream(A, piece("", 0, "error", error={"message": "no room"})), "no room"),
    "an error in the choice": (stream(A, {"choices": [{"delta": {}, "error": {"message": "no room"}}]}), "no room"),
    "an event of that name": (stream(A, done=False) + "event: error\ndata: no room\n\n", "broke off: no room"),
    "with an object": (stream(A, done=False) + 'event: error\ndata: {"detail": "no room"}\n\n', "off: no room"),
    "a field of that name": (stream(A, done=False) + 'error: {"code": 500, "message": "no room"}\n\n', "no room"),
    "object": (stream(A, {"object": "error", "message": "no room", "code": 400}), "broke off: no room"),
    "error_code": (stream(A, {"text": "no room", "error_code": 50002}), "broke off: no room"),
    "error_msg": (stream(A, {"error_msg": "no room"}), "broke off: no room"),
    "detail": (stream(A, {"detail": [{"loc": ["body"], "msg": "no room"}]}), "broke off: no room"),
    "message and code": (stream(A, {"message": "no room", "code": "Throttling"}), "broke off: no room"),
    "abort": (stream(A, piece(" b", 0, "abort")), "broke off with 'abort'"),
    "error": (stream(A, piece(" b", 0, "error")), "broke off with 'error'"),
    "whole": (json.dumps(whole("a", finish="abort")), "broke off with 'abort'"),
    "whole, not finished": (json.dumps(whole("a", finish=None)), "closed the answer before its end"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_saved_answer_that_broke_off_is_not_complete(kind):
    text, said = BROKEN[kind]
    trace = import_trace(text)
    assert trace.end.reason == "failed" and said in trace.end.message and words(trace)[0] == ["a"]


@pytest.mark.parametrize("kind", [kind for kind in BROKEN if "broke off: no room" in BROKEN[kind][1]])
def test_an_error_alone_is_told_in_the_servers_words(kind):
    alone = BROKEN[kind][0].removeprefix(stream(A, done=False))
    with pytest.raises(TraceError, match=r"^the server answered with an error: no room\.$"):
        import_trace(alone)


@pytest.mark.parametrize("event", [{"error": None}, {"error_code": 0, "text": ""}, {"code": 200, "message": "ok"}, {}])
def test_what_only_looks_like_an_error_is_none(event):
    trace = import_trace(stream(A, {"choices": []} | event, piece("b", 0, "stop"), event))
    assert trace.text == "ab" and trace.end.reason == "complete" and trace.end.message == ""


def test_an_end_is_told_by_the_mark_or_the_reason():
    assert import_trace(stream(A)).end.reason == "complete"
    assert import_trace(stream(piece("a", 0, "stop"), done=False)).end.reason == "complete"
    body = whole("a")
    del body["choices"][0]["finish_reason"]  # of a form that has none
    assert import_trace(json.dumps(body)).end.reason == "complete"
    body = json.loads(FILES["vllm-detailed.json"])
    body["choices"][0]["finish_reason"] = "abort"
    assert import_trace(json.dumps(body)).end.reason == "failed"
    body = json.loads(FILES["sglang.json"])
    body["meta_info"]["finish_reason"] = {"type": "abort", "message": "no room", "status_code": 503}
    assert "broke off: no room" in import_trace(json.dumps(body)).end.message


def completion(text, names, chances, finish="length", offsets=None, **more):
    told = {"tokens": names, "token_logprobs": chances, "top_logprobs": None, "text_offset": offsets}
    return {"choices": [{"index": 0, "text": text, "logprobs": told, "finish_reason": finish}], **more}


HELLO = ["Hello", " world", ",", " you"], [None, -3.0, -0.5, -0.2]
FED = {"prompt_tokens": 2, "completion_tokens": 2}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(completion("Hello world, you", *HELLO, usage=FED)),
        json.dumps(completion("Hello world, you", *HELLO, prompt_token_ids=[5, 6])),
        stream(
            completion("Hello world", HELLO[0][:2], HELLO[1][:2], None),
            completion(", you", HELLO[0][2:], HELLO[1][2:]),
            {"choices": [], "usage": FED},
        ),
        json.dumps(completion("Hello world, you", HELLO[0], [-1.0, -3.0, -0.5, -0.2], usage=FED)),
        stream(
            completion("Hello world,", HELLO[0][:3], HELLO[1][:3], None), completion(" you", HELLO[0][3:], [-0.2]),
            {"choices": [], "usage": FED},
        ),
        json.dumps(
            completion("Hello world, you", *HELLO, usage=FED)
            | {"metrics": {"speculative_decoding": {name: 0 for name in DRAFTED if "per" not in name}}}
        ),
    ],
)  # fmt: skip
def test_an_echoed_prompt_was_fed_and_not_written(text):
    trace = import_trace(text)
    assert [*chain(*words(trace))] == [",", " you"] and trace.text == ", you" and len(trace.output_ids) == 2
    assert trace.header.prompt in ("Hello world", "") and trace.steps[0].commits.positions[0] == 0


def test_an_echo_whose_end_is_not_told_is_refused():
    with pytest.raises(TraceError, match=r"begins with its prompt \(`echo`\)"):
        import_trace(json.dumps(completion("Hello world, you", *HELLO)))
    with pytest.raises(TraceError, match="no token was written"):
        import_trace(
            json.dumps(completion("Hi you", ["Hi", " you"], [None, -1.0], usage=FED | {"completion_tokens": 0}))
        )
    split = ["H", "\ufffd", "\ufffd", "!"], [None, -1.0, -1.0, -1.0]
    trace = import_trace(
        json.dumps(
            completion("Hé!", *split, offsets=[0, 1, 1, 2], usage=FED | {"prompt_tokens": 1, "completion_tokens": 3})
        )
    )
    assert trace.text == "é!", "by the places of the tokens, where their texts are not the text"
    trace = import_trace(json.dumps(completion("a b", ["a", " b"], [None, -1.0], usage=FED)))
    assert trace.text == "a b", "as many tokens as were written"


def test_the_beginning_of_a_message_that_was_continued_was_fed():
    """vLLM with `continue_final_message` and `echo`: the names are those of what was written."""
    body = whole(" a")
    body["choices"][0]["message"]["content"] = "Sure, a"
    trace = import_trace(json.dumps(body | {"usage": {"completion_tokens": 1}}))
    assert (trace.header.prompt, trace.text) == ("Sure,", "a") and "fed" in trace.header.departures
    first = {"choices": [{"index": 0, "delta": {"content": "Sure,"}}]}
    end = {"choices": [], "usage": {"completion_tokens": 1}}
    trace = import_trace(stream(first, piece(" a", 0, "stop"), end))
    assert (trace.header.prompt, trace.text) == ("Sure,", "a") and words(trace) == [[" a"]]
    with pytest.raises(TraceError, match="parts of the answer name no tokens"):
        import_trace(stream(first, piece(" a", 0, "stop")))


def test_tokens_that_are_named_by_their_ids_have_these_ids():
    names = ["token_id:7151", "token_id:366"]
    body = completion(" hi you", names, [-0.5, -0.2])
    body["choices"][0]["logprobs"]["top_logprobs"] = [
        {names[0]: -0.5, "token_id:12": -2.0},
        {names[1]: -0.2, "token_id:9": -3.0},
    ]
    trace = import_trace(json.dumps(body))
    assert trace.output_ids == [7151, 366] and trace.text == "hi you"
    assert "token_ids" not in trace.header.missing and "token_texts" in trace.header.missing
    assert trace.steps[0].candidates.tokens.array().tolist() == [[7151, 12], [366, 9]]
    trace = import_trace(stream(completion(" hi", names[:1], [-0.5], None), completion(" you", names[1:], [-0.2])))
    assert words(trace) == [[" hi"], [" you"]] and trace.output_ids == [7151, 366], "alone it is what came with it"
    body = piece(" hi", 0, "stop")
    body["choices"][0]["logprobs"]["content"] = [{"token": "token_id:5", "logprob": -1.0, "top_logprobs": []}]
    assert import_trace(stream(body)).output_ids == [5]
    body = json.loads(FILES["vllm-detailed.json"])
    told = body["choices"][0]["logprobs"]
    for i, one in enumerate(told["content"]):
        one["token"] = f"token_id:{i + 40}"
    trace = import_trace(json.dumps(body))
    assert trace.output_ids == [*range(40, 48)] and len(trace.steps) == 3 and "token_ids" not in trace.header.missing


def native(content, number, token, *top):
    """An event of llama.cpp's own stream."""
    likely = [{"id": i, "token": t, "bytes": [], "logprob": -0.5} for i, t in top]
    one = {"id": number, "token": token, "bytes": [], "logprob": -0.3, "top_logprobs": likely}
    return {"index": 0, "content": content, "tokens": [number], "stop": False, "completion_probabilities": [one]}


def test_an_id_may_stand_for_another_text_each_time():
    """ggml-org/llama.cpp#18454: the last byte of a character has the whole character as its text. #11728: blanks are
    missing among the likeliest."""
    events = [native(" 散", 96, " 散", (230, "\ufffd")), native("教", 230, "教"), native("效", 96, "效", (96, "效"))]
    trace = import_trace(stream(*events, {"content": "", "stop": True, "stop_type": "limit"}, done=False))
    assert words(trace) == [[" 散"], ["教"], ["效"]] and trace.output_ids == [96, 230, 96] and trace.text == "散教效"
    assert [piece.token_id for piece in trace.pieces] == [96, 230, 230, 96] and len({p.id for p in trace.pieces}) == 4
    assert [line.split(",")[7:9] for line in events_csv([trace]).splitlines()[1:]] == [
        ["96", " 散"],
        ["230", "教"],
        ["96", "效"],
    ]
    assert [field["token"] for step in trace.steps for field in step_fields(trace, step)["commits"]] == [96, 230, 96]
    (row,) = trace.steps[2].candidates.tokens.array().tolist()
    assert row == trace.steps[2].commits.tokens, "the likeliest is the token that was written"
    events = [native(" The", 10, " The", (20, "os")), native(" os", 20, " os", (20, "os"), (10, "The"))]
    trace = import_trace(stream(*events))
    assert words(trace) == [[" The"], [" os"]] and trace.output_ids == [10, 20]
    assert trace.steps[1].candidates.tokens.array()[0, 0] == trace.steps[1].commits.tokens[0]


def test_vllm_names_the_bytes_of_a_character_with_its_last():
    names = ["", "", "散", "", "教"]
    choice = {"text": "散教", "finish_reason": "stop", "logprobs": {"tokens": names}, "token_ids": [7, 8, 9, 7, 8]}
    told = {"num_spec_steps": 0, "num_accepted_draft_tokens": 0, "num_draft_tokens": 0}
    trace = import_trace(json.dumps({"choices": [choice], "metrics": {"speculative_decoding": told}}))
    assert words(trace) == [names] and trace.output_ids == [7, 8, 9, 7, 8] and trace.text == "散教"


def test_the_verdict_finds_the_word_where_ids_have_several_texts():
    trace = import_trace(stream(*(native(text, number, text) for text, number in (("a", 5), ("b", 6), (" c", 6)))))
    assert positions(trace, 0, "ax") == (1, 1) and positions(trace, 1) == (2, 2)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85"])
def test_a_line_of_a_stream_ends_where_the_standard_says(mark, end):
    """modelscope/evalscope#1642, langgenius/dify#39008."""
    events = [json.dumps(one, ensure_ascii=False) for one in (piece(f"a{mark}b"), piece(" c", 0, "stop"))]
    text = "".join(f"id: 1{end}: note{end}data:{one}{end}{end}" for one in events) + f"data:{end}{end}"
    assert words(import_trace(text)) == [[f"a{mark}b"], [" c"]]
    alone = end.join(f"data: {one}" for one in events)  # the empty lines were lost
    assert words(import_trace(alone)) == [[f"a{mark}b"], [" c"]]
    spread = json.dumps(whole("a"), indent=1).replace("\n", f"{end}data: ")
    assert words(import_trace(f"data: {spread}{end}{end}")) == [["a"]]


def test_answers_of_sglang_that_name_their_tokens_are_read():
    rows = [[-0.5, 5, "ha"], [-0.2, 6, "ha"]]
    meta = {"completion_tokens": 2, "output_token_logprobs": rows, "finish_reason": {"type": "length", "length": 2}}
    trace = import_trace(json.dumps({"text": "haha", "meta_info": meta}))
    assert words(trace) == [["ha", "ha"]] and trace.output_ids == [5, 6] and "'length'" in trace.steps[0].note
    new = [
        {"text": "ha", "meta_info": meta | {"completion_tokens": n + 1, "output_token_logprobs": rows[n : n + 1]}}
        for n in (0, 1)
    ]
    trace = import_trace(stream(*new))
    assert words(trace) == [["ha"], ["ha"]] and trace.text == "haha", "what is new begins with what was there"


def test_parts_of_a_message_are_text_or_named():
    body = whole("Blue")
    body["choices"][0]["message"] = {
        "content": [{"type": "text", "text": "Blue"}, {"type": "image_url", "image_url": {}}]
    }
    trace = import_trace(json.dumps(body))
    assert trace.text == "Blue" and "something that is not text: image_url" in trace.steps[0].note
    body["choices"][0] |= {
        "message": {"refusal": "No"},
        "logprobs": {"content": None, "refusal": [{"token": "No", "logprob": 0}]},
    }
    assert words(import_trace(json.dumps(body))) == [["No"]]
