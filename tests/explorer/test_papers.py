"""The list of papers against the registered methods, and what the README says of it."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

import engines
from engines import UserError
from explorer import papers
from explorer.cli import main

ROOT = Path(__file__).resolve().parents[2]
ALL = papers.read().papers


def test_there_are_56_papers_each_once():
    assert len(ALL) == 56
    for field in ("id", "title", "arxiv"):
        doubled = [value for value, n in Counter(getattr(paper, field) for paper in ALL).items() if n > 1]
        assert not doubled, f"{field}: {doubled}"


@pytest.mark.parametrize("paper", ALL, ids=lambda paper: paper.id)
def test_an_entry_is_whole(paper: papers.Paper):
    month = re.fullmatch(r"(\d\d)(\d\d)\.\d{5}", paper.arxiv)
    assert month and paper.year == 2000 + int(month[1]) and 1 <= int(month[2]) <= 12
    assert paper.idea.endswith(".") and 40 < len(paper.idea) < 260
    assert (paper.state == "planned") == (not paper.methods and not paper.tools)
    assert (paper.state == "works") == (not paper.missing), "what works lacks nothing; what does not says what it lacks"
    assert bool(paper.runs) == (paper.state != "planned")
    assert bool(paper.simplified()) == (paper.state != "planned")


def test_every_registered_method_belongs_to_exactly_one_paper_or_is_a_named_base():
    owners = Counter([*(slug for paper in ALL for slug in paper.methods), *papers.read().bases])
    assert owners == Counter(info.slug for info in engines.list_methods() if not info.file)


def test_entries_name_the_paper_that_their_methods_name():
    for paper in ALL:
        assert {info.paper for info in paper.held()} <= {f"arXiv:{paper.arxiv}"}, paper.id


def test_named_tools_are_there(capsys):
    for tool in (tool for paper in ALL for tool in paper.tools):
        words = tool.split()
        if words[0] == "python":
            assert (ROOT / (words[2].replace(".", "/") + ".py")).is_file(), tool
        else:
            with pytest.raises(SystemExit) as ended:
                main([*words[1:], "--help"])
            assert ended.value.code == 0
            capsys.readouterr()


def test_runs_name_only_models_that_are_known():
    known = {model.name for model in engines.list_models()}
    for paper in ALL:
        for word in re.findall(r"\b(?:tiny|smollm2)[\w-]*", paper.runs):
            assert word in known or f"{word}-l" in known or word in ("tiny-ar",), f"{paper.id}: {word}"


def test_choosing_by_state_family_and_text():
    assert [p.id for p in papers.chosen([], [], "pool draft nowhere")] == []
    assert {p.state for p in papers.chosen(["planned"], [])} == {"planned"}
    some = papers.chosen([], ["diffusion"], "entropy")
    assert some and all(p.family == "diffusion" and "entropy" in (p.title + p.idea).lower() for p in some)
    assert papers.chosen([], [], "2411.11055")[0].name == "FastDraft"
    with pytest.raises(UserError, match="no family 'magic'; choose one of architecture"):
        papers.chosen([], ["magic"])


def test_the_command_prints_all_and_filters(capsys):
    assert main(["methods", "--papers"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if re.search(r"\d{4}\.\d{5}", line)]) == 56
    assert f"{papers.counts()['works']} work" in lines[-1]
    assert main(["methods", "--papers", "--json"]) == 0
    assert '"arxiv": "2411.11055"' in capsys.readouterr().out
    assert main(["methods", "rsd", "--papers"]) == 2


def test_the_sentence_counts():
    n = papers.counts()
    assert sum(n.values()) == 56
    assert papers.sentence().startswith(f"Of the 56 papers {n['works']} work: ")
    assert all(paper.name in papers.sentence() for paper in ALL if paper.state != "planned")
