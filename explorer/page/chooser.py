"""The Methods tab. Its chooser has four questions, one search, and a card for each method and each paper that is a
study: what it needs and promises, taken from its declaration; what was measured; its lesson and its recording; and the
words by which it is found. What it shows is sent when the tab is opened first. Below it, how to start with a method of
one's own."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import gradio as gr

from engines import ASSETS, MethodInfo
from explorer import papers
from explorer.own_files import own_json
from explorer.page.gallery import pictures, plays
from explorer.page.handlers import Handlers
from explorer.page.parts import LIGHT, fresh, module
from explorer.papers.lessons import glossary, lessons
from explorer.papers.results import Result, results
from explorer.papers.schema import Lesson, Paper
from explorer.runs.gallery import Card, gallery


def section(tab: gr.Tab, handlers: Handlers, tabs: gr.Tabs, outputs: list[Any]) -> None:
    """outputs: bus, status, results."""
    sent = gr.State(False)
    box = module(
        "page/chooser.js",
        "page.mountChooser(element, props, watch, () => trigger('submit'))",
        elem_id="chooser",
    )

    tab.select(lambda before: (gr.skip() if before else fresh(**payload(handlers)), True), sent, [box, sent], **LIGHT)
    plays(box, handlers, tabs, outputs)


def payload(handlers: Handlers) -> dict[str, Any]:
    """{entries} for the module: those of `entries`, with addresses of pictures and the models to try each on."""
    infos, cards = handlers.catalogue.methods, {card.id: card for card in handlers.gallery.cards}
    choices = entries(infos, list(cards.values()))
    for entry in choices:
        entry["pictures"] = pictures(handlers.gallery, [cards[entry["play"][0]]]) if entry["play"] else []
        entry["runs"] = _to_try(entry, handlers.catalogue.fitting(infos[entry["id"]])) if entry["method"] else []
    return {"entries": choices}


def _to_try(entry: dict[str, Any], fitting: list[str]) -> list[str]:
    """The models that a method is tried on: those that its recordings or its paper's file name, where any does. Others
    fit too, but a method for pictures says little on a model of words."""
    named = set(entry["recorded"]) | set(re.findall(r"[\w.-]*\w", entry["on"]))
    return [name for name in fitting if name in named or not entry["on"]] or fitting


Order = Literal["left", "masked", ""]
ORDERS: dict[str, Order] = {  # how a board of this kind is written; one that is not named is neither
    "causal": "left",
    "seq2seq": "left",
    "power-law": "left",
    "masked": "masked",
    "block": "masked",
}
Same = Literal[0, 1, 2]


def entries(infos: Mapping[str, MethodInfo], cards: Sequence[Card]) -> list[dict[str, Any]]:
    """An entry for each of these methods, then for each study, best measured first among equals: `rank` is its place
    among those that write in the same order. cards: of the recordings that are here."""
    by_method = {slug: paper for paper in papers.read().all() for slug in paper.methods}
    called = {slug: _called(info, by_method.get(slug)) for slug, info in infos.items()}
    measured = results(infos, called)
    taught = lessons_by_method()
    made = [_method(info, by_method.get(slug), measured[slug], infos, cards, taught) for slug, info in infos.items()]
    _rank(made, measured)
    return made + [_study(paper, cards, taught) for paper in papers.read().papers if not paper.methods]


def _called(info: MethodInfo, paper: Paper | None) -> list[str]:
    """What tables may call a method: a paper's name only where it is the paper's only method."""
    alone = [paper.name] if paper and len(paper.methods) == 1 else []
    return [info.slug, info.title, *alone]


def _method(
    info: MethodInfo,
    paper: Paper | None,
    measured: Sequence[Result],
    infos: Mapping[str, MethodInfo],
    cards: Sequence[Card],
    taught: Mapping[str, Lesson],
) -> dict[str, Any]:
    control = infos.get(info.baseline or "")
    own = [card for card in cards if card.method == info.slug]
    lesson = taught.get(info.slug)
    return {
        "id": info.slug,
        "method": True,
        "title": info.title,
        "own": info.own,
        "file": info.own_file if info.file else "",
        "family": info.family,
        "summary": info.summary,
        "kind": info.needs[info.role],
        "beside": [kind for role, kind in info.needs.items() if role not in {info.role, *info.beside, *info.optional}],
        "parts": [part.replace("-", " ") for part in info.parts.values()],
        "trains": paper.trains.get(info.slug, "") if paper else "",
        "order": ORDERS.get(info.kind, ""),
        "same": same(info),
        "condition": info.condition,
        "baseline": control.title if control else "",
        "control": info.baseline if control else "",
        "isControl": any(other.baseline == info.slug for other in infos.values()),
        "departures": "" if info.departures == "none" else info.departures,
        "results": [_measured(result, infos) for result in measured],
        "words": words(info.family, paper, lesson),
        "recorded": sorted({card.models[0] for card in own}),
        "on": paper.runs if paper else "",
        **_recorded(own, lesson),
        **_paper(paper),
    }


def same(info: MethodInfo) -> Same:
    """2: its baseline's text at the defaults, 1: with values of parameters, 0: it may be another one."""
    return 2 if info.lossless else 1 if info.lossless_with else 0


def _study(paper: Paper, cards: Sequence[Card], taught: Mapping[str, Lesson]) -> dict[str, Any]:
    lesson = taught.get(paper.id)
    named = {recording.id for recording in paper.gallery} | ({lesson.trace} if lesson else set())
    own = [card for card in cards if card.id in named]
    return {
        "id": paper.id,
        "method": False,
        "title": paper.name,
        "family": paper.family,
        "summary": paper.idea,
        "order": "",
        "departures": paper.departures,
        "results": [],
        "words": words(paper.family, paper, lesson),
        **_recorded(own, lesson),
        **_paper(paper),
    }


def _paper(paper: Paper | None) -> dict[str, Any]:
    if paper is None:
        return {"paper": None}
    names = ("id", "name", "title", "arxiv", "year", "address", "basis", "state")
    return {
        "paper": {name: getattr(paper, name) for name in names},
        "published": papers.published(paper),
        "missing": paper.missing,
        "tools": paper.tools,
    }


def _recorded(own: Sequence[Card], lesson: Lesson | None) -> dict[str, Any]:
    """The recording that a card plays: that of its lesson, else its first one."""
    card = next((candidate for candidate in own if lesson and candidate.id == lesson.trace), own[0] if own else None)
    fields = {"lesson": lesson.method if lesson else "", "read": _lesson_text(lesson)}
    if card is None:
        return fields | {"play": []}
    return fields | {
        "play": [card.id, *([card.beside] if card.beside else [])],
        "cost": f"{card.tokens:,} tokens in {card.calls}",
        "models": list(card.models),
    }


def _lesson_text(lesson: Lesson | None) -> str:
    """What a lesson says of the method itself, to be searched and not shown."""
    read = " ".join((lesson.problem, lesson.idea, lesson.formula, lesson.watch)) if lesson else ""
    return read.translate({ord(sign): " " for sign in "<>&"})


def lessons_by_method() -> dict[str, Lesson]:
    """What a lesson is about -> the lesson, of those that the tab Learn has."""
    here = {card.id for card in gallery().cards}
    return {lesson.method: lesson for lesson in lessons() if lesson.trace in here}


def words(family: str, paper: Paper | None, lesson: Lesson | None) -> list[str]:
    """Words of the field by which it is found: its paper's own, its family's, and the terms of its lesson."""
    also = {term.term: term.also for term in glossary()}
    terms = [word for term in (lesson.terms if lesson else []) for word in (term, *also.get(term, []))]
    families: dict[str, list[str]] = own_json("families.json", dict[str, list[str]])
    return list(dict.fromkeys([*(paper.words if paper else []), family, *families.get(family, []), *terms]))


def _measured(result: Result, infos: Mapping[str, MethodInfo]) -> dict[str, Any]:
    values = dict(result.values)
    if control := infos.get(str(values.get("control"))):
        values["control"] = control.title
    return {"kind": result.kind, **values}


def _rank(made: list[dict[str, Any]], measured: Mapping[str, Sequence[Result]]) -> None:
    """Puts a place into each entry, counted apart for each order of writing; what has none comes last. The fastest that
    was timed, or the one with the fewest calls for answers as good, comes first; then what lost answers by fewer calls,
    what was measured otherwise, what has a recording, and the controls."""

    def key(entry: Mapping[str, Any]) -> tuple[bool, bool, float, bool, bool, bool]:
        measurements = measured[entry["id"]]
        gains = [gain for measurement in measurements if (gain := measurement.speed or measurement.calls)]
        swept = any(measurement.kind == "swept" for measurement in measurements)
        plain = entry["isControl"] and not entry["control"]
        return plain, not gains, -max(gains[:1], default=0.0), not swept, not measurements, not entry["play"]

    for order in dict.fromkeys(entry["order"] for entry in made):
        those = [entry for entry in made if entry["order"] == order]
        for place, entry in enumerate(sorted(those, key=key), start=0 if order else len(made)):
            entry["rank"] = place


HELP = """#### Your own method
Save a template as `my.py`, change it, and start the page with it: `decoding-explorer page --method-file my.py` (or
`python app.py --method-file my.py`). It
then is among the methods of every slot, with all views, race, forks and sweeps. The commands `run`, `compare`,
`fork`, `sweep` and `bench` take
`--method-file` too. A mistake is one sentence with its line.

**The file is run as it is, with everything that you may do: load only files that you wrote or have read.**

All of this needs the program on your own computer: `pip install -c constraints.txt -e .` in a copy of its repository.
"""
CLOSED = "This page is a public host, which takes none; start the program where only you can reach it."


def own_method(handlers: Handlers) -> None:
    """What to do, the files that are loaded, and the templates."""
    loaded = ", ".join(f"`{info.slug}`" for info in handlers.catalogue.methods.values() if info.file)
    here = CLOSED if handlers.limits.public else f"Loaded now: {loaded}" if loaded else "None is loaded now."
    with gr.Accordion("Your own method", open=False, elem_id="user-methods"):
        gr.Markdown(HELP)
        gr.Markdown(here)
        for path in sorted((ASSETS / "templates").glob("*.py"), reverse=True):
            gr.Markdown(
                f"`decoding-explorer template --kind {path.stem} > my.py`\n```python\n{path.read_text('utf-8')}```"
            )
