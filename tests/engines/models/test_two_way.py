"""One network read in two ways: Nemotron-Labs-Diffusion as it is published, in a stock class; what a block leaves
behind; every causal method as it is; and what is refused in a sentence."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

import engines
from engines.core.errors import UserError
from engines.core.kinds import TwoWayLM, counted, kinds_of
from engines.core.meter import Meter
from engines.models.mapping import plan
from tests.engines.conftest import GOLDEN

NEMOTRON = GOLDEN / "diffusion2026" / "nemotron_labs_diffusion"
BOARDS = json.loads((NEMOTRON / "cases.json").read_text("utf-8"))["boards"]
CONFIG = json.loads((NEMOTRON / "checkpoint" / "config.json").read_text("utf-8"))
WANTED = load_file(NEMOTRON / "logits.safetensors")
MASK = CONFIG["mask_token_id"]
TEXT, BLOCK = BOARDS[1]["prompt"], BOARDS[1]["block"]
boards = pytest.mark.parametrize("board", BOARDS, ids=lambda board: board["id"])


def loaded(folder=NEMOTRON / "checkpoint", **options):
    return engines.load_model(folder, dtype="float32", **options)


def copied(tmp_path, config=None, change=lambda tensors: None):
    """The checkpoint in another folder, with another config, `change` applied to its tensors by name."""
    folder = shutil.copytree(NEMOTRON / "checkpoint", tmp_path / "copy")
    (folder / "config.json").write_text(json.dumps(CONFIG if config is None else config))
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")
    return folder


def filled(model, ids, room=64):
    cache = model.new_cache(len(ids) + room)
    return cache, model.extend(ids, cache).logits


def close(z, wanted):
    torch.testing.assert_close(z, wanted, atol=1e-4, rtol=0)


@boards
def test_its_logits_are_those_of_the_data_in_both_ways(board):
    model = loaded()
    cache, z = filled(model, board["prompt"])
    close(z, WANTED[f"{board['id']}.prompt_causal"])
    z, rest = model.denoise(board["block"], cache), torch.arange(model.vocab_size) != MASK
    close(z[:, rest], WANTED[f"{board['id']}.block_bidirectional"][:, rest])
    assert torch.isneginf(z[:, MASK]).all()  # never proposed
    close(model.extend(board["block"], cache).logits, WANTED[f"{board['id']}.block_causal"])


def test_a_block_leaves_nothing_behind():
    """Neither in what a causal call gives afterwards nor in the cache, wherever the text ends."""
    model = loaded()
    for n in (1, 7, len(TEXT)):
        (cache, _), (other, _) = filled(model, TEXT[:n]), filled(model, TEXT[:n])
        again = [model.denoise(BLOCK, cache), model.denoise([5, MASK], cache), model.denoise(BLOCK, cache)]
        assert torch.equal(again[0], again[2]) and cache.lengths == (n,) * model.num_layers and cache.board == 0
        tree = {"parents": [-1, 0, 0]}
        assert torch.equal(model.extend([3, 4, 5], cache, **tree).logits, model.extend([3, 4, 5], other, **tree).logits)


def test_a_block_that_is_kept_was_read_in_both_directions():
    """As if prompt and block had been read with a mask that hides only the block from the prompt."""
    model = loaded()
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


def test_it_is_a_causal_model_with_more_to_ask_for():
    model = loaded()
    assert isinstance(model, TwoWayLM) and kinds_of(model) == {"causal", "layered", "two-way"}
    assert model.record.kind == "causal" and (model.mask_id, model.block_size, model.shift) == (MASK, 32, False)
    assert model.eos_ids == {CONFIG["eos_token_id"]} and model.max_positions == 256 and model.takes_trees
    assert loaded(block_size=8).block_size == 8 and loaded(eos_id=61).eos_ids == {61}
    assert plan(CONFIG | {"dlm_type": "dream"}, "x").shift


@pytest.mark.parametrize("slug", ["greedy", "prompt-lookup", "token-recycling"])
def test_causal_methods_run_on_it_as_they_are(slug):
    """Its text is that of the stock class's own generation."""
    model = loaded()
    with torch.no_grad():
        out = model.model.generate(torch.tensor([TEXT]), max_new_tokens=20, do_sample=False, pad_token_id=0)
    trace = engines.run(slug, model, TEXT, params={"max_new_tokens": 20})
    assert trace.output_ids == out[0, len(TEXT) :].tolist()


def test_a_block_counts_as_a_forward_of_all_its_rows_and_keeps_what_is_forbidden():
    meter = Meter(forbidden={len(TEXT) + 1: {111}})
    model = counted(loaded(), "target", meter, "two-way")
    cache = model.new_cache(64)
    model.extend(TEXT, cache)
    z = model.denoise(BLOCK, cache)
    assert [int(row[111].isneginf()) for row in z[:3]] == [0, 1, 0]
    rows = len(TEXT) + len(BLOCK)
    assert (meter.forwards, meter.tokens_fed, meter.work) == ({"target": 2}, rows, {"target": 2 * rows})


def test_shifted_rows_are_moved_inside_a_block(tmp_path):
    """Trained Dream's way row i speaks of token i + 1; the first keeps its own."""
    plain, moved = loaded(), loaded(copied(tmp_path, CONFIG | {"dlm_type": "dream"}))
    z, shifted = (model.denoise(BLOCK, filled(model, TEXT)[0]) for model in (plain, moved))
    assert moved.shift and torch.equal(shifted[1:], z[:-1]) and torch.equal(shifted[0], z[0])


def without(*keys):
    return {key: value for key, value in CONFIG.items() if key not in keys}


@pytest.mark.parametrize(
    ("config", "options", "sentence"),
    [
        (without("mask_token_id"), {}, r"is its mask; give it as mask_id=\.\.\. \(candidates in its tokenizer: –\)"),
        (
            without("eos_token_id"),
            {},
            r"ends an answer; give it as eos_id=\.\.\. \(candidates in its tokenizer: –\)",
        ),
        (CONFIG, {"mask_id": 128}, "mask_id=128 is not in the vocabulary of copy; ids go from 0 to 127"),
        (CONFIG, {"eos_id": 128}, "eos_id=128 is not in the vocabulary of copy; ids go from 0 to 127"),
        (CONFIG, {"eos_id": "</s>"}, "eos_id='</s>' is not an integer"),
        (CONFIG, {"block_size": 257}, "block_size=257 does not fit copy; give a number from 1 to 256"),
        (CONFIG | {"attention_bias": True}, {}, "attention_bias=True; only attention_bias=False .* Ministral 3"),
        (CONFIG | {"sliding_window": 64}, {}, "sliding_window=64; only sliding_window=None .* Ministral 3"),
        (CONFIG | {"model_type": "nemotron_labs_next"}, {}, "'nemotron_labs_next', which would need code from the"),
    ],
)
def test_what_does_not_fit_is_one_sentence(tmp_path, config, options, sentence):
    with pytest.raises(UserError, match=sentence) as told:
        loaded(copied(tmp_path, config), **options)
    assert "\n" not in str(told.value)


def test_the_tokenizer_s_candidates_are_named(tmp_path):
    from tokenizers import Tokenizer as Fast
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    words = PreTrainedTokenizerFast(tokenizer_object=Fast(WordLevel({f"w{i}": i for i in range(100)}, unk_token="w0")))
    words.add_tokens(["<|mask|>", "<|eot|>", "plain"], special_tokens=True)
    folder = copied(tmp_path, without("mask_token_id", "eos_token_id"))
    words.save_pretrained(folder)
    with pytest.raises(UserError, match=r"which token ends an answer; .* in its tokenizer: <\|eot\|> 101\)"):
        loaded(folder)
    with pytest.raises(UserError, match=r"which token is its mask; .* in its tokenizer: <\|mask\|> 100\)"):
        loaded(folder, eos_id=101)
    assert loaded(folder, eos_id=101, mask_id=100).mask_id == 100


def test_a_prompt_longer_than_the_positions_is_refused():
    with pytest.raises(UserError, match="has room for 256 in all"):
        engines.run("greedy", loaded(), [5] * 250, params={"max_new_tokens": 20})
    cache, _ = filled(loaded(), [5] * 250)
    with pytest.raises(UserError, match="has 256 positions and position 257 was fed"):
        loaded().denoise(BLOCK, cache)
