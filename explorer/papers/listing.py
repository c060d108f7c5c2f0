"""The tables of the Docs tab and of the site: what runs, what the authors published, what was measured, what was
trained. They are made when they are asked for, of the files of papers, of records and of cards."""

from collections.abc import Callable

import engines
from engines import MethodInfo
from explorer import papers
from explorer.papers import cards, measured
from explorer.papers.schema import BASES, FAMILIES, Paper
from explorer.papers.tables import Link, Measured, Table, shown

TITLES = {
    "papers": "Papers and methods",
    "published": "What the authors published",
    "measured": "Measured here",
    "models-trained": "Models that were trained",
    "parts-trained": "Parts that were trained",
}


def table(name: str) -> Table:
    """One of `TITLES`, or a measured table by its name. Raises KeyError for a name that is neither."""
    if name in LISTS:
        return LISTS[name]()
    return shown(by_name()[name])


def by_name() -> dict[str, Measured]:
    """Every measured table by its name."""
    return {measured_table.name: measured_table for every in measured.tables().values() for measured_table in every}


def _papers() -> Table:
    """Everything that runs, and what does not yet."""
    rows: list[list[str | Link]] = []
    for paper in sorted(papers.read().all(), key=lambda entry: (FAMILIES.index(entry.family), entry.id)):
        held = papers.methods_of(paper)
        own = "".join(dict.fromkeys(f" ({info.own})" for info in held if info.own))
        rows.append(
            [
                f"{paper.name}{own}",
                _cited(paper),
                ", ".join([*(info.slug for info in held), *paper.tools]) or "–",
                paper.family,
                BASES[paper.basis] if paper.basis else "–",
                " / ".join(dict.fromkeys(map(_needed, held))) or "–",
                f"Not in yet: {paper.missing}" if paper.missing else paper.watch or paper.idea,
                ", ".join(dict.fromkeys(map(_file, held))) or "–",
            ]
        )
    columns = [
        "paper",
        "arXiv",
        "methods and commands",
        "family",
        "basis",
        "models",
        "what you watch",
        "in engines.methods",
    ]
    about = [
        papers.sentence(),
        "They build on the common bases of LLaDA, Fast-dLLM v1 and Dream, of speculative sampling, and of greedy "
        "decoding. What each simplifies is in its file and on its card in *Methods*.",
    ]
    return Table(TITLES["papers"], about, columns, rows, [3, 4, 5])


def _cited(paper: Paper) -> str | Link:
    return Link(paper.arxiv, paper.address) if paper.arxiv else "–"


def _needed(info: MethodInfo) -> str:
    """The kinds of its models; in brackets those that it runs without."""
    first, *others = info.needs.items()
    return first[1] + "".join(f" (+ {kind})" if role in info.optional else f" + {kind}" for role, kind in others)


def _file(info: MethodInfo) -> str:
    """The module that has its loop."""
    return info.file or engines.get_method(info.slug).decode.__module__.removeprefix("engines.methods.")


def _published() -> Table:
    rows: list[list[str | Link]] = [
        [paper.name, _cited(paper), claim.figure, claim.what, claim.where]
        for paper in papers.read().all()
        for claim in paper.published
    ]
    about = ["These figures were measured by the authors on their models and machines, not here."]
    return Table(TITLES["published"], about, ["paper", "arXiv", "published", "of what", "where"], rows)


def _measured() -> Table:
    """The index of all measured tables."""
    rows: list[list[str | Link]] = [
        [
            Link(measured_table.title, measured_table.name),
            subject,
            measured_table.command or measured_table.made_by or "–",
            measured_table.machine,
            measured_table.date,
        ]
        for subject, every in measured.tables().items()
        for measured_table in every
    ]
    about = [
        "Open a table by its title. Each names its command, machine and date. Seconds do not carry over to other "
        "machines, forwards do: measure yours.",
        "Intervals are of 95 %. Read one method as better than another only where their intervals do not overlap, or "
        "where an interval of their difference on the same prompts excludes 0.",
    ]
    return Table(TITLES["measured"], about, ["table", "subject", "command", "machine", "date"], rows, [1])


def _trained(folder: str) -> Table:
    about = [
        "Times are those of the machine in the row, which often did other work too. The command is that of the last "
        "stage; the card in the folder has the earlier ones."
    ]
    return Table(TITLES[f"{folder}-trained"], about, cards.TRAINED, cards.trainings(folder))


LISTS: dict[str, Callable[[], Table]] = {
    "papers": _papers,
    "published": _published,
    "measured": _measured,
    "models-trained": lambda: _trained("models"),
    "parts-trained": lambda: _trained("parts"),
}
