"""The golden data that ships with the tests, through the same code as `decoding-explorer verify`."""

import json
import shutil
from pathlib import Path

import pytest

import engines
from tests.engines.conftest import GOLDEN

COVERED = {
    "diffusion": {
        *(
            "llada.json",
            "fast_dllm_v1.json",
            "fast_dllm_v1_cache.json",
            "credit.json",
            "dinfer_threshold.json",
            "adablock.json",
        ),
        *("localleap.json", "prophet.json", "dream.json", "dimple.json", "fast_dllm_v2.json", "learn2pd.json"),
    },
    "diffusion2026": {
        *(f"llada2/{name}.json" for name in ("cases", "cases_diffusers", "cases_sglang")),
        "nemotron_labs_diffusion/cases.json",
        "diffusion_gemma/cases.json",
    },
    "speculative": {
        *("chain.json", "multi_candidate.json", "tree_mask.json", "token_recycling.json"),
        *("rsd.json", "dyspec.json", "rasd.json", "specdecpp.json", "pearl.json", "aded.json", "stand.json"),
        *("gad_block.json", "iad_match.json", "iad_spans.json", "judge.json", "reflective.json"),
    },
    "heads": {
        *("kangaroo_stop.json", "del_update.json", "del_choice.json", "del_stop.json"),
        *("greedy_accept.json", "ppd_buffers.json", "ppd_dynamic_tree.json"),
        *("tree_buffers.json", "typical_accept.json", "eagle2_tree.json", "falcon_mask.json", "lud.json"),
    },
    "architecture": {
        *(
            "blockffn.json",
            "context_str.json",
            "cppd.json",
            "encoder_return.json",
            "lean_attention.json",
            "moe_comm.json",
            "plga.json",
            "readme.json",
            "step3.json",
            "ultramem_v2.json",
        ),
    },
    "systems": {
        *("easyspec.json", "mirror_sd.json", "specmemo_bytes.json", "rapid.json"),
        *("loglinear_fit.json", "sd_arithmetic.json"),
    },
    "sampling": {
        "ead.json",
        "top_h.json",
        "adadec.json",
        "mgd.json",
        "rpc.json",
        "ffs.json",
        "a_star.json",
        "sjd.json",
    },
}


@pytest.mark.parametrize("family", COVERED)
def test_golden_cases_pass(family):
    reports = {r.file: r for r in engines.verify(GOLDEN / family)}
    assert {name: r.mismatch for name, r in reports.items() if r.state == "failed"} == {}
    assert {name for name, r in reports.items() if r.state == "passed"} >= COVERED[family]
    assert all(reports[name].covered == reports[name].cases for name in COVERED[family])


def test_a_changed_expectation_is_caught(tmp_path):
    """The check can fail: one committed token altered in a copy."""
    shutil.copytree(GOLDEN / "diffusion" / "stubs", tmp_path / "stubs")
    data = json.loads((GOLDEN / "diffusion" / "credit.json").read_text())
    data["cases"] = data["cases"][:1]
    data["cases"][0]["expected"]["steps"][0]["set"][0][1] += 1
    (tmp_path / "credit.json").write_text(json.dumps(data))
    (report,) = engines.verify(tmp_path)
    assert report.state == "failed" and "forward 0 commits" in report.mismatch


EDGES = Path(__file__).parent / "cases"


@pytest.fixture
def folder(tmp_path):
    """A folder with the stubs, and with a copy of one file of cases, changed as wanted."""
    shutil.copytree(GOLDEN / "diffusion" / "stubs", tmp_path / "stubs")

    def verified(source, change=lambda data: None):
        data = json.loads(source.read_text())
        data["cases"] = data["cases"][:1] if source.parent != EDGES else data["cases"]
        change(data)
        (tmp_path / source.name).write_text(json.dumps(data))
        return next(report for report in engines.verify(tmp_path) if report.file == source.name)

    verified.stubs = tmp_path / "stubs"
    return verified


@pytest.mark.parametrize("name", ["llada", "prophet", "dream", "fast_dllm_v2"])
def test_official_runs_at_the_edges_are_met(folder, name):
    report = folder(EDGES / f"{name}.json")
    assert (report.mismatch, report.left_out, report.covered) == ("", "", report.cases) and report.cases > 0


def test_a_block_without_masks_is_not_the_one_that_holds_the_first_mask(folder):
    def stay(data):
        steps = data["cases"][0]["expected"]["steps"]
        steps[8]["block"] = steps[0]["block"]

    assert "forward 8 block" in folder(EDGES / "llada.json", stay).mismatch


def test_a_later_end_of_the_text_is_caught(folder):
    def longer(data):
        data["cases"][0]["expected"]["final"].append(62)

    assert "forward 7 commits" in folder(EDGES / "fast_dllm_v2.json", longer).mismatch


@pytest.mark.parametrize(("name", "called"), [("dream", "moved"), ("llada", "s")])
def test_the_shift_stands_in_the_file_whatever_the_stub_is_called(folder, name, called):
    original = GOLDEN / "diffusion" / f"{name}.json"
    stub = json.loads(original.read_text())["cases"][0]["stub"]
    shutil.rmtree(folder.stubs / called, ignore_errors=True)
    shutil.copytree(GOLDEN / "diffusion" / "stubs" / stub, folder.stubs / called)

    def rename(data, shift=None):
        data["cases"][0]["stub"] = called
        data["shift"] = data["shift"] if shift is None else shift

    assert folder(original, rename).state == "passed"
    assert folder(original, lambda data: rename(data, shift=name != "dream")).state == "failed"


@pytest.mark.parametrize("name", ["llada", "dream", "dimple", "learn2pd", "fast_dllm_v2", "prophet"])
def test_a_parameter_that_is_unknown_here_is_not_covered_and_named(folder, name):
    def given(value, key="fresh_rule"):
        return lambda data: data["cases"][0]["params"].update({key: value})

    source = GOLDEN / "diffusion" / f"{name}.json"
    report = folder(source, given(0.5))
    assert (report.state, report.covered) == ("not covered", 0) and "no parameter fresh_rule" in report.left_out
    assert folder(source, given(None)).state == "passed"  # not set there either
    assert folder(source, given(1e-3, "eps")).state == "passed"  # the value that all of ours have
    assert folder(source, given(0.1, "eps")).state == "not covered"


def test_what_departs_on_purpose_is_not_covered(folder):
    def whole_block(data):
        case = data["cases"][0]
        case["prompt"] = (case["prompt"] * 8)[: case["params"]["block_size"]]

    report = folder(GOLDEN / "diffusion" / "fast_dllm_v2.json", whole_block)
    assert report.state == "not covered" and "out of sight" in report.left_out
    cached = folder(GOLDEN / "diffusion" / "dream.json", lambda data: data["cases"][0]["params"].update(cache="dual"))
    assert cached.state == "not covered" and "cache" in cached.left_out
