"""`python -m tests.gguf_speed` and its record."""

import msgspec
import pytest
import torch

from explorer.bench import gguf, shipped
from explorer.papers import measured
from explorer.papers.tables import shown
from tests import gguf_speed
from tests.gguf_files import tiny_llama
from tests.gguf_speed import FULL, OURS, SERVER, Quiet, Took


def test_what_was_disturbed_is_made_again_and_of_those_that_all_were_the_least_is_taken():
    for walls, taken, again, left in (((3.0, 1.02, 1.0), 1.02, 1, 0), ((3.0, 1.5, 2.0), 1.5, 2, 1)):
        quiet, waiting = Quiet(), list(walls)
        assert quiet(lambda waiting=waiting: waiting.pop(0), lambda wall: (wall, 1.0)) == taken
        assert (quiet.again, quiet.left) == (again, left)


def test_a_ratio_is_of_seconds_a_token_in_the_same_round():
    slow, fast = Took(1.0, 4.0, 6.0, 3.0, (1, 2, 3, 4)), Took(1.0, 1.0, 2.0, 1.0, (1, 2))
    one = gguf_speed.ratio("slow / fast", "slow", "fast", "", [{"slow": slow, "fast": fast}] * 3)
    assert (one.after, one.wall, one.processor) == ([2.0] * 3, [1.5] * 3, [1.5] * 3)


@pytest.fixture
def record(tmp_path, monkeypatch):
    file, target = tiny_llama(tmp_path / "tiny.gguf")[0], tmp_path / "gguf" / "tiny.json"
    monkeypatch.setattr(gguf_speed, "NEW_TOKENS", 6)
    monkeypatch.setattr(gguf_speed, "TEXT", "the cat")
    threads = torch.get_num_threads()
    try:
        assert gguf_speed.main([str(file), "--rounds", "2", "--json", str(target), "--codes"]) == 0
    finally:
        torch.set_num_threads(threads)
    monkeypatch.setattr(gguf, "FOLDER", target.parent)
    return target


@pytest.mark.gguf
def test_all_loops_answer_on_the_same_file_and_a_table_shows_it(record):
    (found,) = shipped(gguf.Speeds, gguf.FOLDER)
    assert found == msgspec.json.decode(record.read_bytes(), type=gguf.Speeds)
    assert [one.name for one in found.loops] == [SERVER, OURS, FULL] and found.rounds == 2
    assert {one.same for one in found.loops[1:]} == {found.new_tokens}, "recording changes no token"
    assert all(one.speed > 0 and one.wall > 0 for one in found.loops) and found.rows == []
    assert found.command.startswith("python -m tests.gguf_speed ") and found.build.endswith(")")
    table = shown(measured.tables()["GGUF files"][0])
    assert [row[0] for row in table.rows] == [loop.name for loop in found.loops]
    assert "`python -m tests.gguf_speed" in table.about[1]


def test_the_shipped_record_names_every_code_and_size():
    for found in shipped(gguf.Speeds, gguf.FOLDER):
        assert {one.code for one in found.rows} == set(gguf_speed.CODES)
        assert all(tuple(one.seconds) == gguf_speed.SIZES for one in found.rows)
        assert [one.code for one in found.rows if not one.made] == ["Q4_1"]
