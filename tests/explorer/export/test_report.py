"""The comparison report: what it says, how it is obtained, all conditions, and nothing that runs."""

import html
import re

import msgspec
import pytest

import engines
from engines import UserError
from explorer.cli import main
from explorer.export.html import caption, export_html
from explorer.export.report import report
from explorer.figures.strip import basis_of, parts
from explorer.runs.gallery import Gallery
from explorer.runs.scenarios import scenarios
from tests.explorer.figures.steady import quieten

PROMPT = "sort: Mia, Leo, Ada"
HOSTILE = "<img src=x onerror=window.hit=1></style><script>window.hit=2</script>"


@pytest.fixture(scope="module")
def runs():
    """With the times of a machine on which every call takes 10 ms: a busy one would have no ratio to show."""
    plain = engines.run("llada", "tiny-dlm", PROMPT, params={"max_new_tokens": 32})
    quick = engines.run("threshold", "tiny-dlm", PROMPT, params={"max_new_tokens": 32})
    return [quieten(quick), quieten(plain)]


def said(traces):
    basis = basis_of(traces)
    return [[part.text for part in parts(trace, basis)] for trace in traces]


def test_the_strip_holds_runs_against_the_control(runs):
    quick, plain = runs
    assert basis_of(runs) is plain
    mine, its = said(runs)
    assert next(part.kind for part in parts(quick, plain) if part.text == "right") == "derived", "checked afterwards"
    assert "same text as LLaDA base" in mine and "right" in mine and any("×" in one for one in mine)
    assert not any("LLaDA" in one for one in its) and any("tokens per second" in one for one in its)
    ratio = float(next(one for one in mine if "×" in one).split("×")[0])
    rate = [t.totals.tokens / (t.totals.model_seconds + t.totals.method_seconds) for t in (quick, plain)]
    assert ratio == pytest.approx(rate[0] / rate[1], abs=0.006)
    assert any(str(sum(step.forwards["model"] for step in quick.steps)) in one for one in mine)


def test_times_of_other_places_are_no_ratio_and_other_texts_are_said(runs):
    quick, plain = runs
    moved = msgspec.structs.replace(quick, header=msgspec.structs.replace(quick.header, machine="another one"))
    assert any("clocked elsewhere" in one for one in said([moved, plain])[0])
    wrong = msgspec.structs.replace(quick, end=msgspec.structs.replace(quick.end, output_ids=[5, 5], text="!!"))
    found = said([wrong, plain])[0]
    assert any(one.startswith("parts from LLaDA base at token 1") for one in found)
    assert any(one.startswith("wrong") for one in found)
    other = msgspec.structs.replace(quick, header=msgspec.structs.replace(quick.header, prompt="something else"))
    assert any("another prompt" in one for one in said([plain, other])[1])


def test_the_page_holds_numbers_boards_and_all_conditions(runs):
    page = report(runs, names=["a.json", "b.json"])
    for trace in runs:
        told = [engines.digest(trace), trace.header.machine, trace.header.models[0].sha256, *trace.header.params]
        told += [f"{name} {value}" for name, value in trace.header.versions.items()]
        assert [one for one in told if one not in page] == []
    assert page.count("<svg") == 3 and page.count("<dt>formula</dt>") > 30
    assert "a.json" in page and "engines.run" in page and "no benchmark" in page
    assert "<script" not in page and "http" not in re.sub(r"http://www.w3.org\S+", "", page).replace("http-equiv", "")


def test_what_a_trace_says_is_text(runs):
    header = msgspec.structs.replace(runs[0].header, title=HOSTILE, prompt=HOSTILE, machine=HOSTILE)
    end = msgspec.structs.replace(runs[0].end, text=HOSTILE, message=HOSTILE, reason="failed")
    page = report([msgspec.structs.replace(runs[0], header=header, end=end), runs[1]], title=HOSTILE)
    assert "<img" not in page and "<script" not in page and page.count("</style>") == 1


def test_the_command(runs, tmp_path, capsys):
    files = []
    for number, trace in enumerate(runs):
        files.append(tmp_path / f"{number}.json")
        files[-1].write_text(trace.to_json())
    out = tmp_path / "report.html"
    assert main(["report", *map(str, files), "--html", str(out), "--title", "Ours & theirs"]) == 0
    assert "<h1>Ours &amp; theirs</h1>" in out.read_text()
    assert main(["report", str(files[0]), "--html", "-"]) == 0 and "<!doctype html>" in capsys.readouterr().out
    assert main(["report", *[str(files[0])] * 9, "--html", str(out)]) == 2 and "at most 8" in capsys.readouterr().err
    assert main(["report", str(tmp_path / "none"), "--html", str(out)]) == 2
    with pytest.raises(UserError, match="nothing to report"):
        report([])


def test_runs_of_a_scene_are_told_with_its_sentence():
    gallery = Gallery()
    scene = scenarios({card.id for card in gallery.cards})[0]
    traces = [gallery.get(name) for name in scene.traces]
    told = caption(traces)
    assert told[0] == f"2 runs on this prompt: “{traces[0].header.prompt}”"
    assert told[-1] == f"What to watch: {scene.watch}" and len(told) == 4


def test_another_run_is_told_by_its_method_and_says_where_it_was_cut_and_a_prompt_is_never_markup():
    trace = engines.run("greedy", "tiny-ar-l", PROMPT, params={"max_new_tokens": 3})
    told = caption([trace])
    assert told[0] == f"A run on this prompt: “{PROMPT}”"
    assert told[1].endswith("tiny-ar-l: 3 tokens in 3 model calls, cut at its limit of 3 tokens.")
    assert told[2] == f"What to watch in {trace.header.title}: {engines.get_method('greedy').info.summary}"
    assert all(f"<p>{html.escape(line)}</p>" in export_html(trace) for line in told)
    trace = engines.run("greedy", "tiny-ar-l", "sort: <img src=x onerror=alert(1)> {0}", params={"max_new_tokens": 2})
    assert "<img src=x" not in export_html(trace)
