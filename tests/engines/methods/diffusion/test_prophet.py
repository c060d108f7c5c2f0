"""Prophet: LLaDA until the gap in the answer's region passes the bar, then everything at once; constraints stand from
the start."""

import itertools

import pytest
import torch

import engines
from engines.core.masks import transfer_schedule
from engines.core.params import resolve
from engines.core.trace import Piece
from engines.methods.diffusion.prophet import guided
from engines.methods.diffusion.prophet.bars import calibrated_bars, gaps, verdict
from engines.methods.diffusion.prophet.constraints import parse, placed, tokens_of
from tests.engines.fakes import TableMasked, board, commits, lane

SEEDS, P, G = range(2), 2, 24
NEVER = {"bar_early": 100.0, "bar_mid": 100.0, "bar_late": 100.0}
PINNED = {"constraints": "9:#4|#5", "answer_start": 13}


class Watched(TableMasked):
    """Remembers every board it was given."""

    def __init__(self, **options):
        super().__init__(**options)
        self.fed = []

    def __call__(self, x):
        if x.ndim == 1:
            self.fed.append(x.tolist())
        return super().__call__(x)


class Words:
    """A tokenizer whose ids are these texts."""

    def __init__(self, *texts):
        self.texts = texts

    def piece(self, token):
        return (
            Piece(token, self.texts[token], "special")
            if self.texts[token].startswith("<")
            else Piece(token, self.texts[token])
        )

    def decode(self, ids):
        return "".join(self.texts[i] for i in ids)

    def encode(self, text):
        """The longest token from the left each time; nothing where one is missing."""
        found = []
        while text:
            best = max((t for t in self.texts if text.startswith(t)), key=len, default=None)
            if best is None:
                return []
            found, text = [*found, self.texts.index(best)], text[len(best) :]
        return found

    def encode_prompt(self, text):
        return [1, 2]


def decode(seed=0, model=None, slug="prophet", rng_seed=0, edits=(), **params):
    table = model or TableMasked(seed=seed)
    return engines.run(
        slug, table, [1, 2], params={"max_new_tokens": G, "block_length": 8, **params}, seed=rng_seed, edits=edits
    )


def bars(early, mid, late):
    return {"bar_early": early, "bar_mid": mid, "bar_late": late}


def llada_with_constraints(table, pinned, b, steps):
    """The official loop without its exit, written out: low confidence, no noise. Returns what each forward commits."""
    x = torch.tensor([1, 2] + [table.mask_id] * G)
    for q, token in pinned.items():
        x[q] = token
    found = []
    for start in range(P, P + G, b):
        for n in transfer_schedule(int((x[start : start + b] == table.mask_id).sum()), steps * b // G):
            p, x0 = table(x).softmax(-1).max(-1)
            p[(x != table.mask_id) | (torch.arange(len(x)) >= start + b)] = -1
            best = p.topk(n).indices
            x[best] = x0[best]
            found.append({int(q): int(x0[q]) for q in best})
    return found


def exit_of(trace):
    """The forward (from 1) at which everything was filled, or None."""
    return next((s.index + 1 for s in trace.steps if s.choice and s.choice.chosen == "all-in"), None)


def written(step):
    """(position, token, cause) of all that a step wrote; nothing where the plan had nothing left."""
    return (
        list(zip(step.commits.positions, step.commits.tokens, step.commits.causes, strict=True)) if step.commits else []
    )


def decided(trace):
    """What each forward wrote, constraints left out."""
    return [{q: t for q, t, why in written(s) if why != "constraint"} for s in trace.steps]


# --- the exit


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("b", "steps"), [(8, 24), (8, 12), (24, 8), (24, 24), (8, 48)])
@pytest.mark.parametrize(
    "constraints", [{}, {9: 4, 10: 5}, dict.fromkeys(range(8, 16), 6)], ids=["none", "two", "a whole block"]
)
def test_bars_out_of_reach_are_llada_with_the_same_constraints(seed, b, steps, constraints):
    text = "|".join(f"{q}:#{token}" for q, token in constraints.items())
    trace = decode(seed, block_length=b, steps=steps, constraints=text, answer_start=4, **NEVER)
    assert decided(trace) == llada_with_constraints(
        TableMasked(seed=seed), {P + q: t for q, t in constraints.items()}, b, steps
    )
    assert trace.totals.forwards == steps and exit_of(trace) is None
    if not constraints:
        assert commits(trace) == commits(decode(seed, slug="llada", block_length=b, steps=steps))


@pytest.mark.parametrize("params", [{}, {"remasking": "random"}, {"temperature": 0.8}, {"cfg_scale": 1.0}], ids=str)
def test_a_region_of_nothing_is_llada_in_all_its_variants(params):
    trace = decode(3, rng_seed=5, answer_length=0, bar_early=0.0, **params)
    assert commits(trace) == commits(decode(3, slug="llada", rng_seed=5, **params))
    assert not any(s.choice or s.facts or [a for a in s.spans if a.kind == "answer"] for s in trace.steps)
    assert trace.steps[0].note.startswith("No answer region is watched")


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("params", [{}, PINNED], ids=["plain", "constraints"])
def test_bars_of_zero_fill_everything_with_the_first_proposals(seed, params):
    model = Watched(seed=seed)
    trace = decode(model=model, bar_early=0.0, **params)
    z = TableMasked(seed=seed)(torch.tensor(model.fed[0]))
    assert trace.totals.forwards == len(model.fed) == len(trace.steps) == 1 == exit_of(trace)
    expected = torch.where(torch.tensor(model.fed[0]) == model.mask_id, z.argmax(-1), torch.tensor(model.fed[0]))
    assert trace.output_ids == expected[P:].tolist()
    assert decided(trace)[0].keys() == {q for q, token in enumerate(model.fed[0]) if token == model.mask_id}
    assert set(trace.steps[0].commits.causes) == ({"all-in", "constraint"} if params else {"all-in"})


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("params", [{}, PINNED, {"remasking": "random"}, {"temperature": 0.6}], ids=str)
def test_before_the_exit_it_is_the_full_run(seed, params):
    full, cut = (decode(seed, rng_seed=7, **params, **line) for line in (NEVER, bars(2.5, 1.6, 1.0)))
    before = commits(cut)[:-1] if exit_of(cut) else commits(cut)
    assert before == commits(full)[: len(before)]
    assert {why for s in cut.steps[: len(before)] for _, _, why in written(s)} <= {"quota", "random", "constraint"}
    assert exit_of(full) is None and full.totals.forwards == G


@pytest.mark.parametrize("seed", range(5))
def test_the_exit_is_the_first_forward_whose_mean_gap_reaches_its_bar(seed):
    model = Watched(seed=seed)
    trace = decode(model=model, **bars(1.7, 1.5, 1.0), answer_start=6, answer_length=4)
    S, line = 24, {"early": 1.7, "mid": 1.5, "late": 1.0}
    for g, (step, fed) in enumerate(zip(trace.steps, model.fed, strict=True), 1):
        best, second = TableMasked(seed=seed)(torch.tensor(fed))[P + 6 : P + 10].sort(-1).values[:, -2:].flip(-1).T
        phase = "early" if g / S < 0.33 else "mid" if g / S < 0.67 else "late"
        mean = float((best - second).mean())
        c = step.choice
        assert (c.value, c.threshold, c.quantity, c.unit) == (
            pytest.approx(mean, abs=1e-6),
            line[phase],
            "mean gap",
            "nats",
        )
        assert c.detail == f"{phase} phase, forward {g} of 24, bars 1.7 / 1.5 / 1"
        assert c.chosen == ("all-in" if mean >= line[phase] else "schedule") and (
            mean < line[phase] or g == len(trace.steps)
        )
    assert exit_of(trace) == (
        len(trace.steps) if len(trace.steps) < S or trace.steps[-1].choice.chosen == "all-in" else None
    )


def test_a_mean_on_the_bar_exits_and_the_phases_change_at_their_borders():
    p = resolve(engines.get_method("prophet").info.params, bars(4.0, 2.0, 1.0))
    z = torch.tensor([[5.0, 1.0, 0.0], [0.0, 1.0, 3.0]])  # gaps 4 and 2
    assert gaps(z).tolist() == [4, 2]
    seen = [verdict(z, g, 100, p) for g in (1, 32, 33, 66, 67, 100, 130)]
    assert [c.threshold for c in seen] == [4, 4, 2, 2, 1, 1, 1]
    assert [c.chosen for c in seen] == ["schedule"] * 2 + ["all-in"] * 5
    p.bar_early = 3.0
    assert verdict(z, 1, 100, p).chosen == "all-in" and verdict(z[:0], 1, 100, p) is None


# --- constraints and the region


@pytest.mark.parametrize("seed", SEEDS)
def test_constraints_hold_at_every_forward_and_are_marked_once(seed):
    model = Watched(seed=seed)
    trace = decode(model=model, **PINNED, **NEVER)
    assert all(fed[P + 9 : P + 11] == [4, 5] for fed in model.fed)
    assert trace.output_ids[9:11] == [4, 5]
    assert [(s.index, q, t) for s in trace.steps for q, t, why in written(s) if why == "constraint"] == [
        (0, P + 9, 4),
        (0, P + 10, 5),
    ]
    assert all([s.start for s in step.spans if s.kind == "constraint"] == [P + 9, P + 10] for step in trace.steps)
    assert [len(c) for c in decided(trace)] == [1] * 8 + [1] * 6 + [0] * 2 + [
        1
    ] * 8  # a planned step without a mask costs a forward all the same


def test_the_region_is_drawn_with_what_it_reads():
    model = Watched(seed=1)
    trace = decode(model=model, answer_start=6, answer_length=3, **NEVER)
    unchanged, last = 0, None
    for step, fed in zip(trace.steps, model.fed, strict=True):
        x0, (span,) = TableMasked(seed=1)(torch.tensor(fed)).argmax(-1), [s for s in step.spans if s.kind == "answer"]
        reading = " ".join(str(int(x0[q]) if fed[q] == model.mask_id else fed[q]) for q in range(P + 6, P + 9))
        assert (span.start, span.end, span.label) == (P + 6, P + 9, reading)
        unchanged = unchanged + 1 if reading == last else 0
        assert step.facts == {"answer_unchanged_for": unchanged}
        last = reading
    assert any(s.facts["answer_unchanged_for"] for s in trace.steps) and any(
        not s.facts["answer_unchanged_for"] for s in trace.steps[1:]
    )


def test_the_gap_lane_covers_the_whole_answer_written_places_too():
    model = Watched(seed=2)
    trace = decode(model=model, **NEVER)
    for step, fed in zip(trace.steps, model.fed, strict=True):
        want, seen = gaps(TableMasked(seed=2)(torch.tensor(fed)))[P:], lane(step, "gap")
        assert list(seen) == list(range(P, P + G))
        assert list(seen.values()) == pytest.approx(want.tolist(), abs=float(want.max()) / 250)


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
    assert parse("a|b", 24) == [(None, "a"), (None, "b")] and parse("  ", 24) == []
    assert parse("3:a:b|c:d", 24) == [(3, "a:b"), (None, "c:d")]
    p = resolve(engines.get_method("prophet").info.params, {"constraints": "#4|#5|9:6 7|#8|2:1", "answer_start": 0})
    assert placed(p, TableMasked()) == {0: 4, 1: 5, 9: 6, 10: 7, 11: 8, 2: 1}


WORDS = Words("<pad>", "the", " the", "answer", "7", " 7", "#x", "<mask>", " ")


def test_a_word_is_cut_by_the_tokenizer_with_the_space_before_it_unless_that_takes_more_tokens():
    model = TableMasked(vocab_size=9)
    model.mask_id, model.tokenizer = 7, WORDS
    assert [tokens_of(w, model) for w in ("the", "answer", "7", "#x", "#6", "the answer", "77")] == [
        [2],
        [3],
        [5],
        [6],
        [6],
        [2, 8, 3],
        [5, 4],
    ]
    trace = decode(model=model, constraints="3:the answer|7", **NEVER)
    assert trace.output_ids[3:7] == [2, 8, 3, 5]
    assert [s.start - P for s in trace.steps[0].spans if s.kind == "constraint"] == [3, 4, 5, 6]
    assert [(s.start - P, s.end - P) for s in trace.steps[0].spans if s.kind == "answer"] == [(8, 13)]


@pytest.mark.parametrize(
    ("word", "sentence"),
    [("answers", "'answers' is no token of table; give offset:word"), ("<mask>", "'<mask>' is the mask of table")],
)
def test_a_word_that_no_tokens_spell_is_refused_before_the_first_forward(word, sentence):
    model = Watched(vocab_size=9)
    model.mask_id, model.tokenizer = 7, WORDS
    with pytest.raises(engines.UserError, match=sentence):
        decode(model=model, constraints=f"3:{word}")
    assert not model.fed


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"constraints": "3:#4|3:#5"}, "'#5' would stand at offset 3, where another one stands; move one of them"),
        ({"constraints": "23:#4|#5", "answer_start": 2}, "'#5' lies outside of the answer at 24; offsets go from 0 to"),
        ({"constraints": "20:4 5|#6"}, "put the watched region at 24, outside of the answer.*set answer_start"),
    ],
)
def test_constraints_that_do_not_fit_are_refused_before_the_first_forward(params, sentence):
    model = Watched()
    with pytest.raises(engines.UserError, match=sentence):
        decode(model=model, **params)
    assert not model.fed


@pytest.mark.parametrize("word", ["#11", "#12"])
def test_an_id_that_is_the_mask_or_no_token_is_refused(word):
    with pytest.raises(engines.UserError, match="ids go from 0 to 11, without the mask 11"):
        decode(constraints=f"3:{word}")


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"constraints": "24:#4"}, "24:#4 lies outside of the answer; offsets go from 0 to 23"),
        ({"constraints": "3:#4||5:#5"}, "has a part without a word; give offset:word"),
        ({"answer_start": 24}, "answer_start=24 lies outside of the answer; it has positions 0 to 23"),
        ({"constraints": "22:#4"}, "put the watched region at 24, outside of the answer.*set answer_start"),
    ],
)
def test_what_does_not_fit_is_refused_before_the_run(params, sentence):
    with pytest.raises(engines.UserError, match=sentence):
        engines.stream("prophet", TableMasked(), [1, 2], params={"max_new_tokens": G, "block_length": 8, **params})


# --- a person's hand


def test_after_the_exit_a_hidden_token_is_decoded_again_and_nothing_else_runs():
    cut = decode(bar_early=0.0)
    for at in (P, P + 20):
        fork = decode(bar_early=0.0, edits=[(0, engines.Edit(remask=[at], params=NEVER))])
        assert commits(fork)[0] == commits(cut)[0] and len(fork.steps) == 2
        assert fork.steps[1].commits.causes == ["remasked", "quota"] and fork.steps[1].commits.positions == [at, at]
        assert fork.totals.masks_left == 0 and board(fork) == fork.output_ids


def test_the_bars_and_the_region_can_be_moved_during_the_run():
    quick = decode(2, **NEVER, edits=[(3, engines.Edit(params={"bar_early": 0.0}))])
    assert exit_of(quick) == 5 == quick.totals.forwards and commits(quick)[:4] == commits(decode(2, **NEVER))[:4]
    moved = decode(
        2,
        **NEVER,
        edits=[(3, engines.Edit(params={"answer_start": 2})), (5, engines.Edit(params={"answer_start": 500}))],
    )
    drawn = [[(s.start - P, s.end - P) for s in step.spans if s.kind == "answer"] for step in moved.steps]
    assert drawn == [[(12, 17)]] * 4 + [[(2, 7)]] * 2 + [[]] * 18
    assert commits(moved) == commits(decode(2, **NEVER))


def test_a_constraint_that_a_person_changes_stays_changed():
    trace = decode(1, **PINNED, **NEVER, edits=[(2, engines.Edit(force={P + 9: 7}, remask=[P + 10]))])
    assert trace.output_ids[9] == 7 and trace.totals.masks_left == 0
    causes = [why for s in trace.steps for q, _, why in written(s) if q == P + 10]
    assert causes == ["constraint", "remasked", "quota"]


# --- bars for another model


def test_calibrated_bars_are_the_quantiles_of_the_mean_gap():
    traces = [decode(seed, **NEVER) for seed in range(5)]
    values = sorted(s.choice.value for t in traces for s in t.steps)
    found = calibrated_bars(traces)
    assert list(found) == ["bar_early", "bar_mid", "bar_late"]
    assert all(a >= b for a, b in itertools.pairwise(found.values()))
    for bar, share in zip(found.values(), (0.6, 0.4, 0.2), strict=True):
        assert sum(v < bar for v in values) / len(values) == pytest.approx(share, abs=0.02)
    exits = [exit_of(decode(seed, **found)) for seed in range(5, 11)]
    assert any(exits) and all(e is None or e <= G for e in exits)


@pytest.mark.parametrize("params", [{"bar_early": 0.0}, {"answer_length": 0}])
def test_runs_that_stopped_early_or_watched_nothing_calibrate_nothing(params):
    with pytest.raises(engines.UserError, match="never stop early"):
        calibrated_bars(
            [decode(0, **NEVER), decode(1, **{**NEVER, **params})] if "bar_early" in params else [decode(1, **params)]
        )
