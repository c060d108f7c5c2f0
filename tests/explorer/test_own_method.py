"""A method of one's own on the command line."""

import json
import re
import subprocess
import sys

import pytest

import engines
from explorer import cli
from explorer.figures.verdict import judge

ROOT = cli.ASSETS.parent

pytestmark = pytest.mark.usefixtures("registry_unchanged")


@pytest.fixture
def template(tmp_path, capsys):
    """The printed template of a kind, in a file."""

    def write(kind: str = "masked"):
        assert cli.main(["template", "--kind", kind]) == 0
        path = tmp_path / f"my_{kind}.py"
        path.write_text(capsys.readouterr().out)
        return path

    return write


KINDS = sorted(path.stem for path in cli.TEMPLATES.glob("*.py"))


@pytest.mark.parametrize("kind", KINDS)
def test_the_printed_template_runs(template, kind, tmp_path, capsys):
    out, path = tmp_path / "out.json", template(kind)
    assert cli.main(["run", "--method-file", str(path), "--prompt", "sort: Mia, Leo, Ada", "--json", str(out)]) == 0
    assert capsys.readouterr().out == "Ada Leo Mia\n"
    trace = engines.read_trace(out.read_bytes())
    assert trace.header.method == f"my-{kind}" and trace.steps[0].note and judge(trace).right
    assert cli.main(["methods", f"my-{kind}", "--json", "--method-file", str(path)]) == 0
    assert json.loads(capsys.readouterr().out)["file"] == str(path)


def test_what_is_missing_is_said(template, tmp_path, capsys):
    assert cli.main(["run", "--prompt", "sort: Mia"]) == 2
    assert "no method is chosen; give --method with a slug" in capsys.readouterr().err
    assert cli.main(["run", "--method-file", str(tmp_path / "none.py"), "--prompt", "sort: Mia"]) == 2
    assert "there is no file" in capsys.readouterr().err
    path = template()
    path.write_text(path.read_text().replace("z.argmax(-1)", "z.argmin_(-1)"))
    line = next(n for n, text in enumerate(path.read_text().splitlines(), 1) if "argmin_" in text)
    assert cli.main(["run", "--method-file", str(path), "--prompt", "sort: Mia"]) == 2
    said = capsys.readouterr().err
    assert "'my-masked' failed after 0 steps: AttributeError" in said and f"my_masked.py, line {line}:" in said


def test_a_public_host_refuses_before_it_runs_anything(template, tmp_path, monkeypatch, capsys):
    from explorer.page.server import launch

    engines.load_method_file(template())
    path, mark = tmp_path / "bad.py", tmp_path / "mark"
    path.write_text(f"open({str(mark)!r}, 'w')\n")
    monkeypatch.setenv("EXPLORER_PUBLIC", "1")
    for command in ("page", "serve"):
        assert cli.main([command, "--method-file", str(path)]) == 2
        assert "is a method of your own, which may do anything, and this is a public host" in capsys.readouterr().err
    assert not mark.exists()
    with pytest.raises(engines.UserError, match="this is a public host"):
        launch(warm=False, quiet=True)


def test_the_first_wrong_or_missing_word_has_its_place_and_its_step_and_a_right_answer_has_none():
    trace = engines.run("threshold", "tiny-dlm", "add: 457 + 286", params={"threshold": 0.3})
    mark = judge(trace)
    have, want = trace.text.split(), mark.expected.split()
    assert not mark.right and have[: mark.word] == want[: mark.word] and have[mark.word] != want[mark.word]
    token = trace.output_ids[mark.first - len(trace.header.prompt_ids)]
    piece = next(p for p in trace.pieces if p.id == token).text
    assert piece.strip() and piece.strip() in have[mark.word] and mark.first <= mark.last
    writes = [step.index for step in trace.steps if step.commits and mark.first in step.commits.positions]
    assert mark.step == writes[-1]
    trace = engines.run("threshold", "tiny-dlm", "sort: Mia, Leo, Ada")
    mark = judge(trace)
    assert mark.right and mark.word is mark.first is mark.step is None
    assert judge(engines.run("threshold", "tiny-dlm", "good morning", params={"max_new_tokens": 4})) is None
    trace.header.prompt = "sort: Mia, Leo, Ada, Zoe"
    mark = judge(trace)
    end = next(i for i, token in enumerate(trace.output_ids) if token in trace.header.eos_ids)
    assert (mark.word, mark.first) == (3, len(trace.header.prompt_ids) + end) and mark.step is not None


MYPY = pytest.param("mypy", marks=pytest.mark.slow)


@pytest.mark.parametrize("tool", ["ruff check", "ruff format --check", MYPY])
def test_the_printed_templates_keep_the_rules_of_the_project_and_are_typed(template, tool, tmp_path):
    pytest.importorskip(tool.split()[0], reason="not installed: pip install -e '.[test]'")
    files = [str(template(kind)) for kind in KINDS]
    option = "--config-file" if tool == "mypy" else "--config"
    command = [sys.executable, "-m", *tool.split(), option, "pyproject.toml", "--cache-dir", str(tmp_path), *files]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("text", ["README.md", "assets/docs/own-method.md"])
def test_the_texts_show_the_heart_of_the_template(text):
    """Verbatim; the README has what is recorded in a line of its own, without what only the views need."""
    shown = (ROOT / text).read_text("utf-8").split("heart of the template for masked models:")[1]
    shown = shown.split("```python\n")[1].split("```")[0]
    _, found, body = (cli.TEMPLATES / "masked.py").read_text("utf-8").partition("def decode(")
    if text == "README.md":
        commits = re.search(r"commits=.*(?=,\n)", body)
        body = re.sub(r"run\.step\(.*?\n        \)", f"run.step({commits[0]})", body, flags=re.DOTALL)
    assert shown == found + body
