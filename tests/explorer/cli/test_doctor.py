"""The command `doctor`: what it finds is tried, and each thing that is broken is found and told."""

import json
import socket

import pytest
from packaging.requirements import Requirement

import engines
from explorer.cli import doctor, main


def found(look) -> dict[str, doctor.Check]:
    return {check.what: check for check in doctor.tried(look)}


@pytest.fixture
def few(monkeypatch) -> list[str]:
    """The smallest model of each kind that ships, and all that are not on this machine."""
    found: dict[str, engines.ModelInfo] = {}
    listed = engines.list_models()
    for model in sorted(listed, key=lambda model: model.parameters or 0):
        if model.where == "embedded":
            found.setdefault(model.kind, model)
    shown = [*found.values(), *(model for model in listed if model.where == "download")]
    monkeypatch.setattr(engines, "list_models", lambda: shown)
    return [model.name for model in found.values()]


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.exhaustive)], ids=["few", "all"])
def test_a_sound_machine_has_nothing_broken(capsys, tmp_path, monkeypatch, request, whole):
    if not whole:
        request.getfixturevalue("few")
    monkeypatch.setenv("EXPLORER_STORE", str(tmp_path))
    assert main(["doctor", "--json"]) == 0
    checks = {one["what"]: one for one in json.loads(capsys.readouterr().out)}
    assert not [what for what, one in checks.items() if one["state"] == "broken"]
    assert "others up to 450 MB of weights" in checks["memory"]["found"]
    for model in engines.list_models():
        assert (checks[f"model {model.name}"]["state"] == "limited") == (model.where == "download")
    assert "steps in" in checks["a run"]["found"] and str(tmp_path) in checks["store"]["found"]
    assert not list(tmp_path.glob(".doctor*")), "the probe is gone"


def test_a_store_that_cannot_be_written_and_a_damaged_recording_are_broken(tmp_path, monkeypatch):
    file = tmp_path / "a-file"
    file.write_text("x")
    monkeypatch.setenv("EXPLORER_STORE", str(file / "below"))
    check = found(doctor.store)["store"]
    assert check.state == "broken" and "EXPLORER_STORE" in check.do and "a-file" in check.found
    for name in ("client/player/player.js", "theme.json", "scenarios.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    (tmp_path / "traces").mkdir()
    monkeypatch.setattr(doctor, "ASSETS", tmp_path)
    assert found(doctor.recordings)["recorded runs"].state == "broken", "no recording at all is no sound copy"
    (tmp_path / "traces" / "99-cut.json.gz").write_bytes(b"\x1f\x8b\x08\x00cut short")
    check = found(doctor.recordings)["recorded runs"]
    assert check.state == "broken" and "99-cut.json.gz" in check.found
    (tmp_path / "theme.json").unlink()
    assert "theme.json" in found(doctor.recordings)["recorded runs"].found


def test_what_runs_gguf_files_is_told_with_its_version_or_the_one_command(monkeypatch):
    def lacking():
        raise engines.UserError("run this")

    monkeypatch.setattr(engines, "llama_cpp", lambda: ("wheel 9.8.7", True, "AVX2"), raising=False)
    check = found(doctor.llama_cpp)["GGUF files"]
    assert (check.state, check.do) == ("works", "") and check.found == "llama.cpp by wheel 9.8.7, can use a card: AVX2"
    monkeypatch.setattr(engines, "llama_cpp", lacking)
    for there, state in (("", "limited"), ("wheel 9.8.7", "broken")):
        monkeypatch.setattr(engines, "llama_cpp_installed", lambda there=there: there, raising=False)
        check = found(doctor.llama_cpp)["GGUF files"]
        assert (check.state, check.do) == (state, "run this")


def test_a_model_with_damaged_weights_is_told_and_the_others_are_still_tried(monkeypatch, few):
    real, (damaged, *sound) = engines.load_model, few

    def load(name, **options):
        if name == damaged:
            raise engines.UserError("the file is not the one that its card names")
        return real(name, **options)

    monkeypatch.setattr(engines, "load_model", load)
    checks = found(doctor.weights)
    assert checks[f"model {damaged}"].state == "broken" and "card" in checks[f"model {damaged}"].found
    assert sound and all(checks[f"model {name}"].state == "works" for name in sound)


def test_a_check_that_fails_unforeseen_is_a_finding_and_the_exit_status_is_1(monkeypatch, capsys):
    def look():
        raise RuntimeError("something\x1b[31m unforeseen")
        yield

    def limited():
        yield doctor.Check("a card", "limited", "none", "buy one")

    monkeypatch.setattr(doctor, "CHECKS", (look, limited))
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "a card: buy one\n" in out
    assert "unforeseen" in out and "\x1b" not in out and out.rstrip().endswith("1 broken")


def test_a_port_that_is_taken_and_a_package_that_is_missing_are_told(monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]
        monkeypatch.setattr(doctor, "PORTS", range(number, number + 1))
        check = found(doctor.port)["port"]
    assert check.state == "broken" and str(number) in check.found and "--port" in check.do
    for asked, said in (("no-such-package>=1", "no-such-package is missing"), ("msgspec>=999", "msgspec")):
        assert doctor._unmet(Requirement(asked)).startswith(said)
