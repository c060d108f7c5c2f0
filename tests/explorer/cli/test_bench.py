"""The commands that measure: certify says what it found, and bench by class prints and writes one benchmark."""

import io
import json
import re
import signal

import msgspec
import pytest

import engines
from engines.core.method import Method, MethodInfo
from explorer.bench import certified, classes, measure
from explorer.cli import progress
from tests.explorer.commands import call, refused

BY_CLASS = ("bench", "--by-class", "--model", "tiny-ar-s")


def certify(model, *, prompts, tokens):
    """The command line that holds token recycling against greedy."""
    asked = ("certify", "--model", model, "--method", "token-recycling")
    return (*asked, "--prompts", str(prompts), "--max-new-tokens", str(tokens))


def test_certify_writes_what_it_found(capsys, tmp_path):
    file = tmp_path / "c.json"
    code, out, _ = call(capsys, *certify("tiny-ar-s", prompts=2, tokens=8), "--json", str(file))
    found = msgspec.json.decode(file.read_bytes(), type=certified.Certified)
    assert code == 0 and out.count("token-recycling: ") == 2 and out.count("Same ") == 4 and "float32" in out
    (method,), (control,) = found.kept, found.network
    assert (method.method, method.same, method.prompts, method.first) == ("token-recycling", 2, 2, [])
    assert control.method == "greedy" and control.same == 2 and method.tokens > 0
    assert found.command.startswith("decoding-explorer certify --model tiny-ar-s") and found.machine and found.date
    assert out.count("greedy against the network without a cache") == 2
    code, out, _ = call(capsys, *certify("tiny-ar-s", prompts=1, tokens=4), "--json")
    assert code == 0 and json.loads(out)["kept"][0]["same"] == 1, "standard output has the record alone"


def test_certify_holds_the_control_itself_against_the_network_without_a_cache(capsys, monkeypatch):
    """A cache that says something else: method and control agree on a text that is not the model's."""
    adapter = type(engines.load_model("tiny-ar-s"))
    real = adapter.unembed
    monkeypatch.setattr(adapter, "unembed", lambda self, h, *more, **named: -real(self, h, *more, **named))
    code, out, _ = call(capsys, *certify("tiny-ar-s", prompts=2, tokens=8))
    assert code == 1 and out.count("Same ") == 2 and out.count("Parts at token 1") == 2


def test_certify_fails_for_a_method_that_only_claims_it(capsys, monkeypatch):
    """A liar: a sampling run under the name of a lossless method."""
    honest = engines.get_method("token-recycling")
    info = msgspec.structs.replace(honest.info)
    assert isinstance(info, MethodInfo)

    def decode(model, prompt, p, run):
        p.temperature = 1.5
        yield from honest.decode(model, prompt, p, run)

    real = engines.driver.run.get_method
    liar = Method(info, decode, honest.check)
    monkeypatch.setattr(engines.driver.run, "get_method", lambda slug: liar if slug == info.slug else real(slug))
    code, out, _ = call(capsys, *certify("tiny-ar-s", prompts=4, tokens=24))
    assert code == 1 and "Parts at token" in out and "gap" in out


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("certify", "--model", "tiny-ar-l", "--method", "ead"), "does not claim its control's text"),
        (("certify", "--model", "tiny-ar-l", "--method", "rapid"), "give it eta=0.0 by --param"),
        ((*BY_CLASS, "--method", "token-recycling", "--param", "dance=3"), "has the parameter 'dance'; they have "),
    ],
)
def test_bad_input_costs_one_line(capsys, argv, says):
    assert says in refused(capsys, *argv)


@pytest.fixture
def two_classes(monkeypatch):
    monkeypatch.setattr(classes, "class_prompts", lambda: {"sums": ["add: 45 + 86"], "lists": ["copy: Mia, Leo"]})


@pytest.mark.usefixtures("two_classes")
def test_bench_by_class_prints_and_writes(capsys, tmp_path):
    file = tmp_path / "b.json"
    argv = (*BY_CLASS, "--method", "token-recycling", "--param", "token-recycling:template=7", "--repeats", "1")
    code, out, _ = call(capsys, *argv, "--max-new-tokens", "12", "--json", str(file))
    assert code == 0 and "sums" in out and "lists" in out and "milliseconds of a forward by rows" in out
    assert " 1 threads" not in out
    found = msgspec.json.decode(file.read_bytes(), type=classes.Bench)
    assert found.scores[0].params == {"template": "7"} and found.classes() == ["sums", "lists"]
    assert found.command.startswith("decoding-explorer bench --by-class --model tiny-ar-s ") and found.machine
    assert found.control == "greedy" and re.fullmatch(r"\d{4}-\d\d-\d\d", found.date)


BENCH = ("bench", "--model", "tiny-ar-s", "--repeats", "1", "--max-new-tokens", "4")
PARTIAL = "partial: 1 of 2 methods"
TWO = (*BENCH, "--prompts", "1", "--method", "greedy", "--method", "token-recycling")


@pytest.fixture
def cut(monkeypatch):
    """Ctrl-C, or another signal, at the nth run of the engine from now on."""
    real = engines.run

    def after(n, number=signal.SIGINT):
        made = []

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


def test_a_line_a_part_says_what_is_left_a_long_one_is_not_silent_and_a_terminal_has_a_bar(capsys, monkeypatch):
    clock = [0.0]
    lines = progress.Lines([("code", 2), ("sums", 4)], "classes", clock=lambda: clock[0])
    for done, clock[0] in ((0, 0.0), (1, 100.0), (2, 110.0), (3, 139.0), (4, 150.0), (5, 160.0)):
        lines(done, 6)
    assert capsys.readouterr().err.splitlines() == [
        "starting: 0 of 2 classes, 0 of 6 prompts",
        "code: 1 of 2 prompts, 0 of 2 classes, about 8 min left",
        "code: 1 of 2 classes, about 4 min left",
        "sums: 2 of 4 prompts, 1 of 2 classes, about 75 s left",
    ]
    clock[0] = 0.0
    pace = progress.Pace("runs", clock=lambda: clock[0])
    for done, clock[0] in ((0, 0.0), (1, 10.0), (2, 31.0), (3, 60.0), (4, 61.0)):
        pace("Greedy", done, 8)
    left = ["0 of 8 runs", "2 of 8 runs, about 2 min left", "4 of 8 runs, about 61 s left"]
    assert capsys.readouterr().err.splitlines() == [f"Greedy: {one}" for one in left]
    screen = io.StringIO()
    screen.isatty = lambda: True
    monkeypatch.setattr("sys.stderr", screen)
    with progress.progress_of([("code", 1), ("sums", 1)], "classes", bar=True) as bar:
        bar(1, 2)
        bar(2, 2)
    assert "2 of 2 classes: 100%" in screen.getvalue()


def test_bench_tells_each_method_and_one_that_cannot_run_costs_nothing_that_was_measured(capsys, cut):
    code, out, err = call(capsys, *TWO)
    lines = err.splitlines()
    assert code == 0 and lines[0] == "starting: 0 of 2 methods, 0 of 2 prompts" and "partial" not in out
    assert lines[1].startswith("greedy: 1 of 2 methods, about ") and lines[2] == "token-recycling: 2 of 2 methods"
    made = cut(99)
    assert call(capsys, *TWO[:-1], "threshold")[0] == 2 and not made


def test_bench_measures_with_the_parameters_that_are_given(capsys, monkeypatch):
    real, made = engines.run, []

    def run(slug, model, prompt, *, params, **named):
        made.append((slug, params.get("template")))
        return real(slug, model, prompt, params=params, **named)

    monkeypatch.setattr(engines, "run", run)
    for given in ("template=7", "token-recycling:template=7"):
        found = json.loads(call(capsys, *TWO, "--param", given, "--json")[1])
        assert [one["params"] for one in found["figures"]] == [{}, {"template": "7"}]
    assert {*made} == {("greedy", None), ("token-recycling", "7")}
    assert "\ntoken-recycling template=7 " in call(capsys, *TWO, "--param", "template=7")[1]
    for mode, says in ((("--names",), "has the parameter 'dance'"), (("--length",), "leave --param out")):
        assert says in refused(capsys, *BENCH[:-2], *mode, "--method", "greedy", "--param", "dance=1")


def test_a_point_of_the_curve_is_not_that_of_a_method_with_parameters():
    info = engines.get_method("threshold").info
    default = next(p.default for p in info.params if p.name == "threshold")
    figures = [
        measure.Figure("threshold", "llada", 1, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, own) for own in ({"k": 1}, {})
    ]
    assert measure._asked(info, {"threshold": default}, figures) is figures[1]


@pytest.mark.parametrize(
    ("number", "ignored"), [(signal.SIGINT, False), (signal.SIGTERM, False), (signal.SIGTERM, True)]
)
def test_bench_prints_and_writes_the_methods_that_were_finished(capsys, cut, tmp_path, number, ignored):
    """At Ctrl-C and told to end, also where a script that started it in the background made it deaf to SIGINT."""
    file = tmp_path / "b.json"
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if ignored else signal.getsignal(signal.SIGINT)
    try:
        for at, wish, kept in ((1, [file], "nothing is kept"), (5, [file], PARTIAL), (5, [], PARTIAL)):
            cut(at, number)
            code, out, err = call(capsys, *TWO, *(word for name in wish for word in ("--json", str(name))))
            assert code == 130 and err.endswith(f"{kept}.\n") and file.exists() == (at > 1)
    finally:
        signal.signal(signal.SIGINT, before)
    assert PARTIAL in out and "\ngreedy " in out and "\ntoken-recycling " not in out
    found = json.loads(file.read_text())
    assert found["partial"] is True and [one["method"] for one in found["figures"]] == ["greedy"]
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


@pytest.mark.usefixtures("two_classes")
def test_bench_by_class_keeps_the_prompts_that_were_finished(capsys, cut, tmp_path):
    file = tmp_path / "b.json"
    cut(7)  # a prompt is four runs: two methods, recorded and timed
    code, out, err = call(capsys, *BENCH, "--by-class", "--method", "token-recycling", "--json", str(file))
    found = msgspec.json.decode(file.read_bytes(), type=classes.Bench)
    assert code == 130 and found.partial and found.classes() == ["sums"] and found.row_seconds
    assert "partial: 1 of 2 prompts" in out and "sums: 1 of 2 classes" in err


def test_certify_keeps_the_methods_that_were_finished(capsys, cut, tmp_path):
    asked = ("certify", "--model", "tiny-ar-s", "--method", "token-recycling", "--method", "prompt-lookup")
    file = tmp_path / "c.json"
    cut(7)  # a method is four runs: two prompts, with their controls
    code, out, err = call(capsys, *asked, "--prompts", "2", "--max-new-tokens", "4", "--json", str(file))
    found = msgspec.json.decode(file.read_bytes(), type=certified.Certified)
    assert code == 130 and found.partial and [one.method for one in found.kept] == ["token-recycling"]
    assert not found.network and out.count("prompt-lookup: ") == 1, "what was printed stays, and is not in the record"
    assert "token-recycling: 1 of 2 methods" in err and PARTIAL in err
