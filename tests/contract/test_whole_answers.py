"""The contract of every method once more with answers as long as they are by default."""

import pytest

from tests.contract import runs
from tests.contract import test_every_method as contract
from tests.contract import test_several_paths as paths

pytestmark = pytest.mark.exhaustive

LONG = [
    contract.test_the_trace_is_whole,
    contract.test_it_emits_what_it_declares,
    contract.test_equal_seeds_give_equal_runs_and_a_fork_without_a_change_is_one,
    contract.test_detail_changes_the_record_and_not_the_run,
    contract.test_the_step_budget_holds,
    contract.test_every_parameter_has_an_effect,
    contract.test_a_neutral_parameter_gives_the_baseline,
    contract.test_lossless_means_equal_to_the_baseline,
    contract.test_a_run_can_be_forked_at_any_step,
    contract.test_a_forbidden_token_is_not_written,
    contract.test_a_fork_goes_on_from_the_recorded_state,
    contract.test_a_method_takes_over_where_its_control_stopped,
]
SEVERAL = [
    paths.test_several_paths_are_written_at_once_and_the_board_shows_one_of_them,
    paths.test_a_fork_forces_the_token_in_every_path,
    paths.test_a_forbidden_token_is_written_by_no_path,
]


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
@pytest.mark.parametrize("test", SEVERAL, ids=lambda test: test.__name__.removeprefix("test_"))
def test_long_answers_on_several_paths_keep_the_contract(slug, test):
    test(slug)
