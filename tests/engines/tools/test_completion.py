"""The analyser: what exists in a fixed project, what it does not know, and that it stays in its folder."""

import sys
import tempfile
import time
from pathlib import Path

import pytest

from engines.core.errors import UserError
from engines.tools import completion
from engines.tools.completion import Analyser, in_string_or_comment, leaves
from engines.tools.projects import files_of

BOOK = ("dial", "enroll_payer", "push_row", "tally_cents", "_payers", "_rows")


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """What exists is the question here; how soon it is known on a busy machine is not."""
    monkeypatch.setattr(completion, "SECONDS", 60.0)


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    """The project below a folder of its own: what tests put beside it is nobody else's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("beside")))
        analyser = Analyser(files_of("ledger"))
    with analyser:
        yield analyser


@pytest.fixture
def secret(ledger):
    """A module beside the project, where a path that leads out would find it."""
    file = ledger.folder.parent / "secret.py"
    file.write_text("class a:\n    hidden = 1\n")
    yield file
    file.unlink()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("from book import Book\nb = Book()\nb.", BOOK),
        ("from book import Book\nb = Book()\nprint(b.tally_cents() + (1, [b.", BOOK),
        ("from book import Book\nb = Book()\nb.push_row(1, 2).", ("cents_in", "payer_tag")),
        ("from book import Book\nb = Book()\nfor row in b._rows:\n    row.", ("cents_in", "payer_tag")),
        ("import gauge\ngauge.", ("Gauge",)),
        ("def f(x):\n    x.", ()),
        ("x = 3.", ()),
        ("nowhere.", ()),
        ("if True\n  x = (.", ()),
    ],
)
def test_it_lists_what_exists(ledger, text, names):
    answer = ledger.members(text)
    assert answer.names == names and len(answer.details) == len(names)
    assert bool(answer.why) == (not names) and answer.seconds > 0
    assert answer.line == text.count("\n") + 1 and text.splitlines()[-1][: answer.column] == text.splitlines()[-1]


def test_a_detail_says_where_a_name_is_defined(ledger):
    answer = ledger.members("from book import Book\nBook().")
    lines = files_of("ledger")["book.py"].splitlines()
    for name, detail in zip(answer.names, answer.details, strict=True):
        code, place = detail.rsplit("  ", 1)
        line = int(place.removeprefix("book.py:"))
        assert name in code and lines[line - 1].strip() == code


def test_no_two_underscores_and_the_standard_library_is_known(ledger):
    names = ledger.members("import math\nmath.").names
    assert "sqrt" in names and not any(name.startswith("__") for name in names)


@pytest.mark.parametrize(
    "text",
    [
        "import torch\ntorch.",
        "import numpy\nnumpy.",
        "import engines\nengines.",
        "import pytest\npytest.",
        "from ..secret import a\na.",
        "from . \\\n  .secret import a\na.",
        "import sys\nsys . path.append('/')\nimport secret\nsecret.",
        "import sys\n(sys.#c\npath.append(ABOVE))\nimport secret\nsecret.",
        "import sys\n(sys.#c\rpath.append(ABOVE))\nimport secret\nsecret.",
        "import sys\n(sys.#c\npath.insert(0, ABOVE))\nfrom secret import a\na.",
        "import sys as s\ns.path.append(ABOVE)\nimport secret\nsecret.",
        "from sys import path\npath.append(ABOVE)\nimport secret\nsecret.",
        "from .#c\f\n.secret import a\na.",
        "import jedi\njedi.",
        "import parso\nparso.",
        "import jedi\njedi.Script().",
    ],
)
def test_it_sees_nothing_outside_of_the_project(ledger, secret, text):
    text = text.replace("ABOVE", repr(str(secret.parent)))
    assert ledger.members(text).names == () and ledger.members(text).why
    assert ledger.signatures(text[:-1] + "(").names == ()


def test_what_the_look_at_the_text_misses_the_analyser_does_not_follow(ledger, secret, monkeypatch):
    """Two doors: a text that changes the path is not asked about, and if it were, jedi would not follow it."""
    monkeypatch.setattr(completion, "leaves", lambda code: False)
    text = f"import sys\nsys.path.append({str(secret.parent)!r})\nimport secret\nsecret."
    assert ledger.members(text).names == ()


def test_lines_end_as_the_analyser_ends_them(ledger):
    answer = ledger.members("x = 1\r\nimport math\rmath.")
    assert "sqrt" in answer.names and (answer.line, answer.column) == (3, 5)
    assert in_string_or_comment("# a\rb.") is False


def test_a_package_without_files_of_its_own_is_known_where_it_is_the_projects():
    with Analyser({"pkg/sub/a.py": "y = 1\n"}) as analyser:
        assert analyser.members("import pkg\npkg.").names == ("sub",)
        assert analyser.members("import pkg.sub.a\npkg.sub.a.").names == ("y",)


def test_a_file_of_the_project_may_not_lead_out_either():
    with Analyser({"a.py": "import sys\nsys.path.append('/')\n"}) as analyser:
        assert "outside" in analyser.members("import math\nmath.").why
    assert not leaves("import os.path\nfrom .a import b\n")


def test_nothing_of_a_project_is_run(tmp_path):
    mark = tmp_path / "was-run"
    code = f"open({str(mark)!r}, 'w')\n"
    with Analyser({"a.py": code + "y = 1\n", "pkg/__init__.py": code, "pkg/b.py": code + "x = 2\n"}) as analyser:
        assert analyser.members("import a\na.").names == ("y",)
        assert analyser.members(f"{code}from pkg import b\nb.").names == ("x",)
    assert not mark.exists()


def test_the_copy_is_removed():
    with Analyser({"pkg/a.py": "y = 1\n"}) as analyser:
        folder = analyser.folder
        assert (folder / "pkg" / "a.py").is_file()
    assert not folder.exists()


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("a.", False),
        ("# a.", True),
        ("# a\nb.", False),
        ("'a.", True),
        ("'a' + b.", False),
        ("'a\nb.", False),
        ("'''a\nb.", True),
        ("'''a'''.", False),
        ('"# a".', False),
        ("'\\'a.", True),
        ("'\\\\'.", False),
        ("x = '#' # 'a.", True),
        ('f"{a.', True),
    ],
)
def test_strings_and_comments(text, inside):
    assert in_string_or_comment(text) is inside


def test_without_jedi_one_line_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(completion, "_origin", lambda name: None)
    with pytest.raises(UserError, match="pip install jedi") as caught:
        Analyser({})
    assert "\n" not in str(caught.value)


def test_what_takes_too_long_is_ended_and_the_next_question_is_answered(monkeypatch, tmp_path, ledger):
    slow = tmp_path / "slow.py"
    slow.write_text("import time\nprint(flush=True)\ntime.sleep(60)\n")
    monkeypatch.setattr(completion, "SECONDS", 0.3)
    process = completion._Process()
    monkeypatch.setattr(completion, "_process", lambda: process)
    monkeypatch.setattr(completion, "PROGRAM", slow)
    began = time.perf_counter()
    assert "took longer" in ledger.members("import math\nmath.").why and time.perf_counter() - began < 5
    assert process.child.poll() is not None
    for leftover in ("half", "a/file.pkl"):
        (Path(process.cache) / leftover).parent.mkdir(exist_ok=True)
        (Path(process.cache) / leftover).write_bytes(b"\x80")
    spoiled = process.cache
    monkeypatch.setattr(completion, "PROGRAM", Path(completion.__file__).with_name("_jedi_process.py"))
    monkeypatch.setattr(completion, "SECONDS", 20.0)
    assert "sqrt" in ledger.members("import math\nmath.").names
    assert not Path(spoiled).exists(), "half a file of the one that was ended is not read again"
    process.end()
    assert not Path(process.cache).exists()


def test_this_program_keeps_its_search_path_and_modules(ledger):
    before, modules = list(sys.path), set(sys.modules)
    ledger.members("import colorsys\ncolorsys.")
    assert sys.path == before and "jedi" not in set(sys.modules) - modules


def test_the_seconds_of_an_answer_hold_no_start(monkeypatch, tmp_path, ledger):
    """Behind a question that took too long the process starts anew, and a start may take longer than an answer."""
    late = tmp_path / "late.py"
    late.write_text(
        "import json, sys, time\ntime.sleep(1.5)\nprint(flush=True)\n"
        "for line in sys.stdin:\n    print(json.dumps({'rows': [['pi', 'module']]}), flush=True)\n"
    )
    process = completion._Process()
    monkeypatch.setattr(completion, "_process", lambda: process)
    monkeypatch.setattr(completion, "PROGRAM", late)
    monkeypatch.setattr(completion, "SECONDS", 1.0)
    assert ledger.members("import math\nmath.").names == ("pi",)
    process._kill()
    assert ledger.members("import math\nmath.").names == ("pi",)
    monkeypatch.setattr(completion, "START", 0.1)
    process._kill()
    assert "took longer" in ledger.members("import math\nmath.").why and process.child.poll() is not None
    process.end()
