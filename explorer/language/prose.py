"""The prose of the project's files, which the page shows in its language text by text, whole or not at all: what
papers, methods, lessons and the glossary say, and the notes of steps. The translations are in
`assets/words/prose-LANG.json`: {texts: by the English text, notes: by the English sentence with a place {0} for each
number}.

Other than the words of the interface, prose may be missing: it stays English then, and is marked as English.
"""

import json
import re
from collections.abc import Iterator, Mapping

import engines
from explorer import papers
from explorer.language import catalogue
from explorer.papers.documents import documents
from explorer.papers.lessons import glossary, in_view, lessons
from explorer.papers.listing import TITLES
from explorer.papers.schema import Lesson

SAME = {  # in every language; not translated
    "logits",
    "n-gram",
    "dInfer",
    "GSM8K",
    "README",
    "lean",
    "transformers",
    "arXiv:2505.22618",
    "oracle",
    "x_t = argmax p(· | x_1 … x_{t−1})",
    "x_t ~ p,  p_i = exp(z_i / T) / Σ_j exp(z_j / T)",
}


def whole() -> tuple[str, ...]:
    """The methods that are translated with their lesson and the notes of their steps (`Paper.translated`)."""
    return tuple(slug for paper in papers.read().all() for slug in paper.translated)


def texts() -> dict[str, str]:
    """All prose but the notes of steps, by its text; the values say what it is of."""
    places: dict[str, str] = {}
    for place, text in _texts():
        if text and text != "none":
            places.setdefault(text, place)
    return places


def _texts() -> Iterator[tuple[str, str]]:
    for info in engines.list_methods():
        if not info.file:
            yield f"method {info.slug}", info.summary
            yield f"phrase {info.slug}", info.own
            yield from ((f"method {info.slug}", text) for text in (info.departures, *(p.help for p in info.params)))
            yield from ((f"phrase {info.slug}", param.source) for param in info.params)
    for paper in papers.read().all():
        for text in (paper.idea, paper.missing, papers.published(paper)):
            yield f"paper {paper.id}", text
        yield from ((f"phrase {slug}", text) for slug, text in paper.trains.items())
        for run in paper.gallery:
            yield from ((f"run {run.id}", text) for text in (run.title, run.watch))
    for lesson in lessons():
        yield from ((f"lesson {lesson.method}", text) for text in of_lesson(lesson))
    for name, title in (documents() | TITLES).items():
        yield f"phrase {name}", title
    for term in glossary():
        yield from ((f"term {term.term}", text) for text in (term.term, term.about))


def of_lesson(lesson: Lesson) -> list[str]:
    """All that a lesson says, as the page shows it."""
    remarks = [stop.say for stop in lesson.stops]
    sentences = [lesson.warning, lesson.problem, lesson.idea, lesson.formula, lesson.watch, *remarks]
    return [text for text in [*sentences, lesson.question, lesson.answer, *in_view(lesson.caveat)] if text]


def needed() -> dict[str, str]:
    """What no language may lack: all that the page says of the methods that are translated whole and of
    their recorded runs; of every method what it is in a sentence, and the phrases that stand inside the page's own
    sentences; the words of the glossary."""
    all_of = whole()
    here = {f"{kind} {slug}" for slug in all_of for kind in ("method", "lesson")}
    here |= {f"run {run.id}" for paper in papers.read().all() for run in paper.gallery if run.method in all_of}
    summaries = {info.summary for info in engines.list_methods()}
    parts = ("term ", "phrase ")
    return {
        text: place
        for text, place in texts().items()
        if (place in here or place.startswith(parts) or text in summaries)
        and text not in SAME
        and re.search("[a-z]{3}", text)
    }


def read(language: str) -> dict[str, dict[str, str]]:
    """{texts, notes} as they are stored."""
    path = catalogue.WORDS / f"prose-{language}.json"
    return json.loads(path.read_text("utf-8")) if path.exists() else {"texts": {}, "notes": {}}


def write() -> None:
    """Every catalogue in the order of the texts; translations of texts that are gone are dropped."""
    order = texts()
    for language in catalogue.LANGUAGES[1:]:
        known = read(language)
        translated = {text: known["texts"][text] for text in order if text in known["texts"]}
        content = {"texts": translated, "notes": dict(sorted(known["notes"].items()))}
        text = json.dumps(content, ensure_ascii=False, indent=0)
        (catalogue.WORDS / f"prose-{language}.json").write_text(text + "\n", encoding="utf-8")


def missing(language: str) -> dict[str, str]:
    """The texts that have no translation yet, and what each is of."""
    known = translations(language)
    return {text: place for text, place in texts().items() if text not in known}


def translations(language: str) -> Mapping[str, str]:
    """Of all texts, as the page finds them: some are among the words of the interface."""
    return catalogue.read(language) | read(language)["texts"]


def faults() -> list[str]:
    """What is missing of what is needed, left over, or names other places than its English."""
    every, wrong = texts(), []
    for language in catalogue.LANGUAGES[1:]:
        known, own = translations(language), read(language)
        wrong += [f"{language} lacks: {text}  ({place})" for text, place in needed().items() if not known.get(text)]
        wrong += [f"{language} has one too many: {text}" for text in own["texts"] if text not in every]
        wrong += [
            f"{language} has other places: {text}"
            for text, translation in own["notes"].items()
            if not set(re.findall(r"\{\d+\}", translation)) <= set(re.findall(r"\{\d+\}", text))
        ]
    return wrong
