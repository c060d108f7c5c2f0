"""Checkpoints that do not say enough, or lack a part: one sentence each, with what to do."""

import json
import shutil

import pytest
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

import engines
from engines.core.errors import UserError
from tests.engines.conftest import GOLDEN

NEMOTRON = GOLDEN / "diffusion2026" / "nemotron_labs_diffusion" / "checkpoint"
LLADA2 = GOLDEN / "diffusion2026" / "llada2" / "checkpoint"


def with_tokenizer(folder, without):
    """Nemotron's tiny checkpoint whose config lacks a key, with a tokenizer that has names for what it may be."""
    folder = shutil.copytree(NEMOTRON, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({key: one for key, one in config.items() if key != without}))
    plain = Tokenizer(WordLevel({f"w{i}": i for i in range(120)}, unk_token="w0"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=plain)
    tokenizer.add_tokens(["<|mask_here|>", "<SPECIAL_MASK>", "<|end_of_answer|>", "<|other|>"], special_tokens=True)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    ("without", "said", "option"),
    [
        (
            "mask_token_id",
            "'copy' does not say which token is its mask; give it as mask_id=... (candidates in its tokenizer: "
            "<|mask_here|> 120, <SPECIAL_MASK> 121).",
            {"mask_id": 120},
        ),
        (
            "eos_token_id",
            "'copy' does not say which token ends an answer; give it as eos_id=... (candidates in its tokenizer: "
            "<|end_of_answer|> 122).",
            {"eos_id": 122},
        ),
    ],
)
def test_a_config_without_an_id_is_asked_for_it_with_the_candidates(tmp_path, without, said, option):
    folder = with_tokenizer(tmp_path / "copy", without)
    with pytest.raises(UserError) as caught:
        engines.load_model(folder)
    assert str(caught.value) == said
    assert engines.load_model(folder, **option).record.options == option


@pytest.fixture
def sharded(tmp_path):
    """LLaDA2's tiny checkpoint in two files, as (folder, names of each)."""
    folder, tensors = shutil.copytree(LLADA2, tmp_path / "copy"), load_file(LLADA2 / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = [sorted(tensors)[i::2] for i in (0, 1)]

    def write(left_out=""):
        places = {}
        for i, part in enumerate(names):
            kept = [name for name in part if name != left_out]
            save_file({name: tensors[name] for name in kept}, folder / f"{i}.safetensors", {"format": "pt"})
            places |= dict.fromkeys(kept, f"{i}.safetensors")
        index = {"metadata": {}, "weight_map": places}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
        return folder

    return write


def test_experts_that_lie_in_two_shards_are_stacked(sharded):
    whole = engines.load_model(LLADA2).model.state_dict()
    parts = engines.load_model(sharded()).model.state_dict()
    assert whole.keys() == parts.keys() and all(whole[name].equal(parts[name]) for name in whole)


def test_an_expert_that_is_missing_in_a_shard_is_named(sharded):
    name = "model.layers.2.mlp.experts.7.down_proj.weight"
    with pytest.raises(UserError, match=f"has 15 of 16 experts in its files: {name} is missing; download it again"):
        engines.load_model(sharded(left_out=name))


def test_a_shard_that_is_missing_is_named(sharded):
    folder = sharded()
    (folder / "1.safetensors").unlink()
    with pytest.raises(UserError, match=r"1.safetensors is missing; download or copy it again"):
        engines.load_model(folder)


def test_code_of_a_checkpoint_is_not_run_whoever_asks(tmp_path):
    with pytest.raises(UserError, match="no code of a checkpoint is run here, so trust_remote_code is no option"):
        engines.load_model(LLADA2, trust_remote_code=True)
    raw = {"model_type": "stranger", "auto_map": {"AutoConfig": "code.Config"}}
    folder = shutil.copytree(LLADA2, tmp_path / "copy")
    (folder / "config.json").write_text(json.dumps(raw))
    with pytest.raises(UserError, match=r"'stranger', which would need code from the checkpoint \(trust_remote_code\)"):
        engines.load_model(folder)
