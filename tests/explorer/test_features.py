"""The generated parts of the README."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from explorer import features

ROOT = Path(__file__).resolve().parents[2]


def test_the_readme_says_what_the_data_say():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert features.filled(text) == text, "run `python -m explorer.features README.md`"


def test_a_stale_part_is_found_and_written_anew(tmp_path: Path, capsys):
    path = tmp_path / "README.md"
    old = (ROOT / "README.md").read_text(encoding="utf-8")
    path.write_text(re.sub(r"Of the 56 papers \w+", "Of the 56 papers none", old), encoding="utf-8")
    assert features.main([str(path), "--check"]) == 1
    assert "is not what the data say" in capsys.readouterr().out
    assert features.main([str(path)]) == 0 and path.read_text(encoding="utf-8") == old
    assert features.main(["--check", str(path)]) == 0


def test_a_part_without_a_place_is_an_error():
    with pytest.raises(ValueError, match="needs one place '<!-- "):
        features.filled("# nothing here")
