"""The papers that this project sets out to show, with how far each has come: the files of `assets/papers`, joined with
the registered methods. A file that cannot be read is named with its fault and hides no other one."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import msgspec

import engines
from engines import ASSETS, MethodInfo
from explorer.papers.schema import BASES, FAMILIES, STATES, Paper, Recording, parse

NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


@dataclass
class Papers:
    """All papers and bases in the order of every list; `broken`: file -> why it is left out."""

    papers: list[Paper] = field(default_factory=list)
    bases: list[Paper] = field(default_factory=list)
    broken: dict[str, str] = field(default_factory=dict)
    homes: dict[str, Path] = field(default_factory=dict)  # id of a recording -> the folder of its trace

    def all(self) -> Iterator[Paper]:
        """Bases first, then papers."""
        yield from self.bases
        yield from self.papers

    def recordings(self) -> list[Recording]:
        """What the gallery records, by id."""
        every = (recording for paper in self.all() for recording in paper.gallery)
        return sorted(every, key=lambda recording: recording.id)


def folders() -> tuple[Path, ...]:
    """`assets`, and the extra folder if there is one: each with `papers` and `traces`. Raises UserError."""
    extra = engines.extra_folder()
    return (ASSETS, extra) if extra else (ASSETS,)


def read() -> Papers:
    """All papers: those that work first, then by family and id. Raises UserError for an extra folder that is not
    there."""
    return _read(folders())


@lru_cache(maxsize=4)
def _read(places: tuple[Path, ...]) -> Papers:
    collection = Papers()
    taken: dict[str, str] = {}
    for path in (path for place in places for path in sorted((place / "papers").glob("*.json"))):
        try:
            paper = parse(path.stem, path.read_bytes())
            _claim(paper, path, taken)
        except (OSError, ValueError, msgspec.DecodeError) as error:
            collection.broken[path.name] = str(error)
            continue
        (collection.bases if paper.base else collection.papers).append(paper)
        collection.homes |= {recording.id: path.parents[1] / "traces" for recording in paper.gallery}
    for papers in (collection.papers, collection.bases):
        papers.sort(key=lambda entry: (STATES.index(entry.state), FAMILIES.index(entry.family), entry.id))
    return collection


def _claim(paper: Paper, path: Path, taken: dict[str, str]) -> None:
    """Remember what belongs to this file. Raises ValueError for what another one has."""
    wanted = [f"the paper '{paper.id}'", *(f"the method '{slug}'" for slug in paper.methods)]
    wanted += [f"the recording '{recording.id}'" for recording in paper.gallery]
    for what in wanted:
        if what in taken:
            raise ValueError(f"{what} is in {taken[what]} already")
    taken |= dict.fromkeys(wanted, str(path.name))


def faults() -> dict[str, str]:
    """File -> fault, for the page and the command line: files that cannot be read, and methods that no file names."""
    collection = read()
    known = {slug for paper in collection.all() for slug in paper.methods}
    alone = [info.slug for info in engines.list_methods() if info.slug not in known and not info.file]
    return collection.broken | {f"{slug}.json": f"no file of assets/papers names the method '{slug}'" for slug in alone}


def methods_of(paper: Paper) -> list[MethodInfo]:
    """The registered methods that belong to it."""
    return [info for info in engines.list_methods() if info.slug in paper.methods]


def simplified(paper: Paper) -> str:
    """What is simplified here: what the registered methods declare, or what the file says of a tool."""
    declared = [info.departures for info in methods_of(paper)]
    return " ".join([*dict.fromkeys(declared), *([paper.departures] if paper.departures else [])])


def published(paper: Paper) -> str:
    """What its authors published, each figure with where it is written."""
    figures = "; ".join(f"{claim.figure} {claim.what} ({claim.where})" for claim in paper.published)
    return f"Published, not measured here: {figures}." if figures else ""


def counts() -> dict[str, int]:
    """How many papers are in which state."""
    by_state = Counter(paper.state for paper in read().papers)
    return {str(state): by_state[state] for state in STATES}


def sentence() -> str:
    """How far all of them have come, in words for the README: those that are not whole by name."""
    papers, n = read().papers, counts()
    planned = ", ".join(paper.name for paper in papers if paper.state == "planned")
    partly = "; ".join(f"{paper.name} ({_lower(paper.missing)})" for paper in papers if paper.state == "partly")
    is_or_are = "is" if n["partly"] == 1 else "are"
    more = f" {_words(n['partly']).capitalize()} more {is_or_are} in partly: {partly.rstrip('.)')})." if partly else ""
    if n["works"] == len(papers):
        return f"The methods of {len(papers)} papers run here. {rests_on(papers)}"
    more += f" {_words(n['planned']).capitalize()} are planned and not in yet: {planned}." if planned else ""
    return f"Of the {len(papers)} papers {_words(n['works'])} work.{more} {rests_on(papers)}"


def rests_on(papers: Sequence[Paper]) -> str:
    """How many papers were implemented from what, and that each says where it departs."""
    n = {basis: sum(paper.basis == basis for paper in papers) for basis in BASES}
    phrases = [f"{_words(count)} are written from {BASES[basis]}" for basis, count in n.items() if count]
    listed = f"{', '.join(phrases[:-1])}{' and ' if phrases[1:] else ''}{phrases[-1]}"
    return (
        f"Of these, {listed}; each names what it departs in, and a phrase after its title says where its "
        "algorithm differs from the paper's."
    )


def tally() -> str:
    """How far all of them have come, in numbers; a state that no paper is in is not named."""
    n = counts()
    total = sum(n.values())
    if n["works"] == total:
        return f"The methods of {total} papers run here, each with what it rests on"
    phrases = {"works": "work here", "partly": "partly", "planned": "planned"}
    return f"{total} papers: {', '.join(f'{n[state]} {text}' for state, text in phrases.items() if n[state])}"


def _lower(text: str) -> str:
    return (text[:1].lower() + text[1:]).rstrip(".")


def _words(n: int) -> str:
    return NUMBERS[n] if n < len(NUMBERS) else str(n)
