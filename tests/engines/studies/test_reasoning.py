"""Studies of reasoners: rules on given samples, cuts of a trace, and small runs."""

import random
from itertools import islice

import pytest

import engines
from engines.core.statistics import wilson
from engines.core.study import run_study
from engines.methods.reasoning._votes import RULES, answer_of
from engines.methods.reasoning.ffs.finish import Trace
from engines.studies import confident_steps, rpc_errors, search_budget
from engines.studies.confident_steps import Told, told
from engines.studies.first_finish import Asked, against, decided, longest, single, spread
from engines.studies.rpc_errors import COUNTING, SIZES, counting_error, differences, summing_error

SMALL = {"problems": 20}


def test_a_cut_is_what_the_method_writes():
    model, chain = engines.load_model("tiny-reasoner"), "2*7*8*3"
    for seed in range(2):
        whole = told(model, chain, "6", False, 1.0, seed)
        for line in (0.0, 0.5, 1.0):
            ours = engines.run("concise", model, chain, params={"inject": False, "t_stop": line}, seed=seed)
            n = whole.cut(line)
            assert "".join(whole.tokens[:n]) == ours.text
            assert whole.right(n) == (answer_of(ours.text, "marked") == "6")
            assert whole.looks(n) == sum(span.kind == "reflection" for span in ours.steps[-1].spans)


def test_counts_of_a_cut():
    one = Told("4", list("c2+2=4;#4;w2+2=4;#5"), [(9, 0.4), (19, 0.9)], [(0, False), (7, False), (10, True)], [0])
    assert (one.cut(0.3), one.cut(0.5), one.cut(0.95)) == (9, 19, 19)
    assert one.right(9) and not one.right(19) and (one.looks(9), one.looks(19)) == (0, 1)


def test_the_tables_say_what_was_found(monkeypatch):
    """Of five problems."""
    monkeypatch.setattr(confident_steps, "islice", lambda made, _: islice(made, 5))
    found = engines.run_study("confident-steps", SMALL)
    rows = {row[0]: row for row in found.tables[0].rows}
    assert list(rows) == ["plain", "injection", "stop above 0.5", "both", "trained on both, decoded plainly"]
    assert rows["both"][4] < rows["injection"][4] <= rows["plain"][4] + 1
    assert rows["stop above 0.5"][4] < rows["plain"][4]
    assert rows["plain"][5] == 0 < rows["injection"][5] and rows["stop above 0.5"][8] <= 1.0
    tokens = found.figures[0].series[0]
    assert tokens.y == sorted(tokens.y) and tokens.y[-1] == pytest.approx(rows["plain"][4])
    assert found.receipts[0].result == pytest.approx(1 - rows["both"][4] / rows["plain"][4])


ONE = Asked("7", [Trace(9, "7"), Trace(4, "2"), Trace(6, "7"), Trace(12, None)])


def test_each_rule_waits_and_writes_as_it_must():
    assert decided(ONE, 1) == (False, 4, 16)
    assert decided(ONE, 2) == (False, 6, 22)  # a tie goes to the answer met first
    assert decided(ONE, 3) == (True, 9, 28)
    assert decided(ONE, 4) == (True, 12, 31)
    assert longest(ONE) == (True, 12, 31)
    assert single(ONE) == (0.5, 7.75, 7.75)


def test_a_run_tells_rules_lengths_and_shares():
    study = run_study("first-finish", {"model": "tiny-reasoner-s", "problems": 12, "n": 4})
    rows = {row[0]: row[1:] for row in study.tables[0].rows}
    assert rows["first to finish"][3] < rows["vote of the shortest 3"][3] < rows["vote of all"][3]
    assert rows["vote of all"][3:5] == rows["longest"][3:5]
    assert rows["one sample"][5:] == [None] * 3
    apart = [rule for rule, row in rows.items() if row[5] is not None and (row[6] > 0 or row[7] < 0)]
    assert all(row[6] <= row[5] <= row[7] for row in rows.values() if row[5] is not None)
    assert study.notes[1].endswith(f": {', '.join(rule for rule in list(rows)[1:] if rule not in apart) or 'none'}.")
    counted = [one for one in study.figures[0].series if one.name in ("right", "wrong")]
    assert sum(y for one in counted for y in one.y) == 12 * 4


def test_a_rule_is_better_than_one_sample_only_where_the_same_problems_say_so():
    """One sample is right in 2 of 4 each time; a rule that is right in 6 of 10 problems is no better, one in 10 is."""
    alone = [0.5, 0.25, 0.75, 0.5, 0.5, 0.25, 0.75, 0.5, 0.5, 0.5]
    mean, low, high = against([1.0] * 6 + [0.0] * 4, alone)
    assert mean == pytest.approx(0.1) and low < 0 < high
    mean, low, high = against([1.0] * 10, alone)
    assert mean == pytest.approx(0.5) and low > 0.3
    assert spread([1.0] * 10) == (1.0, *wilson(10, 10)), "all right is no certainty"


@pytest.fixture(autouse=True)
def few_subsets(monkeypatch):
    """An accuracy is a share of a few subsets here."""
    monkeypatch.setattr(rpc_errors, "SUBSETS", 4)


@pytest.mark.parametrize("n", [1, 3, 8])
def test_the_laws_are_what_samples_show(n):
    """Three paths to the right answer, the rest elsewhere. One falls like 1 / n, the other exponentially."""
    paths, rng, draws = [0.3, 0.15, 0.05], random.Random(n), 20_000
    p, counting, summing = sum(paths), 0.0, 0.0
    for _ in range(draws):
        seen = rng.choices(range(4), [*paths, 1 - p], k=n)
        counting += (sum(one < 3 for one in seen) / n - p) ** 2
        summing += (sum(paths[one] for one in set(seen) if one < 3) - p) ** 2
    assert counting / draws == pytest.approx(counting_error(p, n), rel=0.05)
    assert summing / draws == pytest.approx(summing_error(paths, n), rel=0.05)
    assert summing_error([1.0], 1) == counting_error(1.0, 1) == 0


def test_the_study_tells_rules_errors_and_what_was_covered():
    found = engines.study("rpc-errors", problems=2, samples=32)
    rows = found.table("rules").rows
    assert [row[0] for row in rows] == list(SIZES)
    assert rows[0][1] == rows[0][2] == rows[0][3] == rows[0][4]  # one path: all rules agree
    assert all(0 <= value <= 1 for row in rows for value in row[1:5])
    assert [row[5] for row in rows] == sorted((row[5] for row in rows), reverse=True)
    assert len({row[7] for row in rows}) == 1 and 0 < found.receipts[0].result <= 1
    assert all(len(one.low) == len(SIZES) for one in found.figure("accuracy").series)
    apart = found.table("apart").rows
    assert [row[:2] for row in apart] == [[n, rule] for n in SIZES for rule in RULES if rule != COUNTING]
    assert all(low <= more <= high for *_, more, low, high in apart)
    assert all(row[2:] == [0, 0, 0] for row in apart[:3])  # one path: all rules agree


def test_rules_are_told_apart_by_the_same_problems():
    """Both rules vary widely from problem to problem; on each of them one is a tenth ahead."""
    easy, hard = dict.fromkeys(RULES, 0.9), dict.fromkeys(RULES, 0.1)
    ahead = [{**one, RULES[1]: one[RULES[1]] + 0.1 + 0.01 * (i % 2)} for i, one in enumerate([easy, hard] * 4)]
    found = {rule: (more, low, high) for _, rule, more, low, high in differences({8: ahead})}
    more, low, high = found[RULES[1]]
    assert more == pytest.approx(0.105) and 0.09 < low < high < 0.12
    assert found[RULES[0]] == (0, 0, 0)


def test_costs_are_counted_for_every_rule(monkeypatch):
    """Two problems, few samples, two widths."""
    monkeypatch.setattr(search_budget, "islice", lambda made, _: islice(made, 2))
    monkeypatch.setattr(search_budget, "SAMPLES", (2, 3))
    monkeypatch.setattr(search_budget, "WIDTHS", (2, 3))
    study = run_study("search-budget", {"budget": 2})
    rows = {row[0]: row[1:] for row in study.tables[0].rows}
    for rule in ("vote of", "best of", "particles,"):
        assert rows[f"{rule} 2"][3] < rows[f"{rule} 3"][3] and rows[f"{rule} 2"][4] <= rows[f"{rule} 3"][4]
    assert rows["one sample"][4] == rows["vote of 3"][4] == 0 < rows["A*, k = 2"][4] <= 2 * 2
    assert all(low <= right <= high for right, low, high, *_ in rows.values())
