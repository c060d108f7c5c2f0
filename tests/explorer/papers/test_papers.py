"""The list of papers against the registered methods, and what the README says of it."""

import importlib
import json
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

import engines
from engines import UserError
from explorer import papers
from explorer.cli import main
from explorer.export.bundle import views
from explorer.page.chooser import entries
from explorer.runs.gallery import gallery

ROOT = Path(__file__).resolve().parents[3]
ALL = papers.read().papers
METHODS = [info.slug for info in engines.list_methods()]  # before a test loads a file of its own


@pytest.mark.parametrize("paper", ALL, ids=lambda paper: paper.id)
def test_an_entry_is_whole(paper: papers.Paper):
    month = re.fullmatch(r"(\d\d)(\d\d)\.\d{5}", paper.arxiv)
    assert month and paper.year == 2000 + int(month[1]) and 1 <= int(month[2]) <= 12
    assert (paper.state == "planned") == (not paper.methods and not paper.tools)
    assert (paper.state == "works") == (not paper.missing), "what works lacks nothing; what does not says what it lacks"
    assert bool(paper.runs) == (paper.state != "planned")
    assert bool(papers.simplified(paper)) == (paper.state != "planned")
    assert bool(paper.watch) == (paper.state != "planned")
    assert all(one.figure and one.what and one.where for one in paper.published)


def test_every_file_is_read_once_in_order_and_every_method_belongs_to_exactly_one_paper_and_names_it():
    found = papers.read()
    files = [path for place in papers.folders() for path in (place / "papers").glob("*")]
    assert sorted(paper.id for paper in found.all()) == sorted(path.stem for path in files) and papers.faults() == {}
    order = [(papers.STATES.index(one.state), papers.FAMILIES.index(one.family), one.id) for one in ALL]
    assert order == sorted(order)
    for field in ("id", "title", "arxiv"):
        assert len({getattr(paper, field) for paper in ALL}) == len(ALL), field
    assert Counter(slug for paper in found.all() for slug in paper.methods) == Counter(METHODS)
    for paper in found.all():
        named = f"arXiv:{paper.arxiv}" if paper.arxiv else ""
        assert {info.paper for info in papers.methods_of(paper)} <= {named}, paper.id


WHOLE = """{"name": "N", "title": "T", "arxiv": "2501.00001", "year": 2025, "family": "diffusion", "state": "planned",
"idea": "I", "missing": "M"}"""
LESSON = """"lessons": [{"order": 1, "method": "m", "trace": "t", "problem": "p", "idea": "i", "formula": "f",
"watch": "w", "stops": [{"step": 1, "check": {}}], "question": "q", "answer": "a", "caveat": "c", "terms": []}]}"""


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{", "truncated"),
        (WHOLE.replace('"title": "T", ', ""), "missing required field `title`"),
        (WHOLE.replace('"name"', '"surprise": 1, "name"'), "unknown field `surprise`"),
        (WHOLE[:-1] + "," + LESSON, "missing required field `say` - at `$.lessons[0].stops[0]`"),
        (WHOLE[:-1] + ', "says": {"methods": {"m": {}}}}', "`says` tells of 'm', which is not in `methods`"),
        (WHOLE[:-1] + ', "methods": ["one"]}', "the method 'one' is in a.json already"),
    ],
)
def test_a_damaged_file_is_named_with_its_fault_and_hides_no_other(tmp_path, monkeypatch, capsys, text, fault):
    from explorer.page.tables import broken

    monkeypatch.delenv("DECODING_EXPLORER_EXTRA", raising=False)
    ours = papers.read().papers
    (tmp_path / "papers").mkdir()
    good = WHOLE.replace("2501.00001", "2501.00002")[:-1] + ', "methods": ["one"]}'
    (tmp_path / "papers" / "a.json").write_text(good)
    (tmp_path / "papers" / "broken.json").write_text(text)
    monkeypatch.setenv("DECODING_EXPLORER_EXTRA", str(tmp_path))
    found = papers.read()
    assert list(found.broken) == ["broken.json"] and fault in found.broken["broken.json"]
    assert sorted(paper.id for paper in found.papers) == sorted(["a", *(paper.id for paper in ours)])
    assert "broken.json" in papers.faults() and json.dumps(fault)[1:-1] in broken([], {})
    assert main(["methods", "--papers"]) == 0
    assert "broken: papers/broken.json" in capsys.readouterr().out


def test_a_missing_file_is_named_and_an_extra_folder_must_be_there(tmp_path, monkeypatch):
    (tmp_path / "papers").mkdir()
    for path in (ROOT / "assets" / "papers").glob("*.json"):
        if path.stem != "llada":
            shutil.copy(path, tmp_path / "papers")
    monkeypatch.setattr(papers, "ASSETS", tmp_path)
    assert papers.faults() == {"llada.json": "no file of assets/papers names the method 'llada'"}
    assert papers.read().papers == ALL, "the base of others is no paper of its own"
    monkeypatch.setenv("DECODING_EXPLORER_EXTRA", str(tmp_path / "nothing"))
    with pytest.raises(UserError, match=r"names '.*nothing', which is not a folder"):
        papers.read()


def test_named_tools_are_there(capsys):
    for tool in (tool for paper in ALL for tool in paper.tools):
        words = tool.split()
        if words[0] == "python":
            importlib.import_module(f"{words[2]}.__main__").main(["--list"])
            assert re.search(rf"^{re.escape(words[3])} ", capsys.readouterr().out, re.MULTILINE), tool
        else:
            with pytest.raises(SystemExit) as ended:
                main([*words[1:], "--help"])
            assert ended.value.code == 0


def test_the_command_prints_all_papers(capsys):
    assert main(["methods", "--papers"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [re.search(r"\d{4}\.\d{5}", line)[0] for line in lines[1 : 1 + len(ALL)]] == [paper.arxiv for paper in ALL]
    assert lines[-1] == papers.tally()
    assert main(["methods", "--papers", "--json"]) == 0
    assert '"arxiv": "2411.11055"' in capsys.readouterr().out


def test_every_paper_says_what_it_rests_on_and_the_methods_of_one_that_was_not_read_do_too():
    assert [paper.id for paper in papers.read().all() if paper.basis is None] == []
    infos = {info.slug: info for info in engines.list_methods()}
    unread = [info.slug for paper in ALL if paper.basis == "abstract" for info in papers.methods_of(paper)]
    assert unread and all(infos[slug].own for slug in unread)
    told = {one["id"]: one for one in entries(infos, [])}
    assert all(told[slug]["own"] == info.own for slug, info in infos.items())
    for card in gallery().cards:
        header = gallery().get(card.id).header
        assert header.own == infos[header.method].own, card.id
    judged = {one.view for paper in papers.read().all() for one in paper.picture}
    assert judged and judged <= {view.file for view in views()}, "views of today"
