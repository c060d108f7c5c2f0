"""Speculative Jacobi decoding: the greedy picture stays, and the record is what was tested. The distribution of what is
drawn is asked in `speculative/test_laws.py`."""

import itertools

import numpy as np
import pytest
import torch

import engines
from engines import UserError

DIGITS, TEXT = "tiny-digits", "tiny-ar-s"


def run(model=DIGITS, prompt="7", seed=0, **params):
    return engines.run("sjd", model, prompt, params=params, seed=seed)


@pytest.mark.parametrize(("window", "init"), [(1, "random"), (5, "above"), (64, "left")])
def test_at_temperature_0_the_picture_is_the_greedy_one(window, init):
    greedy = engines.run("greedy", DIGITS, "3", params={"max_new_tokens": 64})
    ours = run(prompt="3", window=window, init=init, temperature=0.0)
    assert ours.output_ids == greedy.output_ids and ours.totals.forwards <= 64
    assert run(prompt="3", window=window, init=init, top_k=1).output_ids == greedy.output_ids


@pytest.mark.parametrize("criterion", ["speculative", "jacobi"])
def test_on_text_it_writes_the_greedy_text_to_its_end_mark(criterion):
    """And where it draws, Jacobi asks for equal tokens where speculation takes a chance."""
    given = {"max_new_tokens": 24, "criterion": criterion}
    greedy = engines.run("greedy", TEXT, "copy: Mia, Leo, Ada", params={"max_new_tokens": 24})
    ours, drawn = (run(TEXT, "copy: Mia, Leo, Ada", temperature=t, **given) for t in (0.0, 1.0))
    assert ours.output_ids == greedy.output_ids and ours.end.reason == greedy.end.reason
    chances = {c for step in drawn.steps if step.tree for c in step.tree.chances[1:] if c is not None}
    assert chances and (chances <= {0.0, 1.0}) == (criterion == "jacobi")


def test_the_record_says_what_was_tested_and_what_is_guessed_next():
    made = run()
    picture, start = engines.load_model(DIGITS).picture, len(made.header.prompt_ids)
    assert made.totals.forwards == len(made.steps) < 40 and len(made.output_ids) == 64
    known: list[int] = []
    for step, after in itertools.pairwise([*made.steps, None]):
        known += step.commits.tokens
        codes = step.media.codes.array()
        assert codes.shape == (8, 8) and step.media.colours == list(picture.colours)
        assert (codes.ravel()[: len(known)] + picture.first).tolist() == known
        guesses = (codes.ravel()[step.media.guesses] + picture.first).tolist()
        assert step.media.guesses == list(range(len(known), len(known) + len(guesses)))
        assert (codes.ravel()[len(known) + len(guesses) :] == -1).all()
        if after and after.tree:
            assert after.tree.tokens[1 : 1 + len(guesses)] == guesses
            assert set(after.tree.sources[1 : 1 + len(guesses)]) <= {"carried"}
        if step.tree is None:
            assert step.commits.causes == ["sampled"] and step.facts["drafted"] == 0
            continue
        accepted = sum(step.tree.accepted) - 1
        assert step.commits.causes == ["accepted"] * accepted + [step.commits.causes[-1]]
        assert step.facts["accepted"] == accepted
        assert step.tree.start == start + len(known) - len(step.commits.tokens) - 1
        for chance, u, kept in zip(step.tree.chances[1:], step.tree.uniforms[1:], step.tree.accepted[1:], strict=True):
            assert chance is None or (u < chance) == kept


def test_the_cache_after_a_cut_is_that_of_the_text():
    """Every probability of the record comes out of one forward over prompt and picture."""
    made = engines.run("sjd", engines.load_model(DIGITS, dtype="float32"), "5")
    model = engines.load_model(DIGITS, dtype="float32")
    ids = [*made.header.prompt_ids, *made.output_ids]
    z = model.extend(ids[:-1], model.new_cache(65)).logits
    z[:, : model.picture.first] = -torch.inf
    wanted = z.softmax(-1)[range(64), made.output_ids]
    said = [p for step in made.steps for p in step.commits.probabilities]
    assert np.allclose(said, wanted, atol=2e-5)


def test_guidance_reads_the_blank_prompt_as_well_and_a_picture_ends_with_its_last_cell():
    plain, pulled = run(seed=3), run(seed=3, guidance=3.0)
    assert [step.forwards for step in pulled.steps] == [{"target": 2}] * len(pulled.steps)
    assert plain.steps[0].forwards == {"target": 1} and pulled.output_ids != plain.output_ids
    assert run(max_new_tokens=256).header.params["max_new_tokens"] == 64
    assert len(run(max_new_tokens=20).output_ids) == 20


@pytest.mark.parametrize(
    ("model", "prompt", "params", "sentence"),
    [
        (DIGITS, "77", {}, "write a single digit such as 7"),
        (TEXT, "copy: Mia", {"init": "above"}, "init=above copies from the row above and tiny-ar-s writes text"),
        (TEXT, "copy: Mia", {"guidance": 2.0}, "guidance=2 needs a model that knows a blank prompt"),
        ("tiny-shapes", "red cat left of blue square", {}, "red circle left of blue square"),
    ],
)
def test_what_cannot_be_asked(model, prompt, params, sentence):
    with pytest.raises(UserError, match=sentence):
        engines.run("sjd", model, prompt, params={"max_new_tokens": 8, **params})
