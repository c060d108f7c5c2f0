"""Dream: S forwards whatever happens, and what the record says of the order. Quotas and filters are golden cases."""

import pytest
import torch
from transformers import TopKLogitsWarper, TopPLogitsWarper

import engines
from engines.core.sampling import within_mass, within_rank
from engines.methods.diffusion._orders import pick
from tests.engines.fakes import TableMasked, Watched, board, commits, lane

ORDERED = ("maskgit_plus", "topk_margin", "entropy")
P = 2  # tokens of the prompt


def decode(slug="dream", G=24, table=None, **params):
    return engines.run(slug, table or TableMasked(), [1, 2], params={"max_new_tokens": G, **params})


@pytest.mark.parametrize("alg", [*ORDERED, "origin"])
@pytest.mark.parametrize(("steps", "alg_temp"), [(1, 0.7), (5, 0.7), (40, 0.0)])
def test_it_takes_its_steps_writes_each_position_once_and_leaves_no_mask(alg, steps, alg_temp):
    trace = decode(alg=alg, steps=steps, alg_temp=alg_temp, temperature=alg_temp)
    assert trace.totals.forwards == len(trace.steps) == steps and trace.totals.tokens_fed == steps * (P + 24)
    assert sorted(q for c in commits(trace) for q in c) == list(range(P, P + 24))
    assert board(trace) == trace.output_ids


@pytest.mark.parametrize(("alg", "name"), [("topk_margin", "margin"), ("entropy", "neg_entropy"), ("origin", "draw")])
def test_the_lane_says_what_the_order_went_by(alg, name):
    for step in decode(alg=alg, steps=6).steps[:-1]:
        assert {one.name for one in step.scores} == {"confidence", name}
        shown, kept = lane(step, name), set(step.commits.positions) if step.commits else set()
        if alg == "origin":
            line = next(one.threshold for one in step.scores if one.name == "draw")
            assert line == pytest.approx(step.facts["freed"])
            assert all((v < line + 1 / 254) if q in kept else (v > line - 1 / 254) for q, v in shown.items())
            assert not kept or set(step.commits.causes) == {"random"}
        else:
            assert set(step.commits.causes) == {"quota"}
            assert min(shown[q] for q in kept) >= max(v for q, v in shown.items() if q not in kept) - 0.02


def test_a_drawn_position_is_always_a_mask_even_where_the_softmax_underflows():
    order, rng = torch.tensor([-5.0, -torch.inf, 0.0, -4.0, -torch.inf]), torch.Generator().manual_seed(0)
    assert (order / 0.01).softmax(-1).count_nonzero() == 1
    assert all(sorted(pick(order, 3, 0.01, rng).tolist()) == [0, 2, 3] for _ in range(200))
    assert pick(order, 2, 0.0, rng).tolist() == [2, 3] and pick(order, 0, 0.4, rng).tolist() == []


@pytest.mark.parametrize("name", ["temperature", "alg_temp"])
@pytest.mark.parametrize("alg", [*ORDERED, "origin"])
def test_the_smallest_temperature_breaks_nothing(name, alg):
    table = Watched(seed=1)
    trace = decode(table=table, steps=6, alg=alg, **{name: 1e-44})
    assert trace.totals.masks_left == 0
    for cells, written in zip(table.fed, commits(trace), strict=True):  # the proposals are the most likely tokens
        best = TableMasked.__call__(table, torch.tensor(cells)).argmax(-1)
        assert all(token == int(best[q]) for q, token in written.items())


@pytest.mark.parametrize(("top_p", "top_k"), [(0.01, 11), (0.5, 3), (0.99, 1), (1.0, 100)])
def test_the_filters_are_those_of_transformers(top_p, top_k):
    z = torch.randn(20, 11, generator=torch.Generator().manual_seed(1)).double() * 2
    wanted = TopKLogitsWarper(top_k)(None, TopPLogitsWarper(top_p)(None, z))
    assert torch.equal(within_rank(within_mass(z, top_p), top_k), wanted)


@pytest.mark.parametrize(("steps", "theta"), [(1, 0.6), (4, 0.6), (4, 0.0), (4, 1.01)])
def test_with_a_threshold_a_step_has_its_share_and_what_was_held_back(steps, theta):
    trace = decode("dream-threshold", steps=steps, threshold=theta)
    held = 0
    for i, step in enumerate(trace.steps):
        n = (24 // steps if i < steps else 0) + held
        assert step.facts["share"] == n and len(step.commits.positions) == n - step.facts["held_back"] >= 1
        sure = [p >= theta for p in step.commits.probabilities]
        assert all(sure[1:]) and step.commits.causes == ["threshold" if s else "top1" for s in sure]
        held = int(step.facts["held_back"])
    assert held == 0 and sorted(q for c in commits(trace) for q in c) == list(range(P, P + 24))
    assert trace.totals.forwards == {0.0: steps, 1.01: 24}.get(theta, trace.totals.forwards) >= steps


def test_with_a_threshold_one_token_per_step_is_llada_in_one_block_and_steps_divide_the_answer():
    assert commits(decode("dream-threshold", steps=24)) == commits(decode("llada", block_length=24))
    with pytest.raises(engines.UserError, match="steps=7 must divide max_new_tokens=24; try 4, 6, 8"):
        decode("dream-threshold", steps=7)
