"""Training of the word reader: its data, its split, and that both decoders learn."""

import torch

from engines.tasks.word_images import HEIGHT, LETTERS, LONGEST, WIDTH
from engines.training.core.loop import Until, run, update
from engines.training.pictures import words


def test_a_batch_is_that_of_its_step_and_held_out_words_are_not_in_it():
    learnt, out = words.words()
    assert len(learnt) > 1500 and len(out) > 200 and not set(learnt) & set(out)
    assert all(2 <= len(word) <= LONGEST and set(word) <= set(LETTERS) for word in (*learnt, *out))
    training = words.Reading(0, 4)
    training.progress.step = 3
    texts, pictures = training.batch(0.0)
    again, same = training.batch(0.5)
    assert texts == again and torch.equal(pictures, same) and pictures.shape == (words.BATCH, HEIGHT, WIDTH)
    assert 0.5 < sum(text in learnt for text in texts) / len(texts) < 1.0
    assert not set(texts) & set(out) or words.BY_CHANCE > 0
    assert training.settings != words.Reading(0, 5).settings


def test_a_looked_up_look_stays_in_its_ranges():
    generator = torch.Generator().manual_seed(0)
    looks = [words.look(generator) for _ in range(200)]
    for name, (low, high) in words.RANGES.items():
        values = [getattr(look, name) for look in looks]
        assert all(low <= value <= high or value == 0.0 for value in values) and len(set(values)) > 50
    assert {look.font for look in looks} == {"sans", "bold", "mono"}
    assert {look.noise == 0 for look in looks} == {True, False}


def test_both_decoders_learn_and_a_folder_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr(words, "BATCH", 4)
    training = words.Reading(1, 12)
    first = update(training, 0.0).facts
    training.progress.step = 1
    run(training, Until(12))
    last = update(training, 1.0).facts
    assert all(last[name] < first[name] for name in ("parallel", "one_by_one", "side"))
    monkeypatch.setattr(words, "words", lambda: (("ab",), ("cd", "ef")))
    folder = words.install(training, tmp_path / "made")
    assert {file.name for file in folder.iterdir()} == {"card.json", "config.json", "model.safetensors"}
