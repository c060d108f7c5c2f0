"""A word in one pass, and letter by letter: passes, what is recorded, forks, and what ships reads as its card says."""

import json

import pytest

import engines
from engines import UserError
from engines.methods.multimodal._word import Sight
from engines.tasks.word_images import Look, drawn
from engines.training.pictures import words
from explorer import ASSETS

SIGHT = "sight", Sight

MODEL, METHODS = "tiny-reader", ("cppd", "word-by-letter")
WORDS = ("address", "kettle", "results", "sausage", "static")


def run(slug="cppd", word="address", **params):
    return engines.run(slug, MODEL, word, params=params)


def reader():
    return engines.load_model(MODEL, dtype="float32")


@pytest.mark.parametrize("word", WORDS)
def test_one_pass_against_one_for_each_letter_and_the_end(word):
    once, letters = (run(slug, word) for slug in METHODS)
    assert (once.text, letters.text) == (word, word)
    assert (once.totals.forwards, len(once.steps)) == (1, 1)
    assert letters.totals.forwards == len(letters.steps) == len(word) + 1
    assert once.output_ids == letters.output_ids == [*reader().tokenizer.encode(word), 0]


def test_the_letters_are_counted_and_the_places_told():
    made = run()
    (step,) = made.steps
    assert step.record(*SIGHT).counts == {"a": 1, "d": 2, "e": 1, "r": 1, "s": 2}
    assert [p > 0.5 for p in step.record(*SIGHT).filled] == [True] * 8 + [False] * 3
    assert [p > 0.5 for p in run(word="static").steps[0].record(*SIGHT).filled] == [True] * 7 + [False] * 4
    assert step.record(*SIGHT).attention.array().shape == (8, 32)
    assert step.record(*SIGHT).attention.array().sum(1) == pytest.approx([1.0] * 8, abs=0.1)
    assert step.commits.causes == ["place"] * 8 and set(step.commits.authors) == {"reader"}
    pixels = step.record(*SIGHT).pixels.array()
    assert pixels.shape == (32, 128) and abs(pixels * 255 - drawn("address", Look())).max() < 1.1


def test_letters_are_looked_up_from_left_to_right():
    """One by one; in one pass the features have looked at each other before, so that places look anywhere."""
    rows = [row for step in run("word-by-letter").steps for row in step.record(*SIGHT).attention.array()]
    most = [int(row.argmax()) for row in rows]
    assert most == sorted(most) and len(set(most)) == len(most)


def test_the_picture_is_kept_once_and_only_in_full_detail():
    made = run("word-by-letter", "llama")
    assert [step.record(*SIGHT).pixels is not None for step in made.steps] == [True] + [False] * 5
    light = engines.run("cppd", MODEL, "llama", detail="light")
    assert light.steps[0].record(*SIGHT) is None and light.text == "llama"


def test_both_read_the_same_picture():
    """Noise comes from the run's own numbers, so equal seeds give equal pictures."""
    noisy = [run(slug, "llama", noise=0.1, rotation=3.0, blur=0.5, font="mono") for slug in METHODS]
    assert noisy[0].steps[0].record(*SIGHT).pixels == noisy[1].steps[0].record(*SIGHT).pixels
    assert (
        noisy[0].steps[0].record(*SIGHT).pixels
        != run(word="llama", rotation=3.0, blur=0.5, font="mono").steps[0].record(*SIGHT).pixels
    )


def test_what_cannot_be_seen_is_not_read():
    for slug in METHODS:
        assert run(slug, noise=0.6, contrast=0.05).text != "address", "the prompt's letters reach no network"


def test_a_forced_letter_leaves_the_places_behind_it_to_another_pass():
    p = reader().tokenizer.encode("p")[0]
    fork = engines.run("cppd", MODEL, "llama", edits=[(0, engines.Edit(force={5: p}))])
    assert fork.text == "plama" and [step.forwards for step in fork.steps] == [{"reader": 1}] * 2
    short = engines.run("cppd", MODEL, "llama", edits=[(0, engines.Edit(force={7: 0}))])
    assert short.text == "ll" and short.end.message == "" and len(short.steps) == 2


def test_either_takes_over_from_the_other_behind_the_letters_that_stand():
    letters = run("word-by-letter", "rhythm")
    fork = engines.fork(letters, 3, method="cppd")
    assert fork.text == "rhythm" and len(fork.steps) == 4 and fork.totals.forwards == 4
    assert len(fork.steps[3].commits.tokens) == 4, "thm and the end mark"


@pytest.mark.parametrize("slug", METHODS)
@pytest.mark.parametrize(
    ("prompt", "sentence"),
    [
        ("internationalisation", "'internationalisation' has a length of 20.*one word of 2 to 10 letters from a to z"),
        ("naïve", "does not know 'ï'"),
        ("two words", "does not know a blank"),
        ("a1", "does not know '1'"),
        ([1] * 11, "11 tokens were given as a word; give the ids of 1 to 10 letters"),
        ([3, 0, 3], "without the end mark"),
    ],
)
def test_what_is_no_word_is_refused_in_one_sentence(slug, prompt, sentence):
    with pytest.raises(UserError, match=sentence):
        engines.run(slug, MODEL, prompt)


@pytest.mark.exhaustive
def test_what_ships_reads_as_its_card_says():
    card, model = json.loads((ASSETS / "models" / MODEL / "card.json").read_text("utf-8")), reader()
    assert model.record.parameters == card["parameters"] < 2_000_000, "both count what is in the file"
    told = card["held_out_words"]
    found = words.marks(model.network)["held_out_words"]
    for name, reached in (("in_one_pass", 0.93), ("letter_by_letter", 0.96)):
        assert told[name] >= reached and abs(found[name] - told[name]) <= 0.01
    assert told["number"] == found["number"] == len(words.words()[1])
