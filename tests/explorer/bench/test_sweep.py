"""A sweep under way: what is reused and why, budgets, workers, refusals, and the command that does it."""

import json
import multiprocessing
import os
from functools import partial

import msgspec
import pytest

import engines
from engines.core.registry import registry
from explorer import cli
from explorer.bench import cells, workers
from explorer.bench.cells import Cell, Files, Memory, Outcome, Pace
from explorer.bench.quality import Setting
from explorer.bench.sweep import Sweep, check_tasks, parameter, values_of
from explorer.figures.verdict import judge
from tests.explorer.commands import refused

MODEL = "tiny-dlm"
ASKED = ("sweep", "--model", MODEL, "--method", "threshold", "--task", "copy", "--prompts", "1")
SETTINGS = [
    Setting("llada", {"steps": 4}, False, True),
    Setting("threshold", {"threshold": 0.9}),
    Setting("threshold", {"threshold": 0.1}),
]


@pytest.fixture(autouse=True)
def apart(tmp_path, monkeypatch):
    """Finished runs of a test are its own."""
    monkeypatch.setenv("EXPLORER_SWEEPS", str(tmp_path / "finished"))


@pytest.fixture
def model():
    return engines.load_model(MODEL)


def here(model, stopped=lambda: False):
    return partial(workers.in_turn, model, stopped=stopped)


def own_method(folder):
    """The printed template, loaded from a file."""
    path = folder / "my.py"
    path.write_text((cli.TEMPLATES / "masked.py").read_text())
    engines.load_method_file(path)
    return path


def results(sweep):
    """Outcomes without their times, in the order of the cells."""
    return [(o.right, o.forwards, o.fed, o.tokens, o.text, o.wrong) for _, o in sorted(sweep.outcomes.items())]


def test_all_settings_run_on_the_same_prompts_at_every_moment(model):
    sweep = Sweep(model, SETTINGS, ["sort", "insert any"], 2, seed=5)
    wanted = [*((i, task, 0) for task in ("sort", "insert any") for i in range(3)), (0, "sort", 1)]
    assert [(c.setting, c.task, c.number) for c in sweep.cells[:7]] == wanted
    assert {c.seed for c in sweep.cells} == {5} and len({c.prompt for c in sweep.cells}) == 4
    run = sweep.run(here(model), None)
    for _ in range(4):
        next(run)
    run.close()
    assert sweep.left == 8
    assert {p.tried for p in sweep.points().values()} == {1}, "the second prompt has run on one setting only"


def test_a_stopped_sweep_goes_on_and_a_changed_grid_reuses(model, tmp_path):
    kept = Files(Outcome, tmp_path)
    first = Sweep(model, SETTINGS, ["sort"], 2)
    left = iter([False] * 20)
    list(first.run(here(model, lambda: next(left, True)), kept))
    assert 0 < first.fresh < 6 and first.left == 6 - first.fresh
    second = Sweep(model, SETTINGS, ["sort"], 2)
    list(second.run(here(model), Files(Outcome, tmp_path)))
    assert (second.reused, second.fresh, second.left) == (first.fresh, 6 - first.fresh, 0)
    whole = Sweep(model, SETTINGS, ["sort"], 2)
    list(whole.run(here(model), None))
    assert results(second) == results(whole) and second.points() == whole.points()
    other = Sweep(model, [*SETTINGS[1:], Setting("threshold", {"threshold": 0.5})], ["sort"], 3)
    list(other.run(here(model), kept))
    assert (other.reused, other.fresh) == (4, 5)
    again = Sweep(model, SETTINGS, ["sort"], 2)
    list(again.run(here(model), kept, resume=False, max_runs=2))
    assert (again.reused, again.fresh, again.left) == (0, 2, 4)


@pytest.mark.usefixtures("registry_unchanged")
def test_the_key_is_of_all_that_decides(model, monkeypatch, tmp_path):
    cell = Cell(0, "threshold", {"max_new_tokens": 16, "threshold": 0.9}, "sort", 0, "sort: Mia, Leo", "Leo Mia", 0)
    (key,) = cells.keys([cell], model)
    changes = (
        {"method": "factor"},
        {"params": {**cell.params, "threshold": 0.8}},
        {"prompt": "sort: Mia, Ada", "answer": "Ada Mia"},
        {"seed": 1},
    )
    made = cells.keys([msgspec.structs.replace(cell, **change) for change in changes], model)
    made += cells.keys([cell], engines.load_model("oracle"))
    made += cells.keys([cell], engines.load_model(MODEL, dtype="bfloat16"))
    assert len({key, *made}) == 7 and None not in made
    moved = msgspec.structs.replace(cell, setting=9, number=4)
    assert cells.keys([moved], model) == [key], "where it stands in a plan does not matter"
    path, own = own_method(tmp_path), msgspec.structs.replace(cell, method="my-masked", params={})
    first = cells.keys([own], model)
    path.write_text(path.read_text() + "# changed\n")
    engines.load_method_file(path)
    assert cells.keys([own], model) != first, "a method of one's own is known by its text"
    monkeypatch.setattr(engines, "code_version", lambda: "other code")
    assert cells.keys([cell], model) != [key]
    monkeypatch.setattr(model, "record", msgspec.structs.replace(model.record, sha256="", revision=""))
    assert cells.keys([cell], model) == [None], "weights that cannot be told apart are never reused"


def test_places_for_cells_forget_the_oldest_and_survive_damage(tmp_path):
    outcome = Outcome(True, 2, 30, 4, 0.1, "Ada", None)
    memory = Memory(2)
    for name in "abc":
        memory.put(name, outcome)
    assert memory.get("a") is None and memory.get("c") == outcome
    folder = Files(Outcome, tmp_path)
    for i in range(10):
        folder.put(f"{i:02d}", outcome)
        os.utime(tmp_path / f"{i:02d}" / f"{i:02d}.json", (i, i))
    assert folder.get("03") == outcome and not list(tmp_path.glob("*/*.part"))
    (tmp_path / "03" / "03.json").write_text('{"right": tr')
    assert folder.get("03") is None and folder.get("99") is None
    fewer = Files(Outcome, tmp_path, most=5)
    there = [fewer.get(f"{i:02d}") is not None for i in range(10)]
    assert there == [False] * 7 + [True] * 3, "the damaged one is the youngest"


def test_prompts_of_a_point_have_the_wrong_ones_first_and_a_refused_setting_is_left_out(model):
    bad = Setting("llada", {"max_new_tokens": 16, "block_length": 7})
    sweep = Sweep(model, [*SETTINGS, bad], ["insert any"], 4)
    list(sweep.run(here(model), None))
    assert "block_length=7 must divide" in sweep.refused[bad.label] and list(sweep.points()) == [0, 1, 2]
    found = sweep.prompts_of(2)
    marks = [sweep.outcomes[i].right for i in found]
    assert len(found) == 4 and marks == sorted(marks) and False in marks
    first = sweep.cells[found[0]]
    mark = judge(first.again(model))
    assert not mark.right and mark.word == sweep.outcomes[found[0]].wrong and mark.step is not None


def test_an_estimate_stands_on_what_was_timed(tmp_path):
    pace = Pace(tmp_path / "pace.json")
    assert pace.expect("m", ["a", "b"]) is None
    for method, seconds in (("a", 1.0), ("a", 3.0), ("b", 5.0)):
        pace.note("m", method, Outcome(True, 1, 1, 1, seconds))
    pace.note("m", "a", Outcome(False, 0, 0, 0, 100.0, refused="no"))
    pace.save()
    assert Pace(tmp_path / "pace.json").expect("m", ["a", "b", "c"]) == (2 + 5 + 3, 3)
    assert pace.expect("other", ["a"]) is None


def test_values_are_a_list_or_a_range():
    threshold, steps, remasking = (parameter(["threshold", "llada"], name) for name in NAMES)
    assert values_of(threshold, "0.5:1:6") == [0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    assert values_of(threshold, "0.9, 0.5,0.9") == [0.9, 0.5] and values_of(steps, "4:16:3") == [4, 10, 16]
    assert values_of(remasking, "random,low_confidence") == ["random", "low_confidence"]
    many = ",".join(f"0.{i}" for i in range(10, 40))
    for text, sentence in (("0.5:2:3", "threshold=2.0 is out of range"), ("0:1:25", "1 to 24"), (many, "30 values")):
        with pytest.raises(engines.UserError, match=sentence):
            values_of(threshold, text)
    with pytest.raises(engines.UserError, match="none of these methods has the parameter 'wings'"):
        parameter(["llada"], "wings")
    with pytest.raises(engines.UserError, match="there is no task 'fly'"):
        check_tasks(["fly"])


NAMES = ("threshold", "steps", "remasking")


class Stub:
    """A worker that decodes nothing. The cell numbered `late` ends after the cell numbered `early`; one whose method is
    `ends` takes its process with it."""

    late, early = 0, 3

    def __init__(self, about):
        self.about, self.over = about, Stub.over

    def run(self, cell):
        if cell.method == "ends":
            os._exit(7)
        if cell.number == self.late:
            assert self.over.wait(60)
        if cell.number == self.early:
            self.over.set()
        return Outcome(cell.prompt == "", cell.number, os.getpid(), self.about.threads, 0.0, cell.prompt)


@pytest.fixture
def crew(monkeypatch):
    """Workers that need neither a model nor, as they are forked, a new interpreter."""
    fork = multiprocessing.get_context("fork")
    monkeypatch.setattr(multiprocessing, "get_context", lambda method: fork)
    monkeypatch.setattr(Stub, "over", fork.Event(), raising=False)
    monkeypatch.setattr(workers, "Worker", Stub)
    return partial(workers.in_processes, workers.Task(MODEL, {}, [], 5), 2)


def numbered(n, method="threshold"):
    return Cell(0, method, {}, "sort", n, f"prompt {n}", "", 0)


def test_outcomes_of_workers_come_in_the_order_of_the_cells_and_they_stop_at_once(crew):
    found = list(crew([numbered(n) for n in range(6)], lambda: False))
    assert [(one.forwards, one.text, one.tokens) for one in found] == [(n, f"prompt {n}", 5) for n in range(6)]
    ids = [one.fed for one in found]
    assert len(set(ids)) == 2 and os.getpid() not in ids
    assert len(set(ids[1:4])) == 1 and ids[0] not in ids[1:4], "while one is busy the other takes what is next"
    assert not multiprocessing.active_children()
    assert list(crew([], lambda: False)) == []
    assert list(crew([numbered(n) for n in range(6)], lambda: True)) == []
    assert not multiprocessing.active_children()
    running = crew([numbered(n) for n in (1, 2, 4, 5)], lambda: False)
    assert next(running).forwards == 1
    running.close()
    assert not multiprocessing.active_children()


def test_a_worker_that_ends_is_a_sentence_behind_what_it_did_before(crew):
    cells = [numbered(1), numbered(4), numbered(2, "ends")]
    run = workers.in_processes(*crew.args[:1], 1, cells, lambda: False)  # one alone: what comes first is settled
    assert [next(run).forwards, next(run).forwards] == [1, 4]
    with pytest.raises(engines.UserError, match="a worker ended with exit status 7; perhaps memory was short"):
        next(run)
    assert not multiprocessing.active_children()


def test_a_worker_has_the_model_its_options_and_the_method_files(registry_unchanged, tmp_path):
    path = own_method(tmp_path)
    about = workers.task(MODEL, {"dtype": "bfloat16"}, 1)
    assert (about.model, about.options, about.threads) == (MODEL, {"dtype": "bfloat16"}, 1)
    assert about.own[-1] == {"my.py": path.read_text()}
    registry().methods.pop("my-masked")
    path.unlink()
    worker = workers.Worker(about)
    assert (worker.model.record.name, worker.model.record.dtype) == (MODEL, "bfloat16")
    cell = Cell(0, "my-masked", {"max_new_tokens": 16}, "sort", 0, "sort: Mia, Leo", "Leo Mia", 0)
    assert worker.run(cell).tokens > 0
    assert "unknown method" in worker.run(msgspec.structs.replace(cell, method="no-such-method")).refused


@pytest.mark.slow
def test_the_number_of_workers_changes_nothing(model, registry_unchanged, tmp_path):
    """Interpreters of their own, a method file, a setting that is refused, and a failure behind the last cell."""
    own_method(tmp_path)
    settings = [*SETTINGS, Setting("my-masked", {"threshold": 0.9})]
    several, alone = (Sweep(model, settings, ["sort", "insert any"], 2) for _ in range(2))
    both = partial(workers.in_processes, workers.task(MODEL, {}, 1), 2, stopped=lambda: False)
    order = [i for i, _ in several.run(both, None)]
    list(alone.run(here(model), None))
    assert order == list(range(16)) and results(several) == results(alone) and several.points() == alone.points()
    refused = msgspec.structs.replace(several.cells[0], method="no-such-method")
    run = workers.in_processes(workers.task(MODEL, {}, 1), 1, [refused, None], lambda: False)
    assert "unknown method" in next(run).refused  # a refusal is an outcome ...
    with pytest.raises(engines.UserError, match="a worker failed: AttributeError"):  # ... and a failure is not
        next(run)
    assert not multiprocessing.active_children()


def test_the_command_sweeps_resumes_and_keeps_to_its_budget(tmp_path, capsys):
    out = tmp_path / "o.json"
    ask = ["sweep", "--model", MODEL, "--method", "creditdecoding", "--param", "threshold=0.5:0.9:2"]
    ask += ["--task", "sort", "--prompts", "2", "--json", str(out)]
    assert cli.main([*ask, "--runs", "10"]) == 0
    said = capsys.readouterr()
    assert "9 settings on 2 prompts of 1 tasks: 18 runs" in said.err
    assert "10 runs made, 0 taken from before, 8 left" in said.err
    assert "--resume goes on from here" in said.err and "1 held-out prompts" in said.out
    assert json.loads(out.read_text())["left"] == 8
    assert cli.main([*ask, "--resume"]) == 0
    said = capsys.readouterr()
    assert "8 runs made, 10 taken from before, 0 left" in said.err
    written = json.loads(out.read_text())
    assert [p["params"] for p in written["points"][-2:]] == [{"threshold": 0.5}, {"threshold": 0.9}]
    assert written["left"] == 0
    assert all(p["exact"]["sort"][1] == 2 for p in written["points"])
    assert cli.main([*ask, "--seconds", "0.000001"]) == 0
    assert "0 runs made, 0 taken from before, 18 left" in capsys.readouterr().err


SEVERAL = [f"--param={one}" for one in ("threshold=0.5,0.6", "block_length=8,16", "max_new_tokens=16,32")]


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (SEVERAL, "threshold, block_length and max_new_tokens have several values each; at most two parameters"),
        (["--param", "threshold=0.1:1:10", "--param", "block_length=1:64:10"], "10 × 10 = 100 pairs of values"),
        (["--method", "greedy"], "greedy cannot be swept on this model, which is masked"),
    ],
)
def test_a_command_that_cannot_be_done_says_why(more, sentence, capsys):
    assert sentence in refused(capsys, *ASKED, *more)


@pytest.mark.usefixtures("registry_unchanged")
def test_an_interrupt_keeps_what_is_finished_of_an_own_method_too(monkeypatch, tmp_path, capsys):
    real, asked = workers.in_turn, []

    def interrupted(about, number, found, stopped):
        asked.append((next(iter(about.own[-1])), number))
        yield from list(real(engines.load_model(about.model), found[:8], stopped))
        raise KeyboardInterrupt

    monkeypatch.setattr(workers, "in_processes", interrupted)
    path = own_method(tmp_path)
    ask = ["sweep", "--model", MODEL, "--method-file", str(path), "--method", "my-masked", "--workers", "2"]
    assert cli.main([*ask, "--task", "copy", "--prompts", "2"]) == 130 and asked == [("my.py", 2)]
    said = capsys.readouterr()
    assert "my-masked" in said.out and "8 runs made, 0 taken from before, 8 left" in said.err
