"""Before a run that promises its control's text, the page says where the weights cannot keep that, and after it where
the model was refused what would."""

import threading
from types import SimpleNamespace

import pytest

from engines import ModelRecord
from explorer.page.catalogue import Form
from explorer.page.feed import Feed
from explorer.page.handlers.running import summary
from explorer.page.run_limits import Limits


@pytest.mark.parametrize(
    ("lossless", "moved", "said"), [(True, 1.3, True), (True, 0.0, False), (True, None, False), (False, 1.3, False)]
)
def test_a_run_that_has_begun_is_cautioned_where_rows_move_each_other(lossless, moved, said):
    feed = Feed(SimpleNamespace(id="1"), 0, "Token Recycling")
    assert feed.caution == ""
    record = ModelRecord("target", "tiny.gguf", "causal", dtype="Q4_K_M", moved=moved)
    feed._run = SimpleNamespace(header=SimpleNamespace(lossless=lossless, models=[record]))
    assert ("may part from it" in feed.caution) is said


def test_a_model_that_cannot_have_row_invariant_forwards_is_named_once_at_the_end(monkeypatch):
    """tiny-moe routes to experts and is refused; one that can have them, and a run that promises nothing, are not
    named."""
    monkeypatch.setenv("EXPLORER_ROW_INVARIANT", "1")
    limits = Limits.from_env()
    job = SimpleNamespace(id="1", stop=threading.Event(), begun=True, said="")

    def told(*plans: tuple[str, str], wished: bool = True) -> str:
        feeds = [Feed(job, slot, "", None, wished) for slot in range(len(plans))]
        for feed, (method, model) in zip(feeds, plans, strict=True):
            run = Form(method, model, {"max_new_tokens": 2}).begin("add: 1 + 2", 0, limits)
            assert list(run)
            feed.trace = run.trace()
        return summary(job, feeds)

    sentence = "tiny-moe cannot have row-invariant forwards and ran without them."
    lossless = ("prompt-lookup", "tiny-moe")
    assert told(lossless, lossless).count(sentence) == 1
    assert sentence not in told(("prompt-lookup", "tiny-ar-s")) + told(("temperature", "tiny-moe"))
    assert sentence not in told(lossless, wished=False)
