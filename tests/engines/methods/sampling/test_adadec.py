"""AdaDec: greedy at the ends of its parameters, the score as recorded, futures that leave no trace in the text, and a
threshold that is learned."""

import json

import pytest
import torch

import engines
from engines.core.errors import UserError
from engines.core.verify import differ
from engines.methods.sampling.adadec import left_function
from engines.studies import _threshold
from tests.engines.conftest import GOLDEN
from tests.engines.fakes import TableCausal

PROMPT = [1, 2, 3]


def model(**options):
    return TableCausal(**{"vocab_size": 10, "memory": 3, **options})


def decode(one, **params):
    return engines.run("adadec", one, PROMPT, params={"max_new_tokens": 30, "threshold": 1.2, **params})


def greedy(one):
    return engines.run("greedy", one, PROMPT, params={"max_new_tokens": 30})


@pytest.mark.parametrize("seed", range(3))
def test_a_threshold_that_is_never_reached_is_greedy_at_the_same_cost(seed):
    one = model(seed=seed)
    ours, control = decode(one, threshold=20.0), greedy(one)
    assert ours.output_ids == control.output_ids and ours.totals.forwards == control.totals.forwards
    assert not any(step.facts["paused"] for step in ours.steps)


@pytest.mark.parametrize("neutral", [{"lookahead": 0}, {"candidates": 1}])
@pytest.mark.parametrize("pause", ["above the threshold", "at every token"])
def test_without_a_future_or_another_candidate_it_is_greedy(neutral, pause):
    for seed in range(3):
        one = model(seed=seed)
        assert decode(one, pause=pause, **neutral).output_ids == greedy(one).output_ids


def test_a_threshold_of_zero_pauses_at_every_step_as_the_switch_does():
    zero, always = decode(model(), threshold=0.0), decode(model(), threshold=9.0, pause="at every token")
    assert all(step.facts["paused"] for step in (*zero.steps, *always.steps))
    assert zero.output_ids == always.output_ids


@pytest.mark.parametrize("scoring", ["clean", "official"])
def test_the_token_is_the_best_of_the_scores_and_those_are_the_formula(scoring):
    """Recomputed from the table, without a cache and without the paths."""
    one = model(eos_ids=(9,))
    trace = decode(one, scoring=scoring, lookahead=4)
    text, overruled = list(PROMPT), 0
    for step in trace.steps:
        logp = one.logits(text)[0].double().log_softmax(-1)
        H = float(torch.special.entr(logp.exp()).sum())
        assert step.facts["paused"] == (H >= 1.2) and step.choice.value == pytest.approx(H, abs=1e-5)
        best = logp.argsort(descending=True)[:3].tolist()
        if H < 1.2:
            assert step.commits.tokens == best[:1]
        else:
            room, scores, futures = min(4, 30 - (len(text) - 2)), [], []
            for token in best:
                tokens, sums = [*text, token], [float(logp[token])]
                for _ in range(room):
                    after = one.logits(tokens)[0].double().log_softmax(-1)
                    tokens.append(int(after.argmax()))
                    sums.append(float(after.max()))
                futures.append((tokens[len(text) :], sums))
            for tokens, sums in futures:
                if scoring == "official":
                    continue
                n = tokens.index(9) if 9 in tokens else room
                scores.append(sum(sums[: n + 1]) / (n + 1))
            recorded = [branch.scores["score"] for branch in step.branches[1:]]
            if scoring == "clean":
                assert recorded == pytest.approx(scores, abs=1e-3)
            assert step.commits.tokens == [best[recorded.index(max(recorded))]]
            overruled += step.facts["overruled"]
        text.append(step.commits.tokens[0])
    assert overruled > 0


@pytest.mark.parametrize("scoring", ["clean", "official"])
def test_the_score_follows_from_the_record_alone(scoring):
    ended = 0
    for seed in range(3):
        for step in decode(model(seed=seed, eos_ids=(9,)), scoring=scoring, threshold=0.5).steps:
            futures = [branch.scores for branch in step.branches[1:]]
            for one in futures:
                assert one["score"] == pytest.approx(
                    (one["log p"] + one["ahead"]) / (1 + one["tokens ahead"]), abs=2e-4
                )
                ended += one["tokens ahead"] < step.facts["lookahead_forwards"]
            best = max(futures, key=lambda one: one["score"], default=None)
            assert best is None or futures.index(best) + 1 == step.facts["rank_chosen"]
    assert ended, "futures that end before the others are among these"


def test_the_futures_of_a_pause_are_asked_together():
    for step in decode(model(), lookahead=5, candidates=4).steps[:20]:
        assert step.forwards == {"target": 1 + 5 * int(step.facts["paused"])}
        fates = [branch.fate for branch in step.branches]
        assert fates.count("chosen") == step.facts["paused"] and fates[0] == "alive"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("    return x", False),
        ("    return x\n", False),
        ("    a = 1\n\n    return a\n", False),
        ("    return x\ndef f():", True),
        ("x", True),
        ("    return x\n\n\n\n", True),
        ("\treturn x\n\n\n", False),
    ],
)
def test_where_a_function_is_left(text, left):
    assert left_function(text) == left


# --- the threshold


def test_the_fit_is_the_optimum_that_scikit_learn_looks_for():
    data = json.loads((GOLDEN / "sampling" / "adadec.json").read_text())
    for case in data["threshold_learning"]:
        H, y = (case["balanced_train"][name] for name in ("entropy", "rank1"))
        coef, intercept = _threshold.fit(H, y)
        x, y = torch.tensor(H, dtype=torch.float64), torch.tensor(y, dtype=torch.float64)
        wrong = (x * coef + intercept).sigmoid() - y
        assert abs(float((wrong * x).sum() + coef)) < 1e-8 and abs(float(wrong.sum())) < 1e-8
        given = [case[part][name] for part in ("balanced_train", "test") for name in ("entropy", "rank1")]
        assert _threshold.learn(*given).threshold == pytest.approx(case["expected"]["entropy_threshold"], abs=1e-3)
        assert differ("", _threshold.learn(*given).p_star, case["expected"]["p_star"]) is None


def test_more_sure_steps_of_rank_one_leave_the_threshold_where_it_is():
    """Exactly, where they join the steps that it is judged on; nearly, where the fit sees them too."""
    for case in json.loads((GOLDEN / "sampling" / "adadec.json").read_text())["threshold_learning"]:
        H, y, test_H, test_y = (case[p][name] for p in ("balanced_train", "test") for name in ("entropy", "rank1"))
        before, low, ones = _threshold.learn(H, y, test_H, test_y).threshold, [0.01] * 20, [1] * 20
        assert _threshold.learn(H, y, test_H + low, test_y + ones).threshold == before
        assert _threshold.learn(H + low, y + ones, test_H, test_y).threshold == pytest.approx(before, abs=0.05)


def test_the_area_under_the_curve():
    assert _threshold.auc([0.1, 0.2, 0.3, 0.4], [1, 1, 0, 0]) == 1.0
    assert _threshold.auc([0.1, 0.4, 0.3, 0.3], [1, 0, 1, 0]) == pytest.approx((1 + 1 + 1 + 0.5) / 4)


def test_one_class_alone_teaches_nothing():
    with pytest.raises(UserError, match="needs steps where the reference is the first choice, and steps"):
        _threshold.fit([0.1, 0.2], [1, 1])


def test_training_is_balanced_and_the_test_is_not():
    H, rank1 = [float(i) for i in range(100)], [int(i % 4 > 0) for i in range(100)]
    train_H, train_rank1, test_H, test_rank1 = _threshold.split(H, rank1)
    assert 2 * sum(train_rank1) == len(train_rank1) and len(test_H) == len(test_rank1) == 20
    assert not set(train_H) & set(test_H)


def test_references_are_functions_with_their_bodies():
    found = list(_threshold.references(20))
    assert len(found) == 20
    for prompt, body in found:
        assert prompt.startswith(("def ", "@")) or "def " in prompt
        assert not left_function(body)
        compile(prompt + body, "reference", "exec")
