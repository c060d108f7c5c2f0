"""The judge's training: what the court holds apart, labels by an exact check, and a fit whose marks are shares."""

from __future__ import annotations

import pytest
import torch

import engines
from engines.core.errors import UserError
from engines.models.parts import load_part
from engines.training.core.commands import commands
from engines.training.heads.judge import auc, fit, marked, marks, share
from engines.training.heads.judge_data import HELD_ITEMS, WORLDS, Labelled, cases, court, mined


def test_what_is_held_out_was_never_taught():
    answers = {True: set(), False: set()}
    for world, held, prompt, right, wrong in cases(0, 40, 20):
        subjects, values, fact, question, _ = WORLDS[world]
        asked = [s for s in subjects if question.format(s=s) in prompt]
        assert len(asked) == 1 and (asked[0] in subjects[-HELD_ITEMS:]) == held
        value = right[1][0].strip()
        assert f"{fact.format(s=asked[0])} {value}." in prompt and wrong[-1][0].strip() in values
        assert wrong[-1][0].strip() != value and [good for _, good in wrong] == [True, False]
        answers[held] |= {(world, pieces[0][0].replace(asked[0], "{s}")) for pieces in (right, wrong)}
    assert not answers[True] & answers[False]


def test_the_state_is_that_of_the_row_that_reads_the_token_and_mined_tokens_are_not_the_targets_own():
    model = engines.load_model("tiny-ar-s", dtype="float32")
    rows = court(model, 0, 1, 0)
    world, _, prompt, right, _ = next(cases(0, 1, 0))
    tokens = [t for text, _ in right for t in model.tokenizer.encode(text)]
    ids = [*model.tokenizer.encode_prompt(prompt), *tokens]
    h = model.layers(model.embed(ids), model.new_cache(len(ids)), 0, model.num_layers)
    assert rows[0].world == world and rows[0].y.tolist() == [1.0] * len(tokens)
    assert torch.allclose(rows[0].e, h[-len(tokens) :].float(), atol=1e-4)
    assert rows[1].y.tolist()[-1] == 0 and rows[1].y.tolist()[0] == 1
    rows = mined(model, model, 0, 42, 0, 24, 2, 1.3)
    y = torch.cat([row.y for row in rows])
    assert not any(bool(row.first.any()) or row.held for row in rows) and 0 < int(y.sum()) < len(y)


def test_a_fit_separates_what_can_be_separated_and_says_what_it_kept():
    rng = torch.Generator().manual_seed(0)
    y = (torch.rand(400, generator=rng) < 0.8).float()
    e = torch.randn(400, 5, generator=rng) * 3 + 7
    e[:, 2] += 12 * y
    w, b = fit(e, y)
    assert auc(e @ w + b, y) > 0.99 and w.shape == (5,) and b.shape == ()
    rows = [
        Labelled(e[i : i + 100], y[i : i + 100], torch.zeros(100) > 0, torch.zeros(100), world, i >= 200)
        for i, world in ((0, "a"), (100, "b"), (200, "a"), (300, "b"))
    ]
    state, facts = marked(rows)
    assert set(state) == {"w", "b"} and set(facts["off_domain"]) == {"a", "b"}
    held = facts["held_out"]
    assert held["right_and_not_first_choice"]["tokens"] + held["wrong"]["tokens"] == 200
    assert marks(w, b, rows)["auc_of_log_probability"] == 0.5
    assert share(torch.tensor([True, False]))["interval"] == pytest.approx([0.0945, 0.9055], abs=1e-4)
    with pytest.raises(UserError, match="right and wrong tokens"):
        fit(e, torch.ones(400))


@pytest.mark.parametrize("name", ["tiny-ar-m", "tiny-ar-l"])
def test_the_shipped_judges_belong_to_their_targets_and_say_what_they_keep(name):
    part = load_part("judge", [engines.load_model(name, dtype="float32").record])
    held = part.card["held_out"]
    for kind in ("right_and_not_first_choice", "wrong"):
        low, high = held[kind]["interval"]
        assert low < held[kind]["kept"] / held[kind]["tokens"] < high
    assert held["auc"] > held["auc_of_log_probability"] and part.card["off_domain"]
    assert "judge" in commands()
