"""DiffusionGemma as it is published and as transformers saves it: the logits of its own file, the two passes over one
cache, and what is refused in a sentence."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import DynamicCache

import engines
from engines.core.errors import UserError
from engines.core.kinds import CanvasLM, counted
from engines.core.meter import Meter
from engines.models.mapping import plan
from tests.engines.conftest import GOLDEN

GEMMA = GOLDEN / "diffusion2026" / "diffusion_gemma"
CHECKPOINT = GEMMA / "checkpoint"
BOARDS = json.loads((GEMMA / "cases.json").read_text("utf-8"))["boards"]
CONFIG = json.loads((CHECKPOINT / "config.json").read_text("utf-8"))
SAVED = json.loads((CHECKPOINT / "config_as_saved_by_5.23.json").read_text("utf-8"))
LONGEST = max(BOARDS, key=lambda board: len(board["prompt"]))


def loaded(folder=CHECKPOINT):
    return engines.load_model(folder, dtype="float32")


def copied(tmp_path, config=None, change=lambda tensors: None):
    """The checkpoint in another folder, with another config and `change` applied to its tensors by name."""
    folder = shutil.copytree(CHECKPOINT, tmp_path / "copy")
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config or CONFIG), "utf-8")
    return folder


def text_changed(**said):
    return CONFIG | {"text_config": CONFIG["text_config"] | said}


def encoded(model, board):
    """A cache of a board's prompt, and of the canvases before its own, each in a call; with the prompt's states."""
    cache = model.new_cache(64)
    states = model.encode(board["prompt"], cache)
    for canvas in board.get("committed", []):
        model.encode(canvas, cache)
    return cache, states


def as_saved(tmp_path):
    return copied(tmp_path, SAVED)


@pytest.mark.parametrize("folder", [lambda _: CHECKPOINT, as_saved], ids=["published", "saved"])
@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board["id"])
def test_its_logits_are_those_of_its_own_file(board, folder, tmp_path):
    model, wanted = loaded(folder(tmp_path)), load_file(GEMMA / "logits.safetensors")
    cache, states = encoded(model, board)
    z = model.denoise(board["canvas"], cache)
    got = {"logits": z, "encoder_hidden": states}
    if f"{board['id']}.logits_self_conditioned" in wanted:
        got["logits_self_conditioned"] = model.denoise(board["canvas"], cache, z)
    for key, value in got.items():
        if (name := f"{board['id']}.{key}") in wanted:
            torch.testing.assert_close(value, wanted[name], atol=1e-4, rtol=0)


def test_denoising_writes_nothing_and_encoding_in_pieces_changes_nothing():
    model, prompt = loaded(), LONGEST["prompt"]
    whole, pieces = model.new_cache(64), model.new_cache(64)
    model.encode(prompt, whole)
    for token in prompt:
        model.encode([token], pieces)
    z = model.denoise(LONGEST["canvas"], whole)
    assert whole.length == pieces.length == len(prompt)
    torch.testing.assert_close(model.denoise(LONGEST["canvas"], pieces), z, atol=5e-5, rtol=0)
    assert torch.equal(model.denoise(LONGEST["canvas"], whole), z)


def test_a_cropped_cache_goes_on_as_one_that_never_held_more():
    model, prompt = loaded(), LONGEST["prompt"]
    cache, fresh = model.new_cache(64), model.new_cache(64)
    model.encode([*prompt[:5], *LONGEST["canvas"]], cache)
    cache.crop(5)
    model.encode(prompt[5:], cache)
    model.encode(prompt, fresh)
    a, b = (model.denoise(LONGEST["canvas"], one) for one in (cache, fresh))
    torch.testing.assert_close(a, b, atol=5e-5, rtol=0)


def test_it_sees_what_a_cache_of_transformers_shows_beyond_the_window():
    """Its own forward with its own cache and masks, on a prompt several windows long."""
    model, prompt = loaded(), (LONGEST["prompt"] * 3)[:50]
    net, cache = model.model, model.new_cache(64)
    window = CONFIG["text_config"]["sliding_window"]
    assert len(prompt) > 3 * window
    stock = DynamicCache(config=model.config)
    with torch.no_grad():
        net.model.encoder.language_model(input_ids=torch.tensor([prompt]), past_key_values=stock)
        wanted = net(decoder_input_ids=torch.tensor([LONGEST["canvas"]]), past_key_values=stock).logits[0]
    model.encode(prompt, cache)
    torch.testing.assert_close(model.denoise(LONGEST["canvas"], cache), wanted, atol=5e-5, rtol=0)


def test_only_denoising_is_a_forward():
    meter, board = Meter(), BOARDS[0]
    model = counted(loaded(), "model", meter)
    cache = model.new_cache(32)
    model.encode(board["prompt"], cache)
    assert not meter.forwards and meter.work["model"] > 0
    model.denoise(board["canvas"], cache)
    assert meter.forwards == {"model": 1}
    assert meter.tokens_fed == len(board["prompt"]) + len(board["canvas"])


def test_a_forbidden_token_is_not_proposed_at_its_position():
    meter, board = Meter(), BOARDS[0]
    model = counted(loaded(), "model", meter)
    cache = model.new_cache(32)
    model.encode(board["prompt"], cache)
    meter.forbidden[cache.length + 2] = {7, 9}
    z = model.denoise(board["canvas"], cache)
    assert torch.isinf(z).nonzero().tolist() == [[2, 7], [2, 9]]


def test_what_it_says_of_itself():
    model = loaded()
    assert isinstance(model, CanvasLM) and model.record.kind == "canvas"
    assert (model.canvas_length, model.pad_id, model.max_positions, model.num_layers) == (16, 0, 512, 3)
    assert model.eos_ids == {1, 94} and model.tokenizer.piece(94).text == "<eos>"
    assert model.model.model.encoder.vision_tower is None


def test_a_folder_without_the_tower_loads_and_nothing_is_said(tmp_path, capfd):
    def text_only(tensors):
        for key in [one for one in tensors if "vision" in one]:
            tensors.pop(key)

    config = {key: value for key, value in CONFIG.items() if key != "vision_config"}
    cache, _ = encoded(loaded(copied(tmp_path, config, text_only)), BOARDS[0])
    engines.load_model(shutil.copytree(CHECKPOINT, tmp_path / "again"), dtype="float32")
    assert cache.length == len(BOARDS[0]["prompt"])
    said = capfd.readouterr()
    assert "REPORT" not in said.out + said.err


@pytest.mark.parametrize(
    ("lost", "sentence"),
    [
        ("model.decoder.layers.1.mlp.up_proj.weight", "1 tensors are missing, .*decoder.layers.1.mlp.up_proj.weight'"),
        ("model.decoder.layers.2.experts.down_proj", "tensors are missing, .*layers.2.experts.down_proj'"),
        ("model.encoder.language_model.layers.0.layer_scalar", "first 'model.encoder.language_model.layers.0.layer_sc"),
        ("model.decoder.embed_tokens.weight", "1 tensors are missing.*'model.decoder.embed_tokens.weight'"),
    ],
)
def test_a_tensor_that_is_missing_is_one_sentence(tmp_path, lost, sentence):
    with pytest.raises(UserError, match=sentence) as told:
        loaded(copied(tmp_path, change=lambda tensors: tensors.pop(lost)))
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ({k: v for k, v in CONFIG.items() if k != "text_config"}, "config.json of 'x' has no text_config"),
        (text_changed(use_bidirectional_attention="all"), "use_bidirectional_attention='all'; only .* causally"),
    ],
)
def test_another_network_is_refused_by_name(config, sentence):
    with pytest.raises(UserError, match=sentence):
        plan(config, "x")


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (CONFIG | {"canvas_length": 0}, "canvas_length=0 in the config of copy cannot be; a canvas has 1 to 511 pos"),
        (CONFIG | {"canvas_length": 512}, "canvas_length=512 .* 1 to 511"),
        (text_changed(num_hidden_layers=10**7), "says num_hidden_layers=10000000, which the .* cannot fill"),
        (CONFIG | {"model_type": "gemma_canvas", "auto_map": {"AutoModel": "m.M"}}, "need code from the checkpoint"),
    ],
)
def test_a_config_that_cannot_be_is_one_sentence(tmp_path, config, sentence):
    with pytest.raises(UserError, match=sentence) as told:
        loaded(copied(tmp_path, config))
    assert "\n" not in str(told.value)


def test_without_an_end_mark_its_candidates_are_named(tmp_path):
    """The class itself would take 1; who wrote the config did not."""
    text = {key: value for key, value in CONFIG["text_config"].items() if key != "eos_token_id"}
    folder = copied(tmp_path, {**CONFIG, "eos_token_id": None, "text_config": text})
    (folder / "generation_config.json").unlink()
    with pytest.raises(UserError, match=r"copy does not say which token ends a text; .* \(<pad> = 0, <bos> = 2\)\.$"):
        loaded(folder)


def test_positions_that_are_not_there_are_refused():
    model = loaded()
    cache = model.new_cache(600)
    with pytest.raises(UserError, match="checkpoint has 512 positions and position 512 was fed; use a shorter prompt"):
        model.encode([5] * 513, cache)
    model.encode([5] * 500, cache)
    with pytest.raises(UserError, match="512 positions and position 515 was fed"):
        model.denoise(BOARDS[0]["canvas"], cache)
    with pytest.raises(ValueError, match="nothing was encoded"):
        model.denoise(BOARDS[0]["canvas"], model.new_cache(4))


def test_an_option_of_masks_is_refused():
    with pytest.raises(
        UserError, match="mask_id is an option of masked, block and two-way models and checkpoint is canvas"
    ):
        engines.load_model(CHECKPOINT, mask_id=3)
