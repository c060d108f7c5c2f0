"""Addresses of tabs, methods, papers and lessons (`?tab=methods`, `?method=SLUG`, `?paper=ID`, `?lesson=ID`). The
browser writes and follows them; the one that the page was opened with is checked here, like any input."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

import gradio as gr

from engines import MethodInfo, UserError
from explorer import papers
from explorer.links import parts_of
from explorer.page import chooser
from explorer.page.parts import LAST, fresh, hidden, say
from explorer.papers.lessons import subjects

TABS = {"method": "methods", "paper": "methods", "lesson": "learn"}
MAX_NAME = 60  # characters of a name
SELECT = "() => ({ selected: globalThis.dxPlace.tab, __type__: 'update' })"
TELL = "() => { document.dispatchEvent(new CustomEvent('dx-tab', { detail: { tab: %r, panel: %r } })); }"


def section(tabs: gr.Tabs, infos: Mapping[str, MethodInfo], line: gr.HTML) -> None:
    """Hidden, outside of all tabs. line: the status line."""
    box = hidden(
        "address",
        "mountAddress(props, watch, (event) => event === 'submit' ? trigger('submit') : trigger('select'))",
    )
    labels = {str(tab.id): str(tab.label) for tab in tabs.children if isinstance(tab, gr.Tab)}

    def follow(query: Any) -> tuple[Any, Any]:
        try:
            place = read_place(query, infos, labels)
        except UserError as error:
            return fresh(refused=True), say(str(error), "error")
        return fresh(**place), gr.skip()

    box.submit(follow, box, [box, line], **LAST)
    box.select(None, None, tabs, js=SELECT)
    for tab in tabs.children:
        if isinstance(tab, gr.Tab):
            tab.select(None, js=TELL % (str(tab.id), str(tab.elem_id)))


def read_place(query: object, infos: Mapping[str, MethodInfo], labels: Mapping[str, str]) -> dict[str, str]:
    """{kind, name, tab} of a query. labels: id of a tab -> what it is called. Raises UserError for what is not here, or
    for a query that cannot be read."""
    parts = parts_of(query)
    for kind, tab in TABS.items():
        if name := parts.get(kind, ""):
            return {"kind": kind, "name": named(kind, _shown(name), infos), "tab": tab}
    return {"kind": "", "name": "", "tab": _tab(parts.get("tab", ""), labels)}


def named(kind: str, name: str, infos: Mapping[str, MethodInfo]) -> str:
    """What an address names, as the chooser and Learn know it: the slug of a method (`method`; a title finds it, too),
    the id of a paper (`paper`, or its arXiv number), or what a lesson is about (`lesson`). Raises UserError for what is
    not here, with the nearest that is."""
    known = _known(kind, infos)
    wanted = _plain(name)
    plain = {_plain(called): key for key, names in known.items() for called in names if called}
    if name in known or wanted in plain:
        return name if name in known else plain[wanted]
    near = get_close_matches(wanted, plain, n=1, cutoff=0.6)
    raise UserError(_gone(kind, name, plain[near[0]] if near else ""))


def _known(kind: str, infos: Mapping[str, MethodInfo]) -> dict[str, list[str]]:
    """What can be named -> what it may be called."""
    if kind == "method":
        return {slug: [slug, info.title] for slug, info in infos.items()}
    if kind == "paper":
        return {paper.id: [paper.id, paper.name, paper.title, paper.arxiv] for paper in papers.read().all()}
    titles = subjects()
    lessons = {lesson: [lesson, titles[lesson].title] for lesson in chooser.lessons_by_method() if lesson in titles}
    return {**lessons, "glossary": ["glossary"]}


def _plain(name: str) -> str:
    return "".join(character for character in name.casefold() if character.isalnum())


def _gone(kind: str, name: str, near: str) -> str:
    if kind == "lesson":
        if near:
            return f"there is no lesson '{name}' here; the nearest is ?lesson={near}."
        return f"there is no lesson '{name}' here; the tab Learn lists them all."
    if kind == "paper":
        if near:
            return f"there is no paper '{name}' here; the nearest is ?paper={near}."
        return f"there is no paper '{name}' here; the chooser in the tab Methods finds all that there are."
    if near:
        return f"there is no method '{name}' here; the nearest is ?method={near}."
    return f"there is no method '{name}' here; the chooser in the tab Methods finds all that there are."


def _tab(name: str, labels: Mapping[str, str]) -> str:
    for tab, label in labels.items():
        if name.casefold().replace("-", " ") in (tab.casefold(), label.casefold()):
            return tab
    raise UserError(f"there is no tab '{_shown(name)}' here; choose one of {', '.join(labels)}.")


def _shown(name: str) -> str:
    """A name as a sentence can show it: on one line, and not long."""
    return "".join(character if character.isprintable() else " " for character in name)[:MAX_NAME]
