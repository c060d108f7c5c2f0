"""The gallery is what its recipe says, and a recorded run repeats: nothing in it was edited."""

import gzip
import json

import pytest

import engines
from explorer.record import ASSETS, TRACES, record

ENTRIES = json.loads((ASSETS / "gallery.json").read_text())


def recorded(entry):
    return engines.read_trace(gzip.decompress((TRACES / f"{entry['id']}.json.gz").read_bytes()))


def decisions(trace):
    return [
        (s.commits and (s.commits.positions, s.commits.tokens, s.commits.causes), s.tree and s.tree.tokens, s.choice and s.choice.chosen) for s in trace.steps
    ]


def test_every_entry_is_recorded_and_nothing_else():
    assert {p.name.removesuffix(".json.gz") for p in TRACES.glob("*.gz")} == {entry["id"] for entry in ENTRIES}
    assert len(ENTRIES) >= 8
    assert {entry["method"] for entry in ENTRIES} == {info.slug for info in engines.list_methods()}


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: e["id"])
def test_the_header_says_what_the_recipe_asks(entry):
    header = recorded(entry).header
    assert (header.method, header.prompt, header.seed, header.detail) == (entry["method"], entry["prompt"], entry.get("seed", 0), "full")
    assert entry["model"] in [m.name for m in header.models]
    assert entry.get("params", {}).items() <= header.params.items()
    cards = {m.name: json.loads((ASSETS / "models" / m.name / "card.json").read_text()) for m in header.models if (ASSETS / "models" / m.name).is_dir()}
    assert all(m.sha256 == cards[m.name]["sha256"] for m in header.models if m.name in cards)


@pytest.mark.parametrize("entry", [e for e in ENTRIES if e["model"].startswith("tiny")], ids=lambda e: e["id"])
def test_a_recorded_run_repeats(entry, tmp_path):
    record(entry, tmp_path)
    again = engines.read_trace(gzip.decompress((tmp_path / f"{entry['id']}.json.gz").read_bytes()))
    old = recorded(entry)
    assert again.output_ids == old.output_ids
    assert decisions(again) == decisions(old)
