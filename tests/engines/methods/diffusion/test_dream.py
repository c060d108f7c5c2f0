"""Dream: S forwards whatever happens, a quota from the time grid, and the best of the filtered distribution, or
chance."""

import math

import pytest
import torch

import engines
from engines.core.sampling import within_mass, within_rank
from engines.methods.diffusion._orders import pick, time_grid
from tests.engines.fakes import TableMasked, board, chi_square_p, commits, lane

ORDERED = ("maskgit_plus", "topk_margin", "entropy")
P = 2  # tokens of the prompt


def decode(slug="dream", seed=0, rng_seed=0, G=24, table=None, edits=(), **params):
    params = {"max_new_tokens": G, **params}
    return engines.run(slug, table or TableMasked(seed=seed), [1, 2], params=params, seed=rng_seed, edits=edits)


def counts(trace):
    return [len(c) for c in commits(trace)]


def boards(trace):
    """The board before every step."""
    cells = trace.header.prompt_ids + [trace.header.mask_id] * (trace.header.canvas - P)
    for written in commits(trace):
        yield list(cells)
        for q, token in written.items():
            cells[q] = token


def filtered(z, temperature=0.0, top_p=1.0, top_k=0):
    """The distribution of one row, [V] in float64, written out: temperature, then top-p, then top-k."""
    p = (z.double() / (temperature or 1)).softmax(-1)
    ranked = sorted(range(len(p)), key=lambda v: -float(p[v]))
    kept, mass = [], 0.0
    for v in ranked:
        if mass > top_p:
            break
        kept.append(v)
        mass += float(p[v])
    kept = kept[: top_k or None]
    return {v: float(p[v]) / sum(float(p[w]) for w in kept) for v in kept}


def worth(alg, distribution, token):
    first, second, *_ = [*sorted(distribution.values(), reverse=True), 0.0]
    return {
        "maskgit_plus": distribution.get(token, 0.0),
        "topk_margin": first - second,
        "entropy": sum(p * math.log(p + 1e-10) for p in distribution.values()),
    }[alg]


@pytest.mark.parametrize("alg", [*ORDERED, "origin"])
@pytest.mark.parametrize("steps", [1, 5, 40])
@pytest.mark.parametrize("alg_temp", [0.0, 0.7])
def test_it_takes_its_steps_writes_each_position_once_and_leaves_no_mask(alg, steps, alg_temp):
    trace = decode(alg=alg, steps=steps, alg_temp=alg_temp, temperature=alg_temp)
    assert trace.totals.forwards == len(trace.steps) == steps and trace.totals.tokens_fed == steps * (P + 24)
    written = [q for c in commits(trace) for q in c]
    assert (
        sorted(written) == list(range(P, P + 24)) and trace.totals.masks_left == 0 and board(trace) == trace.output_ids
    )


@pytest.mark.parametrize("alg", ORDERED)
@pytest.mark.parametrize("seed", range(2))
def test_the_quota_is_cut_to_whole_tokens_in_float32(alg, seed):
    """What the official loop was seen to do: the first step is one short, the last one makes up for it."""
    assert counts(decode(seed=seed, alg=alg, steps=12)) == [1, *[2] * 10, 3]
    assert counts(decode(seed=seed, alg=alg, steps=8)) == [2, *[3] * 6, 4]
    assert counts(decode(seed=seed, alg=alg, steps=12, G=32)) == [2] * 5 + [3] * 6 + [4]


@pytest.mark.parametrize("alg", ORDERED)
@pytest.mark.parametrize(
    "distribution", [{}, {"top_p": 0.5}, {"top_k": 2}, {"top_p": 0.8, "top_k": 3}, {"temperature": 0.6, "top_p": 0.9}]
)
def test_the_best_of_the_filtered_distribution_are_kept(alg, distribution):
    """Every commit is at least as good as what was left, by a score computed here from the model's logits."""
    table = TableMasked(seed=3)
    trace = decode(table=table, alg=alg, steps=7, **distribution)
    unlike_plain = 0
    for step, cells, written in zip(trace.steps, boards(trace), commits(trace), strict=True):
        z = table(torch.tensor(cells))
        distributions = {q: filtered(z[q], **distribution) for q, token in enumerate(cells) if token == table.mask_id}
        assert all(written[q] in distributions[q] for q in written)
        if alg == "maskgit_plus" and distribution.get("temperature"):
            shown = lane(step, "confidence")  # the tokens left masked were drawn too, and are not in the trace
            assert (
                min(shown[q] for q in written)
                >= max((v for q, v in shown.items() if q not in written), default=0) - 1 / 127
            )
            assert all(shown[q] == pytest.approx(distributions[q][token], abs=1 / 250) for q, token in written.items())
            continue
        good = {
            q: worth(alg, distributions[q], written.get(q, max(distributions[q], key=distributions[q].get)))
            for q in distributions
        }
        left = [good[q] for q in good if q not in written]
        assert min(good[q] for q in written) >= max(left, default=-math.inf) - 1e-5
        plain = {q: worth(alg, filtered(z[q]), written.get(q, int(z[q].argmax()))) for q in distributions}
        unlike_plain += sorted(plain, key=plain.get)[-len(written) :] != sorted(good, key=good.get)[-len(written) :]
    assert (
        not distribution or (alg == "maskgit_plus" and distribution.get("temperature")) or unlike_plain
    )  # the filters decide something here


@pytest.mark.parametrize(
    ("alg", "name"),
    [("maskgit_plus", "confidence"), ("topk_margin", "margin"), ("entropy", "neg_entropy"), ("origin", "draw")],
)
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


def test_origin_fills_each_mask_by_its_own_chance():
    """The first step of four frees each of 12 masks with 1 - t_1 / t_0: binomial counts, and the order has nothing to
    do with the model."""
    freed = 1 - float(time_grid(4)[1])
    seen = torch.zeros(13)
    for rng_seed in range(150):
        seen[counts(decode(alg="origin", steps=4, G=12, rng_seed=rng_seed))[0]] += 1
    assert chi_square_p(seen, [math.comb(12, n) * freed**n * (1 - freed) ** (12 - n) for n in range(13)]) > 1e-3
    orders = [[sorted(c) for c in commits(decode(alg="origin", steps=6, seed=s, rng_seed=5))] for s in (0, 1)]
    assert orders[0] == orders[1]


def test_dream_runs_on_when_nothing_is_left():
    trace = decode(alg="origin", steps=40, G=2)
    last = max(i for i, c in enumerate(commits(trace)) if c)
    assert last < 39 and trace.totals.forwards == 40
    assert all("No mask is left" in s.note and s.facts["ratio_masked"] == 0 for s in trace.steps[last + 1 :])


def test_positions_are_drawn_by_the_softmax_of_their_scores():
    order, rng = torch.tensor([0.1, -torch.inf, 0.9, 0.5]), torch.Generator().manual_seed(0)
    seen = torch.zeros(4)
    for _ in range(1500):
        seen[int(pick(order, 1, 0.4, rng)[0])] += 1
    assert chi_square_p(seen, (order.double() / 0.4).softmax(-1)) > 1e-3
    assert all(sorted(pick(order, 3, 0.4, rng).tolist()) == [0, 2, 3] for _ in range(50))
    assert pick(order, 2, 0.0, rng).tolist() == [2, 3] and pick(order, 0, 0.4, rng).tolist() == []


def test_a_drawn_position_is_always_a_mask_even_where_the_softmax_underflows():
    order, rng = torch.tensor([-5.0, -torch.inf, 0.0, -4.0, -torch.inf]), torch.Generator().manual_seed(0)
    assert (order / 0.01).softmax(-1).count_nonzero() == 1
    assert all(sorted(pick(order, 3, 0.01, rng).tolist()) == [0, 2, 3] for _ in range(200))
    trace = decode(steps=6, alg="entropy", alg_temp=0.01, table=TableMasked(seed=1, scale=8.0))
    assert sorted(q for c in commits(trace) for q in c) == list(range(P, P + 24))


@pytest.mark.parametrize("name", ["temperature", "alg_temp"])
@pytest.mark.parametrize("alg", [*ORDERED, "origin"])
def test_the_smallest_temperature_breaks_nothing(name, alg):
    table = TableMasked(seed=1)
    trace = decode(table=table, steps=6, alg=alg, **{name: 1e-44})
    assert trace.totals.masks_left == 0
    for cells, written in zip(boards(trace), commits(trace), strict=True):  # the proposals are the most likely tokens
        assert all(token == int(table(torch.tensor(cells))[q].argmax()) for q, token in written.items())


@pytest.mark.parametrize("top_p", [0.01, 0.5, 0.9, 0.99, 1.0])
@pytest.mark.parametrize("top_k", [0, 1, 3, 100])
def test_the_filters_keep_what_the_card_says(top_p, top_k):
    z = torch.randn(20, 11, generator=torch.Generator().manual_seed(1)) * 2
    kept = within_rank(within_mass(z, top_p), top_k)
    for row, left in zip(z, kept, strict=True):
        assert set((left > -torch.inf).nonzero()[:, 0].tolist()) == set(filtered(row, top_p=top_p, top_k=top_k))
        assert torch.equal(left[left > -torch.inf], row[left > -torch.inf])


# --- Fast-dLLM's threshold


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("steps", [1, 4, 24])
@pytest.mark.parametrize("theta", [0.0, 0.6, 1.01])
def test_a_step_has_its_share_and_what_was_held_back(seed, steps, theta):
    trace = decode("dream-threshold", seed, steps=steps, threshold=theta)
    held = 0
    for i, step in enumerate(trace.steps):
        n = (24 // steps if i < steps else 0) + held
        conf, kept = lane(step, "confidence"), step.commits.positions
        assert step.facts["share"] == n and len(kept) == n - step.facts["held_back"] >= 1
        best = sorted(conf, key=conf.get, reverse=True)
        assert min(conf[q] for q in kept) >= conf[best[len(kept) - 1]] - 1 / 250  # the best ones, as packed
        sure = [p >= theta for p in step.commits.probabilities]
        assert all(sure[1:]) and step.commits.causes == ["threshold" if s else "top1" for s in sure]
        waiting = sorted((v for q, v in conf.items() if q not in kept), reverse=True)[: n - len(kept)]
        assert all(v < theta + 1 / 250 for v in waiting)
        held = int(step.facts["held_back"])
    assert held == 0 and steps <= trace.totals.forwards <= 24 and trace.totals.masks_left == 0
    assert sorted(q for c in commits(trace) for q in c) == list(range(P, P + 24))


def test_steps_are_appended_only_while_tokens_are_held_back():
    assert counts(decode("dream-threshold", steps=6, threshold=0.0)) == [4] * 6
    assert counts(decode("dream-threshold", steps=6, threshold=1.01)) == [1] * 24
    assert 6 < decode("dream-threshold", steps=6, threshold=0.6).totals.forwards < 24


@pytest.mark.parametrize("seed", range(3))
def test_one_token_per_step_is_llada_in_one_block(seed):
    assert commits(decode("dream-threshold", seed, steps=24)) == commits(decode("llada", seed, block_length=24))


# --- edits and bad input


def test_steps_that_do_not_divide_the_answer_are_refused_with_some_that_do():
    with pytest.raises(engines.UserError, match="steps=7 must divide max_new_tokens=24; try 4, 6, 8"):
        decode("dream-threshold", steps=7)
