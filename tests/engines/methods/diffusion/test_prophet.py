"""Prophet: LLaDA until the gap in the answer's region passes the bar, then everything at once; constraints stand from
the start."""

import itertools
from types import SimpleNamespace

import pytest
import torch

import engines
from engines.core.params import resolve
from engines.methods.diffusion.prophet import guided
from engines.methods.diffusion.prophet.constraints import parse, placed, tokens_of
from engines.methods.diffusion.prophet.rule import calibrated_bars, gaps, verdict
from tests.engines.fakes import TableMasked, Watched, board, commits, lane

P, G = 2, 24
NEVER = {"bar_early": 100.0, "bar_mid": 100.0, "bar_late": 100.0}
PINNED = {"constraints": "9:#4|#5", "answer_start": 13}


def decode(seed=0, model=None, slug="prophet", rng_seed=0, edits=(), **params):
    given = {"max_new_tokens": G, "block_length": 8, **params}
    return engines.run(slug, model or TableMasked(seed=seed), [1, 2], params=given, seed=rng_seed, edits=edits)


def bars(early, mid, late):
    return {"bar_early": early, "bar_mid": mid, "bar_late": late}


def written(step):
    """(position, token, cause) of all that a step wrote; nothing where the plan had nothing left."""
    found = step.commits
    return list(zip(found.positions, found.tokens, found.causes, strict=True)) if found else []


@pytest.mark.parametrize("params", [{}, {"remasking": "random"}, {"temperature": 0.8}, {"cfg_scale": 1.0}], ids=str)
def test_without_a_region_or_a_bar_in_reach_it_is_llada_in_all_its_variants(params):
    plain = decode(3, slug="llada", rng_seed=5, **params)
    trace = decode(3, rng_seed=5, answer_length=0, bar_early=0.0, **params)
    assert commits(trace) == commits(plain) == commits(decode(3, rng_seed=5, **NEVER, **params))
    assert not any(s.choice or s.facts or [a for a in s.spans if a.kind == "answer"] for s in trace.steps)


@pytest.mark.parametrize("seed", range(2))
def test_the_record_has_the_gaps_of_the_answer_and_what_its_region_reads(seed):
    """Where a run exits is golden."""
    model, unchanged, last = Watched(seed=seed), 0, None
    trace = decode(model=model, **bars(1.7, 1.5, 1.0), answer_start=6, answer_length=4)
    for step, fed in zip(trace.steps, model.fed, strict=True):
        z = TableMasked(seed=seed)(torch.tensor(fed))
        seen = lane(step, "gap")
        assert list(seen) == list(range(P, P + G))
        assert list(seen.values()) == pytest.approx(gaps(z)[P:].tolist(), abs=float(gaps(z).max()) / 250)
        assert step.choice.value == pytest.approx(float(gaps(z)[P + 6 : P + 10].mean()), abs=1e-6)
        (span,) = [s for s in step.spans if s.kind == "answer"]
        read = [token if token != model.mask_id else int(z[q].argmax()) for q, token in enumerate(fed)][P + 6 : P + 10]
        assert (span.start, span.end, span.label) == (P + 6, P + 10, " ".join(map(str, read)))
        unchanged, last = unchanged + 1 if read == last else 0, read
        assert step.facts == {"answer_unchanged_for": unchanged}


def test_a_mean_on_the_bar_exits_and_the_phases_change_at_their_borders():
    p = resolve(engines.get_method("prophet").info.params, bars(4.0, 2.0, 1.0))
    z = torch.tensor([[5.0, 1.0, 0.0], [0.0, 1.0, 3.0]])  # gaps 4 and 2
    assert gaps(z).tolist() == [4, 2]
    seen = [verdict(z, g, 100, p) for g in (1, 32, 33, 66, 67, 100, 130)]
    assert [c.threshold for c in seen] == [4, 4, 2, 2, 1, 1, 1]
    assert [c.chosen for c in seen] == ["schedule"] * 2 + ["all-in"] * 5
    p.bar_early = 3.0
    assert verdict(z, 1, 100, p).chosen == "all-in" and verdict(z[:0], 1, 100, p) is None


def test_constraints_hold_at_every_forward_and_are_marked_once():
    model = Watched(seed=1)
    trace = decode(model=model, **PINNED, **NEVER)
    assert all(fed[P + 9 : P + 11] == [4, 5] for fed in model.fed)
    pinned = [(s.index, q, t) for s in trace.steps for q, t, why in written(s) if why == "constraint"]
    assert trace.output_ids[9:11] == [4, 5] and pinned == [(0, P + 9, 4), (0, P + 10, 5)]
    assert all([s.start for s in step.spans if s.kind == "constraint"] == [P + 9, P + 10] for step in trace.steps)
    decided = [sum(why != "constraint" for _, _, why in written(s)) for s in trace.steps]
    assert decided == [1] * 14 + [0] * 2 + [1] * 8  # a planned step without a mask costs a forward all the same


def test_guidance_hides_the_constraints_too():
    table = TableMasked(reach=30)
    x, given = torch.tensor([1, 2, 11, 4, 11]), torch.tensor([True, True, False, True, False])
    c, u = table(x), table(torch.full((5,), 11))
    assert torch.allclose(guided(table, x, given, 1.5)[:, :11], (u + 2.5 * (c - u))[:, :11])
    assert torch.equal(guided(table, x, given, 0), c)
    two, one = (decode(1, cfg_scale=w, **PINNED, **NEVER).totals for w in (1.0, 0.0))
    assert two.tokens_fed == 2 * one.tokens_fed and two.forwards == one.forwards


def test_words_without_offset_follow_and_ids_are_ids():
    assert parse("3:the| answer |#7|20:is", 24) == [(3, "the"), (None, "answer"), (None, "#7"), (20, "is")]
    assert parse("  ", 24) == [] and parse("3:a:b|c:d", 24) == [(3, "a:b"), (None, "c:d")]
    p = resolve(engines.get_method("prophet").info.params, {"constraints": "#4|#5|9:6 7|#8|2:1", "answer_start": 0})
    assert placed(p, TableMasked()) == {0: 4, 1: 5, 9: 6, 10: 7, 11: 8, 2: 1}


def test_a_word_is_cut_by_the_tokenizer_with_the_space_before_it_unless_that_takes_more_tokens():
    known = {"the": [1], " the": [2], "answer": [3], " answer": [8, 3], "<mask>": [7], " <mask>": [7]}
    words = SimpleNamespace(encode=lambda text: known.get(text, []))
    model = SimpleNamespace(vocab_size=9, mask_id=7, record=SimpleNamespace(name="table"), tokenizer=words)
    assert [tokens_of(word, model) for word in ("the", "answer", "#6")] == [[2], [3], [6]]
    for word, sentence in (
        ("no", "'no' is no token of table; give offset:word"),
        ("<mask>", "'<mask>' is the mask of"),
    ):
        with pytest.raises(engines.UserError, match=sentence):
            tokens_of(word, model)


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"constraints": "3:#11"}, "ids go from 0 to 11, without the mask 11"),
        ({"constraints": "3:#12"}, "ids go from 0 to 11, without the mask 11"),
        ({"constraints": "3:#4|3:#5"}, "'#5' would begin at offset 3, where another one is; move one of them"),
        ({"constraints": "23:#4|#5", "answer_start": 2}, "'#5' lies outside of the answer at 24; offsets go from 0 to"),
        ({"constraints": "20:4 5|#6"}, "put the watched region at 24, outside of the answer.*set answer_start"),
        ({"constraints": "24:#4"}, "24:#4 lies outside of the answer; offsets go from 0 to 23"),
        ({"constraints": "3:#4||5:#5"}, "has a part without a word; give offset:word"),
        ({"answer_start": 24}, "answer_start=24 lies outside of the answer; it has positions 0 to 23"),
    ],
)
def test_what_does_not_fit_is_refused_before_the_first_forward(params, sentence):
    model = Watched()
    with pytest.raises(engines.UserError, match=sentence):
        decode(model=model, **params)
    assert not model.fed


def test_after_the_exit_a_hidden_token_is_decoded_again_and_nothing_else_runs():
    cut = decode(bar_early=0.0)
    for at in (P, P + 20):
        fork = decode(bar_early=0.0, edits=[(0, engines.Edit(remask=[at], params=NEVER))])
        assert commits(fork)[0] == commits(cut)[0] and len(fork.steps) == 2
        assert fork.steps[1].commits.causes == ["remasked", "quota"] and fork.steps[1].commits.positions == [at, at]
        assert fork.totals.masks_left == 0 and board(fork) == fork.output_ids


def test_bars_region_and_constraints_can_be_changed_during_the_run():
    quick = decode(2, **NEVER, edits=[(3, engines.Edit(params={"bar_early": 0.0}))])
    whole = commits(decode(2, **NEVER))
    assert quick.steps[-1].choice.chosen == "all-in" and quick.totals.forwards == 5 and commits(quick)[:4] == whole[:4]
    edits = [(3, engines.Edit(params={"answer_start": 2})), (5, engines.Edit(params={"answer_start": 500}))]
    moved = decode(2, **NEVER, edits=edits)
    drawn = [[(s.start - P, s.end - P) for s in step.spans if s.kind == "answer"] for step in moved.steps]
    assert drawn == [[(12, 17)]] * 4 + [[(2, 7)]] * 2 + [[]] * 18 and commits(moved) == whole
    trace = decode(1, **PINNED, **NEVER, edits=[(2, engines.Edit(force={P + 9: 7}, remask=[P + 10]))])
    assert trace.output_ids[9] == 7 and trace.totals.masks_left == 0
    causes = [why for s in trace.steps for q, _, why in written(s) if q == P + 10]
    assert causes == ["constraint", "remasked", "quota"]


def test_calibrated_bars_are_the_quantiles_of_the_mean_gap_of_whole_runs():
    traces = [decode(seed, **NEVER) for seed in range(5)]
    values = sorted(s.choice.value for t in traces for s in t.steps)
    found = calibrated_bars(traces)
    assert list(found) == ["bar_early", "bar_mid", "bar_late"]
    assert all(a >= b for a, b in itertools.pairwise(found.values()))
    for bar, share in zip(found.values(), (0.6, 0.4, 0.2), strict=True):
        assert sum(v < bar for v in values) / len(values) == pytest.approx(share, abs=0.02)
    for useless in ([traces[0], decode(1, bar_early=0.0)], [decode(1, answer_length=0)]):
        with pytest.raises(engines.UserError, match="never stop early"):
            calibrated_bars(useless)
