"""How far a measurement is, where standard error is no terminal: a line a part, and what Ctrl-C leaves."""

from __future__ import annotations

import io
import json
import signal

import msgspec
import pytest

import engines
from engines.tasks import Dereference, Dereferences
from explorer.bench import certified, classes, names
from explorer.cli import told
from tests.explorer.commands import call

BENCH = ("bench", "--model", "tiny-ar-s", "--repeats", "1", "--max-new-tokens", "4")
TWO = (*BENCH, "--prompts", "1", "--method", "greedy", "--method", "token-recycling")


@pytest.fixture
def clock():
    """A clock that a test sets: `clock[0]` seconds."""
    return [0.0]


@pytest.fixture
def cut(monkeypatch):
    """Ctrl-C, or another signal, at the nth run of the engine."""

    def after(n, number=signal.SIGINT):
        real, made = engines.run, []

        def run(slug, *given, **named):
            made.append(slug)
            if len(made) == n:
                signal.raise_signal(number)
            return real(slug, *given, **named)

        monkeypatch.setattr(engines, "run", run)
        return made

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background of a shell
    yield after
    signal.signal(signal.SIGINT, before)


def test_a_line_a_part_says_what_is_left(capsys, clock):
    lines = told.Lines([("code", 2), ("sums", 1), ("lists", 3)], "classes", clock=lambda: clock[0])
    for done in range(7):
        lines(done, 6)
        clock[0] += 10.0
    assert capsys.readouterr().err.splitlines() == [
        "starting: 0 of 3 classes, 0 of 6 prompts",
        "code: 1 of 3 classes, about 40 s left",
        "sums: 2 of 3 classes, about 30 s left",
        "lists: 3 of 3 classes",
    ]


def test_a_long_part_is_not_silent(capsys, clock):
    lines = told.Lines([("code", 2), ("sums", 4)], "classes", clock=lambda: clock[0])
    for done, now in ((1, 100.0), (2, 110.0), (3, 139.0), (4, 150.0), (5, 160.0)):
        clock[0] = now
        lines(done, 6)
    assert capsys.readouterr().err.splitlines() == [
        "code: 1 of 2 prompts, 0 of 2 classes, about 8 min left",
        "code: 1 of 2 classes, about 4 min left",
        "sums: 2 of 4 prompts, 1 of 2 classes, about 75 s left",
    ]


def test_runs_whose_number_grows_are_told_at_a_pace(capsys, clock):
    pace = told.Pace("runs", clock=lambda: clock[0])
    for done, now in ((0, 0.0), (1, 10.0), (2, 31.0), (3, 60.0), (4, 61.0)):
        clock[0] = now
        pace("Greedy", done, 8)
    assert capsys.readouterr().err.splitlines() == [
        "Greedy: 0 of 8 runs",
        "Greedy: 2 of 8 runs, about 2 min left",
        "Greedy: 4 of 8 runs, about 61 s left",
    ]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_has_a_bar_and_beside_printed_lines_has_lines(monkeypatch):
    for bar in (True, False):
        monkeypatch.setattr("sys.stderr", screen := Terminal())
        with told.told([("code", 1), ("sums", 1)], "classes", bar=bar) as progress:
            progress(1, 2)
            progress(2, 2)
        assert ("2 of 2 classes: 100%" in screen.getvalue()) is bar
        assert ("sums: 2 of 2 classes\n" in screen.getvalue()) is not bar


def test_bench_tells_each_method(capsys):
    code, out, err = call(capsys, *TWO)
    lines = err.splitlines()
    assert code == 0 and lines[0] == "starting: 0 of 2 methods, 0 of 2 prompts" and "partial" not in out
    assert lines[1].startswith("greedy: 1 of 2 methods, about ") and lines[2] == "token-recycling: 2 of 2 methods"


def test_a_method_that_cannot_run_costs_nothing_that_was_measured(capsys, cut):
    made = cut(99)
    code, out, err = call(capsys, *BENCH, "--prompts", "1", "--method", "greedy", "--method", "threshold")
    assert code == 2 and not made and not out and err.count("\n") == 1


def test_bench_prints_the_methods_that_were_finished(capsys, cut):
    cut(5)
    code, out, err = call(capsys, *TWO)
    assert code == 130 and "partial: 1 of 2 methods" in out and "\ngreedy " in out and "\ntoken-recycling " not in out
    assert err.endswith("decoding-explorer: stopped; what was finished is kept, partial: 1 of 2 methods.\n")


@pytest.mark.parametrize(
    ("number", "ignored"), [(signal.SIGINT, False), (signal.SIGTERM, False), (signal.SIGTERM, True)]
)
def test_bench_writes_the_methods_that_were_finished(capsys, cut, tmp_path, number, ignored):
    """At Ctrl-C and told to end, also where a script that started it in the background made it deaf to SIGINT."""
    cut(5, number)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if ignored else signal.getsignal(signal.SIGINT)
    try:
        assert call(capsys, *TWO, "--json", str(tmp_path / "b.json"))[0] == 130
    finally:
        signal.signal(signal.SIGINT, before)
    found = json.loads((tmp_path / "b.json").read_text())
    assert found["partial"] is True and [one["method"] for one in found["figures"]] == ["greedy"]
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_nothing_is_written_where_nothing_was_finished(capsys, cut, tmp_path):
    file = tmp_path / "b.json"
    cut(1)
    code, out, err = call(capsys, *BENCH, "--prompts", "1", "--method", "greedy", "--json", str(file))
    assert code == 130 and not out and not file.exists() and err.endswith("finished; nothing is kept.\n")


def test_bench_by_class_keeps_the_prompts_that_were_finished(capsys, cut, monkeypatch, tmp_path):
    monkeypatch.setattr(classes, "class_prompts", lambda: {"sums": ["add: 45 + 86"], "lists": ["copy: Mia, Leo"]})
    file = tmp_path / "b.json"
    cut(7)  # a prompt is four runs: two methods, recorded and timed
    code, out, err = call(capsys, *BENCH, "--by-class", "--method", "token-recycling", "--json", str(file))
    found = msgspec.json.decode(file.read_bytes(), type=classes.Bench)
    assert code == 130 and found.partial and found.classes() == ["sums"] and found.row_seconds
    assert "partial: 1 of 2 prompts" in out and "sums: 1 of 2 classes" in err


def test_whoever_calls_the_benchmark_gets_the_interrupt(cut):
    model = engines.load_model("tiny-ar-s")
    cut(7)
    with pytest.raises(KeyboardInterrupt):
        classes.bench_classes(
            [("token-recycling", {})], model, {"sums": ["add: 4 + 5", "add: 4 + 6"]}, repeats=1, max_new_tokens=4
        )


def test_bench_names_keeps_the_methods_that_were_finished(cut):
    found = Dereferences([Dereference("a.py", 1, "sort: Mia", "Leo", ("Leo",))], 1, 0)
    model = engines.load_model("tiny-ar-s")
    cut(2)
    kept = names.bench_names([("greedy", {}), ("token-recycling", {})], model, found, keep=True)
    assert kept.partial and [lane.method for lane in kept.lanes] == ["greedy"]
    cut(2)
    with pytest.raises(KeyboardInterrupt):
        names.bench_names([("greedy", {}), ("token-recycling", {})], model, found)


def test_certify_keeps_the_methods_that_were_finished(capsys, cut, tmp_path):
    asked = ("certify", "--model", "tiny-ar-s", "--method", "token-recycling", "--method", "prompt-lookup")
    file = tmp_path / "c.json"
    cut(7)  # a method is four runs: two prompts, with their controls
    code, out, err = call(capsys, *asked, "--prompts", "2", "--max-new-tokens", "4", "--json", str(file))
    found = msgspec.json.decode(file.read_bytes(), type=certified.Certified)
    assert code == 130 and found.partial and [one.method for one in found.kept] == ["token-recycling"]
    assert not found.network and out.count("prompt-lookup: ") == 1, "what was printed stays, and is not in the record"
    assert "token-recycling: 1 of 2 methods" in err and "partial: 1 of 2 methods" in err
