"""The words of the field: what lessons, the glossary, the notes of steps and the methods' locals are no longer called.

The rule is in the lists: each entry is a word of ours and what is said in its place."""

from __future__ import annotations

import ast
import gzip
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import engines
from explorer import papers
from explorer.own_files import own_json
from explorer.papers.lessons import glossary, lessons

GONE = {
    "threshold": r"(?:above|below|over|under|against|cross(?:es)?|reach(?:es|ed)?|passes) (?:the|its|this|a) line\b"
    r"(?! break)"
    r"|\b(?:strict|relaxed|lower|higher|same) line\b(?! of| break)|\ba line of \d|\bline of (?:0\.|\d+ %)",
    "compared with": r"\bheld against\b",
    "more expensive": r"\bdearer\b",
    "kept": r"\blet(?:s|ting)? through\b",
    "discarded": r"\bthr(?:own|ows?|ew) away\b",
    "evicts": r"\bthrows? out\b",
    "predict": r"\bfore(?:sees?|saw|tells?|told)\b",
    "most confident": r"\bsurest\b|\bsurer\b",
    "pseudo rows": r"\brows? without a token\b|\bmade-up (?:rows?|states?)\b",
    "finished": r"\bc(?:a|o)me to (?:its|their|an) end\b",
    "rank 3": r"\bthe \d[\d,]*\. ",
    "accepted by the judge": r"\bon (?:its|the judge's) word\b",
    "in the same forward": r"\bwent along\b",
    "parameters": r"\b[\d,]+ trained numbers\b",
    "after": r"(?<!fall )(?<!falling )(?<!left )(?<!hide )\bbehind\b",
    "the right number": r"(?<![\d.,=×·^+−-])(?<![+=−-] )\b1 (?:tokens|steps|positions|merges|drafts(?! a)|masks|rows"
    r"|layers|passes|forwards|names|paths|beams|samples|branches|pieces|workers|tiles|characters|texts|nodes|runs"
    r"|solutions)\b",
}
GONE["written"] = r"\b[Cc]ommit(?:s|ted|ting)?\b(?! \{| c_i)(?=[ .,;:])"  # not in the papers' formulas
GONE["model call"] = r"\b[Tt]arget calls?\b"
ASSETS = Path(__file__).parents[3] / "assets"
DOCS = ASSETS / "docs"
LOCALS = {"one", "found", "said", "told", "wanted", "it"}  # draft, node, sample, match, sentence ... say what they are


def coined(text: str) -> list[str]:
    """What of a text is a word of ours, with the field's."""
    return [f"{now}: {m[0]!r} in {text[:70]!r}" for now, was in GONE.items() for m in re.finditer(was, text)]


@pytest.mark.parametrize("lesson", lessons(), ids=lambda lesson: lesson.method)
def test_a_lesson_uses_the_words_of_the_field(lesson):
    texts = [lesson.problem, lesson.idea, lesson.formula, lesson.watch, lesson.question, lesson.answer, lesson.caveat]
    assert [fault for text in [*texts, *(stop.say for stop in lesson.stops)] for fault in coined(text)] == []


def test_papers_gallery_scenarios_and_glossary_use_the_words_of_the_field():
    collection = papers.read()
    texts = [text for paper in collection.papers for text in (paper.idea, paper.watch)]
    texts += [text for entry in collection.recordings() for text in (entry.title, entry.watch)]
    texts += [entry.about for entry in glossary()]
    texts += [scenario[part] for scenario in own_json("scenarios.json") for part in ("title", "watch")]
    assert [fault for text in texts for fault in coined(text)] == []


@pytest.mark.parametrize("text", sorted(DOCS.glob("*.md")), ids=lambda path: path.stem)
def test_documents_say_written(text):
    """Names of code, such as the argument `commits`, stay, and so does a commit of a repository."""
    prose = re.sub(r"```.*?```|`[^`]*`|in one commit", "", text.read_text("utf-8"), flags=re.S)
    assert re.findall(f"{GONE['written']}|{GONE['model call']}", prose) == []


def test_tables_of_studies_and_measurements_say_model_calls():
    files = [path for name in ("studies", "measured") for path in sorted((ASSETS / name).glob("*.json"))]
    assert files and [path.name for path in files if re.search(GONE["model call"], path.read_text("utf-8"))] == []


def test_methods_and_their_parameters_use_the_words_of_the_field():
    infos = engines.list_methods()
    texts = [text for info in infos for text in (info.summary, info.departures, *(p.help for p in info.params))]
    assert [fault for text in texts if text for fault in coined(text)] == []


def test_the_notes_of_recorded_steps_use_the_words_of_the_field():
    wrong = set()
    for place in papers.folders():
        for path in sorted((place / "traces").glob("*.gz")):
            steps = msgspec.json.decode(gzip.decompress(path.read_bytes()), type=_Notes).steps
            wrong |= {f"{path.stem}: {fault}" for step in steps for fault in coined(step.note)}
    assert sorted(wrong) == [], "run: python -m explorer.papers.record --words"


class _Note(msgspec.Struct):
    note: str = ""


class _Notes(msgspec.Struct):
    steps: list[_Note]


METHODS = Path(engines.__file__).parent / "methods"
SOURCES = [pytest.param(path, id=str(path.relative_to(METHODS))) for path in sorted(METHODS.rglob("*.py"))]


def sentences(tree: ast.Module) -> Iterator[str]:
    """What the functions of a method file say: their texts and f-strings, each place a number."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    nodes = [node for function in functions for line in function.body for node in ast.walk(line)]
    skipped = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}  # documentation
    skipped |= {id(line.value) for function in functions for line in function.body if isinstance(line, ast.Expr)}
    skipped |= {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "2" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.value


@pytest.mark.parametrize("path", SOURCES)
def test_a_method_says_the_words_of_the_field_and_names_its_locals(path: Path):
    tree = ast.parse(path.read_text("utf-8"))
    assert [fault for text in sentences(tree) for fault in coined(text)] == []
    stored = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    inside = {id(field.target) for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for field in node.body
              if isinstance(field, ast.AnnAssign)}  # fmt: skip
    names = {node.id for node in stored if id(node) not in inside}
    names |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    assert names & LOCALS == set()


@pytest.mark.parametrize(
    ("text", "is_ours"),
    [
        ("Ben is below the line of 0.9.", True),
        ("The threshold (the dashed line) falls.", False),
        ("After a line break the line ends.", False),
        ("drawn: the 3. of them", True),
        ("4 tokens kept; the one drawn has rank 3.", False),
        ("after 1 steps", True),
        ("2 of 1 mask", False),
        ("a position behind the answer", True),
        ("branches that fall behind", False),
    ],
)
def test_what_is_ours_and_what_is_not(text, is_ours):
    assert bool(coined(text)) == is_ours
