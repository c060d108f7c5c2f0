"""The command line: what it prints, its exit status, and that bad input costs one line and never a traceback."""

import csv
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import engines
from engines import Trace
from explorer.cli import main
from explorer.figures.hindsight import hindsight, summary
from tests.explorer.commands import call, refused

ROOT = Path(__file__).resolve().parents[3]
PROMPT = "sort: Mia, Leo, Ada"
BASES = [i.slug for i in engines.list_methods() if i.kind == "masked" and i.baseline is None]
PARALLEL, MASKED = next((i.slug, i.baseline) for i in engines.list_methods() if i.baseline in BASES)
TWO_MODELS = next(i for i in engines.list_methods() if [*i.needs.values()] == ["causal", "causal"])
MODEL = "tiny-dlm"
BASE = ("run", "--method", MASKED, "--model", MODEL)
SHORT = ("--param", "max_new_tokens=16")
ONE = (*BASE, "--prompt", "x")


@pytest.fixture(scope="module")
def trace_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("traces") / "out.json"
    argv = ("run", "--method", PARALLEL, "--model", MODEL, "--prompt", PROMPT, *SHORT, "--param", "block_length=4")
    assert main((*argv, "--json", str(path))) == 0
    return path


def changed(trace_file: Path, path: Path, change) -> str:
    """The recorded run with a change, in another file."""
    data = json.loads(trace_file.read_text())
    change(data)
    path.write_text(json.dumps(data))
    return str(path)


def another_token(data) -> None:
    tokens = data["steps"][1]["commits"]["tokens"]
    tokens[0] = next(piece["id"] for piece in data["pieces"] if piece["id"] != tokens[0])


def test_methods_and_models_are_listed_and_one_is_described(capsys):
    code, out, _ = call(capsys, "methods")
    slugs = [i.slug for i in engines.list_methods()]
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[1:] if not line.startswith("broken:")] == slugs
    listed = json.loads(call(capsys, "methods", "--json")[1])
    assert listed["broken"] == [] and {m["slug"] for m in listed["methods"]} == {*slugs}
    alone = next(i.slug for i in engines.list_methods() if i.optional == {"draft"})
    assert "needs: target (causal), draft (causal, or none)\n" in call(capsys, "methods", alone)[1]
    assert all(p.name in call(capsys, "methods", PARALLEL)[1] for p in engines.get_method(PARALLEL).info.params)
    assert json.loads(call(capsys, "methods", PARALLEL, "--json")[1])["slug"] == PARALLEL
    assert MODEL in call(capsys, "models")[1]
    listed = json.loads(call(capsys, "models", "--json")[1])
    assert {m["name"] for m in listed} == {m.name for m in engines.list_models()}


WITHOUT_WEIGHTS = """
import engines, explorer, sys
assert engines.Trace._repr_html_, "the look is there in whatever order the packages come"
from explorer.cli import main
for argv in (["--help"], ["run", "--help"], ["methods"], ["models"], ["runs"]):
    try:
        assert main(argv) == 0
    except SystemExit as ended:
        assert not ended.code
heavy = {"torch", "gradio", "transformers", "plotly", "pandas"} & set(sys.modules)
sys.exit(f"imported {heavy}" if heavy else 0)
"""


def test_what_runs_no_model_imports_neither_torch_nor_gradio(tmp_path):
    env = {**os.environ, "EXPLORER_STORE": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", WITHOUT_WEIGHTS], cwd=ROOT, env=env, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_run_prints_the_text_and_writes_the_trace(capsys, tmp_path):
    path = tmp_path / "out.json"
    argv = ("run", "--method", PARALLEL, "--model", MODEL, "--prompt", PROMPT, *SHORT, "--json", str(path))
    code, out, err = call(capsys, *argv)
    trace = Trace.from_json(path.read_text())
    assert code == 0 and err == "" and out == trace.text + "\n"
    header = trace.header
    assert header.params["max_new_tokens"] == 16 and header.prompt == PROMPT and header.detail == "full"


def test_run_can_print_the_trace_instead_of_named_roles_too(capsys, tmp_path):
    prompt = tmp_path / "prompt.txt"
    prompt.write_text(PROMPT + "\n")
    argv = (*BASE, *SHORT, "--detail", "none", "--json", "-")
    code, out, err = call(capsys, *argv, "--stats", "--prompt-file", str(prompt))
    trace = Trace.from_json(out)
    assert code == 0 and trace.header.prompt == PROMPT and trace.header.detail == "none"
    assert f"{trace.totals.forwards} model calls" in err
    ids = " ".join(map(str, trace.header.prompt_ids))
    _, by_ids, err = call(capsys, *argv, "--prompt-ids", ids, "--max-steps", "2")
    assert len(Trace.from_json(by_ids).steps) == 2 and "2 steps" in err, "a budget ends it and is told"
    roles = {role: f"tiny-ar-{size}" for role, size in zip(TWO_MODELS.needs, "ms", strict=True)}
    models = [word for role, name in roles.items() for word in ("--model", f"{role}={name}")]
    out = call(capsys, "run", "--method", TWO_MODELS.slug, "--prompt", "add: 1 + 3", *SHORT, "--json", "-", *models)[1]
    assert {m.role: m.name for m in Trace.from_json(out).header.models} == roles


REFUSALS = {
    "no command": ((), "COMMAND"),
    "bytes as prompt": ((*BASE, "--prompt", "a\udcff"), "UTF-8"),
    "long prompt": ((*BASE, "--prompt", "a " * 15_000), "20,000"),
    "unknown method": (("run", "--method", "dance", "--prompt", "x"), MASKED),
    "unknown model": (("run", "--method", MASKED, "--model", "dance", "--prompt", "x"), MODEL),
    "model of another kind": (("run", "--method", MASKED, "--model", "tiny-ar-s", "--prompt", "x"), MODEL),
    "unknown role": (("run", "--method", MASKED, "--model", f"dancer={MODEL}", "--prompt", "x"), "dancer"),
    "parameter without value": ((*ONE, "--param", "max_new_tokens"), "name=value"),
    "parameter twice": ((*ONE, *SHORT, "--param", "max_new_tokens=2"), "twice"),
    "seed below 0": ((*ONE, "--seed", "-1"), "-1"),
    "no steps": ((*ONE, "--max-steps", "0"), "--max-steps"),
    "target in no folder": ((*ONE, "--json", "no/such/folder/out.json"), "no/such/folder"),
    "parameter of neither": (("compare", *ONE[1:], "--method", PARALLEL, "--param", "dance=1"), "dance"),
    "missing trace": (("replay", "no-such.json"), "no-such.json"),
    "unknown model to fetch": (("models", "--fetch", "dance"), "dance"),
    "line breaks in a name": (("run", "--method", "a\nb\x1b[31m", "--prompt", "x"), "unknown method"),
}


@pytest.mark.parametrize(("argv", "says"), REFUSALS.values(), ids=REFUSALS)
def test_bad_input_costs_one_line(capsys, argv, says):
    line = refused(capsys, *argv)
    assert says in line and "\x1b" not in line and "Traceback" not in line


DAMAGES = {
    "empty": b"",
    "cut": lambda good: good[: len(good) // 2],
    "deep": b"[" * 100_000,
    "gzip": b"\x1f\x8b" + b"x" * 40,
    "token": lambda good: good.replace(b'"tokens":[', b'"tokens":[1000000,', 1),
    "shape": lambda good: good.replace(b'"shape":[', b'"shape":[1000000000,', 1),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_traces_cost_one_line(capsys, trace_file, tmp_path, monkeypatch, damage):
    monkeypatch.chdir(tmp_path)
    good, broken = trace_file.read_bytes(), DAMAGES[damage]
    Path("bad.json").write_bytes(broken(good) if callable(broken) else broken)
    assert Path("bad.json").read_bytes() != good
    for command in (("replay",), ("export", "--html", "x.html")):
        assert "bad.json" in refused(capsys, *command, "bad.json")
    assert not Path("x.html").exists()


def test_replay_tells_every_step(capsys, trace_file):
    trace = Trace.from_json(trace_file.read_text())
    code, out, _ = call(capsys, "replay", str(trace_file))
    assert code == 0
    assert sum(line.startswith("step ") for line in out.splitlines()) == len(trace.steps)
    assert all(step.note in out for step in trace.steps) and trace.text in out and trace.header.prompt in out
    assert f"hindsight: {summary(hindsight(trace))}" in out.splitlines()
    code, out, _ = call(capsys, "replay", str(trace_file), "--step", "1")
    assert code == 0 and out.startswith("step 1: ") and "likely:" in out and "step 2:" not in out
    told = json.loads(call(capsys, "replay", str(trace_file), "--json")[1])
    assert [t["forwards"] for t in told] == [s.forwards for s in trace.steps]
    assert f"0 to {len(trace.steps) - 1}" in refused(capsys, "replay", str(trace_file), "--step", str(len(trace.steps)))


def test_rerun_repeats_and_notices_a_change(capsys, trace_file, tmp_path):
    model, params = engines.load_model(MODEL), {"max_new_tokens": 16}
    start = len(engines.run(MASKED, model, PROMPT, params=params, max_steps=1).header.prompt_ids)
    edits = [(1, engines.Edit(force={start + 5: 20}))]
    edited = tmp_path / "edited.json"
    edited.write_text(engines.run(MASKED, model, PROMPT, params=params, edits=edits, max_steps=5).to_json())
    for path in (trace_file, edited):
        code, out, _ = call(capsys, "replay", str(path), "--rerun")
        assert code == 0 and "repeats" in out
    assert "5 steps" in out
    path = changed(trace_file, tmp_path / "other.json", another_token)
    code, out, _ = call(capsys, "replay", path, "--rerun")
    assert code == 1 and "step 1" in out
    assert json.loads(call(capsys, "replay", path, "--rerun", "--json")[1])["repeats"] is False


def test_rerun_does_not_fetch_what_a_trace_names(capsys, trace_file, tmp_path):
    def foreign(data):
        data["header"]["models"][0]["name"] = "somebody/some-model"

    path = changed(trace_file, tmp_path / "foreign.json", foreign)
    line = refused(capsys, "replay", path, "--rerun")
    assert "somebody/some-model" in line and "--model" in line
    assert call(capsys, "replay", path, "--rerun", "--model", MODEL)[0] == 0


def test_export(capsys, trace_file, tmp_path):
    trace = Trace.from_json(trace_file.read_text())
    page, copy, table = tmp_path / "out.html", tmp_path / "copy.json.gz", tmp_path / "out.csv"
    assert call(capsys, "export", str(trace_file), str(trace_file), "--html", str(page))[0] == 0
    text = page.read_text()
    assert text.lstrip().lower().startswith("<!doctype html") and "application/json" in text
    assert call(capsys, "export", str(trace_file), "--json", str(copy))[0] == 0
    assert Trace.from_json(gzip.decompress(copy.read_bytes())) == trace
    assert call(capsys, "export", str(trace_file), str(copy), "--csv", str(table))[0] == 0
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * len(trace.steps)
    written = [[str(t) for t in s.commits.tokens] if s.commits else [] for s in trace.steps]
    assert [row["tokens"].split() for row in rows[: len(trace.steps)]] == written
    assert sum(int(row["target_calls"]) + int(row["other_calls"]) for row in rows) == 2 * trace.totals.forwards

    def formula(data):
        data["header"]["method"] = data["steps"][0]["note"] = '=HYPERLINK("x")'

    path = changed(trace_file, tmp_path / "formula.json", formula)
    rows = list(csv.reader(call(capsys, "export", path, "--csv", "-")[1].splitlines()))
    assert not [cell for row in rows for cell in row if cell[:1] in "=+@" and cell], "a spreadsheet finds no formula"


def test_compare_is_a_table(capsys, tmp_path):
    argv = ("compare", "--method", MASKED, "--method", PARALLEL, "--model", MODEL, "--prompt", PROMPT, *SHORT)
    code, out, _ = call(capsys, *argv, "--traces", str(tmp_path))
    lines = out.splitlines()
    assert code == 0 and [line.split()[0] for line in lines[1:]] == [MASKED, PARALLEL] and "same" in lines[1]
    rows = json.loads(call(capsys, *argv, "--json")[1])
    for row in rows:
        totals = Trace.from_json((tmp_path / f"{row['method']}.json").read_text()).totals
        assert row["target_calls"] + row["other_calls"] == totals.forwards and row["tokens"] == totals.tokens
    assert rows[1]["target_calls"] < rows[0]["target_calls"] and "model calls" in lines[0]
    causal = next(i.slug for i in engines.list_methods() if tuple(i.needs.values()) == ("causal",))
    argv = ("compare", "--method", MASKED, "--method", causal, "--model", MODEL, "--model", "tiny-ar-s")
    own = ("--prompt", PROMPT, "--json", *SHORT, "--param", f"{causal}:max_new_tokens=2")
    rows = json.loads(call(capsys, *argv, *own)[1])
    assert [row["model"] for row in rows] == [MODEL, "tiny-ar-s"] and rows[1]["tokens"] <= 2
    argv = ("compare", "--method", "threshold", "--method", "creditdecoding", "--model", MODEL, "--prompt", PROMPT)
    assert "the rule for the end saves" in call(capsys, *argv)[1]


def test_verify_reports_each_file(capsys, monkeypatch):
    said = "case 2: x is 1, expected 2"
    reports = [engines.FileReport(f"{state}.json", state, 3, 3) for state in ("passed", "not covered")]
    monkeypatch.setattr(engines, "verify", lambda folder, checkers, loading: reports)
    assert call(capsys, "verify", "golden")[0] == 0
    reports.append(engines.FileReport("failed.json", "failed", 3, 3, mismatch=said))
    code, out, _ = call(capsys, "verify", "golden")
    assert code == 1 and said in out and all(r.file in out and r.state in out for r in reports)
    code, out, _ = call(capsys, "verify", "golden", "--json")
    assert code == 1 and [r["state"] for r in json.loads(out)] == [r.state for r in reports]


def test_another_process_says_the_same_and_neither_a_closed_pipe_nor_ascii_is_an_error(capsys, tmp_path, trace_file):
    """In an order of hashes of its own, where the reader goes after a line, and on a terminal without Unicode."""
    file, listing = tmp_path / "all.json", f"{sys.executable} -m explorer.cli methods --json"
    command = f"{listing} > {file}; {listing} | head -n 1 > /dev/null; echo ${{PIPESTATUS[0]}}"
    command += f"; PYTHONIOENCODING=ascii LC_ALL=C {sys.executable} -m explorer.cli replay {trace_file} > /dev/null"
    done = subprocess.run(["/bin/bash", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")
    assert file.read_text() == call(capsys, "methods", "--json")[1]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a system without a device that is always full")
@pytest.mark.parametrize("to", [["--json", "/dev/full"], ["--html", "/dev/full"]])
def test_a_disk_that_is_full_is_named(capsys, trace_file, to):
    command = "fork" if to[0] == "--json" else "export"
    more = ["--step", "2"] if command == "fork" else []
    assert main([command, str(trace_file), *more, *to]) == 2
    assert "/dev/full: No space left on device" in capsys.readouterr().err


def test_fork(capsys, trace_file, tmp_path):
    original = engines.Trace.from_json(trace_file.read_text())
    at, out = len(original.header.prompt_ids), tmp_path / "fork.json"
    fork = ("fork", str(trace_file), "--step", "2", "--stats")
    code, text, errors = call(capsys, *fork, "--force", f"{at + 2}=#40", "--json", str(out))
    made = engines.Trace.from_json(out.read_text())
    assert code == 0 and made.output_ids[2] == 40 and text.strip() == made.text
    assert made.header.origin.trace == engines.digest(original) and f"at {at + 2}" in errors
    code, _, errors = call(capsys, *fork, "--forbid", f"{at}=#41", "--param", "temperature=0.5")
    assert code == 0 and "temperature=0.5" in errors
    other = changed(trace_file, tmp_path / "other.json", another_token)
    code, _, errors = call(capsys, "fork", other, "--step", "3")
    assert code == 1 and "diverged from the recording at step 2" in errors
    for options, sentence in (
        (["--force", "here=x"], "POSITION=TEXT"),
        (["--forbid", "40=a very long text of many tokens"], "one token is forbidden at a time"),
        (["--force", "40=#5", "--remask", "40"], "forced and masked again"),
    ):
        assert sentence in refused(capsys, "fork", str(trace_file), "--step", "1", *options)
