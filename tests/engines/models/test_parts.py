"""Trained parts: found beside their base, checked against its weights and their card, kept while the file stays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import engines
from engines.core.errors import UserError
from engines.core.method import method, part
from engines.core.trace import ModelRecord
from engines.models import parts
from engines.models.hub import sha256

BASE = ModelRecord("target", "someone/base", "causal", sha256="abc" * 20)
TENSORS = {"W": torch.arange(6.0).reshape(2, 3), "b": torch.zeros(2)}


def made(folder: Path, card: dict | None = None, name: str = "base-head") -> Path:
    place = folder / "parts" / name
    place.mkdir(parents=True)
    save_file(TENSORS, place / "model.safetensors")
    said = {"bases": {"target": BASE.sha256}, "sha256": sha256(place / "model.safetensors"), "licence": "Apache-2.0"}
    (place / "card.json").write_text(json.dumps(said | (card or {})))
    return place


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DECODING_EXPLORER_ASSETS", str(tmp_path))
    return tmp_path


def test_a_part_is_found_checked_and_read_once(folder: Path):
    made(folder)
    found = parts.load_part("head", [BASE])
    assert (found.name, found.base, found.parameters) == ("base-head", "someone/base", 8)
    assert torch.equal(found.tensors["W"], TENSORS["W"])
    assert parts.load_part("head", [BASE]) is found
    record = found.record("head", BASE)
    assert (record.role, record.kind, record.parameters, record.sha256) == ("head", "part", 8, found.sha256)


def test_a_part_beside_the_models_is_found_too(folder: Path):
    place = made(folder)
    (folder / "models").mkdir()
    place.rename(folder / "models" / "base-head")
    assert parts.folder_of("head", "base") == folder / "models" / "base-head"
    assert parts.load_part("head", [BASE]).parameters == 8


def test_a_missing_part_says_which_command_makes_it(folder: Path):
    with pytest.raises(UserError, match=r"no head for someone/base in .*python -m engines\.training head someone/base"):
        parts.load_part("head", [BASE])
    assert parts.folder_of("head", "../../etc") == folder / "parts" / "etc-head"


@pytest.mark.parametrize(
    ("card", "complaint"),
    [
        ({"bases": {"target": "0" * 60}}, "trained for other weights"),
        ({"bases": {"target": BASE.sha256, "draft": "1"}}, "trained for other weights"),
        ({"bases": {}}, "other weights .unknown."),
        ({"bases": "all"}, "other weights"),
        ({"sha256": "0" * 64}, "not the file that its card describes"),
    ],
)
def test_a_part_for_another_base_or_another_file_is_refused(folder: Path, card: dict, complaint: str):
    made(folder, card)
    with pytest.raises(UserError, match=rf"{complaint}.*python -m engines\.training head someone/base"):
        parts.load_part("head", [BASE])


def test_a_damaged_part_is_a_sentence(folder: Path):
    place = made(folder)
    (place / "model.safetensors").write_bytes((place / "model.safetensors").read_bytes()[:-5])
    with pytest.raises(UserError, match="should have"):
        parts.load_part("head", [BASE])
    (place / "card.json").write_text("{")
    with pytest.raises(UserError, match="not valid JSON"):
        parts.load_part("head", [BASE])


def test_the_fields_of_the_first_parts_are_read(folder: Path):
    assert parts.bases_of({"target_sha256": "a", "draft_sha256": "b"}) == ["a", "b"]
    assert parts.bases_of({"model_sha256": "a"}) == ["a"]


def declared(needs):
    @method("with-head", title="", family="x", paper="", summary="", needs=needs, params=[], emits=set())
    def decode(models, prompt, p, run):
        yield run.step()

    return decode


def test_a_method_declares_a_part_beside_its_model():
    info = declared({"target": "causal", "head": part("head")}).info
    assert (info.needs, info.parts, info.role) == ({"target": "causal"}, {"head": "head"}, "target")
    for wrong in ({"head": part("head")}, {"head": part("head"), "target": "causal"}, {"target": "no-such-kind"}):
        with pytest.raises(ValueError, match="needs"):
            declared(wrong)


METHOD = """
from engines.kit import Int, max_new_tokens, method, part

@method("scaled", title="Scaled", family="mine", paper="", summary="", params=[max_new_tokens(4)],
        needs={"target": "causal", "head": part("head")}, emits={"commits", "facts"})
def decode(models, prompt, p, run):
    ids, cache = list(prompt), models.target.new_cache(len(prompt) + p.max_new_tokens)
    for _ in range(p.max_new_tokens):
        z = models.target.extend(ids[cache.length:], cache, last_only=True).logits[0]
        token = int(z.argmax())
        ids.append(token)
        total = float(models.head.tensors["W"].sum())
        step = run.step(commits=([len(ids) - 1], [token], "greedy"), facts={"sum": total})
        ids = run.apply_edit((yield step), ids, cache)
"""


@pytest.mark.usefixtures("registry_unchanged")
def test_a_run_is_handed_its_part_and_names_it_in_the_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "mine.py").write_text(METHOD)
    engines.load_method_file(tmp_path / "mine.py")
    model = engines.load_model("tiny-ar-s")
    monkeypatch.setenv("DECODING_EXPLORER_ASSETS", str(tmp_path))
    with pytest.raises(UserError, match=r"python -m engines\.training head tiny-ar-s"):
        engines.run("scaled", model, "copy: Tom")
    made(tmp_path, {"bases": {"target": model.record.sha256}}, "tiny-ar-s-head")
    trace = engines.run("scaled", model, "copy: Tom")
    assert [step.facts["sum"] for step in trace.steps] == [15.0] * len(trace.steps)
    assert [(one.role, one.name) for one in trace.header.parts] == [("head", "tiny-ar-s-head")]
    assert engines.Trace.from_json(trace.to_json()) == trace
