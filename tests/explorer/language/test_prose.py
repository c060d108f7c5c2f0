"""What must be Chinese as whole sentences (the opening, the scenes, some methods with their lessons and steps, what
every method is, the glossary, the errors), and that no English text has Chinese words put into it."""

from __future__ import annotations

import gzip
import json
import re

import msgspec
import pytest

import engines
from explorer import papers
from explorer.language import catalogue, prose, python
from explorer.own_files import own_json
from explorer.papers.lessons import glossary, lessons
from explorer.runs import scenarios
from tests.explorer.language.test_catalogue import faults_of_terms

CHINESE = re.compile(r"[\u3400-\u9fff]")
LONG = re.compile(r"(?:\b[a-z]{2,}[,;]? ){4}[a-z]{2,}\b")  # five English words in a row: a sentence, or a part of one
KNOWN = prose.translations("zh-Hans")
RUNS = {  # method -> model and parameters that make its steps say everything that they can
    "greedy": ("tiny-ar-l", [{}]),
    "temperature": ("tiny-ar-l", [{"temperature": 1.5}]),
    "prompt-lookup": ("tiny-ar-l", [{}, {"temperature": 1.5}]),
    "token-recycling": ("tiny-ar-l", [{}, {"temperature": 1.5}]),
    "speculative-sampling": ("tiny-ar-l", [{}, {"temperature": 1.5}]),
    "medusa": ("tiny-ar-l", [{}, {"temperature": 1.5}, {"acceptance": "typical", "temperature": 1.5}]),
    "eagle": ("tiny-ar-l", [{}, {"temperature": 1.5}]),
    "threshold": ("tiny-dlm", [{}, {"cache": "prefix"}, {"cache": "dual", "threshold": 1.01}]),
    "creditdecoding": ("tiny-dlm", [{}, {"threshold": 1.01}]),
    "llada": ("tiny-dlm", [{}, {"cache": "dual"}]),
    "llada22": ("tiny-blockdlm", [{}, {"delete_token_id": 15, "split_token_id": 26}]),
}


def said(text: str) -> str:
    return KNOWN.get(text, "")


def test_all_that_is_needed_is_translated_and_nothing_is_left_over():
    assert prose.faults() == []
    assert set(prose.whole()) == set(RUNS)


def test_the_opening_and_every_scene_are_chinese():
    texts = scenarios.texts()
    assert len(texts) > 40
    assert [text for text in texts if not CHINESE.search(said(text))] == []


@pytest.mark.parametrize("slug", prose.whole())
def test_a_method_is_chinese_as_a_whole(slug):
    """Its summary, what departs from its paper, its parameters' help, its lesson and its recorded runs."""
    info = engines.get_method(slug).info
    texts = [info.summary, info.departures, *(param.help for param in info.params)]
    texts += [text for lesson in lessons() if lesson.method == slug for text in prose.of_lesson(lesson)]
    runs = [run for paper in papers.read().all() for run in paper.gallery if run.method == slug]
    texts += [text for run in runs for text in (run.title, run.watch)]
    left = [text for text in texts if text not in prose.SAME | {"none", ""} and not CHINESE.search(said(text))]
    assert left == [] and len(texts) > 10


@pytest.mark.parametrize("paper", ["diffusiongemma", "diffusers-canvases", "nemotron-labs-diffusion"])
def test_the_lessons_of_these_papers_are_chinese_in_the_words_of_the_glossary(paper):
    """And their recorded runs; the notes of their steps need not be."""
    of = next(one for one in papers.read().all() if one.id == paper)
    texts = [text for lesson in lessons() if lesson.method in of.methods for text in prose.of_lesson(lesson)]
    texts += [text for run in of.gallery for text in (run.title, run.watch)]
    assert len(texts) > 10 and [text for text in texts if not CHINESE.search(said(text))] == []
    assert faults_of_terms({text: said(text) for text in texts}) == []


@pytest.mark.parametrize("slug", prose.whole())
def test_every_note_of_its_steps_is_chinese(slug):
    """Those of all recorded runs, and of runs made now."""
    model, tried = RUNS[slug]
    notes = set()
    for params in tried:
        for prompt in ("copy: Ada, Ada, Ada, Ada", "add: 457 + 286"):
            trace = engines.run(slug, model, prompt, params={"max_new_tokens": 32, **params})
            notes |= {step.note for step in trace.steps}
    for place in papers.folders():
        for path in sorted((place / "traces").glob("*.gz")):
            record = msgspec.json.decode(gzip.decompress(path.read_bytes()), type=_Notes)
            if record.header.method == slug:
                notes |= {step.note for step in record.steps}
    notes -= {""}
    assert notes
    assert [note for note in notes if not CHINESE.search(prose.note(note, "zh-Hans") or "")] == []
    assert [note for note in notes if LONG.search(prose.note(note, "zh-Hans") or "")] == []


class _Header(msgspec.Struct):
    method: str


class _Note(msgspec.Struct):
    note: str = ""


class _Notes(msgspec.Struct):
    header: _Header
    steps: list[_Note]


def test_what_every_method_is_and_every_word_of_the_glossary_is_chinese():
    texts = [info.summary for info in engines.list_methods() if not info.file] + [term.about for term in glossary()]
    assert [text for text in texts if not CHINESE.search(said(text))] == []


def test_every_error_that_the_page_shows_is_chinese():
    """Those of the engines, of what is read and written, of studies, sweeps and imports."""
    top = catalogue.ASSETS.parent
    for area in ("core", "driver", "models", "methods", "studies", "tools"):
        assert any(pattern.startswith(f"engines/{area}/") for pattern in catalogue.ERRORS), area
    paths = [path for pattern in (*catalogue.ERRORS, *catalogue.SENTENCES) for path in top.glob(pattern)]
    errors = {text for path in paths for text in python.messages(path.read_text("utf-8"), errors_only=True)}
    errors -= catalogue.NOT_SHOWN
    assert len(errors) > 400
    assert [error for error in errors if not CHINESE.search(said(error))] == []


def test_no_translation_leaves_english_prose_in_it_and_no_english_text_has_chinese_in_it():
    for text, translation in (KNOWN | prose.read("zh-Hans")["notes"]).items():
        bare = re.sub(r"`[^`]*`|“[^”]*”|\([^)]*\)|（[^）]*）", "", translation)
        assert not LONG.search(bare), (text, translation)
        assert not CHINESE.search(text), text


def test_the_terms_of_the_field_are_said_as_the_list_of_terms_has_them():
    own, places = prose.read("zh-Hans"), prose.texts()
    sentences = {text: told for text, told in own["texts"].items() if not places[text].startswith("phrase")}
    faults = faults_of_terms(sentences | own["notes"])
    assert [fault for fault in faults if ": view is [" not in fault] == [], "a view is also what somebody thinks"


def test_the_names_of_the_glossary_are_those_of_the_list_of_terms():
    terms = own_json("words/terms-zh-Hans.json")
    named = {term.term: said(term.term) for term in glossary() if said(term.term)}
    assert {name: chinese for name, chinese in named.items()
            if name in terms and not any(form in chinese for form in terms[name])} == {}  # fmt: skip


def test_a_note_is_chinese_in_all_of_its_sentences_or_in_none():
    known = "Nothing was drafted; one token from the target."
    assert CHINESE.search(prose.note(known, "zh-Hans") or "")
    assert prose.note(f"{known} 1,024 trained parameters draft from here on.", "zh-Hans") is not None
    assert prose.note(f"{known} Something that nobody translated.", "zh-Hans") is None
    assert prose.note("One forward, many tokens.", "zh-Hans") is None


def test_a_sentence_that_is_missing_left_over_or_has_strange_places_is_a_fault(tmp_path, monkeypatch):
    lesson = next(one for one in lessons() if one.method == prose.whole()[0])
    own = prose.read("zh-Hans")
    del own["texts"][lesson.idea]
    own["texts"]["A sentence that is gone."] = "已经没有的句子。"
    own["notes"]["{0} of it."] = "{1}。"
    (tmp_path / "zh-Hans.json").write_text(json.dumps(catalogue.read("zh-Hans")), "utf-8")
    (tmp_path / "prose-zh-Hans.json").write_text(json.dumps(own), "utf-8")
    monkeypatch.setattr(catalogue, "WORDS", tmp_path)
    faults = "\n".join(prose.faults())
    assert f"lacks: {lesson.idea}" in faults and "one too many: A sentence that is gone." in faults
    assert "other places: {0} of it." in faults and faults.count("\n") == 2
