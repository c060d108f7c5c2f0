"""Lessons, the table of all papers, the glossary, and what is said of the numbers."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import engines
from explorer import papers
from explorer.about import KEYS, NUMBERS
from explorer.export.markup import Html, Node, cards, crumbs, h, join, lead, link, page, table
from explorer.figures.calls import many
from explorer.figures.metric import Metric
from explorer.figures.metrics import measure
from explorer.papers.lessons import Subject, glossary, in_view, lessons, subjects
from explorer.papers.schema import Lesson, Paper, Term
from explorer.site.docs import SORT, search
from explorer.site.markdown import prose
from explorer.site.runs import Run, cost, scripts, stage

MARKS = {"works": "● works", "partly": "◐ partly", "planned": "○ planned"}


class Told(NamedTuple):
    """A lesson with what it is about, and its runs: its own, and that which it is held against."""

    lesson: Lesson
    about: Subject
    runs: list[Run]

    @property
    def path(self) -> str:
        """Its page."""
        return f"lessons/{self.lesson.method}.html"


def lesson_pages(runs: Sequence[Run]) -> list[Told]:
    """The lessons whose recorded run is here."""
    by_id, about = {run.card.id: run for run in runs}, subjects()
    shown_lessons = []
    for lesson in lessons():
        run = by_id.get(lesson.trace)
        if run and lesson.method in about:
            beside = by_id.get(run.card.beside)
            shown_lessons.append(Told(lesson, about[lesson.method], [run, beside] if beside else [run]))
    return shown_lessons


def lessons_page(runs: Sequence[Run]) -> str:
    """All lessons by family."""
    families: dict[str, list[Told]] = {}
    for each in lesson_pages(runs):
        families.setdefault(each.about.family, []).append(each)
    parts = [
        [h("h2", {}, family.replace("_", " ").capitalize()), cards(map(_card, members))]
        for family, members in families.items()
    ]
    about = (
        "One method at a time, told on a run that was recorded. What a stop claims of its step is checked against "
        "that run."
    )
    none = h("p", {}, "No lesson belongs to the runs of this site.")
    main = join(h("h1", {}, "Lessons"), lead(about), parts or none)
    return page("Lessons", "One decoding method at a time, told on a recorded run.", main, here="lessons.html")


def _card(lesson_page: Told) -> list[Html]:
    lesson, about, (run, *_) = lesson_page
    more = h("p", {"class": "more"}, f"{many(len(lesson.stops), 'stop')} · {' + '.join(run.card.models)}")
    return [h("h3", {}, link(lesson_page.path, about.title)), h("p", {}, lesson.problem), more]


def lesson_page(shown_lesson: Told, before: Told | None, behind: Told | None) -> str:
    """Problem, idea, formula; a player with stops, and one of the run beside it; a question with its answer; a
    caveat."""
    root, lesson, title, run = "../", shown_lesson.lesson, shown_lesson.about.title, shown_lesson.runs[0]
    stops = []
    for stop in lesson.stops:
        go = h("button", {"type": "button", "data-step": str(stop.step), "hidden": True}, f"Go to step {stop.step}")
        plain = h("noscript", {}, h("b", {}, f"Step {stop.step}. "))
        stops.append(h("li", {}, go, plain, stop.say))
    terms = [h("li", {}, link(f"{root}glossary.html#{anchor(term)}", term)) for term in lesson.terms]
    shown, rest = in_view(lesson.caveat)
    words = join(
        h("p", {"class": "warning"}, lesson.warning) if lesson.warning else None,
        h("h3", {}, "The problem"), h("p", {}, lesson.problem),
        h("h3", {}, "The idea"), h("p", {}, lesson.idea), h("p", {"class": "formula"}, lesson.formula),
        h("p", {"class": "watch"}, h("b", {}, "Watch:"), lesson.watch),
        h("h3", {}, "Stops"), h("ol", {"class": "stops"}, stops),
        h("h3", {}, "A question"), h("details", {}, h("summary", {}, lesson.question), h("p", {}, lesson.answer)),
        h("h3", {}, "Mind"), h("p", {}, shown),
        h("details", {}, h("summary", {}, "More of it"), h("p", {}, rest)) if rest else None,
        h("ul", {"class": "terms"}, terms),
    )  # fmt: skip
    pager = [
        link(f"{neighbour.lesson.method}.html", arrow, " ", neighbour.about.title) if neighbour else h("span", {})
        for neighbour, arrow in ((before, "←"), (behind, "→"))
    ]
    main = join(
        crumbs(link(root + "lessons.html", "Lessons"), " / ", title),
        h("h1", {}, title),
        h("p", {"class": "facts"}, f"{run.card.prompt} · {cost(run)} · ", link(root + run.path, "the run's own page")),
        h("div", {"class": "lesson"}, h("div", {}, words), stage(shown_lesson.runs)),
        h("nav", {"class": "pager", "aria-label": "Other lessons"}, pager),
    )
    return page(f"Lesson: {title}", lesson.idea, main, here=shown_lesson.path, scripts=scripts(shown_lesson.runs))


def anchor(term: str) -> str:
    """The place of a term in the glossary."""
    return "".join(c if c.isalnum() else "-" for c in term.lower())


def methods_page(runs: Sequence[Run]) -> str:
    """All papers with their state and, where there are any, their lessons and runs; then the bases."""
    collection, by_method = papers.read(), _by_method(runs)
    titles = {info.slug: info.title for info in engines.list_methods()}
    bases = [
        [[_place(base if not i else None, [slug]), title], h("code", {}, slug), why, _seen([slug], by_method)]
        for base in collection.bases
        for i, (slug, why) in enumerate(base.purposes.items())
        if (title := titles.get(slug))
    ]
    main = join(
        h("h1", {}, "Methods"),
        lead(f"{papers.tally()}."),
        search("papers", "Find a paper, a word, a family"),
        table(
            ["Paper", "State", "Family", "Published", "Idea", "Lessons and runs", "Missing, or simpler than the paper"],
            [_row(paper, by_method) for paper in collection.papers],
            id="papers",
            **SORT,
        ),
        h("h2", {}, "Bases and controls"),
        table(["Method", "Name here", "What it is for", "Lessons and runs"], bases),
    )
    return page("Methods", "Papers on decoding with how far each has come here.", main, here="methods.html")


def _row(paper: Paper, by_method: Mapping[str, list[tuple[str, str]]]) -> list[Node]:
    published, simplified = papers.published(paper), papers.simplified(paper)
    wide = (
        [paper.idea, h("small", {}, published) if published else None],
        [
            _seen(paper.methods or [paper.id], by_method),
            h("small", {}, f"as commands: {', '.join(paper.tools)}") if paper.tools else None,
        ],
        [f"Missing: {paper.missing} " if paper.missing else None, f"Simplified: {simplified}" if simplified else None],
    )
    return [
        [_place(paper, paper.methods), paper.name, h("small", {}, paper.title)],
        h("span", {"class": "state"}, MARKS[paper.state]),
        paper.family,
        [link(paper.address, f"arXiv:{paper.arxiv}"), h("small", {}, str(paper.year))],
        *(h("div", {"class": "wide"}, cell) for cell in wide),
    ]


def _place(paper: Paper | None, slugs: Sequence[str]) -> Html:
    """Where `methods.html#paper-ID` and `methods.html#method-SLUG` lead."""
    ids = [*([f"paper-{paper.id}"] if paper else []), *(f"method-{slug}" for slug in slugs)]
    return join(*(h("span", {"id": html_id}) for html_id in ids))


def _by_method(runs: Sequence[Run]) -> dict[str, list[tuple[str, str]]]:
    """Method -> (path, words) of its lesson and its runs."""
    links: dict[str, list[tuple[str, str]]] = {}
    for each in lesson_pages(runs):
        links.setdefault(each.lesson.method, []).append((each.path, "Lesson"))
    for run in runs:
        links.setdefault(run.card.method, []).append((run.path, run.title))
    return links


def _seen(slugs: Sequence[str], by_method: Mapping[str, list[tuple[str, str]]]) -> Html:
    links = [link(path, words) for slug in slugs for path, words in by_method.get(slug, ())]
    return Html(", ".join(links) or "–")


def glossary_page() -> str:
    """All terms."""
    known = {term.term for term in glossary()}
    entries = [
        [h("dt", {"id": anchor(term.term)}, term.term), h("dd", {}, term.about, _see(term, known))]
        for term in glossary()
    ]
    about = lead("The words of the field as they are used here.")
    main = join(h("h1", {}, "Glossary"), about, h("dl", {}, entries))
    return page("Glossary", "The words of decoding, explained.", main, here="glossary.html")


def _see(term: Term, known: set[str]) -> Html | None:
    links = [link(f"#{anchor(related)}", related) if related in known else join(related) for related in term.see]
    return h("small", {"class": "muted"}, " See ", Html(", ".join(links)), ".") if links else None


def numbers_page(runs: Sequence[Run]) -> str:
    """How numbers are obtained, and the formula of every one that occurs in these runs."""
    every: dict[str, Metric] = {}
    for run in runs:
        for metric in measure(run.trace):
            every.setdefault(metric.label, metric)
    rows = [[metric.label, metric.kind, metric.formula] for metric in every.values()]
    main = join(
        h("h1", {}, "About the numbers"),
        prose(NUMBERS),
        h("h2", {}, "Every number and its formula"),
        table(["Number", "Obtained", "Formula"], rows),
        prose(KEYS),
    )
    return page("About the numbers", "How each displayed number is obtained.", main, here="numbers.html")
