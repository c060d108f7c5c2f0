"""The contract of every method once more with answers as long as they are by default."""

import pytest

from tests.contract import runs
from tests.contract import test_every_method as contract
from tests.contract import test_several_paths as paths

pytestmark = pytest.mark.exhaustive

LONG = [test for test in runs.tests_of(contract) if test is not contract.test_drafts_and_confidences_go_both_ways]


@pytest.fixture(scope="module", autouse=True)
def whole():
    """Nothing is shortened."""
    runs.forget()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "whole", True)
        yield
    runs.forget()


@pytest.mark.parametrize(
    ("slug", "test"),
    [(slug, test) for slug in runs.SLUGS for test in LONG if slug in runs.asked_of(test)],
    ids=lambda one: one if isinstance(one, str) else one.__name__.removeprefix("test_"),
    scope="module",
)
def test_long_answers_keep_the_contract(slug, test):
    test(slug)


@pytest.mark.parametrize("slug", paths.SLUGS, scope="module")
@pytest.mark.parametrize("test", runs.tests_of(paths), ids=lambda test: test.__name__.removeprefix("test_"))
def test_long_answers_on_several_paths_keep_the_contract(slug, test):
    test(slug)
