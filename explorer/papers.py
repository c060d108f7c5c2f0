"""The papers that this project sets out to show, with how far each has come: `assets/papers.json` joined with the registered methods."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import Literal

import msgspec

import engines
from engines import MethodInfo, UserError
from explorer import ASSETS

FILE = ASSETS / "papers.json"
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
State = Literal["works", "partly", "planned"]
STATES: tuple[State, ...] = ("works", "partly", "planned")


class Paper(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One paper. `methods`: registered slugs; `tools`: commands for what is no decoding method. `runs`: on which models. `missing`: what is not in."""

    id: str
    name: str
    title: str
    arxiv: str
    year: int
    family: str
    state: State
    idea: str
    methods: list[str] = []
    tools: list[str] = []
    runs: str = ""
    missing: str = ""
    departures: str = ""

    @property
    def address(self) -> str:
        """Where it can be read."""
        return f"https://arxiv.org/abs/{self.arxiv}"

    def simplified(self) -> str:
        """What is simplified here: what the registered methods declare, or what the entry says of a tool."""
        declared = [info.departures for info in engines.list_methods() if info.slug in self.methods]
        return " ".join([*dict.fromkeys(declared), *([self.departures] if self.departures else [])])

    def held(self) -> list[MethodInfo]:
        """The registered methods that belong to it."""
        return [info for info in engines.list_methods() if info.slug in self.methods]


class Papers(msgspec.Struct, forbid_unknown_fields=True):
    """The file: `bases` are methods that no paper of the list brought, each with a word on what it is for."""

    bases: dict[str, str]
    papers: list[Paper]


@lru_cache(maxsize=1)
def read(path: Path = FILE) -> Papers:
    """All papers, those that work first, each state in the order of the file. Raises msgspec.ValidationError with the place of the fault."""
    found = msgspec.json.decode(path.read_bytes(), type=Papers)
    return Papers(found.bases, sorted(found.papers, key=lambda paper: STATES.index(paper.state)))


def counts() -> dict[str, int]:
    """How many papers are in which state."""
    found = Counter(paper.state for paper in read().papers)
    return {str(state): found[state] for state in STATES}


def chosen(states: list[str], families: list[str], text: str = "") -> list[Paper]:
    """The papers in one of these states and families (all where the list is empty) that hold the text. Raises UserError for a family that is not there."""
    every = {paper.family for paper in read().papers}
    for name in families:
        if name not in every:
            raise UserError(f"there is no family '{name[:40]}'; choose one of {', '.join(sorted(every))}.")
    wanted = text.lower().split()
    return [
        paper
        for paper in read().papers
        if (not states or paper.state in states)
        and (not families or paper.family in families)
        and all(word in " ".join([paper.name, paper.title, paper.arxiv, paper.idea, *paper.methods]).lower() for word in wanted)
    ]


def sentence() -> str:
    """How far all of them have come, in words for the README."""
    papers, n = read().papers, counts()
    works = ", ".join(paper.name for paper in papers if paper.state == "works")
    partly = "; ".join(f"{paper.name} ({_lower(paper.missing)})" for paper in papers if paper.state == "partly")
    more = f" {_words(n['partly']).capitalize()} more {'is' if n['partly'] == 1 else 'are'} in partly: {partly.rstrip('.)')})." if partly else ""
    return f"Of the {len(papers)} papers {_words(n['works'])} work: {works}.{more} {_words(n['planned']).capitalize()} are planned and not in yet."


def _lower(text: str) -> str:
    return (text[:1].lower() + text[1:]).rstrip(".")


def _words(n: int) -> str:
    return NUMBERS[n] if n < len(NUMBERS) else str(n)
