"""The study that learns AdaDec's threshold from reference code."""

import pytest

import engines
from engines.studies.threshold_from_code import learn, references, split, statistics


@pytest.fixture(scope="module")
def learned_from_code():
    return engines.study("threshold-from-code", model="tiny-ar-l", functions=6)


def test_the_numbers_are_those_of_the_references(learned_from_code):
    model, H, rank1 = engines.load_model("tiny-ar-l"), [], []
    for prompt, reference in references(6):
        h, y = statistics(model, prompt, reference)
        H, rank1 = H + h, rank1 + y
    rows = dict(learned_from_code.table("threshold").rows)
    learned = learn(*split(H, rank1))
    assert rows["functions"] == 6 and rows["tokens"] == len(H)
    assert rows["share at rank 1"] == sum(rank1) / len(rank1)
    assert rows["threshold, nats"] == learned.threshold == learned_from_code.receipts[0].result
    assert rows["share of steps that would pause"] == sum(h >= learned.threshold for h in H) / len(H)


def test_the_histograms_hold_every_step_and_the_chosen_p_is_the_first_of_the_best(learned_from_code):
    first, others, chance, line = learned_from_code.figure("histograms").series
    assert sum(first.y) == pytest.approx(1) and sum(others.y) == pytest.approx(1)
    assert all(0 < value < 1 for value in chance.y) and len(set(line.x)) == 1
    tried, chosen = learned_from_code.figure("accuracies").series
    assert len(tried.x) == 99 and tried.x[0] == 0.01 and chosen.x[0] == learned_from_code.receipts[0].inputs["p"]
    assert engines.read_study(learned_from_code.to_json()) == learned_from_code
    assert tried.x[tried.y.index(max(tried.y))] == chosen.x[0] and chosen.y[1] == max(tried.y)
