"""LLaDA2.0 and 2.1 as they are published, in a stock class: the logits of the model's own file, a cache that changes
nothing, and what is refused in a sentence."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

import engines
from engines.core.errors import UserError
from engines.models.mapping import plan
from tests.engines.conftest import GOLDEN

LLADA2 = GOLDEN / "diffusion2026" / "llada2"
BOARDS = json.loads((LLADA2 / "cases.json").read_text("utf-8"))["boards"]
CONFIG = json.loads((LLADA2 / "checkpoint" / "config.json").read_text("utf-8"))
MASK = CONFIG["mask_token_id"]


def loaded(block_size=8, folder=LLADA2 / "checkpoint"):
    return engines.load_model(folder, dtype="float32", block_size=block_size)


def copied(tmp_path, change):
    """The checkpoint in another folder, `change` applied to its tensors by name."""
    folder = shutil.copytree(LLADA2 / "checkpoint", tmp_path / "copy")
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")
    return folder


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board["id"])
def test_its_logits_are_those_of_its_own_file(board):
    z = loaded(board["block_length"])(torch.tensor(board["ids"]))
    wanted = load_file(LLADA2 / "logits.safetensors")[f"{board['id']}.logits"]
    rest = torch.arange(z.shape[1]) != MASK  # never proposed
    torch.testing.assert_close(z[:, rest], wanted[:, rest], atol=1e-4, rtol=0)


def test_a_cache_of_finished_blocks_changes_nothing():
    model, board = loaded(), torch.tensor(BOARDS[0]["ids"])
    cache = model.new_cache(len(board))
    model.store(board[:16], cache)
    z, rest = model.denoise(board[16:], cache), torch.arange(model.vocab_size) != MASK
    torch.testing.assert_close(z[:, rest], model(board)[16:, rest], atol=1e-5, rtol=0)


def test_the_published_config_names_neither_mask_nor_block():
    """They stand in its tokenizer and its code: mask 156895, blocks of 32; its end mark is what it pads with."""
    published = {key: value for key, value in CONFIG.items() if key not in ("mask_token_id", "eos_token_id")}
    how = plan(published, "LLaDA2.1-mini")
    assert (how.kind, how.mask_id, how.block_size, how.shift) == ("block", 156895, 32, False)
    assert how.config["eos_token_id"] == CONFIG["pad_token_id"]
    assert plan(published | {"block_length": 16}, "x").block_size == 16


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"expert_capacity": 8}, "is a LLaDA2.2, whose blocks first choose expert_capacity=8 experts .* LLaDA2.0 or"),
        ({"score_function": "softmax"}, "score_function='softmax'; only score_function='sigmoid' .* GLM-4-MoE"),
        ({"use_qk_norm": False}, "use_qk_norm=False"),
        ({"use_qkv_bias": True}, "use_qkv_bias=True"),
        ({"norm_head": True}, "norm_head=True"),
        ({"rope_scaling": {"type": "yarn"}}, "rope_scaling="),
    ],
)
def test_another_network_is_refused_by_name(said, sentence):
    with pytest.raises(UserError, match=sentence):
        plan(CONFIG | said, "x")


@pytest.mark.parametrize(
    ("lost", "sentence"),
    [
        ("1.mlp.experts.3.up_proj", "'copy' has 15 of 16 experts in its files: model.layers.1.mlp.experts.3.up_proj.w"),
        ("2.attention.dense", "1 tensors are missing, .* first 'model.layers.2.self_attn.o_proj.weight'"),
    ],
)
def test_a_tensor_that_is_missing_is_one_sentence(tmp_path, lost, sentence):
    with pytest.raises(UserError, match=sentence) as told:
        loaded(folder=copied(tmp_path, lambda tensors: tensors.pop(f"model.layers.{lost}.weight")))
    assert "\n" not in str(told.value)


def test_a_block_longer_than_the_model_is_refused():
    with pytest.raises(UserError, match="block_size=513 does not fit"):
        loaded(513)


def test_glm_itself_is_read_as_before(tmp_path):
    """The class's own checkpoints have none of the names, and lose nothing by the splitting."""
    from transformers import Glm4MoeForCausalLM

    loaded()
    stock = Glm4MoeForCausalLM(loaded().model.config).eval()
    stock.save_pretrained(tmp_path)
    again, info = Glm4MoeForCausalLM.from_pretrained(tmp_path, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"]
    for name, tensor in stock.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name]), name
