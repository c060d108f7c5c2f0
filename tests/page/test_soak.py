"""A few seconds under visitors: nothing fails and nothing is left open. `python -m tests.page.soak` takes minutes."""

import pytest

from tests.page.soak import WAYS, measure

pytestmark = [pytest.mark.slow, pytest.mark.server]


def test_visitors_come_and_go_and_leave_nothing_open():
    found = measure(2, settle=3)
    assert found.failures == [] and set(found.runs) == set(WAYS)
    assert found.answers and all(name.endswith(" 200") or not many for name, many in found.answers.items()), (
        found.answers
    )
    assert found.delays and min(found.delays) >= 0
    first, *_, last = found.readings
    assert last.descriptors <= first.descriptors + 8, "connections were left open"
    assert last.files == 0, "temporary files were left"
