"""Runs kept on disk are read by whoever asks for the same, and by nobody who asks for another."""

import math

import pytest

import engines
from tests.memo import Memo, fingerprint

KEEPS = {"least": -1.0, "fastest": math.inf}  # whatever a run took


@pytest.fixture(scope="module")
def trace():
    return engines.run("greedy", engines.load_model("tiny-ar-s", dtype="float32"), "reverse: Tom")


@pytest.fixture
def decode(trace):
    """Gives a run and counts how often it was asked to."""

    def one():
        one.times += 1
        return trace

    one.times = 0
    return one


def test_a_run_is_decoded_once_and_read_by_another_worker(tmp_path, decode, trace):
    for _ in range(2):
        assert Memo(tmp_path, "a", **KEEPS).run(("greedy", 0), decode) == trace
    assert decode.times == 1
    for sources, asked in (("a", ("greedy", 1)), ("b", ("greedy", 0)), ("a", ("greedy", 0))):
        Memo(tmp_path, sources, **KEEPS).run(asked, decode)
    assert decode.times == 4 and [folder.name for folder in tmp_path.iterdir()] == ["a"], "other questions and sources"


def test_a_damaged_file_is_decoded_anew_and_a_failure_is_not_kept(tmp_path, decode, trace):
    def refused():
        raise engines.UserError("no")

    memo = Memo(tmp_path, "a", **KEEPS)
    with pytest.raises(engines.UserError):
        memo.run(0, refused)
    memo.run(0, decode)
    (file,) = memo.folder.iterdir()
    for damage in (lambda data: data[:-9], lambda data: data[:50] + b"?" + data[51:], lambda data: b""):
        file.write_bytes(damage(file.read_bytes()))
        assert memo.run(0, decode) == trace and memo.run(0, decode) == trace
    assert decode.times == 4


def test_what_is_quick_or_too_much_or_has_no_folder_is_not_kept(tmp_path, decode):
    for memo in (Memo(tmp_path, "a", least=60), Memo(tmp_path, "a", most=10, **KEEPS), Memo(None, "a", **KEEPS)):
        memo.run(0, decode)
        memo.run(0, decode)
    assert decode.times == 6 and not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_changed_source_gives_another_fingerprint(tmp_path):
    source, weights = tmp_path / "code" / "one.py", tmp_path / "weights" / "model.safetensors"
    found = []
    for text, size in (("1", "1"), ("1", "1"), ("2", "1"), ("2", "11")):
        for path, said in ((source, text), (weights, size)):
            path.parent.mkdir(exist_ok=True)
            if not path.exists() or path.read_text() != said:
                path.write_text(said)
        found.append(fingerprint([source.parent], [weights.parent]))
    assert found[0] == found[1] and len(set(found)) == 3
