"""The benchmark behind `decoding-explorer bench`."""

import sys
import sysconfig
from pathlib import Path

import pytest

import engines
from engines.tasks.dereferences import LONGEST, SHORTEST, Dereference, dereferences, library
from engines.tools.completion import Analyser
from engines.tools.projects import files_of
from explorer import cli
from explorer.bench import measure, names
from explorer.bench.measure import Figure
from explorer.cli import main
from tests.engines.fakes import TableCausal, TableMasked
from tests.engines.methods.sampling.test_mgd import PROMPT, Letters, decode

CURVE = engines.get_method("threshold").info.curve


@pytest.fixture
def prompts(monkeypatch):
    """Ids instead of bundled texts, for models that are tables."""
    monkeypatch.setattr(measure, "prompts_for", lambda model, n: ["1 2", "3 4"][:n])


def bench(slugs, model, *, prompts, repeats, max_new_tokens):
    texts = measure.prompts_for(model.record.name, prompts)
    plans = measure.plan(slugs, model)
    return list(measure.measured(plans, model, texts, repeats=repeats, max_new_tokens=max_new_tokens))


def test_a_masked_model_has_its_own_sweep_behind_the_methods_and_the_table_marks_it(prompts, capsys):
    model = TableMasked()
    found = bench(["llada", "threshold", "creditdecoding"], model, prompts=2, repeats=1, max_new_tokens=16)
    assert [(f.method, f.params, f.on_curve) for f in found] == [
        *((slug, {}, False) for slug in ("llada", "threshold", "creditdecoding")),
        *(("threshold", {CURVE[0]: value}, True) for value in CURVE[1]),
    ]
    for f in found[3:]:
        params = {"max_new_tokens": 16, **f.params}
        runs = [engines.run("threshold", model, ids, params=params).totals for ids in ([1, 2], [3, 4])]
        assert f.tokens_per_forward == pytest.approx(sum(t.tokens / t.forwards for t in runs) / 2)
        assert f.forwards_ratio == pytest.approx(sum(t.forwards / 16 for t in runs) / 2) and f.baseline == "llada"
    asked = found[3 + CURVE[1].index(0.9)]
    assert asked.wall_ratio == found[1].wall_ratio, "the default was asked for and is not run twice"
    assert [f.tokens_per_forward for f in found[3:]] == sorted(f.tokens_per_forward for f in found[3:])  # safest first
    ask = ["bench", "--model", "tiny-dlm", "--method", "factor", "--prompts", "1", "--repeats", "1"]
    assert cli.main([*ask, "--max-new-tokens", "16"]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("the model's own sweep of threshold:")
    assert lines[at - 1].startswith("factor ")
    assert sum(row.endswith(" sweep") for row in lines[at:]) == len(CURVE[1])


def test_medians_stand_with_their_intervals(monkeypatch):
    """Six prompts of other lengths: from the least to the most. Five have none, and a share has Wilson's."""
    model = TableCausal()
    for n in (6, 5):
        monkeypatch.setattr(measure, "prompts_for", lambda model, n: [" ".join("1" * k) for k in range(1, n + 1)])
        (found,) = bench(["token-recycling"], model, prompts=n, repeats=1, max_new_tokens=8)
        said = measure.table([found])
        assert ("wall_ratio" in found.intervals) == ("forwards_ratio" in found.intervals) == (n == 6)
        assert found.intervals["same_text"] == engines.wilson(n, n) and "exact" not in found.intervals
        assert ("tokens_per_forward" in found.intervals) == (n == 6) and "not told apart" in said
    known = {"tokens_per_forward": (1.25, 2.0)}
    one = Figure("m", None, 6, 1.5, None, None, 1.0, 1.0, None, None, {}, intervals=known)
    assert "1.50 (1.25-2.00)" in measure.table([one])


def test_names_are_counted_from_what_was_written():
    with Analyser(files_of("ledger")) as analyser:
        place = Dereference("a.py", 3, PROMPT, "tally_cents", analyser.members(PROMPT, 60, dunder=True).names)
    guided, plain = ([decode(seed, monitor=how) for seed in range(4)] for how in ("guide", "watch"))
    held = names.outcome_of("x", {}, guided, [place] * 4)
    free = names.outcome_of("x", {}, plain, [place] * 4)
    texts = [Letters().decode(run.output_ids) for run in guided]
    assert held.exist == 4, [run.steps[0].note for run in guided]
    assert held.same == sum(text.startswith("tally_cents") for text in texts) and held.cut == 0
    assert free.exist < 4 and len(held.seconds) >= 4 and 0 < held.mass < 1
    low, high = held.interval
    assert 0.5 < low < 1 == pytest.approx(high)


@pytest.mark.parametrize("n", [1, pytest.param(4, marks=pytest.mark.slow)], ids=["a small library", "all of it"])
def test_prompts_are_real_dots_that_the_analyser_knows(n, monkeypatch):
    if n == 1:
        few = [path for path in library() if path.parent.name == "json"]
        monkeypatch.setattr(sys.modules[Dereference.__module__], "library", lambda: iter(few))
    found = dereferences(n, seed=1)
    assert len(found.prompts) == n and found.asked >= n + found.wrong
    home = set(library())
    for one in found.prompts:
        path = Path(sysconfig.get_path("stdlib")) / one.file
        text = path.read_text("utf-8")
        assert path in home
        assert text.startswith(one.prompt) and text[len(one.prompt) :].startswith(one.name)
        assert one.prompt.endswith(".") and SHORTEST <= len(one.prompt) <= LONGEST and one.name in one.names
        assert one.prompt.count("\n") + 1 == one.line
    assert dereferences(n, seed=1) == found


@pytest.mark.smollm2
@pytest.mark.slow
def test_the_command_prints_a_line_for_each_method(capsys):
    assert main(["bench", "--names", "--model", "smollm2-text", "--prompts", "1"]) == 0
    out = capsys.readouterr().out
    assert "names that exist" in out and len(out.splitlines()) == 4


def test_calls_that_a_rule_for_the_end_saves_are_no_merit_of_the_method(monkeypatch):
    monkeypatch.setattr(measure, "sweep_of", lambda plain: [])
    ours, plain = bench(
        ["creditdecoding", "threshold"], engines.load_model("tiny-dlm"), prompts=1, repeats=1, max_new_tokens=64
    )
    assert ours.saved_by_end_rule > 0 and ours.forwards_ratio < ours.fair_ratio
    said = measure.table([ours])
    assert f"{ours.saved_by_end_rule:.1f} model calls a prompt that threshold makes after its end mark" in said
    assert f"forwards without those {ours.fair_ratio:.2f}" in said
    assert (plain.saved_by_end_rule, plain.fair_ratio) == (0, None) and "end mark" not in measure.table([plain])
