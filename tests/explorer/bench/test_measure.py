"""The benchmark behind `decoding-explorer bench`: its rows, the curve behind them, and what the curve has at the same
pace."""

import pytest

import engines
from explorer import cli
from explorer.bench import measure
from explorer.bench.measure import Figure, curve_there
from tests.engines.fakes import TableCausal, TableMasked

CURVE = engines.get_method("threshold").info.curve


def figure(pace, exact, **more):
    return Figure("some", None, 4, pace, 0.5, 0.5, 1.0, 1.0, exact, 1.0, {}, **more)


@pytest.fixture
def prompts(monkeypatch):
    """Ids instead of bundled texts, for models that are tables."""
    monkeypatch.setattr(measure, "prompts_for", lambda model, n: ["1 2", "3 4"][:n])


def test_a_masked_model_has_its_own_sweep_behind_the_methods(prompts):
    model = TableMasked()
    found = measure.bench(["llada", "threshold", "creditdecoding"], model, prompts=2, repeats=1, max_new_tokens=16)
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


def test_a_causal_model_has_none(prompts):
    found = measure.bench(["greedy"], TableCausal(), prompts=1, repeats=1, max_new_tokens=8)
    assert [(f.method, f.on_curve) for f in found] == [("greedy", False)]
    assert "sweep" not in measure.table(found)


def test_calls_that_a_rule_for_the_end_saves_are_no_merit_of_the_method(monkeypatch):
    monkeypatch.setattr(measure, "sweep_of", lambda plain: [])
    (found,) = measure.bench(["creditdecoding"], engines.load_model("tiny-dlm"), prompts=1, repeats=1)
    assert found.saved_by_end_rule > 0 and found.forwards_ratio < found.fair_ratio
    said = measure.table([found])
    assert f"{found.saved_by_end_rule:.1f} model calls a prompt that threshold makes after its end mark" in said
    assert f"forwards without those {found.fair_ratio:.2f}" in said
    (plain,) = measure.bench(["threshold"], engines.load_model("tiny-dlm"), prompts=1, repeats=1)
    assert (plain.saved_by_end_rule, plain.fair_ratio) == (0, None) and "end mark" not in measure.table([plain])


def test_the_curve_is_read_between_its_points_and_not_beyond():
    points = [figure(x, y, on_curve=True) for x, y in ((1.0, 1.0), (3.0, 0.5), (4.0, None))] + [figure(2.0, 0.9)]
    assert [curve_there(figure(x, 0.0), points) for x in (1.0, 2.0, 3.0)] == pytest.approx([1.0, 0.75, 0.5])
    assert curve_there(figure(0.9, 0.0), points) is None and curve_there(figure(3.1, 0.0), points) is None


def test_medians_stand_with_their_intervals(monkeypatch):
    """Six prompts of other lengths: from the least to the most. Five have none, and a share has Wilson's."""
    model = TableCausal()
    for n in (6, 5):
        monkeypatch.setattr(measure, "prompts_for", lambda model, n: [" ".join("1" * k) for k in range(1, n + 1)])
        (found,) = measure.bench(["token-recycling"], model, prompts=n, repeats=1, max_new_tokens=8)
        said = measure.table([found])
        assert ("wall_ratio" in found.intervals) == ("forwards_ratio" in found.intervals) == (n == 6)
        assert found.intervals["same_text"] == engines.wilson(n, n) and "exact" not in found.intervals
        assert ("tokens_per_forward" in found.intervals) == (n == 6) and "not told apart" in said
    known = {"tokens_per_forward": (1.25, 2.0)}
    one = Figure("m", None, 6, 1.5, None, None, 1.0, 1.0, None, None, {}, intervals=known)
    assert "1.50 (1.25-2.00)" in measure.table([one])


def test_the_table_marks_the_sweep(capsys):
    ask = ["bench", "--model", "tiny-dlm", "--method", "factor", "--prompts", "1", "--repeats", "1"]
    assert cli.main([*ask, "--max-new-tokens", "16"]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("the model's own sweep of threshold:")
    assert lines[at - 1].startswith("factor ")
    rows = lines[at + 1 : at + 1 + len(CURVE[1])]
    assert [row.split()[:2] for row in rows] == [["threshold", f"threshold={value:g}"] for value in CURVE[1]]
    assert all(row.split()[-1] == "sweep" for row in rows) and "curve there" in lines[-1]
