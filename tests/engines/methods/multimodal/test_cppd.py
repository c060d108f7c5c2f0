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
WORDS = ("address", "kettle", "static")


def run(slug="cppd", word="address", **params):
    return engines.run(slug, MODEL, word, params=params)


def reader():
    return engines.load_model(MODEL, dtype="float32")


@pytest.mark.parametrize("word", WORDS)
def test_one_pass_against_one_for_each_letter_and_the_end(word):
    once, letters = (run(slug, word) for slug in METHODS)
    assert (once.text, letters.text, once.totals.forwards, len(once.steps)) == (word, word, 1, 1)
    assert letters.totals.forwards == len(letters.steps) == len(word) + 1
    assert once.output_ids == letters.output_ids == [*reader().tokenizer.encode(word), 0]
    noisy = [run(slug, word, noise=0.1, rotation=3.0, font="mono").steps[0].record(*SIGHT).pixels for slug in METHODS]
    assert noisy[0] == noisy[1] != once.steps[0].record(*SIGHT).pixels, "equal seeds give equal pictures"


def test_the_letters_are_counted_and_the_places_told():
    (step,) = run().steps
    told, pixels = step.record(*SIGHT), step.record(*SIGHT).pixels.array()
    assert told.counts == {"a": 1, "d": 2, "e": 1, "r": 1, "s": 2}
    assert [p > 0.5 for p in told.filled] == [True] * 8 + [False] * 3
    assert told.attention.array().shape == (8, 32)
    assert told.attention.array().sum(1) == pytest.approx([1.0] * 8, abs=0.1)
    assert step.commits.causes == ["place"] * 8 and set(step.commits.authors) == {"reader"}
    assert pixels.shape == (32, 128) and abs(pixels * 255 - drawn("address", Look())).max() < 1.1
    light = engines.run("cppd", MODEL, "llama", detail="light")
    assert light.steps[0].record(*SIGHT) is None and light.text == "llama"


def test_what_cannot_be_seen_is_not_read():
    for slug in METHODS:
        assert run(slug, noise=0.6, contrast=0.05).text != "address", "the prompt's letters reach no network"


def test_a_forced_letter_leaves_the_places_behind_it_to_another_pass():
    p = reader().tokenizer.encode("p")[0]
    fork = engines.run("cppd", MODEL, "llama", edits=[(0, engines.Edit(force={5: p}))])
    assert fork.text == "plama" and [step.forwards for step in fork.steps] == [{"reader": 1}] * 2
    short = engines.run("cppd", MODEL, "llama", edits=[(0, engines.Edit(force={7: 0}))])
    assert short.text == "ll" and short.end.message == "" and len(short.steps) == 2
    over = engines.fork(run("word-by-letter", "rhythm"), 3, method="cppd")
    assert over.text == "rhythm" and len(over.steps) == over.totals.forwards == 4
    assert len(over.steps[3].commits.tokens) == 4, "one pass takes over behind the letters that stand: thm, end mark"


@pytest.mark.parametrize(
    ("prompt", "sentence"),
    [
        ("internationalisation", "'internationalisation' has a length of 20.*one word of 2 to 10 letters from a to z"),
        ([1] * 11, "11 tokens were given as a word; give the ids of 1 to 10 letters"),
        ([3, 0, 3], "without the end mark"),
    ],
)
def test_what_is_no_word_is_refused_in_one_sentence(prompt, sentence):
    for slug in METHODS:
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
