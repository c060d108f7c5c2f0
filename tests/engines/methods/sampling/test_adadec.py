"""AdaDec: greedy at the ends of its parameters, the score as recorded, futures that leave no trace in the text, and a
threshold that is learned."""

import json

import pytest
import torch

import engines
from engines.core.errors import UserError
from engines.methods.sampling.adadec import left_function
from engines.studies import threshold_from_code
from tests.engines.conftest import GOLDEN
from tests.engines.fakes import TableCausal

PROMPT = [1, 2, 3]


def model(**options):
    return TableCausal(**{"vocab_size": 10, "memory": 3, **options})


def decode(one, **params):
    return engines.run("adadec", one, PROMPT, params={"max_new_tokens": 30, "threshold": 1.2, **params})


def greedy(one):
    return engines.run("greedy", one, PROMPT, params={"max_new_tokens": 30})


def test_a_threshold_that_is_never_reached_no_future_and_no_other_candidate_are_greedy():
    for seed in range(3):
        one = model(seed=seed)
        ours, control = decode(one, threshold=20.0), greedy(one)
        assert ours.output_ids == control.output_ids and ours.totals.forwards == control.totals.forwards
        assert not any(step.facts["paused"] for step in ours.steps)
        for neutral in ({"lookahead": 0}, {"candidates": 1}):
            for pause in ("above the threshold", "at every token"):
                assert decode(one, pause=pause, **neutral).output_ids == control.output_ids


@pytest.mark.parametrize("scoring", ["clean", "official"])
def test_the_token_is_the_best_of_the_scores_and_those_are_the_formula(scoring):
    """Recomputed from the table, without a cache and without the paths; the official score from the record."""
    one, overruled, ended = model(eos_ids=(9,)), 0, 0
    text = list(PROMPT)
    for step in decode(one, scoring=scoring, lookahead=4).steps:
        logp = one.logits(text)[0].double().log_softmax(-1)
        H = float(torch.special.entr(logp.exp()).sum())
        assert step.facts["paused"] == (H >= 1.2) and step.choice.value == pytest.approx(H, abs=1e-5)
        assert step.forwards == {"target": 1 + int(step.facts.get("lookahead_forwards", 0))}
        best = logp.argsort(descending=True)[:3].tolist() if H >= 1.2 else [int(logp.argmax())]
        told = [branch.scores for branch in step.branches[1:]]
        recorded = [each["score"] for each in told]
        assert step.commits.tokens == [best[recorded.index(max(recorded))] if recorded else best[0]]
        for each in told:
            mean = (each["log p"] + each["ahead"]) / (1 + each["tokens ahead"])
            assert each["score"] == pytest.approx(mean, abs=2e-4)
            ended += each["tokens ahead"] < step.facts["lookahead_forwards"]
        if H >= 1.2 and scoring == "clean":
            room, scores = min(4, 30 - (len(text) - 2)), []
            for token in best:
                tokens, sums = [token], [float(logp[token])]
                for _ in range(room):
                    after = one.logits([*text, *tokens])[0].double().log_softmax(-1)
                    tokens.append(int(after.argmax()))
                    sums.append(float(after.max()))
                n = tokens.index(9) if 9 in tokens else room
                scores.append(sum(sums[: n + 1]) / (n + 1))
            assert recorded == pytest.approx(scores, abs=1e-3)
        overruled += step.facts["overruled"]
        text.append(step.commits.tokens[0])
    assert overruled and ended, "futures that end before the others are among these"


def test_where_a_function_is_left():
    inside = ("    return x", "    return x\n", "    a = 1\n\n    return a\n", "\treturn x\n\n\n")
    assert not any(map(left_function, inside))
    assert all(map(left_function, ("    return x\ndef f():", "x", "    return x\n\n\n\n")))


def test_the_fit_is_the_optimum_that_scikit_learn_looks_for():
    data = json.loads((GOLDEN / "sampling" / "adadec.json").read_text())
    for case in data["threshold_learning"]:
        H, y = (case["balanced_train"][name] for name in ("entropy", "rank1"))
        coef, intercept = threshold_from_code.fit(H, y)
        x, y = torch.tensor(H, dtype=torch.float64), torch.tensor(y, dtype=torch.float64)
        wrong = (x * coef + intercept).sigmoid() - y
        assert abs(float((wrong * x).sum() + coef)) < 1e-8 and abs(float(wrong.sum())) < 1e-8


def test_training_is_balanced_and_the_test_is_not_and_one_class_alone_teaches_nothing():
    H, rank1 = [float(i) for i in range(100)], [int(i % 4 > 0) for i in range(100)]
    train_H, train_rank1, test_H, test_rank1 = threshold_from_code.split(H, rank1)
    assert 2 * sum(train_rank1) == len(train_rank1) and len(test_H) == len(test_rank1) == 20
    assert not set(train_H) & set(test_H)
    with pytest.raises(UserError, match="needs steps where the reference is the first choice, and steps"):
        threshold_from_code.fit([0.1, 0.2], [1, 1])
