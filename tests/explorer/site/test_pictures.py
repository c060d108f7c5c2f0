"""The pictures of the documents: made by our own writers, small, and what the recorded runs say."""

from __future__ import annotations

from explorer.papers.documents import PICTURES
from explorer.site import pictures

LARGEST, TOGETHER = 60_000, 400_000  # bytes


def test_they_are_what_the_data_say_and_small(capsys):
    assert pictures.main(["--check"]) == 0, capsys.readouterr().out
    sizes = {file.name: file.stat().st_size for file in PICTURES.iterdir()}
    assert set(sizes) == {f"{name}.svg" for name in pictures.DRAWN}, "each has its drawing"
    assert max(sizes.values()) < LARGEST and sum(sizes.values()) < TOGETHER


def test_a_stale_one_is_found_and_written_anew(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(pictures, "PICTURES", tmp_path)
    monkeypatch.setattr(pictures, "DRAWN", {"speeds": pictures.DRAWN["speeds"]})
    assert pictures.main(["--check"]) == 1 and "is not what the data say" in capsys.readouterr().out
    assert pictures.main([]) == 0 and pictures.main(["--check"]) == 0
    assert (tmp_path / "speeds.svg").read_text() == (PICTURES / "speeds.svg").read_text()
