"""The study of planted facts: counts that fit each other, refusals, and answers that retrieval puts right."""

import pytest

import engines

TINY = {"model": "tiny-ar-l", "kind": "people", "chunk": 8, "keep": 24, "tokens": 16, "longest": 256}


def test_the_retrieved_view_finds_what_the_target_loses_and_the_counts_fit():
    makes = []
    found = engines.study("needles-in-documents", partial=makes.append, **TINY, documents=4)
    assert [make().table().title[:12] for make in makes] == [f"Answers to {n}" for n in range(1, 5)]
    assert makes[-1]().table().rows == found.table("answers").rows and makes[0]().notes[0].startswith("Stopped")
    rows = {(row[0], row[1]): row for row in found.table("answers").rows}
    lossless, moved = rows["retrieved passages", 0.0], rows["retrieved passages", 10.0]
    assert moved[3] > lossless[3] and moved[7] > lossless[7]  # right answers, and the share that is accepted
    assert lossless[8] == 0 < moved[8]
    assert all(row[5] <= row[4] <= row[6] for row in rows.values())
    assert rows["the last tokens", 0.0][3] == lossless[3]  # at η = 0 the text is the target's, whatever drafts
    (cost,) = found.table("costs").rows
    n, one, many, draft = cost[:4]
    assert (n, draft) == (256, one) and cost[4] == pytest.approx((5 * draft + many) / one)
    assert cost[6] == pytest.approx((5 * draft + many) / moved[9]) and cost[7] == pytest.approx(one / cost[6])
