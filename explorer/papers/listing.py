"""The tables of the Docs tab and of the site: what runs, what the authors published, what was measured, what was
trained. They are made when they are asked for, of the files of papers, of records and of cards."""

from collections.abc import Callable
from functools import partial

import engines
from engines import MethodInfo
from explorer import papers
from explorer.papers import cards, measured
from explorer.papers.schema import BASES, FAMILIES, Paper
from explorer.papers.tables import Link, Measured, Table, shown


def table(name: str) -> Table:
    """One of `TITLES`, or a measured table by its name. Raises KeyError for a name that is neither."""
    if name in LISTS:
        title, make = LISTS[name]
        return make(title)
    return shown(by_name()[name])


def by_name() -> dict[str, Measured]:
    """Every measured table by its name."""
    return {measured_table.name: measured_table for every in measured.tables().values() for measured_table in every}


def _papers(title: str) -> Table:
    """Everything that runs, and what does not yet."""
    rows: list[list[str | Link]] = []
    for paper in sorted(papers.read().all(), key=lambda entry: (FAMILIES.index(entry.family), entry.id)):
        held = papers.methods_of(paper)
        own = "".join(dict.fromkeys(f" ({info.own})" for info in held if info.own))
        cells = {
            "paper": f"{paper.name}{own}",
            "arXiv": _cited(paper),
            "methods and commands": ", ".join([*(info.slug for info in held), *paper.tools]) or "–",
            "family": paper.family,
            "basis": BASES[paper.basis] if paper.basis else "–",
            "models": " / ".join(dict.fromkeys(map(_needed, held))) or "–",
            "what you watch": f"Not in yet: {paper.missing}" if paper.missing else paper.watch or paper.idea,
            "in engines.methods": ", ".join(dict.fromkeys(map(_file, held))) or "–",
        }
        rows.append(list(cells.values()))
    about = [
        papers.sentence(),
        "They build on the common bases of LLaDA, Fast-dLLM v1 and Dream, of speculative sampling, and of greedy "
        "decoding. What each simplifies is in its file and on its card in *Methods*.",
    ]
    return Table(title, about, list(cells), rows, [3, 4, 5])


def _cited(paper: Paper) -> str | Link:
    return Link(paper.arxiv, paper.address) if paper.arxiv else "–"


def _needed(info: MethodInfo) -> str:
    """The kinds of its models; in brackets those that it runs without."""
    first, *others = info.needs.items()
    return first[1] + "".join(f" (+ {kind})" if role in info.optional else f" + {kind}" for role, kind in others)


def _file(info: MethodInfo) -> str:
    """The module that has its loop."""
    return info.file or engines.get_method(info.slug).decode.__module__.removeprefix("engines.methods.")


def _published(title: str) -> Table:
    rows: list[list[str | Link]] = [
        [paper.name, _cited(paper), claim.figure, claim.what, claim.where]
        for paper in papers.read().all()
        for claim in paper.published
    ]
    about = ["These figures were measured by the authors on their models and machines, not here."]
    return Table(title, about, ["paper", "arXiv", "published", "of what", "where"], rows)


def _measured(title: str) -> Table:
    """The index of all measured tables."""
    rows: list[list[str | Link]] = [
        [Link(t.title, t.name), subject, t.command or t.made_by or "–", t.machine, t.date]
        for subject, every in measured.tables().items()
        for t in every
    ]
    about = [
        "Open a table by its title. Each names its command, machine and date. Seconds do not carry over to other "
        "machines, forwards do: measure yours.",
        "Intervals are of 95 %. Read one method as better than another only where their intervals do not overlap, or "
        "where an interval of their difference on the same prompts excludes 0.",
    ]
    return Table(title, about, ["table", "subject", "command", "machine", "date"], rows, [1])


def _trained(folder: str, title: str) -> Table:
    about = [
        "Times are those of the machine in the row, which often did other work too. The command is that of the last "
        "stage; the card in the folder has the earlier ones."
    ]
    return Table(title, about, cards.TRAINED, cards.trainings(folder))


LISTS: dict[str, tuple[str, Callable[[str], Table]]] = {
    "papers": ("Papers and methods", _papers),
    "published": ("What the authors published", _published),
    "measured": ("Measured here", _measured),
    "models-trained": ("Models that were trained", partial(_trained, "models")),
    "parts-trained": ("Parts that were trained", partial(_trained, "parts")),
}
TITLES = {name: title for name, (title, _) in LISTS.items()}
