"""Dimple: everything sure at once, else the clock of the fraction masked; pinned words are context from the start and
stay."""

import math

import pytest
import torch

import engines
from engines.methods.diffusion.dimple.structure_prior import spell
from tests.engines.fakes import TableMasked, Watched, board, commits, lane

RULES = ("maskgit_plus", "topk_margin", "entropy", "origin", "origin-ratio", "autoregressive")
P, G = 2, 24
PRIOR = "3:5 6|10:#0|#7|23:#4"
PINNED = {5: 5, 6: 6, 12: 0, 13: 7, 25: 4}  # on the board


def decode(seed=0, rng_seed=0, table=None, edits=(), detail="full", **params):
    given = {"max_new_tokens": G, "steps": G, "alg_p_threshold": 0.6, **params}
    model = table or TableMasked(seed=seed, eos_ids=(4,))
    return engines.run("dimple", model, [1, 2], params=given, seed=rng_seed, edits=edits, detail=detail)


def modes(trace):
    return [step.choice.chosen for step in trace.steps]


def causes(step):
    return dict(zip(step.commits.positions, step.commits.causes, strict=True)) if step.commits else {}


@pytest.mark.parametrize("alg", RULES)
@pytest.mark.parametrize(("theta", "steps"), [(0.0, 7), (0.6, 1), (0.6, 40), (1.0, 24)])
def test_it_ends_in_time_with_nothing_left_and_nothing_written_twice(alg, theta, steps):
    table = Watched()
    if alg == "autoregressive" and theta == 0:
        with pytest.raises(engines.UserError, match=f"set steps to {G}"):
            decode(table=table, alg=alg, alg_p_threshold=theta, steps=steps)
        steps = G
    trace = decode(table=table, alg=alg, alg_p_threshold=theta, steps=steps)
    assert sorted(q for c in commits(trace) for q in c) == list(range(P, P + G)) and board(trace) == trace.output_ids
    assert trace.totals.forwards == len(table.fed) <= steps
    assert table.mask_id in table.fed[-1], "it stops with the forward that wrote the last one"
    empty = [step for step in trace.steps if not step.commits]
    assert not empty or (alg == "origin-ratio" and all(s.facts["due"] >= 1 for s in empty)), "a draw may take none"


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("alg", ["maskgit_plus", "topk_margin", "origin", "autoregressive"])
def test_everything_above_the_line_is_written_together_and_nothing_else(seed, alg):
    table = Watched(seed=seed)
    trace = decode(table=table, alg=alg)
    for i, (step, cells) in enumerate(zip(trace.steps, table.fed, strict=True)):
        top = TableMasked.__call__(table, torch.tensor(cells)).softmax(-1).topk(2).values
        score = top[:, 0] - top[:, 1] if alg == "topk_margin" else top[:, 0]
        masks = [q for q, token in enumerate(cells) if token == table.mask_id]
        sure = {q for q in masks if score[q] > 0.6}
        mode = "final" if i == G - 1 else "confident" if sure else "fallback"
        assert (step.choice.chosen, step.choice.threshold) == (mode, 0.6)
        assert step.choice.value == pytest.approx(max(float(score[q]) for q in masks), abs=1e-6)
        if mode == "confident":
            assert set(step.commits.positions) == sure and set(step.commits.causes) == {"confident"}
        if mode == "fallback":
            assert set(step.commits.causes) == {{"origin": "random", "autoregressive": "leftmost"}.get(alg, "fallback")}
            assert alg == "autoregressive" or len(step.commits.positions) == step.facts["due"]
    assert {"confident", "fallback"} <= set(modes(trace))


def test_a_score_on_the_line_is_not_above_it_and_an_entropy_never_is():
    table = TableMasked()
    table.table.rows[:] = -50.0
    table.table.rows[:, :2] = 0.0  # two tokens of exactly one half each
    assert set(modes(decode(table=table, alg_p_threshold=0.5))[:-1]) == {"fallback"}
    assert modes(decode(table=table, alg_p_threshold=0.49)) == ["confident"]
    trace = decode(alg="entropy", alg_p_threshold=0.01)
    assert set(modes(trace)[:-1]) == {"fallback"}
    for step in trace.steps:
        shown, kept = lane(step, "neg_entropy"), set(step.commits.positions)
        left = max((v for q, v in shown.items() if q not in kept), default=-math.inf)
        assert max(shown.values()) <= 0 and min(shown[q] for q in kept) >= left - 0.02


def test_the_last_step_writes_the_rest_and_says_which_were_unsure():
    trace = decode(steps=3)
    last = trace.steps[-1].commits
    assert len(trace.steps) == 3 and modes(trace)[-1] == "final" and "final" in last.causes
    assert last.causes == ["confident" if p > 0.6 else "final" for p in last.probabilities]


def test_the_clock_starts_with_what_is_not_pinned():
    pinned = decode(alg_p_threshold=0.0, steps=6, structure_prior="0:" + "5 " * 12)
    free = decode(alg_p_threshold=0.0, steps=6, max_new_tokens=12)
    decided = [len([q for q, why in causes(step).items() if why != "forced"]) for step in pinned.steps]
    assert decided == [len(c) for c in commits(free)] == [1, 2, 2, 2, 2, 3]
    assert [s.facts for s in pinned.steps] == [s.facts for s in free.steps]


@pytest.mark.parametrize(("original", "name"), [(True, "confidence"), (False, "filtered")])
def test_the_score_is_of_the_models_own_distribution_unless_that_is_switched_off(original, name):
    table = Watched(seed=2)
    trace = decode(table=table, temperature=0.5, top_p=0.9, use_original_confidence=original, alg_p_threshold=0.8)
    for step, cells in zip(trace.steps[:-1], table.fed, strict=False):
        z = TableMasked.__call__(table, torch.tensor(cells)).double()
        own, sharp = z.softmax(-1), (z / 0.5).softmax(-1)
        assert [one.name for one in step.scores if one.threshold is not None] == [name]
        for q, token in zip(step.commits.positions, step.commits.tokens, strict=True):
            ranked = sharp[q].sort(descending=True).values
            mass = float(ranked[: int((ranked.cumsum(-1) <= 0.9).sum()) + 1].sum())
            assert lane(step, "confidence")[q] == pytest.approx(float(own[q, token]), abs=1 / 250)
            assert lane(step, "filtered")[q] == pytest.approx(float(sharp[q, token]) / mass, abs=1 / 250)
            assert (lane(step, name)[q] > 0.8 - 1 / 250) or step.choice.chosen == "fallback"


@pytest.mark.parametrize("alg", RULES)
@pytest.mark.parametrize("detail", ["none", "full"])
def test_pinned_words_stay_and_are_seen_from_the_first_forward(alg, detail):
    table = Watched(eos_ids=(4,))
    trace = decode(table=table, alg=alg, structure_prior=PRIOR, detail=detail)
    assert [q for q, token in enumerate(table.fed[0]) if token != table.mask_id] == [0, 1, *PINNED]
    assert all({q: cells[q] for q in PINNED} == PINNED for cells in [*table.fed, [1, 2, *trace.output_ids]])
    assert len(trace.output_ids) == G and trace.totals.masks_left == 0
    if detail == "full":
        first, *later = trace.steps
        assert {q: token for q, token in commits(trace)[0].items() if q in PINNED} == PINNED
        assert all(causes(first)[q] == "forced" for q in PINNED)
        assert not any(q in causes(step) for step in later for q in PINNED)
        drawn = [[(s.start, s.end) for s in step.spans if s.kind == "pinned"] for step in trace.steps]
        assert drawn == [[(5, 7), (12, 13), (13, 14), (25, 26)]] * len(drawn)


def test_words_are_cut_as_the_models_own_tokenizer_cuts_them(dlm):
    for words in (" Ada, Leo", "naïve 😀\n", "unhappiest"):
        tokens = spell(words, dlm)
        assert tokens == dlm.tokenizer.encode(words) and dlm.tokenizer.decode(tokens) == words
    assert spell("answer<eos>", dlm)[-1] in dlm.eos_ids
    params = {"max_new_tokens": 24, "steps": 24, "structure_prior": "3:answer |10:<eos>"}
    trace = engines.run("dimple", dlm, "add: 457 + 286", params=params)
    assert trace.output_ids[3:5] == dlm.tokenizer.encode("answer ") and trace.output_ids[10] in dlm.eos_ids
    with pytest.raises(engines.UserError, match=r"'Ada<mask>' holds the mask of this model; use other words"):
        spell("Ada<mask>", dlm)


def test_the_line_and_the_steps_can_change_on_the_way():
    opened = decode(alg_p_threshold=1.0, edits=[(2, engines.Edit(params={"alg_p_threshold": 0.05}))])
    assert modes(opened) == ["fallback"] * 3 + ["confident"]
    shorter = decode(alg_p_threshold=1.0, edits=[(2, engines.Edit(params={"steps": 2}))])
    assert modes(shorter) == ["fallback"] * 3 + ["final"] and shorter.totals.masks_left == 0


@pytest.mark.parametrize(
    ("prior", "sentence"),
    [
        ("24: 5", "' 5' at 24, outside of the answer; it has positions 0 to 23"),
        ("3:5|3:6", "names position 3 twice; give each position once"),
        ("3:", "a part without words; give position:words"),
        ("22:5 6 7", "would take the positions 22 to 24, and the answer ends at 23"),
        ("3:5 6|4:7", "would take the positions 4 to 4, and position 4 is pinned already"),
        ("3:five", "has no tokenizer and 'five' was given; write token ids from 0 to 11"),
        ("3:5 11", "'5 11' holds the mask of this model; use other words"),
        ("3:#12", "#12 is not a token to pin; ids go from 0 to 11, without the mask 11"),
        ("5 " * 24, "pins all 24 positions, so nothing is left to decode"),
    ],
)
def test_a_prior_that_does_not_fit_is_refused_before_the_first_forward(prior, sentence):
    table = Watched()
    with pytest.raises(engines.UserError, match=sentence):
        decode(table=table, structure_prior=prior)
    assert table.fed == []
