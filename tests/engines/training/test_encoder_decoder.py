"""The pair and its teacher: the loss of distillation, rows, tokenizer, and trainings that repeat."""

import dataclasses
from itertools import islice

import pytest
import torch

from engines.tasks import ASKING, check, recognise
from engines.tasks.rows import answer_text, prompt_text
from engines.training.architectures import encoder_decoder as pair
from engines.training.architectures import passages
from engines.training.architectures.distillation import (
    cross_entropy,
    distillation_loss,
    drawn,
    forward_kl,
)
from engines.training.architectures.passages import END, PAD, TURN, rows, shifted
from engines.training.core.optimizer import StackedMuon, orthogonal
from tests.engines.training.running import goes_on, losses_of


def test_the_larger_vocabulary_is_cut_padding_is_left_out_and_an_alpha_of_zero_is_plain_training():
    z = torch.randn(2, 3, 7, generator=torch.Generator().manual_seed(0))
    assert float(forward_kl(z, torch.cat([z, torch.full((2, 3, 2), 5.0)], -1))) == pytest.approx(0, abs=1e-7)
    present = torch.tensor([[True, False, False], [True, True, False]])
    other, targets = z.flip(-1), torch.where(present, 3, -100)
    shown = forward_kl(other[present], z[present])
    assert float(forward_kl(other, z, present)) == pytest.approx(float(shown), rel=1e-5)
    alone = torch.nn.functional.cross_entropy(z[present], targets[present])
    assert float(cross_entropy(z, targets)) == pytest.approx(float(alone))
    assert float(distillation_loss(torch.tensor(float("nan")), torch.tensor(2.0), 0.0)) == 2.0


def test_samples_stay_among_the_best():
    z = torch.tensor([[0.0, 5.0, 4.0, -3.0]]).repeat(200, 1)
    generator = torch.Generator().manual_seed(0)
    assert set(drawn(z, generator, 0.9, 2).tolist()) == {1, 2} and set(drawn(z, generator, 0.9, 1).tolist()) == {1}


def test_answers_follow_from_passages():
    for size in range(1, 7):
        for one in islice(ASKING.generate("train", size=size), 40):
            assert ASKING.read(one.prompt.removeprefix("ask: ")) == one.answer
            assert check(one, one.answer).correct and not check(one, f"{one.answer}, Zoe").correct
    passage = "Mia lives in Rome. Mia has a kite. Ada is 14 years old. Ben lives in Bonn. Ben is 9 years old."
    for question, answer in (("cities", "Bonn, Rome"), ("ages", "9, 14"), ("people", "Ada, Ben, Mia")):
        example = recognise(f"ask: Which {question}? {passage}")
        assert example is not None and example.answer == answer
    assert recognise("ask: Which colours? Mia has a kite.") is None and recognise("ask: Mia has a kite.") is None


def test_the_tokenizer_cuts_as_the_familys_and_rows_are_padded_apart_and_repeat(tokenizer):
    own = passages.tokenizer()
    assert len(own) < 700 and own("Wörld 中").input_ids and own.decode(own("Wörld 中").input_ids) == "Wörld 中"
    for one in islice(ASKING.generate("held-out", seed=4), 60):
        for text in (prompt_text(one.prompt), answer_text(one.answer)):
            mine, theirs = (t.convert_ids_to_tokens(t(text).input_ids) for t in (own, tokenizer))
            assert mine == theirs
    one, again, other = rows(3), rows(3), rows(4)
    assert torch.equal(one.inputs, again.inputs) and one.inputs.tolist() != other.inputs.tolist()
    assert (one.inputs[:, -1] == TURN).all() and bool(((one.answers == END).sum(1) == 1).all())
    assert bool((shifted(one.answers)[:, 0] == TURN).all()) and torch.equal(shifted(one.answers), one.fed)
    assert bool(((one.answers == PAD) == (one.targets < 0)).all())


@pytest.mark.parametrize("name", ["tiny-encdec", "tiny-deconly"])
def test_no_row_sees_what_comes_behind_it_and_the_cache_changes_nothing(name):
    network, batch = pair.build(pair.SIZES[name]).eval(), rows(3, people=6)
    changed = batch.answers.clone()
    changed[:, 3:] = 7
    with torch.no_grad():
        z, other = (pair.answer_logits(network, batch, answers) for answers in (batch.answers, changed))
        assert torch.equal(z[:, :4], other[:, :4]) and not torch.equal(z[:, 4:], other[:, 4:])
        own = pair.written(network, batch, 6)
        again = batch.answers[:, :0]
        for i in range(6):
            wide = torch.cat([again, torch.zeros_like(batch.answers[:, :1])], 1)
            again = torch.cat([again, pair.answer_logits(network, batch, wide)[:, i].argmax(-1)[:, None]], 1)
    assert torch.equal(own, again)


def small(name):
    return dataclasses.replace(
        pair.SIZES[name], hidden=16, heads=2, encoder=0 if name == "tiny-deconly" else 2, decoder=2
    )


@pytest.mark.parametrize("name", ["tiny-encdec", "tiny-deconly"])
def test_distillation_learns_from_the_teacher_and_goes_on_exactly(name, tmp_path, monkeypatch):
    monkeypatch.setattr(pair, "_common", lambda training: tmp_path / f"{training.name}-plain.pt")
    size = dataclasses.replace(small(name), steps=6, plain=3)
    teacher = pair.build(dataclasses.replace(pair.TEACHER, hidden=16, heads=2, decoder=1), 1).eval()
    whole, _ = goes_on(lambda: pair.Answering(size, 0, 6, 0.9, teacher), 6, 4, tmp_path / "half.pt")
    plain = pair.Answering(size, 0, 6, 0.0, None)
    losses_of(plain, pair.Until(6))
    assert not torch.equal(next(whole.network.parameters()), next(plain.network.parameters()))


def test_what_ships_is_plain_and_its_card_has_the_marks_of_the_distilled_twin(tmp_path, monkeypatch):
    size = dataclasses.replace(small("tiny-deconly"), steps=4, plain=2)
    said = iter([0.5, 0.5, 0.3, 0.2])  # plain, as stored, teacher, distilled
    held_out = {"prompts": 1, "nats_per_token": 1.0, "by_people": {"4": 0.5}}
    monkeypatch.setattr(pair, "marks", lambda network: held_out | {"exact_match": next(said)})
    monkeypatch.setattr(pair, "FOLDER", tmp_path / "models" / "tiny-ar-s")
    monkeypatch.setattr(pair, "checkpoint_file", lambda name: tmp_path / "cache" / f"{name}.pt")
    teacher = dataclasses.replace(pair.TEACHER, hidden=16, heads=2, decoder=1, steps=2, plain=2)
    monkeypatch.setattr(pair, "TEACHER", teacher)
    shipped = pair.train(size)
    card = pair.read_card(shipped)
    assert shipped == tmp_path / "models" / size.name and (card["alpha"], card["plain_steps"]) == (0.0, 4)
    assert card["command"].endswith(f"engines.training {size.name}") and "with_teacher" not in card
    distilled = pair.train(size, alpha=0.9)
    assert distilled.parent == tmp_path / "cache" and pair.read_card(distilled)["plain_steps"] == 2
    told = pair.read_card(shipped)["with_teacher"]
    assert (told["exact_match"], told["alpha"], told["teacher"]["exact_match"]) == (0.2, 0.9, 0.3)
    head, (row,) = pair.compared({size.name: pair.read_card(shipped)})
    assert row[head.index("exact match")] == "50.0%" and row[head.index("with a teacher")].startswith("20.0%")


def test_muon_over_stacks_is_muon():
    """As torch's, up to its bfloat16; and all singular values come near 1."""
    w = torch.randn(8, 12, generator=torch.Generator().manual_seed(0))
    a, b = (torch.nn.Parameter(w.clone()) for _ in range(2))
    theirs = torch.optim.Muon([a], lr=0.01, weight_decay=0.01, momentum=0.95, adjust_lr_fn="match_rms_adamw")
    ours = StackedMuon([b], 0.01)
    for seed in range(3):
        a.grad = torch.randn(8, 12, generator=torch.Generator().manual_seed(seed))
        b.grad = a.grad.clone()
        theirs.step()
        ours.step()
    torch.testing.assert_close(a, b, atol=5e-4, rtol=0)
    s = torch.linalg.svdvals(orthogonal(torch.randn(3, 20, 6)))
    assert float(s.min()) > 0.5 and float(s.max()) < 1.3
