"""What a token costs as an answer grows."""

import json
import threading

import pytest

import engines
from explorer import cli
from explorer.bench import length, loops, shipped
from explorer.bench.length import Turn, marks
from tests.explorer.commands import refused

PROMPT = "copy: Ada, Ben"


@pytest.fixture(scope="module")
def model():
    return engines.load_model("tiny-ar-l", dtype="float32")


@pytest.fixture
def short(monkeypatch):
    """Turns of four tokens, the first stretch of eight."""
    monkeypatch.setattr(length, "CHUNK", 4)
    monkeypatch.setattr(length, "FIRST", 8)


def test_stretches_double_and_end_with_the_answer_and_so_do_the_recorded_ones():
    assert marks(4096) == [256, 512, 1024, 2048, 4096] and marks(600) == [256, 512, 600] and marks(100) == [100]
    for one in shipped(length.Lengths, length.FOLDER):
        assert not one.partial and [s.until for s in one.loops[0].stretches] == marks(one.new_tokens)


def test_a_stretch_is_the_median_of_its_turns_and_leaves_empty_ones_out():
    def turns(seconds, tokens, sizes):
        told = enumerate(zip(seconds, tokens, sizes, strict=True))
        return [Turn(8 * (i + 1), n, s, 0.5 * n, size) for i, (s, n, size) in told]

    no = [None] * 8
    all_turns = {
        loops.REFERENCE: turns([8.0] * 8, [8] * 8, no),
        "ours": turns([8.0, 16, 24, 0, 8, 8, 8, 800], [8, 8, 16, 0, 8, 8, 8, 8], [*no[:1], 100, *no[:5], 900]),
    }
    first, second = length._stretches(all_turns, "ours", [16, 64])
    assert (first.until, first.turns, first.seconds, first.bytes) == (16, 2, 1.5, 100)
    assert first.over == [1.5] and first.recording == 0.5
    assert (second.turns, second.seconds, second.bytes) == (5, 1.0, 900)
    assert second.over[0] == 1.0, "one turn that something else disturbed moves no median"


@pytest.mark.usefixtures("short")
def test_both_loops_write_one_text_in_turns(model):
    asked = []
    found = length.measured(["greedy", "prompt-lookup"], model, PROMPT, 20, lambda *told: asked.append(told))
    reference, *ours = found.loops
    assert [one.name for one in found.loops] == [
        loops.REFERENCE, "greedy", "greedy, everything recorded", "prompt-lookup", "prompt-lookup, everything recorded",
    ]  # fmt: skip
    assert [one.same for one in ours] == [20] * 4 and not found.partial
    assert [[s.until for s in one.stretches] for one in found.loops] == [[8, 16, 20]] * 5
    assert reference.stretches[0].over[0] == 1.0
    for plain, full in (ours[:2], ours[2:]):
        assert {s.bytes for s in plain.stretches} == {None}
        sizes = [s.bytes for s in full.stretches]
        assert sizes == sorted(sizes) and full.stretches[-1].recording > 0
    assert {name for name, _, _ in asked[:5]} == {one.name for one in found.loops}
    assert asked[5][0] != asked[0][0], "another one begins the next turn"


@pytest.mark.usefixtures("short")
def test_what_was_finished_stays_when_it_is_stopped(model):
    def stop(name, done, total):
        if done >= 12:
            raise KeyboardInterrupt

    before = threading.active_count()
    found = length.measured(["greedy"], model, PROMPT, 40, stop)
    assert found.partial and [[s.until for s in one.stretches] for one in found.loops] == [[8]] * 3
    assert threading.active_count() == before, "generate's thread is over"


@pytest.mark.usefixtures("short")
def test_the_command_prints_stretches_and_writes_the_record(tmp_path, capsys):
    file = tmp_path / "lengths.json"
    ask = ["bench", "--length", "--model", "tiny-ar-l", "--dtype", "float32", "--method", "greedy"]
    assert cli.main([*ask, "--max-new-tokens", "12", "--json", str(file)]) == 0
    told = capsys.readouterr()
    assert "over generate" in told.out and "greedy, everything recorded" in told.out
    assert "transformers' generate: 0 of 12 tokens" in told.err
    written = json.loads(file.read_text())
    assert written["command"].startswith("decoding-explorer bench --length") and written["new_tokens"] == 12


def test_what_cannot_be_measured_is_a_sentence(capsys):
    ask = ["bench", "--length", "--model", "tiny-ar-l"]
    assert "name them by --method" in refused(capsys, *ask)
    assert "takes methods of one model" in refused(capsys, *ask, "--method", "speculative-sampling")
