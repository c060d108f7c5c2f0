"""JavaScript and CSS keep to the width of biome.jsonc, strings and comments too, which no formatter breaks."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WIDEST = 120
FOLDERS = ("assets", "explorer")


def test_no_line_of_the_scripts_and_sheets_is_wider_than_120_columns():
    found = [path for folder in FOLDERS for end in ("js", "css") for path in (ROOT / folder).rglob(f"*.{end}")]
    lines = [
        (f"{path.relative_to(ROOT)}:{number}", line)
        for path in found
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    ]
    assert lines and not [place for place, line in lines if len(line) > WIDEST]
