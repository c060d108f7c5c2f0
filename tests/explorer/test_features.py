"""The generated parts of the README."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from explorer import features

ROOT = Path(__file__).resolve().parents[2]


def test_the_readme_says_what_the_data_say():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert features.filled(text) == text, "run `python -m explorer.features README.md`"


def test_every_feature_names_where_it_is_and_a_test_that_exists():
    found = features.features()
    assert len(found) >= 56 and len({one.feature for one in found}) == len(found)
    groups = [one.group for one in found]
    assert sum(a != b for a, b in pairwise(groups)) == len(set(groups)) - 1, "a group stands in one piece"
    for one in found:
        assert bool(one.where) == bool(one.test) == (one.state != "no"), one.feature
        if one.test:
            file, _, name = one.test.partition("::")
            assert re.search(rf"^def {name}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE), f"{one.feature}: there is no {one.test}"


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
