"""Lessons and glossary: complete, linked, and true of the recorded runs that they talk about."""

import msgspec
import pytest

import engines
from explorer import papers
from explorer.figures.verdict import judge
from explorer.papers.lessons import faults, glossary, in_view, lessons
from explorer.papers.schema import Check, ChoiceClaim, LaneClaim, Lesson, Stop
from explorer.runs.gallery import gallery

METHODS = {info.slug for info in engines.list_methods()}  # before a test loads a file of its own
LESSONS = {lesson.method: lesson for lesson in lessons()}


def test_every_method_has_exactly_one_lesson_and_a_run_is_held_against_one_on_the_same_prompt():
    studies = {paper.id for paper in papers.read().papers if not paper.methods}
    told = sorted(lesson.method for lesson in lessons())
    assert [name for name in told if name not in studies] == sorted(METHODS)
    assert len(told) == len(set(told)) and {*told} >= studies
    cards = {card.id: card for card in gallery().cards}
    paired = [one for paper in papers.read().all() for one in paper.gallery if one.beside]
    assert paired
    for one in paired:
        assert cards[one.id].beside == one.beside != one.id, one.id
        assert cards[one.beside].prompt == one.prompt, one.id


@pytest.mark.parametrize("method", LESSONS)
def test_a_lesson_is_whole_and_true_of_its_run(method: str):
    lesson, trace = LESSONS[method], gallery().get(LESSONS[method].trace)
    assert trace.header.method == method or method not in METHODS
    wrong = [f"step {stop.step}: {fault}" for stop in lesson.stops for fault in faults(trace, stop)]
    assert not wrong, "\n".join(wrong)
    mark = judge(trace)
    assert not (lesson.warning and mark and mark.right), "a warning is of an answer that is not right"
    steps = [stop.step for stop in lesson.stops]
    least = min(2, len(trace.steps))  # some read everything in one step
    assert least <= len(steps) <= 3 and steps == sorted(set(steps))
    for stop in lesson.stops:
        assert msgspec.to_builtins(stop.check) != {}, f"stop at step {stop.step} claims nothing that can be checked"


def test_terms_of_lessons_and_of_the_glossary_exist():
    terms = [entry.term for entry in glossary()]
    assert terms and len(set(terms)) == len(terms) and terms == sorted(terms, key=str.lower)
    linked = [t for lesson in lessons() for t in lesson.terms] + [t for entry in glossary() for t in entry.see]
    assert set(linked) <= set(terms), sorted(set(linked) - set(terms))
    assert all(lesson.terms for lesson in lessons()) and all(entry.term not in entry.see for entry in glossary())


@pytest.mark.parametrize(
    ("check", "sentence"),
    [
        (Check(commits=7), "commits: claimed 7, found 1"),
        (Check(wrote={"2": "x"}), "written at 2"),
        (Check(causes={"quota": 2}), "causes"),
        (Check(why={"unreached": 1}), "rows unreached"),
        (Check(facts={"anchors": 1.0}), "fact anchors: claimed 1.0, found None"),
        (Check(spans={"block": [1, 2]}), "span block"),
        (Check(lanes=[LaneClaim("confidence", 2, below=0.5)]), "confidence at 2"),
        (Check(lanes=[LaneClaim("nothing", 2, above=0.5)]), "nothing at 2 of nan"),
        (Check(choice=ChoiceClaim(chosen="x", above=1.0)), "choice chosen"),
    ],
)
def test_a_false_claim_is_found(check: Check, sentence: str):
    found = faults(gallery().get("01-llada-sum"), Stop(1, "", check))
    assert any(fault.startswith(sentence) for fault in found), found


def test_a_step_that_is_not_there_and_an_unknown_claim_are_found_and_a_caveat_in_view_loses_no_word(monkeypatch):
    assert faults(gallery().get("01-llada-sum"), Stop(99, "", Check())) == ["there is no step 99; the run has 48"]
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        msgspec.json.decode(b'[{"method": "x", "surprise": 1}]', type=list[Lesson])
    for lesson in lessons():
        assert " ".join(in_view(lesson.caveat)).strip() == lesson.caveat
    monkeypatch.setattr(papers.lessons, "IN_VIEW", 3)
    assert in_view("One. Two of 1.5 m, e.g. this. Three.") == ("One.", "Two of 1.5 m, e.g. this. Three.")
