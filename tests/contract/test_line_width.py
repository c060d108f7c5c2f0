"""JavaScript and CSS keep to the width of biome.jsonc, strings and comments too, which no formatter breaks."""

from __future__ import annotations

import json
import re
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


def test_the_formatter_has_the_same_width_and_one_version():
    settings = re.sub(
        r"^\s*//.*$|(?<=[\"}\]\d,]) // .*$", "", (ROOT / "biome.jsonc").read_text("utf-8"), flags=re.MULTILINE
    )
    assert json.loads(settings)["formatter"]["lineWidth"] == WIDEST
    version = json.loads((ROOT / "package.json").read_text("utf-8"))["devDependencies"]["@biomejs/biome"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", version), "the version is pinned: another one may format otherwise"
