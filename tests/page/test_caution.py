"""Before a run that promises its control's text, the page says where the weights cannot keep that."""

from types import SimpleNamespace

import pytest

from engines import ModelRecord
from explorer.page.feed import Feed


@pytest.mark.parametrize(
    ("lossless", "moved", "said"), [(True, 1.3, True), (True, 0.0, False), (True, None, False), (False, 1.3, False)]
)
def test_a_run_that_has_begun_is_cautioned_where_rows_move_each_other(lossless, moved, said):
    feed = Feed(SimpleNamespace(id="1"), 0, "Token Recycling")
    assert feed.caution == ""
    record = ModelRecord("target", "tiny.gguf", "causal", dtype="Q4_K_M", moved=moved)
    feed._run = SimpleNamespace(header=SimpleNamespace(lossless=lossless, models=[record]))
    assert ("may part from it" in feed.caution) is said
