"""What drafts of each length are worth: the formula by hand, the even point, an assumed acceptance."""

import msgspec
import pytest

from engines.diagnosis.cost import Cost
from engines.diagnosis.found import Candidate, Depth, Diagnosis, Miss, Parting, Tried
from explorer.export.diagnosis import diagnosis_page
from explorer.figures import diagnosed
from explorer.figures.diagnosed import best, lengths, needed, rate

DEPTHS = (Depth(1, 10, 6, 10, 6, -0.9, (6, 1, 1, 1, 0, 1)), Depth(2, 9, 4, 6, 3, -1.2, (4, 2, 1, 1, 1, 0)))
COST = Cost({1: 0.010, 2: 0.011, 3: 0.012}, {1: 0.001, 2: 0.002}, "a machine")
PARTING = Parting(0, 5, "x <i>", (Candidate(1, "a", 0.5),), (Candidate(2, "b", 0.4),))
MISSES, TRIED = Miss("digits", 5, 2, (("1", "2"),)), Tried("rope base", "The base.", "open", 0.01, -0.1, 0.1, 0.9, 0.9)
FOUND = Diagnosis(*("T", "D <b>", "eagle-3", "abc", 2, 1, 11, 0.9, DEPTHS, (PARTING,), (MISSES,), (TRIED,)), cost=COST)


def test_a_round_is_worth_what_it_writes_over_what_it_costs_where_times_were_taken():
    one, two = lengths(FOUND)
    assert (one.accepted, two.accepted) == (0.6, pytest.approx(0.9))
    assert one.cost == pytest.approx(0.012 / 0.010) and two.cost == pytest.approx(0.014 / 0.010)
    assert one.speed == pytest.approx(1.6 / 1.2) and two.speed == pytest.approx(1.9 / 1.4)
    assert one.need == pytest.approx(0.2) and two.need == pytest.approx(0.4)
    assert rate(FOUND) == pytest.approx(9 / 16) and best([one, two]) is two
    # an assumed acceptance has its power at each depth
    assert [one.accepted for one in lengths(FOUND, 0.5)] == [0.5, 0.75]
    assert [one.accepted for one in lengths(FOUND, 1.0)] == [1.0, 2.0]
    least = needed(FOUND)
    assert least == pytest.approx(0.2, abs=1e-6)  # one drafted token: 0.2 accepted pay a round of 1.2 calls
    dear = msgspec.structs.replace(FOUND, cost=Cost({1: 0.01, 2: 0.02, 3: 0.03}, {1: 0.01, 2: 0.02}))
    assert needed(dear) is None
    assert any(one.startswith("No acceptance would make drafts faster") for one in diagnosed.findings(dear))
    plain = msgspec.structs.replace(FOUND, cost=None)
    assert lengths(plain) == [] and not any("machine" in one or "pays" in one for one in diagnosed.findings(plain))
    assert "What if acceptance were" not in diagnosis_page(plain)


def test_names_and_tokens_are_text_on_the_page():
    page = diagnosis_page(FOUND)
    assert [diagnosed.counted(k) for k in (1, 2)] == ["one drafted token", "2 drafted tokens"]
    assert "D &lt;b&gt;" in page and "x &lt;i&gt;" in page and "<b>" not in page
    assert "Drafting pays here from 20 % of the drafted tokens on (derived); 56 % are accepted." in page
