"""What the contract of a method costs: those that are dear are named, so that the suite stays one that people run."""

import statistics
import time

import pytest

from tests.contract import runs
from tests.contract import test_every_method as contract
from tests.contract.test_every_method import lighter  # noqa: F401  # as there

MOST = 3.0  # times what the median method costs, with models loaded and no run kept
ASKED = runs.tests_of(contract)


def cost(slug):
    """Processor seconds of each test of a method, the dearest first."""
    contract.test_a_method_takes_over_where_its_control_stopped(slug)  # loads all models
    runs.forget()
    spent = {}
    for test in (test for test in ASKED if slug in runs.asked_of(test)):
        before = time.process_time()
        test(slug)
        spent[test.__name__] = time.process_time() - before
    return dict(sorted(spent.items(), key=lambda one: -one[1]))


@pytest.mark.exhaustive
@pytest.mark.timing
@pytest.mark.timeout(1800)
def test_no_method_s_contract_costs_more_than_three_usual_ones(monkeypatch):
    monkeypatch.setattr(runs, "memo", runs.Memo(None, ""))  # runs are decoded here, whatever was kept before
    spent = {slug: cost(slug) for slug in runs.SLUGS}
    usual = statistics.median(sum(one.values()) for one in spent.values())
    dear = []
    for slug, one in spent.items():
        if sum(one.values()) > MOST * usual:
            one = cost(slug)  # the machine may have been slow for a moment
        if (times := sum(one.values()) / usual) > MOST:
            tests = ", ".join(f"{seconds:.2f} s {name}" for name, seconds in list(one.items())[:4])
            dear.append(f"{slug}: {times:.1f} times the median: {tests}")
    assert not dear, "shorter answers, or a smaller model (runs.py, or `trials` of its paper):\n" + "\n".join(dear)
