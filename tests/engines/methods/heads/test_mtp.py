"""An MTP layer run k times, each time on its own state. Rounds of a published layer: `test_published.py`."""

from engines.methods.heads.mtp import Unrolled
from tests.engines.methods.heads.conftest import decoder

decode = decoder("mtp", length=24)


def test_each_run_is_one_pass_and_reads_the_guess_before_it(large):
    trace = decode(large)
    assert trace.steps[0].record("unrolled", Unrolled) is None  # the prompt is read, and nothing drafted
    for before, step in zip(trace.steps, trace.steps[1:-1], strict=False):
        told = step.record("unrolled", Unrolled)
        assert told.read == [step.tree.tokens[0], *told.drafts[:-1]] and told.drafts == step.tree.tokens[1:]
        assert step.forwards["target"] == 1 and step.forwards["draft"] == len(told.drafts) == 3
        assert step.work["draft"] == step.facts["layer_rows_of_draft"] == told.rows + 2
        if before is not trace.steps[0]:  # accepted drafts are read again, with the target's states
            assert told.rows == before.facts["accepted"] + 1
