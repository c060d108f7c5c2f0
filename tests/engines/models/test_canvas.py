"""DiffusionGemma, and Nemotron-Labs-Diffusion, which is read in two ways, as they are published."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file
from transformers import DynamicCache

import engines
from engines.core.errors import UserError
from engines.core.kinds import TwoWayLM, counted, kinds_of
from engines.core.meter import Meter
from tests.engines.conftest import GOLDEN
from tests.engines.models.published import config_of, copied
from tests.engines.models.stock import close
from tests.engines.refusals import refuses

GEMMA = GOLDEN / "diffusion2026" / "diffusion_gemma"
CHECKPOINT = GEMMA / "checkpoint"
BOARDS = json.loads((GEMMA / "cases.json").read_text("utf-8"))["boards"]
LONGEST = max(BOARDS, key=lambda board: len(board["prompt"]))


def loaded(folder=CHECKPOINT):
    return engines.load_model(folder, dtype="float32")


def encoded(model, board):
    """A cache of a board's prompt, and of the canvases before its own, each in a call; with the prompt's states."""
    cache = model.new_cache(64)
    states = model.encode(board["prompt"], cache)
    for canvas in board.get("committed", []):
        model.encode(canvas, cache)
    return cache, states


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board["id"])
def test_its_logits_are_those_of_its_own_file(board, saved, tmp_path):
    folder = copied(tmp_path, "diffusion_gemma") if saved else CHECKPOINT
    if saved:
        shutil.copy(CHECKPOINT / "config_as_saved_by_5.23.json", folder / "config.json")
    model, wanted = loaded(folder), load_file(GEMMA / "logits.safetensors")
    cache, states = encoded(model, board)
    z = model.denoise(board["canvas"], cache)
    got = {"logits": z, "encoder_hidden": states}
    if f"{board['id']}.logits_self_conditioned" in wanted:
        got["logits_self_conditioned"] = model.denoise(board["canvas"], cache, z)
    for key, value in got.items():
        if (name := f"{board['id']}.{key}") in wanted:
            torch.testing.assert_close(value, wanted[name], atol=1e-4, rtol=0)


def test_denoising_writes_nothing_and_encoding_in_pieces_or_behind_a_crop_changes_nothing():
    model, prompt = loaded(), LONGEST["prompt"]
    whole, pieces, cropped = (model.new_cache(64) for _ in range(3))
    model.encode(prompt, whole)
    for token in prompt:
        model.encode([token], pieces)
    model.encode([*prompt[:5], *LONGEST["canvas"]], cropped)
    cropped.crop(5)
    model.encode(prompt[5:], cropped)
    z = model.denoise(LONGEST["canvas"], whole)
    assert whole.length == pieces.length == cropped.length == len(prompt)
    for cache in (pieces, cropped):
        torch.testing.assert_close(model.denoise(LONGEST["canvas"], cache), z, atol=5e-5, rtol=0)
    assert torch.equal(model.denoise(LONGEST["canvas"], whole), z)


def test_it_sees_what_a_cache_of_transformers_shows_beyond_the_window():
    model, prompt = loaded(), (LONGEST["prompt"] * 3)[:50]
    net, cache = model.model, model.new_cache(64)
    window = model.model.config.text_config.sliding_window
    assert len(prompt) > 3 * window
    stock = DynamicCache(config=model.config)
    with torch.no_grad():
        net.model.encoder.language_model(input_ids=torch.tensor([prompt]), past_key_values=stock)
        wanted = net(decoder_input_ids=torch.tensor([LONGEST["canvas"]]), past_key_values=stock).logits[0]
    model.encode(prompt, cache)
    torch.testing.assert_close(model.denoise(LONGEST["canvas"], cache), wanted, atol=5e-5, rtol=0)


def test_only_denoising_is_a_forward_and_a_forbidden_token_is_not_proposed_at_its_position():
    meter, board = Meter(), BOARDS[0]
    model = counted(loaded(), "model", meter)
    cache = model.new_cache(32)
    model.encode(board["prompt"], cache)
    assert not meter.forwards and meter.work["model"] > 0
    meter.forbidden[cache.length + 2] = {7, 9}
    z = model.denoise(board["canvas"], cache)
    assert torch.isinf(z).nonzero().tolist() == [[2, 7], [2, 9]]
    assert meter.forwards == {"model": 1}
    assert meter.tokens_fed == len(board["prompt"]) + len(board["canvas"])


def test_a_folder_without_the_tower_loads_and_nothing_is_said(tmp_path, capfd):
    tower = [key for key in load_file(CHECKPOINT / "model.safetensors") if "vision" in key]
    model = loaded(copied(tmp_path, "diffusion_gemma", {"vision_config": None}, lost=tower))
    assert (model.canvas_length, model.pad_id, model.max_positions, model.num_layers) == (16, 0, 512, 3)
    assert model.eos_ids == {1, 94} and model.tokenizer.piece(94).text == "<eos>"
    engines.load_model(shutil.copytree(CHECKPOINT, tmp_path / "again"), dtype="float32")
    said = capfd.readouterr()
    assert "REPORT" not in said.out + said.err


def test_positions_that_are_not_there_are_refused():
    model = loaded()
    cache = model.new_cache(600)
    refuses(UserError, "checkpoint has 512 positions and position 512 was fed; use a", model.encode, [5] * 513, cache)
    model.encode([5] * 500, cache)
    refuses(UserError, "512 positions and position 515 was fed", model.denoise, BOARDS[0]["canvas"], cache)
    refuses(ValueError, "nothing was encoded", model.denoise, BOARDS[0]["canvas"], model.new_cache(4))


NEMOTRON = GOLDEN / "diffusion2026" / "nemotron_labs_diffusion"
BOTH_WAYS = json.loads((NEMOTRON / "cases.json").read_text("utf-8"))["boards"]
NEMOTRON_CONFIG = config_of("nemotron_labs_diffusion")
WANTED = load_file(NEMOTRON / "logits.safetensors")
MASK = NEMOTRON_CONFIG["mask_token_id"]
TEXT, BLOCK = BOTH_WAYS[1]["prompt"], BOTH_WAYS[1]["block"]


def nemotron(folder=NEMOTRON / "checkpoint", **options):
    return engines.load_model(folder, dtype="float32", **options)


def filled(model, ids, room=64):
    cache = model.new_cache(len(ids) + room)
    return cache, model.extend(ids, cache).logits


@pytest.mark.parametrize("board", BOTH_WAYS, ids=lambda board: board["id"])
def test_its_logits_are_those_of_the_data_in_both_ways(board):
    model = nemotron()
    cache, z = filled(model, board["prompt"])
    close(z, WANTED[f"{board['id']}.prompt_causal"])
    z, rest = model.denoise(board["block"], cache), torch.arange(model.vocab_size) != MASK
    close(z[:, rest], WANTED[f"{board['id']}.block_bidirectional"][:, rest])
    assert torch.isneginf(z[:, MASK]).all()  # never proposed
    close(model.extend(board["block"], cache).logits, WANTED[f"{board['id']}.block_causal"])


def test_a_block_leaves_nothing_behind():
    model = nemotron()
    for n in (1, 7, len(TEXT)):
        (cache, _), (other, _) = filled(model, TEXT[:n]), filled(model, TEXT[:n])
        again = [model.denoise(BLOCK, cache), model.denoise([5, MASK], cache), model.denoise(BLOCK, cache)]
        assert torch.equal(again[0], again[2]) and cache.lengths == (n,) * model.num_layers and cache.board == 0
        tree = {"parents": [-1, 0, 0]}
        assert torch.equal(model.extend([3, 4, 5], cache, **tree).logits, model.extend([3, 4, 5], other, **tree).logits)


def test_a_block_that_is_kept_was_read_in_both_directions():
    """As if prompt and block had been read with a mask that hides only the block from the prompt."""
    model = nemotron()
    cache = model.new_cache(64)
    model.denoise(TEXT, cache, keep=True)
    assert cache.length == len(TEXT)
    z = model.denoise(BLOCK, cache)
    n, m = len(TEXT), len(TEXT) + len(BLOCK)
    hidden = torch.zeros(1, 1, m, m)
    hidden[..., :n, n:] = torch.finfo(torch.float32).min
    ids = torch.tensor([[*TEXT, *BLOCK]])
    with torch.no_grad():
        whole = model.model(input_ids=ids, attention_mask=hidden, use_cache=False).logits[0, n:]
    rest = torch.arange(model.vocab_size) != MASK
    close(z[:, rest], whole[:, rest])


@pytest.mark.parametrize("slug", ["greedy", "prompt-lookup", "token-recycling"])
def test_causal_methods_run_on_it_as_they_are(slug):
    model = nemotron()
    with torch.no_grad():
        out = model.model.generate(torch.tensor([TEXT]), max_new_tokens=20, do_sample=False, pad_token_id=0)
    trace = engines.run(slug, model, TEXT, params={"max_new_tokens": 20})
    assert trace.output_ids == out[0, len(TEXT) :].tolist()


def test_it_is_a_causal_model_with_more_to_ask_for(tmp_path):
    model = nemotron()
    assert isinstance(model, TwoWayLM) and kinds_of(model) == {"causal", "layered", "two-way"}
    assert model.record.kind == "causal" and (model.mask_id, model.block_size, model.shift) == (MASK, 32, False)
    assert model.eos_ids == {NEMOTRON_CONFIG["eos_token_id"]} and model.max_positions == 256 and model.takes_trees
    assert nemotron(block_size=8).block_size == 8 and nemotron(eos_id=61).eos_ids == {61}
    moved = nemotron(copied(tmp_path, "nemotron_labs_diffusion", {"dlm_type": "dream"}))  # row i speaks of token i + 1
    z, shifted = (one.denoise(BLOCK, filled(one, TEXT)[0]) for one in (model, moved))
    assert moved.shift and torch.equal(shifted[1:], z[:-1]) and torch.equal(shifted[0], z[0])
    cache, _ = filled(model, [5] * 250)
    refuses(UserError, "has 256 positions and position 257 was fed", model.denoise, BLOCK, cache)


def test_a_block_counts_as_a_forward_of_all_its_rows_and_keeps_what_is_forbidden():
    meter = Meter(forbidden={len(TEXT) + 1: {111}})
    model = counted(nemotron(), "target", meter, "two-way")
    cache = model.new_cache(64)
    model.extend(TEXT, cache)
    z = model.denoise(BLOCK, cache)
    assert [int(row[111].isneginf()) for row in z[:3]] == [0, 1, 0]
    rows = len(TEXT) + len(BLOCK)
    assert (meter.forwards, meter.tokens_fed, meter.work) == ({"target": 2}, rows, {"target": 2 * rows})
