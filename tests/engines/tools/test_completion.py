"""The analyser: what exists in a fixed project, what it does not know, and that it stays in its folder."""

import sys
import tempfile
import time
from pathlib import Path

import pytest

from engines.core import child
from engines.core.errors import UserError
from engines.tools import completion
from engines.tools.completion import Analyser, in_string_or_comment, leaves
from engines.tools.projects import files_of

BOOK = ("dial", "enroll_payer", "push_row", "tally_cents", "_payers", "_rows")


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """What exists is the question here; how soon it is known on a busy machine is not."""
    monkeypatch.setattr(completion, "SECONDS", 60.0)


@pytest.fixture
def own_process(monkeypatch):
    """A process of the test's own, and what is said without jedi."""
    with monkeypatch.context() as patch:
        patch.setattr(completion.importlib.util, "find_spec", lambda name: None)
        with pytest.raises(UserError, match="pip install jedi"):
            Analyser({})
    process = completion.Child(completion.PROGRAM, "jedi", "parso")
    monkeypatch.setattr(completion, "_process", lambda: process)
    return process


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


def test_the_standard_library_is_known_and_this_program_keeps_its_search_path_and_modules(ledger):
    before, modules = list(sys.path), set(sys.modules)
    names = ledger.members("import math\nmath.").names
    assert "sqrt" in names and not any(name.startswith("__") for name in names)
    assert sys.path == before and "jedi" not in set(sys.modules) - modules
    answer = ledger.members("x = 1\r\nimport math\rmath.")  # lines end as the analyser ends them
    assert "sqrt" in answer.names and (answer.line, answer.column) == (3, 5)


@pytest.mark.parametrize("looked_at", [True, False])
def test_it_sees_nothing_outside_of_the_project(ledger, secret, monkeypatch, looked_at):
    """Two doors: a text that changes the path is not asked about, and if it were, jedi would not follow it."""
    if not looked_at:
        monkeypatch.setattr(completion, "leaves", lambda code: False)
    for text in OUTSIDE if looked_at else ["import sys\nsys.path.append(ABOVE)\nimport secret\nsecret."]:
        text = text.replace("ABOVE", repr(str(secret.parent)))
        assert ledger.members(text).names == () and (ledger.members(text).why or not looked_at), text
        assert not looked_at or ledger.signatures(text[:-1] + "(").names == (), text


OUTSIDE = [
    *(f"import {name}\n{name}." for name in ("torch", "numpy", "engines", "pytest", "jedi", "parso")),
    "import jedi\njedi.Script().",
    "from ..secret import a\na.",
    "from . \\\n  .secret import a\na.",
    "import sys\nsys . path.append('/')\nimport secret\nsecret.",
    "import sys\n(sys.#c\npath.append(ABOVE))\nimport secret\nsecret.",
    "import sys\n(sys.#c\rpath.append(ABOVE))\nimport secret\nsecret.",
    "import sys\n(sys.#c\npath.insert(0, ABOVE))\nfrom secret import a\na.",
    "import sys as s\ns.path.append(ABOVE)\nimport secret\nsecret.",
    "from sys import path\npath.append(ABOVE)\nimport secret\nsecret.",
    "from .#c\f\n.secret import a\na.",
]


def test_nothing_of_a_project_is_run_or_left_and_nothing_of_it_leads_out(tmp_path):
    mark = tmp_path / "was-run"
    code = f"open({str(mark)!r}, 'w')\n"
    files = {
        "a.py": code + "y = 1\n",
        "pkg/__init__.py": code,
        "pkg/b.py": code + "x = 2\n",
        "bare/sub/c.py": "z = 3\n",
    }
    with Analyser(files) as analyser:
        assert analyser.members("import a\na.").names == ("y",)
        assert analyser.members(f"{code}from pkg import b\nb.").names == ("x",)
        assert analyser.members("import bare\nbare.").names == ("sub",)
        assert analyser.members("import bare.sub.c\nbare.sub.c.").names == ("z",)
        assert (analyser.folder / "pkg" / "b.py").is_file()
    assert not mark.exists() and not analyser.folder.exists()
    with Analyser({"a.py": "import sys\nsys.path.append('/')\n"}) as analyser:
        assert "outside" in analyser.members("import math\nmath.").why
    assert not leaves("import os.path\nfrom .a import b\n")


def test_strings_and_comments():
    inside = ("# a.", "'a.", "'''a\nb.", "'\\'a.", "x = '#' # 'a.", 'f"{a.')
    outside = ("a.", "# a\nb.", "# a\rb.", "'a' + b.", "'a\nb.", "'''a'''.", '"# a".', "'\\\\'.")
    for text in inside + outside:
        assert in_string_or_comment(text) is (text in inside), text


def test_what_takes_too_long_is_ended_and_the_next_question_is_answered(own_process, monkeypatch, tmp_path, ledger):
    slow = tmp_path / "slow.py"
    slow.write_text("import time\nprint(flush=True)\ntime.sleep(60)\n")
    monkeypatch.setattr(completion, "SECONDS", 0.3)
    own_process.program = slow
    began = time.perf_counter()
    assert "took longer" in ledger.members("import math\nmath.").why and time.perf_counter() - began < 5
    assert own_process.process.poll() is not None
    spoiled = Path(own_process.folder)
    for leftover in ("half", "a/file.pkl"):
        (spoiled / leftover).parent.mkdir(exist_ok=True)
        (spoiled / leftover).write_bytes(b"\x80")
    own_process.program = completion.PROGRAM
    monkeypatch.setattr(completion, "SECONDS", 20.0)
    assert "sqrt" in ledger.members("import math\nmath.").names
    assert not spoiled.exists(), "half a file of the one that was ended is not read again"
    own_process.end()
    assert not Path(own_process.folder).exists()


def test_the_seconds_of_an_answer_hold_no_start(own_process, monkeypatch, tmp_path, ledger):
    """Behind a question that took too long the process starts anew, and a start may take longer than an answer."""
    late = tmp_path / "late.py"
    late.write_text(
        "import json, sys, time\ntime.sleep(1.5)\nprint(flush=True)\n"
        "for line in sys.stdin:\n    print(json.dumps({'rows': [['pi', 'module']]}), flush=True)\n"
    )
    own_process.program = late
    monkeypatch.setattr(completion, "SECONDS", 1.0)
    for _ in range(2):
        assert ledger.members("import math\nmath.").names == ("pi",)
        own_process.kill()
    monkeypatch.setattr(child, "START", 0.1)
    assert "took longer" in ledger.members("import math\nmath.").why and own_process.process.poll() is not None
    own_process.end()
