"""What the contract of a method costs: those that are dear are named, so that the suite stays one that people run."""

import inspect
import time

import pytest

from tests.contract import runs
from tests.contract import test_every_method as contract
from tests.contract.test_every_method import lighter  # noqa: F401  # as there

MOST = 4.0  # times what the plainest method costs: about 2 processor seconds, with models loaded and no run kept
ASKED = [
    test
    for _, test in inspect.getmembers(contract, inspect.isfunction)
    if len(runs.asked_of(test)) > 1 and list(inspect.signature(test).parameters) == ["slug"]
]
PLAINEST = next(slug for slug, info in runs.METHODS.items() if info.kind == "causal" and info.baseline is None)


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


def told(slug, spent, plainest):
    """A line of the table."""
    dearest = ", ".join(f"{seconds:.2f} s {name}" for name, seconds in list(spent.items())[:4])
    return f"{slug}: {sum(spent.values()) / plainest:.1f} times {PLAINEST}: {dearest}"


@pytest.mark.exhaustive
@pytest.mark.timing
@pytest.mark.timeout(1800)
def test_no_method_s_contract_costs_more_than_four_plain_ones(monkeypatch):
    monkeypatch.setattr(runs, "memo", runs.Memo(None, ""))  # runs are decoded here, whatever was kept before
    dear = []
    for slug in runs.SLUGS:
        for _ in range(3):  # the machine may be slow for a moment: both once more, next to each other
            spent, plainest = cost(slug), sum(cost(PLAINEST).values())
            if sum(spent.values()) < MOST * plainest:
                break
        else:
            dear.append(told(slug, spent, plainest))
    assert not dear, "shorter answers, or a smaller model (runs.py, or `trials` of its paper):\n" + "\n".join(dear)
