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
    assert Memo(tmp_path, "a", **KEEPS).run(("greedy", 0), decode) == trace
    assert Memo(tmp_path, "a", **KEEPS).run(("greedy", 0), decode) == trace
    assert decode.times == 1


def test_another_question_or_other_sources_are_decoded_anew(tmp_path, decode):
    for sources, asked in (("a", ("greedy", 0)), ("a", ("greedy", 1)), ("b", ("greedy", 0)), ("a", ("greedy", 0))):
        Memo(tmp_path, sources, **KEEPS).run(asked, decode)
    assert decode.times == 4 and [folder.name for folder in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-9], lambda data: data[:50] + b"?" + data[51:], lambda data: b""]
)
def test_a_damaged_file_is_decoded_anew(tmp_path, decode, trace, damage):
    memo = Memo(tmp_path, "a", **KEEPS)
    memo.run(0, decode)
    (file,) = memo.folder.iterdir()
    file.write_bytes(damage(file.read_bytes()))
    assert memo.run(0, decode) == trace and memo.run(0, decode) == trace
    assert decode.times == 2


def test_what_is_quick_or_too_much_or_has_no_folder_is_not_kept(tmp_path, decode):
    for memo in (Memo(tmp_path, "a", least=60), Memo(tmp_path, "a", most=10, **KEEPS), Memo(None, "a", **KEEPS)):
        memo.run(0, decode)
        memo.run(0, decode)
    assert decode.times == 6 and not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_failure_is_not_kept(tmp_path, decode):
    def refused():
        raise engines.UserError("no")

    memo = Memo(tmp_path, "a", **KEEPS)
    with pytest.raises(engines.UserError):
        memo.run(0, refused)
    memo.run(0, decode)
    assert decode.times == 1


def test_a_changed_source_gives_another_fingerprint(tmp_path):
    source, weights = tmp_path / "code" / "one.py", tmp_path / "weights" / "model.safetensors"
    for path in (source, weights):
        path.parent.mkdir()
        path.write_text("1")
    before = fingerprint([source.parent], [weights.parent])
    assert before == fingerprint([source.parent], [weights.parent])
    source.write_text("2")
    changed = fingerprint([source.parent], [weights.parent])
    weights.write_text("11")
    assert len({before, changed, fingerprint([source.parent], [weights.parent])}) == 3
