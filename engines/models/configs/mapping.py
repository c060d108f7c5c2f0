"""What a checkpoint's config.json asks for: the kind of model, the stock transformers class and, for LLaDA, its names
in that class.

LLaDA is a bias-free Llama without a causal mask, LLaDA-MoE a Qwen3-MoE without one and with its names, Dream a Qwen2
without one and with shifted rows, Fast-dLLM v2 a Qwen2, SDAR a Qwen3 and LLaDA2 a GLM-4-MoE with a block-causal mask,
Tiny-A2D a Qwen3 with either, Nemotron-Labs-Diffusion a Ministral 3; DiffusionGemma has a class of its own. No code from
the checkpoint is ever run."""

from collections.abc import Mapping
from typing import Any

from engines.core.errors import UserError
from engines.models.configs.canvases import UNREAD, canvas_config
from engines.models.configs.plans import Plan

LLADA_PARTS = {  # in a block of LLaDA -> in a layer of Llama
    "q_proj": "self_attn.q_proj",
    "k_proj": "self_attn.k_proj",
    "v_proj": "self_attn.v_proj",
    "attn_out": "self_attn.o_proj",
    "ff_proj": "mlp.gate_proj",
    "up_proj": "mlp.up_proj",
    "ff_out": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ff_norm": "post_attention_layernorm",
}
LLADA_NAMES = {  # patterns of published names -> names in LlamaForCausalLM (transformers fills in \1 only)
    r"^model\.transformer\.wte\.": "model.embed_tokens.",
    r"^model\.transformer\.ln_f\.": "model.norm.",
    r"^model\.transformer\.ff_out\.": "lm_head.",
} | {
    rf"^model\.transformer\.blocks\.(\d+)\.{ours}\.": rf"model.layers.\1.{stock}."
    for ours, stock in LLADA_PARTS.items()
}
LLADA_MUST_BE: dict[str, Any] = {  # the switches of its config under which it is a Llama
    "block_type": "llama",
    "activation_type": "silu",
    "layer_norm_type": "rms",
    "rope": True,
    "alibi": False,
    "attention_layer_norm": False,
    "input_emb_norm": False,
    "scale_logits": False,
    "include_bias": False,
    "include_qkv_bias": False,
}
LLADA_MOE_MUST_BE: dict[str, Any] = {  # the switches of LLaDA-MoE's config under which it is a Qwen3-MoE
    "qk_layernorm": True,
    "moe_router_score_function": "softmax",
    "moe_router_enable_expert_bias": False,
    "shared_expert_intermediate_size": None,
    "router_num_group": None,
    "router_topk_group": None,
    "routed_scaling_factor": 1,
    "norm_topk_prob": None,
    "partial_rotary_factor": 1,
    "clip_qkv": None,
}
LLADA2_NAMES = {
    r"^model\.word_embeddings\.": "model.embed_tokens.",
    r"\.attention\.dense\.": ".self_attn.o_proj.",
    r"\.attention\.query_layernorm\.": ".self_attn.q_norm.",
    r"\.attention\.key_layernorm\.": ".self_attn.k_norm.",
    r"\.mlp\.gate\.expert_bias$": ".mlp.gate.e_score_correction_bias",
}
LLADA2_FUSED = {"attention.query_key_value.weight": tuple(f"self_attn.{letter}_proj.weight" for letter in "qkv")}
LLADA2_MUST_BE: dict[str, Any] = {  # the switches of LLaDA2's config under which it is a GLM-4-MoE
    "score_function": "sigmoid",
    "moe_router_enable_expert_bias": True,
    "norm_softmax": False,
    "use_qk_norm": True,
    "use_qkv_bias": False,
    "use_bias": False,
    "norm_head": False,
    "use_sliding_window": False,
    "rope_scaling": None,
}
LLADA2_FIELDS = (
    "head_dim",
    "moe_intermediate_size",
    "num_experts_per_tok",
    "n_group",
    "topk_group",
    "routed_scaling_factor",
    "first_k_dense_replace",
    "norm_topk_prob",
)
QWEN_FIELDS = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "hidden_act",
    "max_position_embeddings",
    "rms_norm_eps",
    "tie_word_embeddings",
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "head_dim",
    "attention_bias",
    "use_sliding_window",
    "sliding_window",
    "max_window_layers",
    "layer_types",
)
NEMOTRON_NAMES = {r"^encoder\.": "model.", r"^diffusion_head\.": "lm_head."}
NEMOTRON_MUST_BE: dict[str, Any] = {  # the switches of its config under which it is a Ministral 3
    "attention_bias": False,
    "mlp_bias": False,
    "sliding_window": None,
}
A2D = {"a2d-llama": "Llama", "a2d-qwen2": "Qwen2", "a2d-qwen3": "Qwen3"}  # Tiny-A2D's types -> classes of transformers
A2D_BLOCK = 32  # positions, as its block models were trained and are sampled with
LAYERED = (  # the model types whose stock causal class is embedding, layers, norm and head and nothing else
    *("arcee", "llama", "ministral", "ministral3", "mistral", "mixtral", "olmo", "olmo2", "olmoe", "phi3"),
    *("qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "seed_oss", "smollm3"),
    *("block_ffn", "four_attentions", "plain_decoder", "scene_text", "ultra_mem"),
)
ROUTED = ("mixtral", "olmoe", "qwen2_moe", "qwen3_moe", "block_ffn", "four_attentions")  # their layers have routers
FURTHER: dict[str, tuple[str, ...]] = {"layered": LAYERED, "moe": ROUTED, "split": ("four_attentions",)}
MEMORISING = ("ultra_mem",)  # those whose layers may have memories


def plan(raw: Mapping[str, Any], name: str, block_size: int | None = None) -> Plan:
    """Read a config.json. block_size: the one that a person asks for, where it tells the kind. Raises UserError for a
    LLaDA-like config that no stock class computes, LLaDA2.2 too, and for encoder-decoders other than T5.

    Our own diffusion models say `is_causal: false`, `mask_token_id`, `shift_logits` and, where they are block-causal,
    `block_size`; those that are read in two ways say `two_way: true` instead of the first. `bd_size` is that in the
    files of Fast-dLLM v2, whose rows are shifted."""
    model_type, architectures = str(raw.get("model_type", "")), [str(a) for a in raw.get("architectures") or ()]
    if model_type.startswith("llada2_moe"):
        return _llada2(raw, name)
    if any(a.startswith("LLaDAMoE") for a in architectures):  # its model_type is that of the dense one
        return _llada_moe(raw, name)
    if model_type == "llada":
        return _llada(raw, name)
    if model_type == "Dream":
        return Plan(
            "masked",
            "Qwen2ForCausalLM",
            _qwen(raw),
            tokenizer_class="Qwen2Tokenizer",
            mask_id=raw.get("mask_token_id", 151666),
            shift=True,
        )
    if model_type == "Fast_dLLM_Qwen":
        mask_id, block = raw.get("mask_token_id", 151665), raw.get("bd_size", 32)
        asked = {"tokenizer_class": "Qwen2Tokenizer", "mask_id": mask_id, "shift": True, "block_size": block}
        return Plan("block", "Qwen2ForCausalLM", _qwen(raw), **asked)
    if model_type == "sdar":
        mask_id, block = raw.get("mask_token_id", 151669), raw.get("block_size") or raw.get("block_length") or 4
        asked = {"tokenizer_class": "Qwen2Tokenizer", "mask_id": mask_id, "block_size": block}
        return Plan("block", "Qwen3ForCausalLM", _qwen(raw), **asked)
    if model_type == "nemotron_labs_diffusion":
        return _nemotron(raw, name)
    if model_type in A2D:
        return _a2d(dict(raw) | ({"block_size": block_size} if block_size else {}), name)
    if model_type == "diffusion_gemma":
        config = canvas_config(raw, name)
        return Plan("canvas", "DiffusionGemmaForBlockDiffusion", config, unread=UNREAD)
    if model_type == "word-reader":
        return Plan("reader", "WordReader")
    if model_type == "pldr":
        return Plan("power-law", "AutoModelForCausalLM")
    if model_type == "scene-eye":
        return Plan("scene", "SceneEye")
    if model_type == "t5":
        return Plan("seq2seq", "T5ForConditionalGeneration")
    if model_type == "mu":
        return Plan("seq2seq", "AutoModelForCausalLM")  # under which our classes are known
    if raw.get("is_encoder_decoder"):
        raise UserError(
            f"'{name}' is an encoder-decoder of the type '{model_type}'; only those of the type 't5' can be loaded, "
            "choose one of them."
        )
    mask_id, shift = raw.get("mask_token_id"), bool(raw.get("shift_logits", "bd_size" in raw))
    block = raw.get("block_size") if raw.get("is_causal") is False else raw.get("bd_size")
    if raw.get("two_way") and model_type in LAYERED:
        asked = {"mask_id": mask_id, "shift": shift, "block_size": raw.get("block_size") or 32}
        return Plan("causal", "AutoModelForCausalLM", also=("layered", "two-way"), **asked)
    if block:
        return Plan("block", "AutoModelForCausalLM", mask_id=mask_id, shift=shift, block_size=block)
    if any(a.endswith("ForMaskedLM") for a in architectures):
        return Plan("masked", "AutoModelForMaskedLM", mask_id=mask_id, shift=shift)
    if raw.get("is_causal") is False:
        return Plan("masked", "AutoModelForCausalLM", mask_id=mask_id, shift=shift)
    also = [kind for kind, types in FURTHER.items() if model_type in types]
    also += ["memory"] if model_type in MEMORISING and raw.get("slots_read") else []
    return Plan("causal", "AutoModelForCausalLM", also=tuple(also))


def _require(raw: Mapping[str, Any], name: str, switches: Mapping[str, Any], onto: str) -> None:
    """Raise UserError unless these keys of a config are unset or have the value given; None and False are the same
    switch."""
    for key, wanted in switches.items():
        if (raw.get(key, wanted) or None) != (wanted or None):
            raise UserError(
                f"{name} has {key}={raw[key]!r}; only {key}={wanted!r} can be loaded, since it maps onto {onto}."
            )


def _llada(raw: Mapping[str, Any], name: str) -> Plan:
    _require(raw, name, LLADA_MUST_BE, "Llama")
    config = {
        "vocab_size": raw.get("embedding_size") or raw["vocab_size"],
        "hidden_size": raw["d_model"],
        "intermediate_size": raw.get("mlp_hidden_size") or raw["mlp_ratio"] * raw["d_model"],
        "num_hidden_layers": raw["n_layers"],
        "num_attention_heads": raw["n_heads"],
        "num_key_value_heads": raw.get("n_kv_heads") or raw["n_heads"],
        "max_position_embeddings": raw["max_sequence_length"],
        "rms_norm_eps": raw.get("rms_norm_eps", 1e-5),
        "rope_parameters": {"rope_type": "default", "rope_theta": raw.get("rope_theta", 10000.0)},
        "tie_word_embeddings": raw.get("weight_tying", False),
        "bos_token_id": None,
        "eos_token_id": raw.get("eos_token_id"),
        "pad_token_id": raw.get("pad_token_id"),
        "is_causal": False,
    }
    return Plan(
        "masked",
        "LlamaForCausalLM",
        config,
        LLADA_NAMES,
        tokenizer_class="PreTrainedTokenizerFast",
        mask_id=raw.get("mask_token_id", 126336),
    )


def _llada_moe(raw: Mapping[str, Any], name: str) -> Plan:
    """LLaDA-MoE: norms of queries and keys per head, softmax routing whose best weights are not renormalised; some
    layers may be dense."""
    _require(raw, name, LLADA_MOE_MUST_BE, "Qwen3-MoE")
    layers, sparse = raw["num_hidden_layers"], raw.get("moe_layer_freq") or 1
    if not isinstance(sparse, list):
        _require({"moe_layer_freq": sparse}, name, {"moe_layer_freq": 1}, "Qwen3-MoE")
        sparse = [1] * layers
    config = _qwen(raw) | {
        "intermediate_size": raw.get("dense_intermediate_size") or raw["expert_intermediate_size"],
        "moe_intermediate_size": raw["expert_intermediate_size"],
        "num_experts": raw["num_experts"],
        "num_experts_per_tok": raw["num_experts_per_tok"],
        "mlp_only_layers": [i for i, experts in enumerate(sparse) if not experts],
        "norm_topk_prob": False,
        "head_dim": raw.get("head_dim") or raw["hidden_size"] // raw["num_attention_heads"],
    }
    return Plan(
        "masked",
        "Qwen3MoeForCausalLM",
        config,
        tokenizer_class="PreTrainedTokenizerFast",
        mask_id=raw.get("mask_token_id", 156895),
    )


def _llada2(raw: Mapping[str, Any], name: str) -> Plan:
    """LLaDA2.0 and 2.1, whose files have one format: sigmoid routing in groups, where a bias helps to choose and weighs
    nothing, a shared expert, norms of queries and keys, half of a head rotated. The published config names neither the
    mask nor the block; its tokenizer and its code do."""
    if raw.get("expert_capacity"):
        raise UserError(
            f"'{name}' is a LLaDA2.2, whose blocks first choose expert_capacity={raw['expert_capacity']!r} experts for "
            "all their tokens, and no stock transformers class does that; choose LLaDA2.0 or 2.1."
        )
    _require(raw, name, LLADA2_MUST_BE, "GLM-4-MoE")
    rope = {"rope_type": "default", "rope_theta": raw.get("rope_theta", 600000.0)}
    config = {key: raw[key] for key in (*QWEN_FIELDS[:9], *LLADA2_FIELDS) if key in raw} | {
        "n_routed_experts": raw["num_experts"],
        "n_shared_experts": raw.get("num_shared_experts", 1),
        "use_qk_norm": True,
        "tie_word_embeddings": raw.get("tie_word_embeddings", False),
        "rope_parameters": {**rope, "partial_rotary_factor": raw.get("partial_rotary_factor", 0.5)},
        "bos_token_id": None,
        "eos_token_id": raw.get("eos_token_id", raw.get("pad_token_id")),
        "pad_token_id": raw.get("pad_token_id"),
        "num_mtp_layers": 0,
    }
    return Plan(
        "block",
        "Glm4MoeForCausalLM",
        config,
        LLADA2_NAMES,
        LLADA2_FUSED,
        tokenizer_class="PreTrainedTokenizerFast",
        mask_id=raw.get("mask_token_id", 156895),
        block_size=raw.get("block_size") or raw.get("block_length") or 32,
    )


def _nemotron(raw: Mapping[str, Any], name: str) -> Plan:
    """Nemotron-Labs-Diffusion: a Ministral 3 under two renames, whose weights also fill blocks. Its rows are shifted in
    a block only where it was trained Dream's way."""
    _require(raw, name, NEMOTRON_MUST_BE, "Ministral 3")
    given = {key: raw[key] for key in QWEN_FIELDS[:14] if key in raw}
    config = given | {"rope_parameters": _qwen(raw)["rope_parameters"], "sliding_window": None}
    return Plan(
        "causal",
        "Ministral3ForCausalLM",
        {"pad_token_id": None, "bos_token_id": None, "eos_token_id": None} | config,
        NEMOTRON_NAMES,
        mask_id=raw.get("mask_token_id"),
        shift=raw.get("dlm_type", "llada") != "llada",
        block_size=raw.get("block_size") or 32,
        also=("layered", "two-way"),
        ends=True,
    )


def _a2d(raw: Mapping[str, Any], name: str) -> Plan:
    """Tiny-A2D (dllm): a Llama or Qwen that was causal once, without a causal mask, rows not shifted. One type for the
    masked models and the block models: only a block size, or the name, tells which it is. The mask is the
    tokenizer's."""
    stock, block = A2D[str(raw["model_type"])], raw.get("block_size") or A2D_BLOCK * ("bd3lm" in name.lower())
    return Plan(
        "block" if block else "masked",
        f"{stock}ForCausalLM",
        _qwen(raw),
        tokenizer_class="PreTrainedTokenizerFast" if stock == "Llama" else "Qwen2Tokenizer",
        mask_id=raw.get("mask_token_id"),
        block_size=block,
        chat={"enable_thinking": False},
        ends=True,
    )


def _qwen(raw: Mapping[str, Any]) -> dict[str, Any]:
    rope = {"rope_type": "default", "rope_theta": raw.get("rope_theta", 10000.0)} | (raw.get("rope_scaling") or {})
    return {key: raw[key] for key in QWEN_FIELDS if key in raw} | {
        "rope_parameters": raw.get("rope_parameters") or rope,
        "is_causal": False,
    }
