"""GGUF files that no decoding method can run, told by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engines.core.errors import UserError

if TYPE_CHECKING:
    from engines.models.gguf.header import GGUFHeader

# Names of architectures as llama.cpp has them (`src/llama-arch.cpp` of xllamacpp 2026.10.11549).
EMBEDDING = (
    "bert modern-bert nomic-bert nomic-bert-moe neo-bert jina-bert-v2 jina-bert-v3 eurobert gemma-embedding "
    "gemma-embedding2 llama-embed"
).split()
PROJECTORS, ENCODER_DECODERS = ["clip"], ["t5", "t5encoder"]
DRAFTERS = "eagle3 dflash gemma4-assistant".split()
AUDIO = ["wavtokenizer-dec", "qwen3tts", "pockettts"]
RECURRENT = "mamba mamba2 rwkv6 rwkv6qwen2 rwkv7 arwkv7".split()  # llm_arch_is_recurrent
HYBRID = (  # llm_arch_is_hybrid
    "jamba falcon-h1 plamo2 granitehybrid lfm2 lfm2moe nemotron_h nemotron_h_moe qwen3next kimi-linear bailingmoe3 "
    "kimi-k3 glm5-next qwen35 qwen35moe qwen4exp deepseek4 minimax-01"
).split()
# Some hybrids can be rolled back by the last few positions (`llm_arch_supports_rs_rollback`), none to any position.
OLLAMAS = "gptoss mllama qwen25vl".split()  # of Ollama's own engine; llama.cpp does not know them
STEPS = "a recurrent state, which cannot be cut back to an earlier position as decoding methods do"
ATTENTION = "take a model whose layers are all attention, such as Llama, Qwen3 or Gemma 3"
WHAT: dict[str, tuple[str, str]] = {  # architecture -> (what it is, what to take instead)
    **dict.fromkeys(
        EMBEDDING, ("an embedding model, which gives a vector and writes nothing", "take a language model")
    ),
    **dict.fromkeys(
        PROJECTORS,
        (
            "the vision projector of a model, without its language model",
            "take the file of the language model beside it",
        ),
    ),
    **dict.fromkeys(
        ENCODER_DECODERS,
        (
            "an encoder-decoder, which is not run through llama.cpp here",
            "take its safetensors checkpoint by hub id or folder",
        ),
    ),
    **dict.fromkeys(
        DRAFTERS,
        (
            "a draft head, which works on the states of another model",
            "take that model, and for its head --part head=...",
        ),
    ),
    **dict.fromkeys(AUDIO, ("an audio model, which makes sound and no text", "take a language model")),
    **dict.fromkeys(RECURRENT, (f"a recurrent model: it keeps {STEPS}", ATTENTION)),
    **dict.fromkeys(HYBRID, (f"a hybrid model: besides attention it keeps {STEPS}", ATTENTION)),
}
TYPES: dict[str, tuple[str, str]] = {  # general.type -> the same
    "adapter": ("a LoRA adapter, which changes another model's weights", "take a file that it was merged into"),
    "imatrix": ("an importance matrix, which serves to quantise a model", "take the model that was quantised with it"),
    "mmproj": WHAT["clip"],
}
PUBLISHED = "take the GGUF of the same model from the hub, such as with `ollama pull hf.co/OWNER/NAME`"
OTHERS = {
    "controlvector": ("a control vector, which steers another model", "take that model"),
    **dict.fromkeys(OLLAMAS, ("a model in a form that only Ollama's own engine reads", PUBLISHED)),
}
TOWERS = (
    "a model with its vision or audio tower in the same file, as Ollama writes it and llama.cpp does not",
    PUBLISHED,
)


def check(header: GGUFHeader) -> None:
    """Raises UserError, saying what the file is and what to take instead, where no method can decode with it."""
    refusal = TYPES.get(header.type) or (WHAT | OTHERS).get(header.architecture)
    if refusal is None and not header.architecture:
        refusal = ("a GGUF file that does not say its architecture", "take one that llama.cpp's converter made")
    if refusal is None and header.pooling:
        refusal = WHAT["bert"]
    if refusal is None and header.towers:
        refusal = TOWERS
    if refusal is None:
        return
    what, instead = refusal
    kind = f" ({header.architecture})" if header.architecture else ""
    raise UserError(f"'{header.path.name}' is {what}{kind}; {instead}.")
