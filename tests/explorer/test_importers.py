"""Records of other programs: what is in them arrives, and what is not is said to be missing."""

import json
import math
from pathlib import Path

import pytest

from engines import Trace, TraceError, UserError
from explorer.cli import main
from explorer.export.events import events_csv
from explorer.export.python import lines
from explorer.figures.curves import confidence_by_step, growth
from explorer.figures.metrics import measure
from explorer.importers import build, import_trace
from explorer.runs.gallery import read_pasted

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
