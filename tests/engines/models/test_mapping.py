"""Checkpoints in their published names against stock classes with the same weights; and what cannot be loaded."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

import engines
from engines.core.errors import UserError
from engines.models.configs.mapping import plan
from engines.models.configs.plans import Plan
from engines.models.loading.vocabulary import wrap
from engines.models.loading.zoo import load_model
from engines.models.tokenizers.tokens import HFTokenizer
from tests.engines.models.published import checkpoint, config_of, copied
from tests.engines.models.stock import stock as made
from tests.engines.refusals import refuses

LLADA = {
    "model_type": "llada", "architectures": ["LLaDAModelLM"],
    "auto_map": {"AutoModel": "modeling_llada.LLaDAModelLM"}, "block_type": "llama", "activation_type": "silu",
    "layer_norm_type": "rms", "rope": True, "alibi": False, "d_model": 32, "n_heads": 4, "n_kv_heads": 2,
    "n_layers": 2, "mlp_hidden_size": 48, "mlp_ratio": 4, "embedding_size": 64, "vocab_size": 60,
    "rope_theta": 500000.0, "rms_norm_eps": 1e-5, "max_sequence_length": 128, "mask_token_id": 63,
    "eos_token_id": 62, "pad_token_id": 62, "weight_tying": False,
}  # fmt: skip
QWEN = {
    "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2,
    "intermediate_size": 48, "vocab_size": 64, "hidden_act": "silu", "rope_theta": 1000000.0, "rms_norm_eps": 1e-6,
    "max_position_embeddings": 128, "eos_token_id": 62, "tie_word_embeddings": False, "sliding_window": None,
    "use_sliding_window": False,
}  # fmt: skip
DREAM = QWEN | {
    "model_type": "Dream", "architectures": ["DreamModel"], "auto_map": {"AutoModel": "modeling_dream.DreamModel"},
    "rope_scaling": None, "mask_token_id": 63, "pad_token_id": 62,
}  # fmt: skip
FAST_DLLM = QWEN | {
    "model_type": "Fast_dLLM_Qwen", "architectures": ["Fast_dLLM_QwenForCausalLM"], "bd_size": 32,
    "auto_map": {"AutoModelForCausalLM": "modeling.Fast_dLLM_QwenForCausalLM"},
    "max_window_layers": 2, "layer_types": ["full_attention", "full_attention"],
}  # fmt: skip
SDAR = QWEN | {
    "model_type": "sdar", "architectures": ["SDARForCausalLM"], "head_dim": 16, "rope_scaling": None,
    "auto_map": {"AutoModelForCausalLM": "modeling_sdar.SDARForCausalLM"}, "max_position_embeddings": 130,
    "attention_bias": False, "fuse_cross_entropy": True, "mask_token_id": 63,
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


LLADA_PARTS = {
    "embed_tokens": "wte", "norm": "ln_f", "lm_head": "ff_out", "o_proj": "attn_out", "gate_proj": "ff_proj",
    "down_proj": "ff_out", "input_layernorm": "attn_norm", "post_attention_layernorm": "ff_norm",
}  # fmt: skip


def llada_name(name: str) -> str:
    """The stock name of a tensor in the names of LLaDA's files."""
    *above, part, _ = name.split(".")
    at = f"blocks.{above[2]}." if "layers" in above else ""
    return f"model.transformer.{at}{LLADA_PARTS.get(part, part)}.weight"


def write(folder: Path, config: dict, tensors: dict[str, torch.Tensor]) -> Path:
    """A sharded checkpoint, as the published ones are."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    where = {key: f"model-0000{i % 2 + 1}-of-00002.safetensors" for i, key in enumerate(tensors)}
    for file in {*where.values()}:
        held = {k: v.contiguous() for k, v in tensors.items() if where[k] == file}
        save_file(held, folder / file, metadata={"format": "pt"})
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))
    return folder


def test_llada_maps_onto_llama(tmp_path: Path) -> None:
    stock = made("Llama", is_causal=False, rms_norm_eps=1e-5, theta=5e5)
    tensors = {llada_name(k): v for k, v in stock.state_dict().items()}
    model = load_model(write(tmp_path / "llada", LLADA, tensors), kind="masked")
    found = model.mask_id, model.shift, model.eos_ids, model.max_positions, model.vocab_size
    assert found == (63, False, {62}, 128, 64)
    with torch.no_grad():
        torch.testing.assert_close(model(BOARD)[:, :63], stock(input_ids=BOARD[None]).logits[0, :, :63])
    del tensors["model.transformer.blocks.1.ff_out.weight"]
    with pytest.raises(UserError, match=r"1 tensors are missing.*layers.1.mlp.down_proj"):
        load_model(write(tmp_path / "broken", LLADA, tensors))


def test_llada_moe_maps_onto_qwen3_moe(tmp_path: Path) -> None:
    """One matrix per expert in its files, a dense first layer, experts weighed by the bare softmax."""
    stock = made(
        "Qwen3Moe", num_hidden_layers=3, num_key_value_heads=4, head_dim=8, num_experts=5, num_experts_per_tok=2,
        moe_intermediate_size=24, mlp_only_layers=[0], norm_topk_prob=False, rms_norm_eps=1e-5, theta=5e4,
    )  # fmt: skip
    tensors = {}
    for name, tensor in varied(stock).items():
        layer, _, part = name.partition(".experts.")
        if part == "gate_up_proj":
            for e, (gate, up) in enumerate(one.chunk(2) for one in tensor):
                tensors |= {f"{layer}.experts.{e}.gate_proj.weight": gate, f"{layer}.experts.{e}.up_proj.weight": up}
        elif part:
            tensors |= {f"{layer}.experts.{e}.down_proj.weight": one for e, one in enumerate(tensor)}
        else:
            tensors[name] = tensor
    folder = write(tmp_path / "moe", LLADA_MOE, tensors)
    with pytest.raises(UserError, match="mask_id=156895 is not in the vocabulary"):  # the published id, not in configs
        load_model(folder)
    model = load_model(folder, kind="masked", mask_id=63)
    found = model.mask_id, model.shift, model.eos_ids, model.max_positions, model.vocab_size
    assert found == (63, False, {62}, 128, 64)
    rows = block_causal(stock, BOARD, len(BOARD))
    torch.testing.assert_close(model(BOARD)[:, :63], rows[:, :63], atol=1e-4, rtol=1e-4)
    cache = model.new_cache(8)
    torch.testing.assert_close(model.feed(BOARD, cache, 0, 6), model(BOARD), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(model.feed(BOARD, cache, 2, 5), model(BOARD)[2:5], atol=1e-4, rtol=1e-4)
    for said, sentence in (
        ({"moe_router_score_function": "sigmoid"}, "'sigmoid'; only moe_router_score_function='softmax' .* Qwen3-MoE"),
        ({"shared_expert_intermediate_size": 64}, "shared_expert_intermediate_size=64"),
        ({"norm_topk_prob": True}, "norm_topk_prob=True"),
        ({"moe_layer_freq": 2}, "moe_layer_freq=2; only moe_layer_freq=1"),
    ):
        refuses(UserError, sentence, plan, LLADA_MOE | said, "x")


def varied(stock: Any) -> dict[str, torch.Tensor]:
    """The tensors of a stock network, biases and gains among them made to tell."""
    for name, tensor in stock.state_dict().items():
        if tensor.dim() == 1:
            tensor.normal_(float("norm" in name), 0.3)
    return stock.state_dict()


def test_dream_maps_onto_shifted_qwen2(tmp_path: Path) -> None:
    stock = made("Qwen2", is_causal=False, rms_norm_eps=1e-6, theta=1e6)
    model = load_model(write(tmp_path / "dream", DREAM, varied(stock)))
    assert model.record.kind == "masked" and model.shift and model.mask_id == 63
    with torch.no_grad():
        torch.testing.assert_close(model(BOARD)[1:, :63], stock(input_ids=BOARD[None]).logits[0, :-1, :63])
    assert not load_model(tmp_path / "dream", shift=False).shift


def block_causal(stock: torch.nn.Module, ids: torch.Tensor, block: int) -> torch.Tensor:
    """Rows of a stock network under the published mask: block of the query >= block of the key."""
    place = torch.arange(len(ids)) // block
    mask = torch.where(place[:, None] >= place, 0.0, -1e9)[None, None]
    with torch.no_grad():
        return stock(input_ids=ids[None], attention_mask=mask).logits[0]


def test_fast_dllm_v2_maps_onto_block_causal_shifted_qwen2(tmp_path: Path) -> None:
    stock = made("Qwen2", rms_norm_eps=1e-6, theta=1e6)
    folder = write(tmp_path / "v2", FAST_DLLM, varied(stock))
    with pytest.raises(UserError, match="mask_id=151665 is not in the vocabulary"):  # the published id, not in configs
        load_model(folder)
    model = load_model(folder, kind="block", mask_id=63)
    found = model.record.kind, model.shift, model.block_size, model.mask_id, model.max_positions
    assert found == ("block", True, 32, 63, 128)
    ids = torch.randint(1, 62, (70,), generator=torch.Generator().manual_seed(0))
    rows = block_causal(stock, ids, 32)
    torch.testing.assert_close(model(ids)[1:, :63], rows[:-1, :63], atol=1e-4, rtol=0)
    torch.testing.assert_close(model.store(ids[:64], model.new_cache(96))[:63], rows[63, :63], atol=1e-4, rtol=0)
    assert plan(FAST_DLLM | {"bd_size": 8}, "x").block_size == 8
    assert plan({"model_type": "qwen2", "bd_size": 8}, "x").shift


@pytest.mark.parametrize(("said", "block"), [({}, 4), ({"block_size": 8}, 8), ({"block_length": 16}, 16)])
def test_sdar_maps_onto_block_causal_qwen3(tmp_path: Path, said: dict, block: int) -> None:
    stock = made("Qwen3", head_dim=16, max_position_embeddings=130, rms_norm_eps=1e-6, theta=1e6)
    folder = write(tmp_path / "sdar", SDAR | (said if "block_size" in said else {}), varied(stock))
    (folder / "generation_config.json").write_text(json.dumps(said | {"eos_token_id": [61, 62]}))
    model = load_model(folder)
    found = model.record.kind, model.shift, model.block_size, model.mask_id, model.eos_ids
    assert found == ("block", False, block, 63, {61, 62})
    assert model.max_positions == 130 // block * block
    ids = torch.randint(1, 62, (40,), generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(model(ids)[:, :63], block_causal(stock, ids, block)[:, :63], atol=1e-4, rtol=0)
    cache = model.new_cache(32)
    model.store(ids[:block], cache)
    exact = block_causal(stock, ids[: 2 * block], block)[block:, :63]
    torch.testing.assert_close(model.denoise(ids[block : 2 * block], cache)[:, :63], exact, atol=1e-4, rtol=0)


def test_kinds_read_from_a_config() -> None:
    assert plan({"architectures": ["LlamaForCausalLM"]}, "x").kind == "causal"
    ours = {"model_type": "llama", "is_causal": False, "shift_logits": True, "mask_token_id": 1}
    assert plan(ours, "x").shift and plan(ours, "x").kinds == ("masked",)
    found = plan(ours | {"block_size": 16}, "x")
    assert (found.kind, found.block_size, found.shift, found.mask_id) == ("block", 16, True, 1)
    assert not plan({"model_type": "llama", "is_causal": False, "block_size": 16}, "x").shift
    assert plan({"architectures": ["BertForMaskedLM"]}, "x").kind == "masked"
    assert plan({**LLADA, "mask_token_id": None}, "x").kind == "masked"
    assert plan({"model_type": "gpt2", "block_size": 16}, "x").kind == "causal"  # there it is a length
    assert plan({"model_type": "t5", "is_encoder_decoder": True}, "x").kind == "seq2seq"
    refuses(UserError, "'x' is an encoder-decoder of", plan, {"model_type": "mbart", "is_encoder_decoder": True}, "x")
    refuses(UserError, "alibi=True", plan, {**LLADA, "alibi": True}, "x")


IDS = torch.randint(1, 62, (40,), generator=torch.Generator().manual_seed(0))


def converted(folder: Path, family: str = "Qwen3", **said: Any) -> Any:
    """A checkpoint of dllm's `convert`: the stock config with another type and the stock tensors. Gives the network."""
    stock = made(family, head_dim=16, max_position_embeddings=130, tie_word_embeddings=True, eos_token_id=62)
    own = {"model_type": f"a2d-{family.lower()}", "architectures": [f"A2D{family}LMHeadModel"]}
    tensors = {key: tensor for key, tensor in varied(stock).items() if key != "lm_head.weight"}
    write(folder, stock.config.to_dict() | own | said, tensors)
    return stock


@pytest.mark.parametrize("family", ["Qwen3", "Qwen2", "Llama"])
def test_tiny_a2d_sees_everything(tmp_path: Path, family: str) -> None:
    stock = converted(tmp_path / "Qwen3-0.6B-diffusion-mdlm-v0.1", family)
    model = load_model(tmp_path / "Qwen3-0.6B-diffusion-mdlm-v0.1", mask_id=63)
    assert (model.record.kind, model.shift, model.mask_id, model.eos_ids) == ("masked", False, 63, {62})
    torch.testing.assert_close(model(IDS)[:, :63], block_causal(stock, IDS, 64)[:, :63], atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("name", "said", "options", "block"),
    [
        ("Qwen3-0.6B-diffusion-bd3lm-v0.1", {}, {}, 32),
        ("mine", {}, {"block_size": 8}, 8),
        ("mine", {"block_size": 16}, {}, 16),
        ("mine-bd3lm", {"block_size": 16}, {"block_size": 4}, 4),
    ],
)
def test_tiny_a2d_by_blocks_sees_its_block_and_what_is_before_it(tmp_path, name, said, options, block):
    """Blocks are counted from the beginning of the text, as in training; neither file says that it is one of them."""
    stock = converted(tmp_path / name, **said)
    model = load_model(tmp_path / name, mask_id=63, **options)
    assert (model.record.kind, model.shift, model.block_size) == ("block", False, block)
    torch.testing.assert_close(model(IDS)[:, :63], block_causal(stock, IDS, block)[:, :63], atol=1e-4, rtol=0)
    with pytest.raises(UserError, match=f"'{name}' does not say which token is its mask; give it as mask_id="):
        load_model(tmp_path / name)


def test_the_chat_format_of_tiny_a2d_is_asked_not_to_think(monkeypatch):
    plain = load_model("tiny-ar-s").tokenizer.tokenizer
    template = "{% for one in messages %}{{ one.content }}{% endfor %}{% if enable_thinking is false %}: 1{% endif %}"
    monkeypatch.setattr(plain, "chat_template", template)
    for how, text in ((plan({"model_type": "a2d-qwen3"} | QWEN, "mdlm"), ": 1"), (Plan("causal", "x"), "")):
        said = wrap(plain, None, frozenset(), None, how).encode_prompt("add: 2")
        assert said == HFTokenizer(plain).encode(f"add: 2{text}")


LLADA2, NEMOTRON, GEMMA = "llada2", "nemotron_labs_diffusion", "diffusion_gemma"
TEXT = config_of(GEMMA)["text_config"]
CONFIGS = [  # what is changed in the config, the options, what is said
    (LLADA2, {"expert_capacity": 8}, {}, "is a LLaDA2.2, whose blocks first choose expert_capacity=8 .* LLaDA2.0 or"),
    (LLADA2, {"score_function": "softmax"}, {}, "'softmax'; only score_function='sigmoid' .* GLM-4-MoE"),
    (LLADA2, {"rope_scaling": {"type": "yarn"}}, {}, "rope_scaling="),
    (LLADA2, {}, {"block_size": 513}, "block_size=513 does not fit"),
    (
        LLADA2,
        {},
        {"trust_remote_code": True},
        "so trust_remote_code is not an option",
    ),
    (LLADA2, {"model_type": "stranger", "auto_map": {"AutoConfig": "c.C"}}, {}, r"'stranger', which would need code"),
    (NEMOTRON, {"mask_token_id": None}, {}, r"its mask; give it as mask_id=\.\.\. \(candidates in its tokenizer: –\)"),
    (NEMOTRON, {}, {"mask_id": 128}, "mask_id=128 is not in the vocabulary of copy; ids go from 0 to 127"),
    (NEMOTRON, {}, {"eos_id": "</s>"}, "eos_id='</s>' is not an integer"),
    (NEMOTRON, {}, {"block_size": 257}, "block_size=257 does not fit copy; give a number from 1 to 256"),
    (NEMOTRON, {"attention_bias": True}, {}, "attention_bias=True; only attention_bias=False .* Ministral 3"),
    (NEMOTRON, {"sliding_window": 64}, {}, "sliding_window=64; only sliding_window=None .* Ministral 3"),
    (NEMOTRON, {"model_type": "nemotron_labs_next"}, {}, "'nemotron_labs_next', which would need code from the"),
    (GEMMA, {"canvas_length": 0}, {}, "canvas_length=0 in the config of copy cannot be; a canvas has 1 to 511 pos"),
    (GEMMA, {"text_config": TEXT | {"num_hidden_layers": 10**7}}, {}, "=10000000, which the .* cannot fill"),
    (GEMMA, {"text_config": None}, {}, "config.json of 'copy' has no text_config"),
    (GEMMA, {"text_config": TEXT | {"use_bidirectional_attention": "all"}}, {}, "='all'; only .* causally"),
]
LOST = [
    (LLADA2, "model.layers.1.mlp.experts.3.up_proj.weight", "'copy' has 15 of 16 experts in its files: model.layers.1"),
    (LLADA2, "model.layers.2.attention.dense.weight", "1 tensors are missing, .* first 'model.layers.2.self_attn.o_p"),
    (GEMMA, "model.decoder.layers.2.experts.down_proj", "tensors are missing, .*layers.2.experts.down_proj'"),
    (GEMMA, "model.encoder.language_model.layers.0.layer_scalar", "first 'model.encoder.language_model.layers.0.lay"),
]


def refused(folder, sentence, **options):
    with pytest.raises(UserError, match=sentence) as told:
        engines.load_model(folder, **options)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(("name", "changes", "options", "sentence"), CONFIGS)
def test_a_config_or_an_option_that_cannot_be_is_one_sentence(tmp_path, name, changes, options, sentence):
    refused(copied(tmp_path, name, changes), sentence, **options)


@pytest.mark.parametrize(("name", "tensor", "sentence"), LOST)
def test_a_tensor_that_is_missing_is_one_sentence(tmp_path, name, tensor, sentence):
    refused(copied(tmp_path, name, lost=[tensor]), sentence)


@pytest.mark.parametrize(
    ("key", "option", "said"),
    [
        ("mask_token_id", {"mask_id": 120}, r"is its mask; .* tokenizer: <\|mask_here\|> 120, <SPECIAL_MASK> 121\)\.$"),
        ("eos_token_id", {"eos_id": 122}, r"ends an answer; .* in its tokenizer: <\|end_of_answer\|> 122\)\.$"),
    ],
)
def test_a_config_without_an_id_is_asked_for_it_with_the_candidates(tmp_path, key, option, said):
    folder = copied(tmp_path, NEMOTRON, {key: None})
    plain = Tokenizer(WordLevel({f"w{i}": i for i in range(120)}, unk_token="w0"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=plain)
    tokenizer.add_tokens(["<|mask_here|>", "<SPECIAL_MASK>", "<|end_of_answer|>", "<|other|>"], special_tokens=True)
    tokenizer.save_pretrained(folder)
    refused(folder, f"'copy' does not say which token {said}")
    assert engines.load_model(folder, **option).record.options == option


def sharded(folder, left_out=""):
    """LLaDA2's tiny checkpoint in two files, without a tensor."""
    shutil.copytree(checkpoint(LLADA2), folder)
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    places = {}
    for i in (0, 1):
        kept = [name for name in sorted(tensors)[i::2] if name != left_out]
        save_file({name: tensors[name] for name in kept}, folder / f"{i}.safetensors", {"format": "pt"})
        places |= dict.fromkeys(kept, f"{i}.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return folder


def test_experts_that_lie_in_two_shards_are_stacked_and_one_that_is_missing_is_named(tmp_path):
    whole = engines.load_model(checkpoint(LLADA2)).model.state_dict()
    parts = engines.load_model(sharded(tmp_path / "whole")).model.state_dict()
    assert whole.keys() == parts.keys() and all(whole[name].equal(parts[name]) for name in whole)
    name = "model.layers.2.mlp.experts.7.down_proj.weight"
    refused(sharded(tmp_path / "lacking", name), f"has 15 of 16 experts in its files: {name} is missing; download it")
    text = {key: value for key, value in TEXT.items() if key != "eos_token_id"}
    folder = copied(tmp_path, GEMMA, {"eos_token_id": None, "text_config": text})
    (folder / "generation_config.json").unlink()
    refused(folder, r"copy does not say which token ends a text; .* \(<pad> = 0, <bos> = 2\)\.$")
