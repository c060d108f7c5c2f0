"""Stops and closed pages free the model within the forward under way. `python -m tests.page.stops 100` measures more of
them."""

from __future__ import annotations

import pytest

from tests.page.stops import measure


@pytest.mark.timing
def test_stops_and_closed_pages_free_the_model_within_one_forward():
    found = measure(8, 4, pause=0.01)
    assert len(found) == 12 and {one.how for one in found} == {"stop", "close"}
    assert max(one.begun_after for one in found) <= 1, (
        "one forward may begin between the request and its notice, no more"
    )
    assert all(one.open_runs == 0 for one in found), "a run was left open"
