"""The golden data that ships with the tests, through the same code as `decoding-explorer verify`."""

import json
import shutil
from pathlib import Path

import pytest

import engines
from tests.engines.conftest import GOLDEN

FILES = {"diffusion": 14, "diffusion2026": 5, "speculative": 17, "heads": 12, "architecture": 10, "systems": 6}
PARTLY = {"dparallel.json", "dparallel_dream.json"}  # of which some cases are of loops that are not here


@pytest.mark.parametrize(("family", "files"), [*FILES.items(), ("sampling", 8)])
def test_golden_cases_pass(family, files):
    reports = engines.verify(GOLDEN / family)
    assert {r.file: r.mismatch for r in reports if r.state == "failed"} == {}
    assert len(reports) == files and {r.file for r in reports if r.covered < r.cases} <= PARTLY


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


def test_a_block_without_masks_and_a_later_end_of_the_text_are_caught(folder):
    def stay(data):
        steps = data["cases"][0]["expected"]["steps"]
        steps[8]["block"] = steps[0]["block"]

    def longer(data):
        data["cases"][0]["expected"]["final"].append(62)

    assert "forward 8 block" in folder(EDGES / "llada.json", stay).mismatch
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
