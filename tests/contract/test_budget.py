"""What the contract of a method may cost, so that the suite stays one that people run."""

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

pytestmark = pytest.mark.exhaustive  # processor time may be compared beside other tests, seconds on the wall may not


@pytest.fixture(scope="module", autouse=True)
def nothing_kept():
    """Runs are decoded here, whatever was kept before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "memo", runs.Memo(None, ""))
        yield


def cost(slug):
    """Processor seconds of each test of a method."""
    contract.test_a_method_takes_over_where_its_control_stopped(slug)  # loads all models
    runs.forget()
    spent = {}
    for test in (test for test in ASKED if slug in runs.asked_of(test)):
        before = time.process_time()
        test(slug)
        spent[test.__name__] = time.process_time() - before
    return spent


PLAINEST = next(slug for slug, info in runs.METHODS.items() if info.kind == "causal" and info.baseline is None)


def times_the_plainest(slug, plainest):
    """What a method costs in units of one that asks its model for a token at a time, and its dearest tests in words."""
    spent = cost(slug)
    dearest = sorted(spent.items(), key=lambda one: -one[1])[:4]
    return sum(spent.values()) / plainest, ", ".join(f"{seconds:.2f} s {name}" for name, seconds in dearest)


@pytest.fixture(scope="module")
def plainest():
    return sum(cost(PLAINEST).values())


@pytest.mark.parametrize("slug", runs.SLUGS)
def test_the_contract_of_a_method_is_cheap(slug, plainest):
    ratio, dearest = times_the_plainest(slug, plainest)
    if ratio >= MOST:  # the machine was slow for a moment: both once more, next to each other, the median of three
        again = [times_the_plainest(slug, sum(cost(PLAINEST).values())) for _ in range(3)]
        ratio, dearest = sorted(again)[1]
    assert ratio < MOST, f"shorter answers, or a smaller model (runs.py, or `trials` of its paper): {dearest}"
