"""A method is its own files only. A copy of the program without one method works and does not know it; with an extra
folder that holds just the files of a new one, every place has it. No file of others names its slug, and no test fails
because there is a paper more."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import engines
from explorer import papers

ROOT = Path(__file__).resolve().parents[2]
MOVED, FAMILY = "creditdecoding", "diffusion"
PAPER = ROOT / "assets" / "papers" / f"{MOVED}.json"
TRACES = [f"{one['id']}.json.gz" for one in json.loads(PAPER.read_text())["gallery"]]
OWN = [
    Path("engines/methods") / FAMILY / f"{MOVED}.py",
    Path("tests/engines/methods") / FAMILY / f"test_{MOVED}.py",
    PAPER.relative_to(ROOT),
    *(Path("assets/traces") / name for name in TRACES),
]
# records of what ran say what ran
MEASURED = ("assets/sweeps/", "assets/bench/", "assets/studies/", "assets/measured/")
PROSE = ("assets/docs/", "assets/models/")  # texts and cards may tell of any method

LOOK = """
import json, sys
import engines
from explorer.papers import documents, faults, listing, read
from explorer.papers.lessons import lessons
from explorer.runs.gallery import gallery
from explorer.page.catalogue import Catalogue
from explorer.page.files import folders
from explorer.page.learn import payload
from explorer.page.chooser import entries
from explorer.site import compose

slug = sys.argv[1]
shown = gallery()
listed = {info.slug: info for info in engines.list_methods()}
tabs = [one for one in entries(listed, shown.cards) if one["id"] == one["lesson"] == slug]
found = {
    "methods": list(listed),
    "slots": list(Catalogue.read(public=False).methods),
    "tab": bool(tabs and tabs[0]["play"] and tabs[0]["paper"]),
    "lessons": [one["method"] for one in payload()["lessons"]],
    "lesson files": [run["file"] for one in payload()["lessons"] if one["method"] == slug for run in one["runs"]],
    "folders": {name: str(folder) for name, folder in folders().items()},
    "gallery": [card.id for card in shown.cards],
    "table": any(slug in str(row[2]) for row in listing.table("papers").rows),
    "readme": documents.PARTS["papers"](),
    "broken": [*faults(), *shown.broken, *(one.module for one in engines.broken_methods())],
}
if len(sys.argv) > 2:
    files = compose(shown)
    found["site"] = sorted(name for name, text in files.items() if slug in name or slug in text)
"""
PRINT = "print(json.dumps(found))"


def look(tree: Path, slug: str, extra: Path | None, *more: str) -> dict:
    return json.loads(python(tree, extra, "-c", LOOK + PRINT, slug, *more))


def python(tree: Path, extra: Path | None, *arguments: str, code: int = 0) -> str:
    """What a program of that tree prints, with or without an extra folder."""
    env = {**os.environ, "PYTHONPATH": str(tree), "GRADIO_ANALYTICS_ENABLED": "False"}
    env.pop("DECODING_EXPLORER_EXTRA", None)
    if extra:
        env["DECODING_EXPLORER_EXTRA"] = str(extra)
    command = [sys.executable, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tree, env=env, timeout=240, check=False)
    assert done.returncode == code, done.stderr[-3000:]
    return done.stdout if code == 0 else done.stderr


def test_no_file_of_others_names_the_method():
    assert all((ROOT / path).is_file() for path in OWN)
    own, ends, wrong = {path.as_posix() for path in OWN}, (".py", ".js", ".css", ".json", ".md", ".txt"), []
    for path in (path for part in ("engines", "explorer", "assets") for path in sorted((ROOT / part).rglob("*"))):
        name = path.relative_to(ROOT).as_posix()
        read = path.suffix in ends and "__pycache__" not in path.parts and name not in own
        if read and not name.startswith((*MEASURED, *PROSE)):
            wrong += [name] if re.search(rf"\b{MOVED}\b", path.read_text(encoding="utf-8")) else []
    assert not wrong, f"{MOVED} is named in {', '.join(wrong)}"


@pytest.mark.slow
def test_without_its_files_nothing_misses_it(tmp_path: Path):
    """A copy of the program: the method's own files are left out, everything else is as it is here."""
    leave = shutil.ignore_patterns("__pycache__", f"{MOVED}.*", *TRACES)
    for part in ("engines", "explorer", "assets/papers", "assets/traces"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=leave)
    for path in (ROOT / "assets").iterdir():
        if path.name not in ("papers", "traces"):
            (tmp_path / "assets" / path.name).symlink_to(path)
    found = look(tmp_path, MOVED, None)
    assert found["methods"] == [info.slug for info in engines.list_methods() if info.slug != MOVED and not info.file]
    assert MOVED not in found["lessons"] and not found["tab"] and not found["table"]
    assert found["broken"] == []


NEW = """
from engines.kit import mask_positions, max_new_tokens, method, token_probability


@method("left-first", title="Left first", family="diffusion", paper="arXiv:2601.00001", summary="The first mask.",
        needs="masked", params=[max_new_tokens()], signature="bars", emits={"commits", "scores"},
        lanes={"confidence": "probability"})
def decode(model, prompt, p, run):
    x = run.canvas(p.max_new_tokens, model.record.device)
    while len(masks := mask_positions(x, model.mask_id)):
        at = masks[:1]
        z = model(x)[at]
        best, sure = z.argmax(-1), token_probability(z, z.argmax(-1))
        x[at] = best
        edit = yield run.step(commits=(at, best, "left", sure), scores=lambda: {"confidence": (at, sure)})
        x = run.apply_edit(edit, x)
"""
ENTRY = {
    "name": "Left first",
    "title": "From the left",
    "arxiv": "2601.00001",
    "year": 2026,
    "family": "diffusion",
    "state": "works",
    "basis": "code",
    "idea": "Write the first mask, whatever the model is most confident in: a method that is here to be added.",
    "watch": "one place after the other",
    "methods": ["left-first"],
    "runs": "tiny-dlm",
    "lessons": [
        {
            "order": 9000,
            "method": "left-first",
            "trace": "99-left-copy",
            "problem": "Which of the masked places is written first?",
            "idea": "The first mask is written, whatever the model is most confident in. Then the next one is.",
            "formula": "i = the smallest masked position",
            "watch": "The board, which fills from the left.",
            "stops": [
                {"step": 1, "say": "The second place is written by the second forward.", "check": {"commits": 1}},
                {"step": 2, "say": "Two places are written, two forwards are spent.", "check": {"forwards": 2}},
            ],
            "question": "Why is this a test and not a method?",
            "answer": "Its order is that of an autoregressive model, at the price of a masked one.",
            "caveat": "Nobody claims anything for this order.",
            "terms": ["mask"],
        }
    ],
    "gallery": [
        {
            "id": "99-left-copy",
            "method": "left-first",
            "model": "tiny-dlm",
            "prompt": "copy: Mia",
            "params": {"max_new_tokens": 8},
            "title": "From the left",
            "watch": "One place after the other.",
        }
    ],
    "says": {"departures": "It is a test.", "lanes": {"confidence": "Probability of the first mask."}},
}


RUN = ("run", "--method", "left-first", "--model", "tiny-dlm", "--prompt", "copy: Leo", "--param", "max_new_tokens=8")
AT_ONCE = f"""
import contextlib, io
from explorer.cli import main
from explorer.record import main as record

def said(*argv):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        return [main(argv), out.getvalue()]

assert record(["99-left-copy"]) == 0
{LOOK}
found["listed"] = said("methods")
found["ran"] = said(*{RUN!r}, "--json", "-")
found["again"] = said("replay", str(shown.path("99-left-copy")), "--rerun")
{PRINT}
"""


@pytest.fixture(scope="module")
def new(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """An extra folder with a method that is new: a file, its paper, and its run, recorded by the command that records
    all; and what one program found there."""
    extra = tmp_path_factory.mktemp("new")
    (extra / "methods" / "diffusion").mkdir(parents=True)
    (extra / "papers").mkdir()
    (extra / "methods" / "diffusion" / "left_first.py").write_text(NEW)
    (extra / "papers" / "left-first.json").write_text(json.dumps(ENTRY))
    return extra, json.loads(python(ROOT, extra, "-c", AT_ONCE, "left-first"))


def test_a_new_method_is_found_everywhere_runs_and_its_recording_replays(new: tuple[Path, dict[str, Any]]):
    extra, found = new
    assert {path.name for path in (extra / "traces").iterdir()} == {"99-left-copy.json.gz", "99-left-copy.svg"}
    for place in ("methods", "slots", "lessons"):
        assert "left-first" in found[place], place
    assert found["lessons"][-1] == "left-first" and found["broken"] == []
    assert "99-left-copy" in found["gallery"] == sorted(found["gallery"]), "among the others, by id"
    ours = papers.counts()
    works, whole = ours["works"] + 1, sum(ours.values()) + 1
    told = f"The methods of {whole} papers run here." if works == whole else f"Of the {whole} papers {works} work."
    assert found["tab"] and found["table"] and told in found["readme"]
    _, folder, file = Path(found["lesson files"][0]).parts
    assert Path(found["folders"][folder], file) == extra / "traces" / "99-left-copy.json.gz", "as the page asks"
    assert found["listed"][0] == 0 and re.search(r"^left-first +diffusion", found["listed"][1], re.MULTILINE)
    code, trace = found["ran"]
    header = json.loads(trace)["header"]
    assert code == 0 and (header["method"], header["departures"]) == ("left-first", ENTRY["says"]["departures"])
    assert found["again"][0] == 0 and "repeats" in found["again"][1]


@pytest.mark.slow
def test_the_site_has_a_new_method(new: tuple[Path, dict[str, Any]]):
    found = look(ROOT, "left-first", new[0], "site")
    assert {"lessons/left-first.html", "methods.html", "docs/papers.html"} <= set(found["site"])


@pytest.mark.exhaustive
def test_the_tests_of_papers_and_the_cases_about_it_pass_with_a_paper_more(new: tuple[Path, dict[str, Any]]):
    about_it = ("-k", "papers or left-first or left-copy")
    said = python(ROOT, new[0], "-m", "pytest", "-q", "-n", "0", "tests/explorer", "tests/page", *about_it)
    assert int(re.findall(r"(\d+) passed", said)[-1]) > 200


def test_a_broken_file_of_the_folder_is_named_and_a_public_host_runs_none(tmp_path: Path):
    bad, mark = tmp_path / "methods" / "diffusion" / "bad.py", tmp_path / "was-run"
    bad.parent.mkdir(parents=True)
    bad.write_text("1 / 0")
    listed = python(ROOT, tmp_path, "-m", "explorer.cli", "methods")
    assert re.search(r"broken: .*bad\.py.*ZeroDivisionError.*line 1", listed) and "prophet" in listed
    bad.write_text(f"open({str(mark)!r}, 'w')")
    said = python(ROOT, tmp_path, "-m", "explorer.cli", "page", "--public", code=2)
    assert "is a method of your own" in said and "DECODING_EXPLORER_EXTRA" in said
    assert not mark.exists(), "nothing of it was run"
