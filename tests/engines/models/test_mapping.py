"""Checkpoints in the names that LLaDA, LLaDA-MoE, Dream, Fast-dLLM v2 and SDAR are published in, against the stock
classes built with the same weights."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

from engines.core.errors import UserError
from engines.models.mapping import plan
from engines.models.zoo import load_model
from tests.engines.models.stock import stock as made

LLADA = {
    "model_type": "llada", "architectures": ["LLaDAModelLM"],
    "auto_map": {"AutoModel": "modeling_llada.LLaDAModelLM"}, "block_type": "llama", "activation_type": "silu",
    "layer_norm_type": "rms", "rope": True, "alibi": False, "d_model": 32, "n_heads": 4, "n_kv_heads": 2,
    "n_layers": 2, "mlp_hidden_size": 48, "mlp_ratio": 4, "embedding_size": 64, "vocab_size": 60,
    "rope_theta": 500000.0, "rms_norm_eps": 1e-5, "max_sequence_length": 128, "mask_token_id": 63,
    "eos_token_id": 62, "pad_token_id": 62, "weight_tying": False,
}  # fmt: skip
DREAM = {
    "model_type": "Dream", "architectures": ["DreamModel"],
    "auto_map": {"AutoModel": "modeling_dream.DreamModel"}, "hidden_size": 32, "num_attention_heads": 4,
    "num_key_value_heads": 2, "num_hidden_layers": 2, "intermediate_size": 48, "vocab_size": 64,
    "hidden_act": "silu", "rope_theta": 1000000.0, "rope_scaling": None, "rms_norm_eps": 1e-6,
    "max_position_embeddings": 128, "mask_token_id": 63, "eos_token_id": 62, "pad_token_id": 62,
    "sliding_window": None, "use_sliding_window": False, "tie_word_embeddings": False,
}  # fmt: skip
FAST_DLLM = {
    "model_type": "Fast_dLLM_Qwen", "architectures": ["Fast_dLLM_QwenForCausalLM"],
    "auto_map": {"AutoModelForCausalLM": "modeling.Fast_dLLM_QwenForCausalLM"}, "hidden_size": 32,
    "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2, "intermediate_size": 48,
    "vocab_size": 64, "hidden_act": "silu", "rope_theta": 1000000.0, "rms_norm_eps": 1e-6,
    "max_position_embeddings": 128, "eos_token_id": 62, "tie_word_embeddings": False, "sliding_window": None,
    "use_sliding_window": False, "max_window_layers": 2, "layer_types": ["full_attention", "full_attention"],
    "bd_size": 32,
}  # fmt: skip
SDAR = {
    "model_type": "sdar", "architectures": ["SDARForCausalLM"],
    "auto_map": {"AutoModelForCausalLM": "modeling_sdar.SDARForCausalLM"}, "hidden_size": 32,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "num_hidden_layers": 2,
    "intermediate_size": 48, "vocab_size": 64, "hidden_act": "silu", "rope_theta": 1000000.0,
    "rope_scaling": None, "rms_norm_eps": 1e-6, "max_position_embeddings": 130, "eos_token_id": 62,
    "attention_bias": False, "tie_word_embeddings": False, "use_sliding_window": False, "sliding_window": None,
    "fuse_cross_entropy": True, "mask_token_id": 63,
}  # fmt: skip
LLADA_MOE = {
    "model_type": "llada", "architectures": ["LLaDAMoEModelLM"],
    "auto_map": {"AutoModel": "modeling_lladamoe.LLaDAMoEModelLM"}, "hidden_size": 32, "num_attention_heads": 4,
    "num_key_value_heads": 4, "num_hidden_layers": 3, "vocab_size": 64, "hidden_act": "silu",
    "rope_theta": 50000.0, "rope_scaling": None, "partial_rotary_factor": 1.0, "rms_norm_eps": 1e-5,
    "max_position_embeddings": 128, "eos_token_id": 62, "pad_token_id": 62, "attention_bias": False,
    "clip_qkv": None, "tie_word_embeddings": False, "qk_layernorm": True, "dense_intermediate_size": 48,
    "expert_intermediate_size": 24, "shared_expert_intermediate_size": None, "num_experts": 5,
    "num_experts_per_tok": 2, "moe_layer_freq": [0, 1, 1], "moe_router_score_function": "softmax",
    "moe_router_enable_expert_bias": False, "router_num_group": None, "router_topk_group": None,
    "routed_scaling_factor": 1, "norm_topk_prob": None, "output_router_logits": False,
    "router_aux_loss_coef": 0.01,
}  # fmt: skip
BOARD = torch.tensor([1, 16, 5, 63, 63, 63])


def llada_name(name: str) -> str:
    """The stock name of a tensor in the names of LLaDA's files."""
    top = {
        "model.embed_tokens.weight": "wte.weight",
        "model.norm.weight": "ln_f.weight",
        "lm_head.weight": "ff_out.weight",
    }
    if name in top:
        return f"model.transformer.{top[name]}"
    _, _, layer, *rest = name.split(".")
    parts = {
        "o_proj": "attn_out",
        "gate_proj": "ff_proj",
        "down_proj": "ff_out",
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ff_norm",
    }
    return f"model.transformer.blocks.{layer}.{parts.get(rest[-2], rest[-2])}.weight"


def write(folder: Path, config: dict, tensors: dict[str, torch.Tensor], files: int = 2) -> None:
    """A sharded checkpoint, as the published ones are."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    names = [f"model-{i + 1:05}-of-{files:05}.safetensors" for i in range(files)]
    where = {key: names[i % files] for i, key in enumerate(tensors)}
    for file in names:
        save_file(
            {k: v.contiguous() for k, v in tensors.items() if where[k] == file},
            folder / file,
            metadata={"format": "pt"},
        )
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))


def test_llada_maps_onto_llama(tmp_path: Path) -> None:
    stock = made(
        "Llama",
        is_causal=False,
        rms_norm_eps=1e-5,
        theta=5e5,
    )
    write(tmp_path / "llada", LLADA, {llada_name(k): v for k, v in stock.state_dict().items()})
    model = load_model(tmp_path / "llada", kind="masked")
    found = model.mask_id, model.shift, model.eos_ids, model.max_positions, model.vocab_size
    assert found == (63, False, {62}, 128, 64)
    with torch.no_grad():
        torch.testing.assert_close(model(BOARD)[:, :63], stock(input_ids=BOARD[None]).logits[0, :, :63])


def moe_tensors() -> dict[str, torch.Tensor]:
    """Random weights under the names of LLaDA-MoE's files: one matrix per expert, a dense first layer."""
    rng, found = torch.Generator().manual_seed(0), {}

    def put(name: str, *shape: int) -> None:
        found[name] = torch.randn(shape, generator=rng) * (0.3 if len(shape) > 1 else 0.2) + (len(shape) == 1)

    put("model.embed_tokens.weight", 64, 32)
    for layer in range(3):
        at = f"model.layers.{layer}"
        for part in "qkvo":
            put(f"{at}.self_attn.{part}_proj.weight", 32, 32)
        for part in "qk":
            put(f"{at}.self_attn.{part}_norm.weight", 8)
        for part in ("input_layernorm", "post_attention_layernorm"):
            put(f"{at}.{part}.weight", 32)
        for mlp, size in [(f"{at}.mlp", 48)] if layer == 0 else [(f"{at}.mlp.experts.{e}", 24) for e in range(5)]:
            for part in ("gate", "up"):
                put(f"{mlp}.{part}_proj.weight", size, 32)
            put(f"{mlp}.down_proj.weight", 32, size)
        if layer:
            put(f"{at}.mlp.gate.weight", 5, 32)
    put("model.norm.weight", 32)
    put("lm_head.weight", 64, 32)
    return found


def moe_rows(w: dict[str, torch.Tensor], ids: torch.Tensor) -> torch.Tensor:
    """The rows [L, V] of LLaDA-MoE's network, written out from its description: norms per head, full attention, experts
    weighed by the bare softmax."""

    def norm(x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
        return x * (x.pow(2).mean(-1, keepdim=True) + 1e-5).rsqrt() * gain

    def swiglu(x: torch.Tensor, at: str) -> torch.Tensor:
        return (torch.nn.functional.silu(x @ w[f"{at}.gate_proj.weight"].T) * (x @ w[f"{at}.up_proj.weight"].T)) @ w[
            f"{at}.down_proj.weight"
        ].T

    angles = torch.arange(len(ids))[:, None] * 50000.0 ** (-torch.arange(0, 8, 2) / 8)  # [L, 4]

    def turn(x: torch.Tensor) -> torch.Tensor:  # [h, L, 8]
        a, b = x.chunk(2, -1)
        return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)

    x = w["model.embed_tokens.weight"][ids]
    for layer in range(3):
        at = f"model.layers.{layer}"
        y = norm(x, w[f"{at}.input_layernorm.weight"])
        q, k, v = ((y @ w[f"{at}.self_attn.{part}_proj.weight"].T).view(-1, 4, 8).transpose(0, 1) for part in "qkv")
        q, k = (turn(norm(part, w[f"{at}.self_attn.{name}_norm.weight"])) for part, name in ((q, "q"), (k, "k")))
        seen = (q @ k.transpose(1, 2) / 8**0.5).softmax(-1) @ v
        x = x + seen.transpose(0, 1).reshape(-1, 32) @ w[f"{at}.self_attn.o_proj.weight"].T
        y = norm(x, w[f"{at}.post_attention_layernorm.weight"])
        if layer == 0:
            x = x + swiglu(y, f"{at}.mlp")
            continue
        best = (y @ w[f"{at}.mlp.gate.weight"].T).softmax(-1).topk(2)
        for row in range(len(ids)):
            x[row] += sum(
                p * swiglu(y[row], f"{at}.mlp.experts.{int(e)}")
                for p, e in zip(best.values[row], best.indices[row], strict=True)
            )
    return norm(x, w["model.norm.weight"]) @ w["lm_head.weight"].T


def test_llada_moe_maps_onto_qwen3_moe(tmp_path: Path) -> None:
    tensors = moe_tensors()
    write(tmp_path / "moe", LLADA_MOE, tensors)
    with pytest.raises(
        UserError, match="mask_id=156895 is not in the vocabulary"
    ):  # the published id; the config does not say it
        load_model(tmp_path / "moe")
    model = load_model(tmp_path / "moe", kind="masked", mask_id=63)
    found = model.mask_id, model.shift, model.eos_ids, model.max_positions, model.vocab_size
    assert found == (63, False, {62}, 128, 64)
    rows = moe_rows(tensors, BOARD)
    torch.testing.assert_close(model(BOARD)[:, :63], rows[:, :63], atol=1e-4, rtol=1e-4)
    cache = model.new_cache(8)
    torch.testing.assert_close(model.feed(BOARD, cache, 0, 6), model(BOARD), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(model.feed(BOARD, cache, 2, 5), model(BOARD)[2:5], atol=1e-4, rtol=1e-4)
    stock = Qwen3MoeForCausalLM(
        Qwen3MoeConfig(**plan(LLADA_MOE, "x").config | {"norm_topk_prob": True})
    ).eval()  # what must not be: weights renormalised
    stock.load_state_dict(model.model.state_dict())
    with torch.no_grad():
        assert (stock(input_ids=BOARD[None]).logits[0] - rows)[:, :63].abs().max() > 1e-2


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (
            {"moe_router_score_function": "sigmoid"},
            "moe_router_score_function='sigmoid'; only moe_router_score_function='softmax' .* Qwen3-MoE",
        ),
        ({"shared_expert_intermediate_size": 64}, "shared_expert_intermediate_size=64"),
        ({"norm_topk_prob": True}, "norm_topk_prob=True"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor=0.5"),
        ({"qk_layernorm": False}, "qk_layernorm=False"),
        ({"moe_layer_freq": 2}, "moe_layer_freq=2; only moe_layer_freq=1"),
    ],
)
def test_other_experts_are_refused_by_name(said: dict, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        plan(LLADA_MOE | said, "x")


def test_dream_maps_onto_shifted_qwen2(tmp_path: Path) -> None:
    stock = made(
        "Qwen2",
        is_causal=False,
        rms_norm_eps=1e-6,
        theta=1e6,
    )
    for name, tensor in stock.state_dict().items():
        if name.endswith("bias"):
            tensor.normal_()
    write(tmp_path / "dream", DREAM, stock.state_dict())
    model = load_model(tmp_path / "dream")
    assert model.record.kind == "masked" and model.shift and model.mask_id == 63
    with torch.no_grad():
        torch.testing.assert_close(model(BOARD)[1:, :63], stock(input_ids=BOARD[None]).logits[0, :-1, :63])
    assert not load_model(tmp_path / "dream", shift=False).shift


def block_causal(stock: torch.nn.Module, ids: torch.Tensor, block: int) -> torch.Tensor:
    """Rows of a stock network under the mask that the published model files build: block of the query >= block of the
    key."""
    place = torch.arange(len(ids)) // block
    with torch.no_grad():
        return stock(
            input_ids=ids[None], attention_mask=torch.where(place[:, None] >= place, 0.0, -1e9)[None, None]
        ).logits[0]


def test_fast_dllm_v2_maps_onto_block_causal_shifted_qwen2(tmp_path: Path) -> None:
    stock = made(
        "Qwen2",
        rms_norm_eps=1e-6,
        theta=1e6,
    )
    for name, tensor in stock.state_dict().items():
        if name.endswith("bias"):
            tensor.normal_()
    write(tmp_path / "v2", FAST_DLLM, stock.state_dict())
    with pytest.raises(
        UserError, match="mask_id=151665 is not in the vocabulary"
    ):  # the published id; the config does not repeat it
        load_model(tmp_path / "v2")
    model = load_model(tmp_path / "v2", kind="block", mask_id=63)
    found = model.record.kind, model.shift, model.block_size, model.mask_id, model.max_positions
    assert found == ("block", True, 32, 63, 128)
    ids = torch.randint(1, 62, (70,), generator=torch.Generator().manual_seed(0))
    rows = block_causal(stock, ids, 32)
    torch.testing.assert_close(model(ids)[1:, :63], rows[:-1, :63], atol=1e-4, rtol=0)
    cache = model.new_cache(96)
    torch.testing.assert_close(model.store(ids[:64], cache)[:63], rows[63, :63], atol=1e-4, rtol=0)
    assert plan(FAST_DLLM | {"bd_size": 8}, "x").block_size == 8
    assert plan({"model_type": "qwen2", "bd_size": 8}, "x").shift


@pytest.mark.parametrize(("said", "block"), [({}, 4), ({"block_size": 8}, 8), ({"block_length": 16}, 16)])
def test_sdar_maps_onto_block_causal_qwen3(tmp_path: Path, said: dict, block: int) -> None:
    stock = made(
        "Qwen3",
        head_dim=16,
        max_position_embeddings=130,
        rms_norm_eps=1e-6,
        theta=1e6,
    )
    names = set(stock.state_dict())
    assert {"model.layers.0.self_attn.q_norm.weight", "model.layers.1.self_attn.k_norm.weight"} <= names
    for name, tensor in stock.state_dict().items():
        if name.endswith("norm.weight"):
            tensor.normal_(1.0, 0.3)
    write(tmp_path / "sdar", SDAR | (said if "block_size" in said else {}), stock.state_dict())
    (tmp_path / "sdar" / "generation_config.json").write_text(json.dumps(said | {"eos_token_id": [61, 62]}))
    model = load_model(tmp_path / "sdar")
    found = model.record.kind, model.shift, model.block_size, model.mask_id, model.eos_ids
    assert found == ("block", False, block, 63, {61, 62})
    assert model.max_positions == 130 // block * block
    assert plan({**SDAR, "mask_token_id": 151669}, "x").mask_id == 151669
    ids = torch.randint(1, 62, (40,), generator=torch.Generator().manual_seed(0))
    rows = block_causal(stock, ids, block)
    torch.testing.assert_close(model(ids)[:, :63], rows[:, :63], atol=1e-4, rtol=0)
    cache = model.new_cache(32)
    model.store(ids[:block], cache)
    exact = block_causal(stock, ids[: 2 * block], block)[block:, :63]
    torch.testing.assert_close(model.denoise(ids[block : 2 * block], cache)[:, :63], exact, atol=1e-4, rtol=0)
    if not said:
        assert load_model(tmp_path / "sdar", block_size=8).block_size == 8


def test_lost_weights_are_said(tmp_path: Path) -> None:
    stock = made("Llama")
    tensors = {llada_name(k): v for k, v in stock.state_dict().items()}
    del tensors["model.transformer.blocks.1.ff_out.weight"]
    write(tmp_path / "broken", LLADA, tensors)
    with pytest.raises(UserError, match=r"1 tensors are missing.*layers.1.mlp.down_proj"):
        load_model(tmp_path / "broken")


def test_kinds_read_from_a_config() -> None:
    assert plan({"architectures": ["LlamaForCausalLM"]}, "x").kind == "causal"
    assert plan(
        {"architectures": ["LlamaForCausalLM"], "is_causal": False, "shift_logits": True, "mask_token_id": 1}, "x"
    ).shift
    assert plan({"architectures": ["BertForMaskedLM"]}, "x").kind == "masked"
    assert plan({**LLADA, "mask_token_id": None}, "x").kind == "masked"
    ours = plan(
        {"model_type": "llama", "is_causal": False, "block_size": 16, "shift_logits": True, "mask_token_id": 1}, "x"
    )
    found = ours.kind, ours.block_size, ours.shift, ours.mask_id, ours.model_class
    assert found == ("block", 16, True, 1, "AutoModelForCausalLM")
    assert not plan({"model_type": "llama", "is_causal": False, "block_size": 16}, "x").shift
    assert plan({"model_type": "gpt2", "block_size": 16}, "x").kind == "causal"  # there it is a length
    assert plan({"model_type": "t5", "is_encoder_decoder": True}, "x").kind == "seq2seq"
    with pytest.raises(UserError, match="'x' is an encoder-decoder of the type 'mbart'"):
        plan({"model_type": "mbart", "is_encoder_decoder": True}, "x")
    with pytest.raises(UserError, match="alibi=True"):
        plan({**LLADA, "alibi": True}, "x")
