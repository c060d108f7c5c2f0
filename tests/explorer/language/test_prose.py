"""What must be Chinese as whole sentences, and that no English text has Chinese words put into it."""

import json
import re
from collections import defaultdict
from collections.abc import Mapping
from functools import cache

import pytest

import engines
from explorer.language import catalogue, prose
from explorer.papers.lessons import lessons
from explorer.runs import scenarios
from explorer.runs.gallery import gallery
from tests.explorer.language.test_catalogue import faults_of_terms

NUMBER = r"([\d.,]+)"


def note(text: str, language: str) -> str | None:
    """The note of a step in a language, as the page says it: every sentence of it, or None."""
    whole = _sentence(text, prose.read(language)["notes"])
    if whole is not None:
        return whole
    parts = [_sentence(part, prose.read(language)["notes"]) for part in re.split(r"(?<=\.) (?=[A-Z\d])", text)]
    return None if None in parts else "".join(part for part in parts if part)


def _sentence(text: str, notes: Mapping[str, str]) -> str | None:
    for key, translation in notes.items():
        pattern = NUMBER.join(re.escape(part) for part in re.split(r"\{\d+\}", key))
        if match := re.fullmatch(pattern, text):
            places = [int(place) for place in re.findall(r"\{(\d+)\}", key)]
            values = dict(zip(places, match.groups(), strict=True))
            return re.sub(r"\{(\d+)\}", lambda place: values[int(place[1])], translation)
    return None


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
    known = "Nothing was drafted; one token from the target."
    assert CHINESE.search(note(known, "zh-Hans") or "")
    assert note(f"{known} Something that nobody translated.", "zh-Hans") is None, "in all sentences or in none"


def test_what_no_language_may_lack_and_every_scene_are_chinese():
    needed = [text for text, place in prose.needed().items() if not place.startswith("term ") or text.endswith(".")]
    texts = [*needed, *scenarios.texts()]  # the names of terms may be the same in both
    formulas = {text for text in texts if not re.search("[a-z]{3}", said(text))}
    assert len(texts) > 400
    assert [text for text in texts if text not in formulas and not CHINESE.search(said(text))] == []


@cache
def recorded_notes() -> dict[str, set[str]]:
    """Method -> the notes of all its recorded runs."""
    found = defaultdict(set)
    for card in gallery().cards:
        trace = gallery().get(card.id)
        found[trace.header.method] |= {step.note for step in trace.steps}
    return found


DAILY = {"greedy", "medusa", "creditdecoding"}  # of each kind that says something of its own
EACH = [slug if slug in DAILY else pytest.param(slug, marks=pytest.mark.exhaustive) for slug in prose.whole()]


@pytest.mark.parametrize("slug", EACH)
def test_every_note_of_its_steps_is_chinese(slug):
    """Those of all recorded runs, and of runs made now."""
    model, tried = RUNS[slug]
    notes = set()
    for params in tried:
        for prompt in ("copy: Ada, Ada, Ada, Ada", "add: 457 + 286"):
            trace = engines.run(slug, model, prompt, params={"max_new_tokens": 32, **params})
            notes |= {step.note for step in trace.steps}
    notes |= recorded_notes()[slug]
    notes -= {""}
    assert notes
    assert [text for text in notes if not CHINESE.search(note(text, "zh-Hans") or "")] == []
    assert [text for text in notes if LONG.search(note(text, "zh-Hans") or "")] == []


def test_no_translation_leaves_english_prose_in_it_and_terms_are_said_as_their_list_has_them():
    for text, translation in (KNOWN | prose.read("zh-Hans")["notes"]).items():
        bare = re.sub(r"`[^`]*`|“[^”]*”|\([^)]*\)|（[^）]*）", "", translation)
        assert not LONG.search(bare), (text, translation)
        assert not CHINESE.search(text), text
    own, places = prose.read("zh-Hans"), prose.texts()
    sentences = {text: told for text, told in own["texts"].items() if not places[text].startswith("phrase")}
    faults = faults_of_terms(sentences | own["notes"])
    assert [fault for fault in faults if ": view is [" not in fault] == [], "a view is also what somebody thinks"


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
