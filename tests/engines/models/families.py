"""Tiny random checkpoints of transformers' causal families."""

import inspect
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as CLASSES

V, WINDOW = 64, 8
SIZES: dict[int, str] = {  # of whatever a config calls so
    V: "vocab_size vocab_size_per_layer_input",
    32: "hidden_size d_model n_embd embed_dim dim word_embed_proj_dim embedding_size dim_model lru_width "
    "attention_hidden_size",
    48: "intermediate_size intermediate_size_mlp ffn_dim dim_ff d_ff n_inner decoder_ffn_dim encoder_ffn_dim dff "
    "ffn_hidden_size dense_intermediate_size",
    24: "moe_intermediate_size shared_expert_intermediate_size expert_ffn_hidden_size shared_intermediate_size",
    16: "q_lora_rank kv_lora_rank mamba_d_head mamba_head_dim",
    4: "num_hidden_layers num_layers n_layer n_layers decoder_layers num_attention_heads n_head n_heads num_heads "
    "decoder_attention_heads encoder_attention_heads attention_heads num_experts num_local_experts n_routed_experts "
    "rotary_dim mamba_n_heads mamba_num_heads n_mamba_heads num_memory_slots laurel_rank",
    WINDOW: "head_dim d_head d_kv dim_head qk_nope_head_dim qk_rope_head_dim v_head_dim mamba_d_state ssm_state_size "
    "state_size linear_key_head_dim linear_value_head_dim sliding_window window_size attention_window_size "
    "attention_chunk_size hidden_size_per_layer_input",
    2: "num_key_value_heads encoder_layers num_experts_per_tok moe_topk mamba_expand linear_num_key_heads "
    "linear_num_value_heads eos_token_id",
    96: "max_position_embeddings n_positions n_ctx max_seq_len",
    1: "n_group topk_group num_expert_group n_shared_experts first_k_dense_replace mamba_n_groups mamba_ngroups "
    "bos_token_id",
    0: "pad_token_id num_kv_shared_layers",
}
SMALL: dict[str, Any] = {name: size for size, names in SIZES.items() for name in names.split()}
DECODERS = (
    "bert bert-generation big_bird camembert data2vec-text electra ernie megatron-bert rembert roberta "
    "roberta-prelayernorm roformer xlm-roberta xlm-roberta-xl xmod"
).split()
LATENT = (
    "axk1 axk2 deepseek_v2 deepseek_v3 deepseek_v32 glm4_moe_lite glm_moe_dsa longcat_flash minicpm3 youtu"
).split()
OWN: dict[str, dict[str, Any]] = {
    "gpt_neo": {"attention_types": [[["global", "local"], 2]]},
    "gemma3n_text": {"activation_sparsity_pattern": [0.0] * 4},
    "mamba2": {"num_heads": 8, "n_groups": 1},
    "lfm2": {"layer_types": ["conv", "full_attention"] * 2},
    **{name: {"is_decoder": True} for name in DECODERS},
    **{name: {"num_key_value_heads": 4} for name in LATENT},
}


def save(model_type: str, folder: Path, **more: Any) -> Any:
    """A network of that family with random weights, saved, and as transformers reads it again."""
    made = CONFIG_MAPPING[model_type]
    fields = set(getattr(made, "__dataclass_fields__", {})) | set(inspect.signature(made.__init__).parameters)
    config = made(**{k: v for k, v in SMALL.items() if k in fields} | OWN.get(model_type, {}) | more)
    torch.manual_seed(0)
    network = getattr(transformers, CLASSES[model_type])(config).eval()
    rng = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in network.parameters():
            if p.dim() > 1 and p.is_floating_point():
                p.copy_(torch.randn(p.shape, generator=rng) / 4)
    network.save_pretrained(folder)
    return type(network).from_pretrained(folder).eval()


ALL = (  # those that such a small config makes
    "afmoe apertus arcee aria_text axk1 axk2 bailing_hybrid bamba bart beam bert bert-generation big_bird "
    "bigbird_pegasus biogpt bitnet blenderbot blenderbot-small bloom camembert codegen cohere cohere2 cohere2_moe "
    "cpmant ctrl cwm data2vec-text deepseek_v2 deepseek_v3 deepseek_v32 deepseek_v4 diffllama doge dots1 electra ernie "
    "ernie4_5 ernie4_5_moe exaone4 exaone_moe falcon falcon_mamba flex_olmo flint gemma gemma2 gemma3_text "
    "gemma3n_text gemma4_text gemma4_unified_text glm glm4 glm4_moe glm4_moe_lite glm_moe_dsa gpt-sw3 gpt2 gpt_bigcode "
    "gpt_neo gpt_neox gpt_neox_japanese gpt_oss gptj granite granite_swa granitemoe granitemoe_swa granitemoehybrid "
    "granitemoeshared helium hrm_text hunyuan_v1_dense hunyuan_v1_moe hy_v3 hy_v4 hyperclovax inkling2_text "
    "inkling_text internlm3 iquestcoder jais2 jamba jetmoe kolibri1 laguna lfm2 lfm3 llama llama4_text longcat_flash "
    "mamba mamba2 marian mbart megatron-bert mellum mimo_v2_flash minicpm3 minimax minimax_m2 minimax_m3_vl_text "
    "ministral ministral3 mistral mixtral modernbert-decoder moshi mpt mvp nanochat nemotron nemotron_h olmo olmo2 "
    "olmo3 olmo_hybrid olmoe openai-gpt opt pegasus persimmon phi phi3 phimoe plbart prophetnet qwen2 qwen2_moe qwen3 "
    "qwen3_5_moe_text qwen3_5_text qwen3_moe qwen3_next recurrent_gemma rembert roberta roberta-prelayernorm roformer "
    "rwkv seed_oss smollm3 solar_open stablelm starcoder2 trocr vaultgemma whisper xglm xlm-roberta xlm-roberta-xl "
    "xlnet xlstm xmod youtu"
).split()
