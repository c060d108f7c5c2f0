"""What rows cost: measured once, kept by model and machine, never falling, and measured anew where the file is no
table."""

import json

import pytest

import engines
from engines.core import costs
from engines.core.costs import SIZES, TURNS, measured, row_costs_of
from engines.core.row_costs import RowCosts
from tests.engines.fakes import TableCausal, TableMasked


@pytest.fixture
def kept(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "decoding-explorer" / costs.KEPT


@pytest.fixture
def quiet(monkeypatch):
    monkeypatch.setattr(costs, "SECONDS", 0.01)
    monkeypatch.setattr(costs, "_busy", lambda *_: "")


def test_a_table_never_falls_and_goes_on_as_it_ends():
    C = RowCosts.of({1: 2.0, 2: 3.0, 4: 2.4, 8: 4.0})
    assert C.seconds == (2.0, 2.4, 2.4, 4.0)  # two rows can take as little as four
    assert [C(n) for n in (1, 2, 3, 4, 6, 8, 12)] == pytest.approx([1, 1.2, 1.2, 1.2, 1.6, 2, 2.8])


def test_a_slope_is_the_share_of_each_further_row():
    assert [RowCosts.sloped(0.25)(n) for n in (1, 2, 5, 101)] == pytest.approx([1, 1.25, 2, 26])
    assert RowCosts.sloped(0.0)(64) == 1


def test_the_shortest_of_all_turns_counts_and_earlier_ones_count_along(monkeypatch):
    seconds = iter([9.0, 5.0, 6.0, 4.0, 7.0])  # a warm-up, then two turns

    class Clock:
        def __init__(self, model, rows):
            assert rows == 8

        def seconds(self, rows):
            return next(seconds)

    now = iter([0.0, 0.1, 9.0])
    monkeypatch.setattr(costs, "RowClock", Clock)
    monkeypatch.setattr(costs.time, "perf_counter", lambda: next(now))
    found = measured(TableCausal(), RowCosts((1, 8), (4.5, 5.5), 3), sizes=(1, 8))
    assert found == RowCosts((1, 8), (4.0, 5.5), 5)


def test_a_table_is_kept_for_the_model_and_read_by_the_next_process(kept, quiet, monkeypatch):
    monkeypatch.setattr(costs, "TURNS", 1)
    first = row_costs_of(TableCausal())
    assert row_costs_of(model := TableCausal()) == first and row_costs_of(model) is row_costs_of(model)
    monkeypatch.setattr(costs, "measured", None)  # it would fail
    assert row_costs_of(TableCausal()) == first
    (entry,) = json.loads(kept.read_text()).values()
    assert set(map(int, entry["seconds"])) == set(SIZES)


def test_a_few_processes_make_a_table_better_then_it_stays(kept, monkeypatch):
    def better(model, before):
        return RowCosts(SIZES, tuple(float(n) for n in SIZES), (before.turns if before else 0) + TURNS // 2)

    monkeypatch.setattr(costs, "measured", better)
    assert [row_costs_of(TableCausal()).turns for _ in range(4)] == [TURNS // 2, TURNS, TURNS, TURNS]


@pytest.mark.parametrize(
    "damage", ["", "[]", '{"KEY": 3}', '{"KEY": {"seconds": {"1": -1}, "turns": 9}}', '{"KEY": {"seconds": {"x": 1}}}']
)
def test_what_is_no_table_is_measured_anew(kept, quiet, damage):
    model = TableCausal()
    row_costs_of(model)
    key = next(iter(json.loads(kept.read_text())))
    kept.write_text(damage.replace("KEY", key.replace('"', "")))
    assert set(row_costs_of(TableCausal()).rows) == set(SIZES)


def test_another_kind_of_model_is_refused(kept):
    with pytest.raises(engines.UserError, match="needs a causal model"):
        row_costs_of(TableMasked())


def test_row_invariant_forwards_have_a_table_of_their_own(kept, quiet):
    plain, made = TableCausal(), TableCausal()
    made.record.options = {"row_invariant": True}
    row_costs_of(plain)
    assert row_costs_of(made).warning == "", "nothing was kept for it, so nothing fails to hold"
    assert len(json.loads(kept.read_text())) == 2


def entries(kept, change):
    """What the file holds, its one key changed in one of its fields."""
    ((key, entry),) = json.loads(kept.read_text()).items()
    fields = key.split(costs.SEPARATOR)
    for at, value in change.items():
        fields[at] = value
    kept.write_text(json.dumps({costs.SEPARATOR.join(fields): entry}))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({1: "abc"}, "with other weights"),
        ({2: "bfloat16"}, "in bfloat16"),
        ({4: "Other CPU (riscv64), 3 cores"}, "on another machine (Other CPU (riscv64), 3 cores)"),
        ({5: "99"}, "with 99 threads"),
        ({6: "1.0"}, "with torch 1.0"),
        ({2: "bfloat16", 5: "99"}, "in bfloat16 and with 99 threads"),
    ],
)
def test_costs_kept_for_something_else_are_not_taken_and_that_is_told(kept, quiet, change, told):
    assert row_costs_of(TableCausal()).warning == ""  # nothing was kept: no fallback
    entries(kept, change)
    assert row_costs_of(TableCausal()).warning == (
        f"The kept row costs of table were measured {told}, so they were measured anew."
    )
    assert len(json.loads(kept.read_text())) == 2  # both are kept from now on
    assert row_costs_of(TableCausal()).warning == ""


def test_of_several_kept_tables_the_nearest_is_told_and_other_models_do_not_count(kept, quiet):
    row_costs_of(TableCausal(name="other"))
    assert row_costs_of(TableCausal()).warning == ""
    mine = next(key for key in json.loads(kept.read_text()) if key.startswith("table"))
    far, near = (mine.split(costs.SEPARATOR) for _ in range(2))
    far[2], far[5], near[5] = "bfloat16", "7", "9"
    kept.write_text(json.dumps({costs.SEPARATOR.join(fields): {} for fields in (far, near)}))
    assert "measured with 9 threads, so" in row_costs_of(TableCausal()).warning


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("", "The file of the kept row costs (row-costs-2.json) is damaged"),
        ("[]", "The file of the kept row costs (row-costs-2.json) is damaged"),
        ("[" * 100_000, "The file of the kept row costs (row-costs-2.json) is damaged"),
        ('{"KEY": 3}', "The kept row costs of table are damaged"),
        ('{"KEY": {"seconds": SECONDS, "turns": 1e999}}', "The kept row costs of table are damaged"),
        ('{"table | float32": {}}', "The kept row costs of table are of another version of this program"),
    ],
)
def test_damage_is_told_once_and_mended(kept, quiet, damage, told):
    row_costs_of(TableCausal())
    ((key, entry),) = json.loads(kept.read_text()).items()
    damage = damage.replace("KEY", key.replace('"', "")).replace("SECONDS", json.dumps(entry["seconds"]))
    kept.write_text(damage)
    assert row_costs_of(TableCausal()).warning == f"{told}, so they were measured anew."
    assert row_costs_of(TableCausal()).warning == ""


def test_costs_of_a_busy_machine_are_told_and_do_not_stay(kept, monkeypatch):
    monkeypatch.setattr(costs, "SECONDS", 0.05)
    monkeypatch.setattr(costs.time, "thread_time", lambda: 0.0)  # the thread did not run at all
    found = row_costs_of(TableCausal())
    assert found.warning == (
        "The machine was busy while row costs were measured (the measuring thread ran in 0 % of the time), so the bets "
        "may be off."
    )
    assert 0 < found.turns < TURNS
    assert row_costs_of(TableCausal()).warning == found.warning  # it was measured again, and it still was busy
    assert costs._busy("cuda:0", 1.0, 0.0) == ""  # an accelerator computes while its thread waits
