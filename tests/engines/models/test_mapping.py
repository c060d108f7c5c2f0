"""Checkpoints in the names that LLaDA and Dream are published in, against the stock classes built with the same weights."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from engines.core.errors import UserError
from engines.models.mapping import plan
from engines.models.zoo import load_model

LLADA = {
    "model_type": "llada", "architectures": ["LLaDAModelLM"], "auto_map": {"AutoModel": "modeling_llada.LLaDAModelLM"}, "block_type": "llama",
    "activation_type": "silu", "layer_norm_type": "rms", "rope": True, "alibi": False, "d_model": 32, "n_heads": 4, "n_kv_heads": 2, "n_layers": 2,
    "mlp_hidden_size": 48, "mlp_ratio": 4, "embedding_size": 64, "vocab_size": 60, "rope_theta": 500000.0, "rms_norm_eps": 1e-5,
    "max_sequence_length": 128, "mask_token_id": 63, "eos_token_id": 62, "pad_token_id": 62, "weight_tying": False,
}  # fmt: skip
DREAM = {
    "model_type": "Dream", "architectures": ["DreamModel"], "auto_map": {"AutoModel": "modeling_dream.DreamModel"}, "hidden_size": 32,
    "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2, "intermediate_size": 48, "vocab_size": 64, "hidden_act": "silu",
    "rope_theta": 1000000.0, "rope_scaling": None, "rms_norm_eps": 1e-6, "max_position_embeddings": 128, "mask_token_id": 63, "eos_token_id": 62,
    "pad_token_id": 62, "sliding_window": None, "use_sliding_window": False, "tie_word_embeddings": False,
}  # fmt: skip
BOARD = torch.tensor([1, 16, 5, 63, 63, 63])


def llada_name(name: str) -> str:
    """The stock name of a tensor in the names of LLaDA's files."""
    top = {"model.embed_tokens.weight": "wte.weight", "model.norm.weight": "ln_f.weight", "lm_head.weight": "ff_out.weight"}
    if name in top:
        return f"model.transformer.{top[name]}"
    _, _, layer, *rest = name.split(".")
    parts = {"o_proj": "attn_out", "gate_proj": "ff_proj", "down_proj": "ff_out", "input_layernorm": "attn_norm", "post_attention_layernorm": "ff_norm"}
    return f"model.transformer.blocks.{layer}.{parts.get(rest[-2], rest[-2])}.weight"


def write(folder: Path, config: dict, tensors: dict[str, torch.Tensor], files: int = 2) -> None:
    """A sharded checkpoint, as the published ones are."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    names = [f"model-{i + 1:05}-of-{files:05}.safetensors" for i in range(files)]
    where = {key: names[i % files] for i, key in enumerate(tensors)}
    for file in names:
        save_file({k: v.contiguous() for k, v in tensors.items() if where[k] == file}, folder / file, metadata={"format": "pt"})
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))


def test_llada_maps_onto_llama(tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, is_causal=False,
        max_position_embeddings=128, rms_norm_eps=1e-5, rope_parameters={"rope_type": "default", "rope_theta": 500000.0}, initializer_range=0.3,
    )  # fmt: skip
    stock = LlamaForCausalLM(config).eval()
    write(tmp_path / "llada", LLADA, {llada_name(k): v for k, v in stock.state_dict().items()})
    model = load_model(tmp_path / "llada", kind="masked")
    assert (model.mask_id, model.shift, model.eos_ids, model.max_positions, model.vocab_size) == (63, False, {62}, 128, 64)
    with torch.no_grad():
        torch.testing.assert_close(model(BOARD)[:, :63], stock(input_ids=BOARD[None]).logits[0, :, :63])


def test_dream_maps_onto_shifted_qwen2(tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, is_causal=False,
        max_position_embeddings=128, rms_norm_eps=1e-6, rope_parameters={"rope_type": "default", "rope_theta": 1000000.0}, initializer_range=0.3,
    )  # fmt: skip
    stock = Qwen2ForCausalLM(config).eval()
    for name, tensor in stock.state_dict().items():
        if name.endswith("bias"):
            tensor.normal_()
    write(tmp_path / "dream", DREAM, stock.state_dict())
    model = load_model(tmp_path / "dream")
    assert model.record.kind == "masked" and model.shift and model.mask_id == 63
    with torch.no_grad():
        torch.testing.assert_close(model(BOARD)[1:, :63], stock(input_ids=BOARD[None]).logits[0, :-1, :63])
    assert not load_model(tmp_path / "dream", shift=False).shift


def test_lost_weights_are_said(tmp_path: Path) -> None:
    config = LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)
    stock = LlamaForCausalLM(config)
    tensors = {llada_name(k): v for k, v in stock.state_dict().items()}
    del tensors["model.transformer.blocks.1.ff_out.weight"]
    write(tmp_path / "broken", LLADA, tensors)
    with pytest.raises(UserError, match=r"1 tensors are missing.*layers.1.mlp.down_proj"):
        load_model(tmp_path / "broken")


def test_kinds_read_from_a_config() -> None:
    assert plan({"architectures": ["LlamaForCausalLM"]}, "x").kind == "causal"
    assert plan({"architectures": ["LlamaForCausalLM"], "is_causal": False, "shift_logits": True, "mask_token_id": 1}, "x").shift
    assert plan({"architectures": ["BertForMaskedLM"]}, "x").kind == "masked"
    assert plan({**LLADA, "mask_token_id": None}, "x").kind == "masked"
    with pytest.raises(UserError, match="alibi=True"):
        plan({**LLADA, "alibi": True}, "x")
