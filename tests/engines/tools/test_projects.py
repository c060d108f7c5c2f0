"""Projects as text: those that ship are files, and what is no project is a sentence."""

import ast

import pytest

from engines.core.errors import UserError
from engines.tools.projects import FOLDER, files_of, shipped


def test_those_that_ship_are_small_packages_and_survive_as_text():
    assert set(shipped()) == {"ledger", "loom", "tidepool"}
    for name, text in shipped().items():
        files = files_of(name)
        assert files == files_of(text) and 2 <= len(files) <= 4
        for path, code in files.items():
            assert code == (FOLDER / name / path).read_text() and ast.parse(code).body


@pytest.mark.parametrize(
    ("project", "sentence"),
    [
        ("", "neither one that ships"),
        ("legder", "ledger, loom, tidepool"),
        ("x = 1\n# file: a.py\n", "neither"),
        ("# file: a.py\ndef f(:\n", "a.py of the project is not Python at line 1"),
        ("# file: a.py\nx = '\0'\n", "is not Python"),
        ("# file: ../a.py\n", "cannot be a file"),
        ("# file: /etc/a.py\n", "cannot be a file"),
        ("# file: a/../../b.py\n", "cannot be a file"),
        ("# file: a.txt\n", "cannot be a file"),
        ("# file: main.py\n", "cannot be a file"),
        ("# file: a.py\n# file: a.py\n", "cannot be a file"),
        ("".join(f"# file: a{i}.py\n" for i in range(9)), "9 files; at most 8"),
        ("# file: a.py\nx = " + "(" * 3000, "is not Python"),
    ],
)
def test_what_is_no_project_is_a_sentence(project, sentence):
    with pytest.raises(UserError, match=sentence) as caught:
        files_of(project)
    assert len(str(caught.value)) < 300
