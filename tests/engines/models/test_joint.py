"""The cost of parallel commits: closed forms against enumeration, and the distributions of conditional total
correlation."""

import itertools
import math

import pytest
import torch

from engines.models import joint
from engines.models.joint import HIDDEN
from engines.models.oracle import answer_ids
from engines.tasks.words import NAMES

VOCABULARY = 1_000


def listed(slug, n):
    return f"{slug}: {'Zoe in ' if slug == 'replace any' else ''}{' '.join(NAMES[:n])}"


def nothing(answers):
    return torch.full((answers.shape[1],), HIDDEN)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6])
def test_closed_forms_equal_enumeration(n):
    for slug, correlation in [
        ("copy", joint.copy_correlation),
        ("shuffle", joint.shuffle_correlation),
        ("replace any", joint.replace_any_correlation),
    ]:
        answers = answer_ids(listed(slug, n))
        assert joint.total_correlation(answers, nothing(answers), range(n)) == pytest.approx(correlation(n), abs=1e-9)
    for slug, success in [("shuffle", joint.shuffle_success), ("replace any", joint.replace_any_success)]:
        answers = answer_ids(listed(slug, n))
        p = joint.marginals(answers, nothing(answers), VOCABULARY)
        assert float(p[torch.arange(n), answers.unique(dim=0)].prod(1).sum()) == pytest.approx(success(n))


@pytest.mark.parametrize(("n", "k"), [(n, k) for n in (2, 3, 4, 5) for k in range(1, n + 1)])
def test_success_with_k_per_forward_equals_enumeration(n, k):
    """The chance of every way through, forward by forward: product of the marginals given what was written before."""
    answers = answer_ids(listed("shuffle", n))
    total = 0.0
    for answer in answers:
        visible, chance = nothing(answers), 1.0
        for first in range(0, n, k):
            part = torch.arange(first, min(first + k, n))
            chance *= float(joint.marginals(answers, visible, VOCABULARY)[part, answer[part]].prod())
            visible[part] = answer[part]
        total += chance
    assert joint.shuffle_success(n, k) == pytest.approx(total)


def test_the_limits_of_the_closed_forms():
    assert joint.shuffle_success(5, 1) == 1
    assert joint.shuffle_success(5, 5) == joint.shuffle_success(5) == math.factorial(5) / 5**5
    assert joint.replace_any_success(1) == 1
    assert joint.replace_any_success(10**6) == pytest.approx(math.exp(-1), abs=1e-6)
    assert joint.replace_any_correlation(1) == 0 and joint.replace_any_correlation(10**6) == pytest.approx(1, abs=1e-5)
    for k in (0, 6):
        with pytest.raises(ValueError, match=f"k={k}"):
            joint.shuffle_success(5, k)


INFORMATIVE = [
    listed("shuffle", 5),
    listed("replace any", 5),
    "shuffle: Mia Mia Leo Ada",
    "insert any: Mia in Mia, Leo, Ada",
    "remove any: Mia Leo Ada Tom",
]
INFORMATIVE += ["latin: A B C", "sudoku: 0030 0002 1000 0000", listed("copy", 4)]


@pytest.mark.parametrize("prompt", INFORMATIVE)
def test_correlation_is_never_negative_and_nothing_for_one_position(prompt):
    answers = answer_ids(prompt)
    n, rng = answers.shape[1], torch.Generator().manual_seed(3)
    for _ in range(20):
        order = torch.randperm(n, generator=rng).tolist()
        shown, k = int(torch.randint(0, n, (), generator=rng)), int(torch.randint(0, n + 1, (), generator=rng))
        visible = nothing(answers)
        visible[order[:shown]] = answers[int(torch.randint(len(answers), (), generator=rng))][order[:shown]]
        c = joint.total_correlation(answers, visible, order[-k:] if k else [])
        assert c >= 0 and (k > 1 or c == 0)
        rest = order[shown:]
        assert joint.total_correlation(answers, visible, order) == pytest.approx(
            joint.total_correlation(answers, visible, rest), abs=1e-9
        )


@pytest.mark.parametrize("prompt", INFORMATIVE)
def test_splitting_a_commit_set_never_costs_more(prompt):
    answers = answer_ids(prompt)
    n, rng = answers.shape[1], torch.Generator().manual_seed(4)
    for _ in range(10):
        sets = [torch.randperm(n, generator=rng).tolist()]
        costs = [joint.expected_correlation(answers, sets)]
        while any(len(one) > 1 for one in sets):
            largest = max(range(len(sets)), key=lambda i: len(sets[i]))
            cut = int(torch.randint(1, len(sets[largest]), (), generator=rng))
            sets[largest : largest + 1] = [sets[largest][:cut], sets[largest][cut:]]
            costs.append(joint.expected_correlation(answers, sets))
        assert all(later <= sooner + 1e-9 for sooner, later in itertools.pairwise(costs)) and costs[-1] == 0
        assert costs[0] == pytest.approx(joint.total_correlation(answers, nothing(answers), range(n)), abs=1e-9)


@pytest.mark.parametrize("prompt", INFORMATIVE)
def test_the_expected_cost_is_the_mean_over_what_was_written(prompt):
    answers = answer_ids(prompt)
    n = answers.shape[1]
    sets = [list(range(0, n, 2)), list(range(1, n, 2))]
    mean = 0.0
    for answer in answers:
        visible = nothing(answers)
        visible[sets[0]] = answer[sets[0]]
        mean += joint.total_correlation(answers, visible, sets[1]) / len(answers)
    want = joint.total_correlation(answers, nothing(answers), sets[0]) + mean
    assert joint.expected_correlation(answers, sets) == pytest.approx(want, abs=1e-9)
