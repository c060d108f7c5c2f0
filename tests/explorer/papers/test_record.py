"""The command that records the gallery: what it writes, and what it says where it cannot."""

import dataclasses
import runpy
import sys

import pytest

import engines
from explorer import papers
from explorer.figures.calls import many
from explorer.record import main, with_numbers_of
from explorer.runs.gallery import gallery, read_bytes


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """The shortest recording of a model that ships, and a folder that does not exist yet in which it is recorded."""
    embedded = {model.name for model in engines.list_models() if model.where == "embedded"}
    found = papers.read()
    entries = {one.id: one for one in found.recordings() if one.model in embedded}
    shortest = min((card for card in gallery().cards if card.id in entries), key=lambda card: (card.steps, card.id))
    homes = found.homes | {shortest.id: tmp_path / "traces"}
    monkeypatch.setattr(papers, "read", lambda: dataclasses.replace(found, homes=homes))
    return entries[shortest.id], tmp_path / "traces"


def test_a_named_recording_is_written_with_its_picture_and_nothing_else_is(elsewhere, capsys):
    entry, folder = elsewhere
    assert main([entry.id]) == 0
    assert sorted(path.name for path in folder.iterdir()) == [f"{entry.id}.json.gz", f"{entry.id}.svg"]
    trace = engines.read_trace(read_bytes(folder / f"{entry.id}.json.gz"))
    assert (trace.header.method, trace.header.prompt) == (entry.method, entry.prompt)
    assert trace.output_ids == gallery().get(entry.id).output_ids
    said = capsys.readouterr().err
    assert said.startswith(f"{entry.id}: {trace.totals.tokens} tokens in {many(trace.totals.forwards, 'model call')}, ")
    first = (folder / f"{entry.id}.json.gz").read_bytes()
    assert first[4:8] == b"\0\0\0\0", "no time stamp: equal traces are equal files"


def test_new_words_keep_the_recorded_numbers():
    kept = with_numbers_of("sure to 0.93, line 0.5", "confidence 0.94, threshold 0.5")
    assert kept == "confidence 0.93, threshold 0.5" and with_numbers_of("", "-1.5 nats.") == "-1.5 nats."
    assert with_numbers_of("2 of 3 kept", "of 3 drafts 2 accepted") == "of 3 drafts 2 accepted", "in their new order"


def test_a_name_that_no_paper_has_is_refused_in_a_sentence(capsys):
    assert main(["01-lada-sum"]) == 2
    out, err = capsys.readouterr()
    assert err.startswith("no paper has a recording '01-lada-sum'; did you mean 01-llada-sum") and out == ""
    assert err.count("\n") == 1


MODULES = (
    "explorer.record",
    "explorer.papers.documents",
    "explorer.export.thumbs",
    "explorer.language",
)


@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
@pytest.mark.parametrize("module", MODULES)
def test_what_is_run_as_a_module_has_help_and_refuses_in_a_sentence(module, monkeypatch, capsys):
    """None of them takes a word that it does not know for something else, or for nothing, and writes its files."""
    for option, status in (("--help", 0), ("--dance", 2)):
        monkeypatch.setattr(sys, "argv", [module, option])
        with pytest.raises(SystemExit) as ended:
            runpy.run_module(module, run_name="__main__")
        assert ended.value.code == status
    out, err = capsys.readouterr()
    assert out.startswith(f"usage: python -m {module} [-h]") and len(out.splitlines()) > 4
    assert err == f"unrecognized arguments: --dance; see `python -m {module} --help`.\n"
