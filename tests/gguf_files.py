"""Tiny GGUF files: random networks of transformers written as llama.cpp's converter writes them, with a real tokenizer.

Every maker gives (path of the file, the network in float32), so that a test can hold what is read from the file against
what torch computes. A file's tokens are single bytes in the alphabet of GPT-2, a few merges, and marks."""

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gguf
import torch
import transformers
from transformers.convert_slow_tokenizer import bytes_to_unicode

from tests.engines.conftest import GOLDEN

STUBS = GOLDEN / "diffusion" / "stubs"
VOCAB, END, MASK = 272, 268, 269
USER, ASSISTANT, UNUSED = "<|user|>", "<|assistant|>", "<|unused|>"
NAMES = {"pad_token_id": "<|pad|>", "bos_token_id": "<|begin|>", "eos_token_id": "<|end|>", "mask_token_id": "<|mask|>"}
COMMON = b" \nabcdefghijklmnopqrstuvwxyz0123456789.,:?!'-ABCDEFGHIJKLMNOPQRSTUVWXYZ"  # first where there is little room
MERGES = ["t h", "th e", "Ġ the", "i n", "a n", "an d", "e r", "o n"]
TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
TWO_WAY = ("llada", "dream", "llada-moe")  # llama.cpp's diffusion architectures, whose attention is not causal
WINDOW = 8  # positions that a layer with a sliding window sees
WINDOWS = {"attention.sliding_window": "sliding_window"}
ALSO: Mapping[str, Mapping[str, str]] = {  # architecture -> keys that its converter adds -> where the config has them
    "gemma2": WINDOWS | {f"{cap}_logit_softcapping": f"{cap}_logit_softcapping" for cap in ("attn", "final")},
    "gemma3": WINDOWS,
    "phi3": WINDOWS | {"rope.scaling.original_context_length": "original_max_position_embeddings"},
    "gpt-oss": WINDOWS | {"expert_feed_forward_length": "intermediate_size"},
}
WORDS = {"phi3": ["<unk>", "<s>", "</s>", "<|endoftext|>"]}  # which llama.cpp expects where a name has "phi3" in it
SHIFTED_NORMS = ("gemma2", "gemma3")  # transformers adds one to the weights of a norm, the converter to the file's
YARN = {  # keys of a rope that is stretched by YaRN -> where the config has them
    **{"factor": "factor", "original_context_length": "original_max_position_embeddings"},
    **{"yarn_beta_fast": "beta_fast", "yarn_beta_slow": "beta_slow"},
}
PERMUTED = ("llama", "llada")  # rotate neighbouring numbers of a head, where transformers rotates its two halves
Made = tuple[Path, Any]
SETTERS: Mapping[Any, str] = {  # by type, and by key where llama.cpp wants another one
    **{bool: "add_bool", int: "add_uint32", float: "add_float32", str: "add_string"},
    **{"split.no": "add_uint16", "split.count": "add_uint16", "split.tensors.count": "add_int32"},
}


def write_gguf(network: Any, path: Path, *, architecture: str, extra: Mapping[str, Any] | None = None) -> Path:
    """The network of transformers as a GGUF file of float32 tensors, and its path. architecture: llama.cpp's name.
    extra: further keys, or other values for those that are written; None leaves a key out."""
    keys = _keys(network.config, architecture) | _tokenizer(network.config, architecture) | dict(extra or {})
    return write_file(path, architecture, keys, _tensors(network, architecture))


def write_split(network: Any, folder: Path, *, architecture: str, parts: int = 3) -> list[Path]:
    """The same in several files of a new folder: keys in the first, tensors in all of them, as llama.cpp splits."""
    folder.mkdir()
    keys = _keys(network.config, architecture) | _tokenizer(network.config, architecture)
    tensors, files = _tensors(network, architecture), []
    for i in range(parts):
        own = {"split.no": i, "split.count": parts, "split.tensors.count": len(tensors)}
        some = dict(list(tensors.items())[i::parts])
        file = folder / f"tiny-{i + 1:05}-of-{parts:05}.gguf"
        files.append(write_file(file, architecture, own | (keys if i == 0 else {}), some))
    return files


def write_file(
    path: Path, architecture: str, keys: Mapping[str, Any], tensors: Mapping[str, torch.Tensor] | None = None
) -> Path:
    """A GGUF file of these keys and float32 tensors, which need make no model."""
    writer = gguf.GGUFWriter(path, architecture)
    for key, value in keys.items():
        if isinstance(value, list):
            writer.add_array(key, value)
        elif value is not None:
            getattr(writer, SETTERS.get(key) or SETTERS[type(value)])(key, value)
    for name, tensor in (tensors or {}).items():
        writer.add_tensor(name, tensor.detach().to(torch.float32).contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _keys(config: Any, architecture: str) -> dict[str, Any]:
    heads = config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // heads
    of_it = {
        **{"context_length": config.max_position_embeddings, "embedding_length": config.hidden_size},
        **{"block_count": config.num_hidden_layers, "feed_forward_length": config.intermediate_size},
        **{"attention.head_count": heads, "attention.head_count_kv": config.num_key_value_heads},
        **{"attention.key_length": width, "attention.value_length": width, "rope.dimension_count": width},
        **{"attention.layer_norm_rms_epsilon": float(config.rms_norm_eps), "vocab_size": config.vocab_size},
    }
    if experts := getattr(config, "num_experts", None):
        of_it |= {"expert_count": experts, "expert_used_count": config.num_experts_per_tok}
        of_it["expert_feed_forward_length"] = getattr(config, "moe_intermediate_size", None)
    of_it |= {key: getattr(config, its) for key, its in ALSO.get(architecture, {}).items()}
    of_it |= _rope(config.rope_parameters)
    if architecture in TWO_WAY:
        of_it["attention.causal"] = False
    keys = {"general.name": f"Tiny {architecture}", "general.type": "model", "general.file_type": 0}
    if architecture in TWO_WAY and architecture != "dream":  # of Dream nothing is written: True is llama.cpp's default
        keys["diffusion.shift_logits"] = False
    return keys | {f"{architecture}.{key}": value for key, value in of_it.items()}


def _rope(rope: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a rope, or of two, where layers with a window have another base."""
    whole, local = rope.get("full_attention", rope), rope.get("sliding_attention")
    keys: dict[str, Any] = {"rope.freq_base": float(whole["rope_theta"])}
    if local:
        keys["rope.freq_base_swa"] = float(local["rope_theta"])
    if whole["rope_type"] == "longrope":
        stretched, before = whole["factor"], whole["original_max_position_embeddings"]
        keys["rope.scaling.attn_factor"] = math.sqrt(1 + math.log(stretched) / math.log(before))
    if whole["rope_type"] == "yarn":
        keys["rope.scaling.type"] = "yarn"
        keys |= {f"rope.scaling.{key}": whole[its] for key, its in YARN.items()}
    return keys


def _tokenizer(config: Any, architecture: str) -> dict[str, Any]:
    """A byte-level tokenizer with as many tokens as the network has rows; the marks have the ids of the config."""
    marks = {getattr(config, key): name for key, name in NAMES.items() if getattr(config, key, None) is not None}
    alphabet = bytes_to_unicode()
    room = config.vocab_size - len(marks) - 2
    bytes_ = [*COMMON, *(code for code in range(256) if code not in COMMON)][:room]
    merges = MERGES[: max(0, room - len(bytes_))]
    plain = [*(alphabet[code] for code in bytes_), *(merge.replace(" ", "") for merge in merges)]
    rest = iter([*plain, USER, ASSISTANT, *WORDS.get(architecture, ())])
    tokens = [marks.get(i) or next(rest, f"{UNUSED}{i}") for i in range(config.vocab_size)]
    kind = gguf.TokenType
    special = {USER, ASSISTANT, *marks.values()}
    types = [kind.CONTROL if t in special else kind.UNUSED if UNUSED in t else kind.NORMAL for t in tokens]
    ids = {f"tokenizer.ggml.{key}": getattr(config, key, None) for key in ("bos_token_id", "eos_token_id")}
    ids |= {"tokenizer.ggml.padding_token_id": getattr(config, "pad_token_id", None)}
    ids |= {"tokenizer.ggml.mask_token_id": getattr(config, "mask_token_id", None)}
    return ids | {
        **{"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": tokens},
        **{"tokenizer.ggml.scores": [0.0] * len(tokens), "tokenizer.ggml.token_type": [int(one) for one in types]},
        **{"tokenizer.ggml.merges": merges or ["a b"], "tokenizer.chat_template": TEMPLATE},
        "tokenizer.ggml.add_bos_token": architecture == "llada" and getattr(config, "bos_token_id", None) is not None,
    }


def _tensors(network: Any, architecture: str) -> dict[str, torch.Tensor]:
    config = network.config
    which = next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture)
    names = gguf.get_tensor_name_map(which, config.num_hidden_layers)
    tied, written = config.tie_word_embeddings, {}
    for name, tensor in _plain(network.state_dict(), architecture).items():
        heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
        part = next((part for part in heads if f".{part}." in name), None)
        if part and architecture in PERMUTED:
            tensor = tensor.unflatten(0, (heads[part], 2, -1)).transpose(1, 2).flatten(0, 2)
        if architecture in SHIFTED_NORMS and name.endswith("norm.weight"):
            tensor = tensor + 1
        if name != "lm_head.weight" or not tied:
            written[names.get_name(name, try_suffixes=(".weight", ".bias"))] = tensor
    for length in ("long", "short"):
        if factors := config.rope_parameters.get(f"{length}_factor"):
            written[f"rope_factors_{length}.weight"] = torch.tensor(factors)
    return written


def _plain(tensors: Mapping[str, torch.Tensor], architecture: str) -> dict[str, torch.Tensor]:
    """The tensors under the names that the converter gives them: gate and up of experts apart, sinks as weights."""
    found: dict[str, torch.Tensor] = {}
    for name, tensor in tensors.items():
        if ".experts." in name:
            found |= _experts(name, tensor, in_turn=architecture == "gpt-oss")
        else:
            found[f"{name}.weight" if name.endswith(".sinks") else name] = tensor
    return found


def _experts(name: str, tensor: torch.Tensor, in_turn: bool) -> dict[str, torch.Tensor]:
    """Gate and up apart. in_turn: their outputs alternate and a weight has its inputs first, as gpt-oss has it."""
    stem, bias, _ = name.partition("_bias")
    kind = "bias" if bias else "weight"
    if in_turn and not bias:
        tensor = tensor.transpose(1, 2)
    if not stem.endswith("gate_up_proj"):
        return {f"{stem}.{kind}": tensor}
    halves = (tensor[:, ::2], tensor[:, 1::2]) if in_turn else tensor.chunk(2, dim=1)
    parts = zip(("gate_proj", "up_proj"), halves, strict=True)
    return {stem.replace("gate_up_proj", f"{part}.{kind}"): half for part, half in parts}


def _random(kind: str, architecture: str, path: Path, **other: Any) -> Made:
    sizes = {
        **{"vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2},
        **{"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 256},
        **{"initializer_range": 0.3, "tie_word_embeddings": False, "rms_norm_eps": 1e-6},
        **{"bos_token_id": None, "eos_token_id": END, "pad_token_id": None},
    }
    if architecture in TWO_WAY:
        sizes |= {"mask_token_id": MASK}
    config = getattr(transformers, f"{kind}Config")(**sizes | other)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(7)
        auto = transformers.AutoModelForCausalLM  # eager attention, the one that has soft caps
        network = auto.from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
        for name, tensor in network.named_parameters():
            if name.endswith(("bias", "norm.weight")):  # zeros and ones would hide a wrong name
                tensor += torch.randn_like(tensor) * 0.2
    return write_gguf(network, path, architecture=architecture), network


class _TableOfGelu(torch.nn.Module):
    """GELU as llama.cpp has it on a processor: from -10 to 10 a table of float16. Without it Gemma's logits are up to
    3e-3 from torch's."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The same shape."""
        table = torch.nn.functional.gelu(x.half().float(), approximate="tanh").half().float()
        return torch.where(x.abs() < 10, table, x.clamp(min=0))


def _gemma(kind: str, architecture: str, path: Path, **other: Any) -> Made:
    sizes = {"sliding_window": WINDOW, "query_pre_attn_scalar": 8, "tie_word_embeddings": True}
    path, network = _random(kind, architecture, path, **sizes, **other)
    for layer in network.model.layers:
        layer.mlp.act_fn = _TableOfGelu()
    return path, network


def tiny_llama(path: Path) -> Made:
    return _random("Llama", "llama", path)


def tiny_qwen2(path: Path) -> Made:
    """A causal Qwen2, with biases on queries, keys and values."""
    return _random("Qwen2", "qwen2", path)


def tiny_qwen3(path: Path) -> Made:
    """A causal Qwen3, with norms of queries and keys, and with one matrix for embedding and head."""
    return _random("Qwen3", "qwen3", path, tie_word_embeddings=True)


def tiny_mistral(path: Path) -> Made:
    """A Mistral whose layers all have a window, of which its converter writes nothing."""
    return _random("Mistral", "llama", path, sliding_window=WINDOW)


def tiny_phi3(path: Path) -> Made:
    """A Phi-3, with one matrix for queries, keys and values, one for gate and up, and a window in every layer, which
    the file tells and llama.cpp ignores."""
    return _random("Phi3", "phi3", path, sliding_window=64, original_max_position_embeddings=256)


def tiny_phi3_long(path: Path) -> Made:
    """A Phi-3 with other rotations for texts of more than 64 tokens (LongRoPE)."""
    rope = {"rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": 64, "factor": 4.0}
    rope |= {"short_factor": [1.0, 1.1, 1.2, 1.3], "long_factor": [1.5, 3.0, 6.0, 9.0]}
    return _random("Phi3", "phi3", path, original_max_position_embeddings=64, rope_parameters=rope)


def tiny_gemma2(path: Path) -> Made:
    """A Gemma 2, with soft caps that bite and a window in every other layer."""
    caps = {"attn_logit_softcapping": 0.5, "final_logit_softcapping": 1.0}
    return _gemma("Gemma2", "gemma2", path, initializer_range=0.1, **caps)


def tiny_gemma3(path: Path) -> Made:
    """A Gemma 3, with a window and a rope of its own in five layers of six."""
    return _gemma("Gemma3Text", "gemma3", path, initializer_range=0.05, num_hidden_layers=6)


def tiny_gpt_oss(path: Path, truncate: bool = True) -> Made:
    """A gpt-oss: sinks, a window in every other layer, experts with biases, and a rope stretched by YaRN. truncate:
    whether the dimensions between which it is stretched more and more are rounded, as llama.cpp does; the published
    ones are not."""
    rope = {
        **{"rope_type": "yarn", "rope_theta": 150000.0, "factor": 32.0, "original_max_position_embeddings": 4096},
        **{"beta_fast": 32.0, "beta_slow": 1.0, "truncate": truncate},
    }
    sizes = {"sliding_window": WINDOW, "num_local_experts": 4, "num_experts_per_tok": 2}
    return _random("GptOss", "gpt-oss", path, rope_parameters=rope, **sizes)


def tiny_llada(path: Path) -> Made:
    """A masked Llama, as LLaDA is one."""
    return _random("Llama", "llada", path, num_key_value_heads=4)


def tiny_dream(path: Path) -> Made:
    """A masked Qwen2 whose rows are shifted by one, as Dream's are."""
    return _random("Qwen2", "dream", path)


def tiny_llada_moe(path: Path) -> Made:
    """A masked mixture of four experts, as LLaDA-MoE is one."""
    sizes = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "norm_topk_prob": False}
    return _random("Qwen3Moe", "llada-moe", path, **sizes)


def from_stub(path: Path, stub: str = "l", architecture: str = "llada") -> Made:
    """A network of `shared/golden/diffusion/stubs` ("l" is LLaDA's, "q" Dream's), with 64 tokens."""
    network = transformers.AutoModelForCausalLM.from_pretrained(STUBS / stub, dtype=torch.float32).eval()
    return write_gguf(network, path, architecture=architecture), network


WINDOWED: tuple[Callable[[Path], Made], ...] = (tiny_gemma2, tiny_gemma3, tiny_gpt_oss)
UNWINDOWED: tuple[Callable[[Path], Made], ...] = (tiny_mistral, tiny_phi3)  # llama.cpp computes them without it
CAUSAL: tuple[Callable[[Path], Made], ...] = (tiny_llama, tiny_qwen2, tiny_qwen3, *WINDOWED, *UNWINDOWED)
MASKED: tuple[Callable[[Path], Made], ...] = (tiny_llada, tiny_dream, tiny_llada_moe)


@torch.inference_mode()
def rows_of(network: Any, ids: list[int], causal: bool = True) -> torch.Tensor:
    """torch's logits [L, V] of the ids, in one forward; without `causal` every position sees all others."""
    mask = None if causal else torch.zeros(1, 1, len(ids), len(ids))
    rows: torch.Tensor = network(torch.tensor([ids]), attention_mask=mask, use_cache=False).logits[0]
    return rows
