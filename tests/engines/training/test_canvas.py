"""The training of the canvas model: its noise, what conditions it, that its loss falls, and the folder it leaves."""

import json

import pytest
import torch

import engines
from engines.core.errors import UserError
from engines.tasks.base import split_of
from engines.training.core import loop
from engines.training.core.commands import commands
from engines.training.core.loop import Until
from engines.training.tiny import canvas
from engines.training.tiny.canvas import CanvasTraining, asked, batch_of, encoded, logits_of, loss_of
from tests.engines.training.running import goes_on

SMALL = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
LAYERS = ["sliding_attention", "full_attention"]


@pytest.fixture
def small(monkeypatch, tmp_path):
    """A network of two narrow layers, few rows, marks that cost nothing, checkpoints in a folder of the test's own."""
    monkeypatch.setattr(canvas, "TEXT", canvas.TEXT | SMALL | {"layer_types": LAYERS})
    for name, value in (("ROWS", 8), ("HELD_OUT", 1), ("MARKED", 1)):
        monkeypatch.setattr(canvas, name, value)
    monkeypatch.setattr(canvas, "DECODED", {"max_new_tokens": canvas.CANVAS, "max_denoising_steps": 2})
    monkeypatch.setattr(canvas, "checkpoint_file", lambda name: tmp_path / "kept" / f"{name}.pt")


def test_rows_are_answers_an_end_mark_and_padding_and_come_from_their_number_alone(small, tokenizer):
    for a, b in zip(batch_of(0, 5), batch_of(0, 5), strict=True):
        assert torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b
    for other in ((0, 6), (1, 5)):
        assert not torch.equal(batch_of(0, 5).read, batch_of(*other).read)
    for prompt, row in encoded(0, 0)[:200]:
        text = tokenizer.decode(prompt).removeprefix("<user>").removesuffix("<turn>").strip()
        assert split_of(text) == "train"
        end = row.index(tokenizer.eos_token_id) if tokenizer.eos_token_id in row else canvas.CANVAS  # a long sum
        assert len(row) == canvas.CANVAS and set(row[end + 1 :]) <= {tokenizer.pad_token_id}


def test_noise_is_uniform_over_the_whole_vocabulary_and_a_quarter_of_the_rows_is_all_noise(monkeypatch, tokenizer):
    """Kept tokens of a row follow its own chance; where none is kept the row is what every canvas begins with."""
    monkeypatch.setattr(canvas, "ROWS", 400)
    batch, V = batch_of(0, 3), len(tokenizer)
    kept = (batch.read == batch.clean).float().mean(1)
    assert 0.2 < float((kept == 0).float().mean()) < 0.35
    assert 0.3 < float(kept.mean()) < 0.45  # three quarters of one half
    noise = batch.read[batch.read != batch.clean]
    assert noise.min() < 20 and noise.max() >= V - 20 and abs(float(noise.float().mean()) / V - 0.5) < 0.03


def test_a_conditioned_step_reads_its_own_first_look_and_padding_weighs_a_tenth(small):
    network, batch = CanvasTraining(0, 1).network.eval(), batch_of(0, 0)
    with torch.no_grad():
        plain, told = (logits_of(network, batch._replace(conditioned=one)) for one in (False, True))
        cache = network.model.encoder(input_ids=batch.prompts).past_key_values
        wanted = network(
            decoder_input_ids=batch.read, past_key_values=cache, self_conditioning_logits=plain / batch.temperature
        ).logits
    torch.testing.assert_close(told, wanted)
    assert float((told - plain).abs().max()) > 1e-4
    clean, logits = torch.tensor([[3, 0, 0]]), torch.zeros(1, 3, 5)
    logits[0, 0, 1] = 2.0
    each = torch.nn.functional.cross_entropy(logits[0], clean[0], reduction="none")
    mean = (each[0] + canvas.PAD_WEIGHT * each[1:].sum()) / (1 + 2 * canvas.PAD_WEIGHT)
    assert float(loss_of(logits, clean, 0)) == pytest.approx(float(mean))


def test_held_out_prompts_are_held_out_and_the_card_says_how_many_of_the_hardest_fit_into_a_canvas():
    for task in canvas.SIZES:
        examples = asked(task, 30, "held-out")
        assert len({one.prompt for one in examples}) == len(examples) == 30
        assert {split_of(one.prompt) for one in examples} == {"held-out"}
    card = json.loads((canvas.FOLDER.parent / canvas.NAME / "card.json").read_text())
    for task, told in card["held_out_exact_match_of_the_hardest"].items():
        prompts = asked(task, canvas.HELD_OUT, "held-out", canvas.HARDEST[task])
        assert told["exact"] * len(prompts) <= told["fit_into_a_canvas"] == sum(map(canvas.fits, prompts))


def test_the_loss_falls(small, monkeypatch):
    monkeypatch.setattr(canvas, "RATE", 1e-2)
    monkeypatch.setattr(canvas, "RISE", 5)
    fresh, training = CanvasTraining(0, 60), CanvasTraining(0, 60)
    loop.run(training, Until(60))
    probe = batch_of(0, 1000)._replace(conditioned=False)
    with torch.no_grad():
        before, after = (
            float(loss_of(logits_of(one.network, probe), probe.clean, one.pad)) for one in (fresh, training)
        )
    assert after < before - 1


def test_an_interrupted_training_goes_on_and_one_of_other_settings_is_refused(small, tmp_path):
    goes_on(lambda: CanvasTraining(0, 4), 4, 2, tmp_path / "state.pt")
    with pytest.raises(UserError, match="made with other settings"):
        loop.restore(CanvasTraining(1, 4), tmp_path / "state.pt")


def test_what_it_leaves_loads_as_a_canvas_model_with_the_same_logits(small, tmp_path, tokenizer):
    folder = canvas.train(steps=2, out=tmp_path / "made")
    card = json.loads((folder / "card.json").read_text())
    assert canvas.NAME in commands() and card["kind"] == "canvas"
    assert set(card["goals"]) == set(canvas.GOALS) < set(canvas.SIZES) == set(card["held_out_exact_match"])
    assert set(card["held_out_exact_match_of_the_hardest"]) == set(canvas.HARDEST)
    model = engines.load_model(folder, kind="canvas", dtype="float32")
    assert model.canvas_length == canvas.CANVAS and model.eos_ids == {tokenizer.eos_token_id}
    training = CanvasTraining(0, 2)
    loop.run(training, Until(2))
    batch = batch_of(0, 9)
    with torch.no_grad():
        for weight in training.network.parameters():  # the buffers, such as the scale of embeddings, are not kept so
            weight.copy_(weight.to(torch.bfloat16))
        wanted = logits_of(training.network.eval(), batch._replace(conditioned=False))[0]
    cache = model.new_cache(64)
    model.encode(batch.prompts[0], cache)
    torch.testing.assert_close(model.denoise(batch.read[0], cache), wanted, atol=1e-4, rtol=0)
