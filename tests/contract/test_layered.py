"""Methods of layered models run on any model that runs layer by layer, and are offered and refused accordingly."""

import pytest
import torch

import engines
from engines.core.kinds import KINDS
from explorer.bench.sweep import runnable

SLUG = "easyspec"


def test_a_layered_method_is_offered_for_models_of_layers_and_refuses_others(tmp_path):
    info = engines.get_method(SLUG).info
    assert (info.needs, info.kind) == ({"target": "layered"}, "causal")
    assert [m.name for m in engines.list_models() if "layered" in m.kinds and m.kind == "causal"]
    assert isinstance(engines.assign_roles(info, "tiny-ar-s")["target"], KINDS["layered"].protocol)
    assert info in runnable("causal", "tiny-ar-s") and info not in runnable("causal", "a folder")
    torch.manual_seed(0)
    from transformers import GPT2Config, GPT2LMHeadModel, Qwen3Config, Qwen3ForCausalLM

    none = {"pad_token_id": None, "bos_token_id": None, "eos_token_id": None}
    gpt = GPT2Config(vocab_size=50, n_embd=32, n_layer=2, n_head=4, **none)
    GPT2LMHeadModel(gpt).save_pretrained(tmp_path / "gpt")
    with pytest.raises(engines.UserError, match="needs a layered model, gpt is causal; choose one of tiny-ar-l, "):
        engines.run(SLUG, tmp_path / "gpt", "1 2 3")
    size = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4, "head_dim": 8}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}
    qwen = Qwen3Config(vocab_size=50, initializer_range=0.3, **size, **heads, **none)
    Qwen3ForCausalLM(qwen).save_pretrained(tmp_path / "qwen")
    given = {"params": {"max_new_tokens": 6}}
    ours, greedy = (engines.run(one, tmp_path / "qwen", "1 2 3", **given) for one in (SLUG, "greedy"))
    assert ours.output_ids == greedy.output_ids
