"""GGUF files that no method can decode with are refused, each by what it is."""

import pytest
import torch

from engines.core.errors import UserError
from engines.models.gguf import refusals
from engines.models.gguf.header import read_header
from tests.gguf_files import CAUSAL, MASKED, tiny_llama, tiny_qwen3, write_file, write_gguf

KINDS = [
    ("bert", "an embedding model, which gives a vector and writes nothing (bert); take a language model."),
    ("gemma-embedding", "an embedding model"),
    ("clip", "the vision projector of a model, without its language model (clip); take the file of the language model"),
    ("eagle3", "a draft head, which works on the states of another model (eagle3); take that model, and for its head"),
    ("dflash", "a draft head"),
    ("t5", "an encoder-decoder, which is not run through llama.cpp here (t5); take its safetensors checkpoint by hub"),
    ("wavtokenizer-dec", "an audio model, which makes sound and no text (wavtokenizer-dec)"),
    ("mamba", "a recurrent model: it keeps a recurrent state, which cannot be cut back to an earlier position"),
    ("rwkv7", "a recurrent model"),
    ("jamba", "a hybrid model: besides attention it keeps a recurrent state, which cannot be cut back"),
    ("qwen35", "a hybrid model"),
    ("controlvector", "a control vector, which steers another model"),
    ("gptoss", "a model in a form that only Ollama's own engine reads (gptoss); take the GGUF of the same model from"),
]


def bare(path, architecture, **keys):
    """A file with keys and no tokenizer."""
    return write_file(path, architecture, {key.replace("_", ".", 1): value for key, value in keys.items()})


@pytest.mark.parametrize("make", [*CAUSAL, *MASKED], ids=lambda make: make.__name__)
def test_what_can_be_decoded_with_passes(make, tmp_path):
    refusals.check(read_header(make(tmp_path / "tiny.gguf")[0]))


@pytest.mark.parametrize(("architecture", "said"), KINDS)
def test_each_kind_is_told_by_name_with_a_tokenizer_or_without(architecture, said, tmp_path):
    with pytest.raises(UserError) as without:
        read_header(bare(tmp_path / "odd.gguf", architecture))
    assert str(without.value).startswith(f"'odd.gguf' is {said}")
    _, network = tiny_llama(tmp_path / "tiny.gguf")
    write_gguf(network, tmp_path / "odd.gguf", architecture="llama", extra={"general.architecture": architecture})
    with pytest.raises(UserError) as caught:
        refusals.check(read_header(tmp_path / "odd.gguf"))
    assert str(caught.value) == str(without.value)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (
            "adapter",
            "a LoRA adapter, which changes another model's weights (llama); take a file that it was merged into.",
        ),
        ("imatrix", "an importance matrix, which serves to quantise a model"),
        ("mmproj", "the vision projector of a model"),
    ],
)
def test_files_that_are_no_models_say_so_by_their_type(kind, said, tmp_path):
    with pytest.raises(UserError, match=r"'odd.gguf' is ") as caught:
        read_header(bare(tmp_path / "odd.gguf", "llama", general_type=kind))
    assert str(caught.value).startswith(f"'odd.gguf' is {said}")


def test_a_decoder_that_was_made_an_embedding_model_is_one(tmp_path):
    path, network = tiny_qwen3(tmp_path / "odd.gguf")
    write_gguf(network, path, architecture="qwen3", extra={"qwen3.pooling_type": 3})
    with pytest.raises(UserError, match=r"'odd.gguf' is an embedding model, .* \(qwen3\); take a language model."):
        refusals.check(read_header(path))


def test_a_vision_tower_in_the_same_file_is_what_ollama_writes(tmp_path):
    tensors = dict.fromkeys(("token_embd.weight", "v.blk.0.attn_q.weight"), torch.zeros(4, 32))
    write_file(tmp_path / "odd.gguf", "gemma3", {"tokenizer.ggml.model": "llama"}, tensors)
    with pytest.raises(UserError) as caught:
        refusals.check(read_header(tmp_path / "odd.gguf"))
    assert str(caught.value) == (
        "'odd.gguf' is a model with its vision or audio tower in the same file, as Ollama writes it and llama.cpp does "
        "not (gemma3); take the GGUF of the same model from the hub, such as with `ollama pull hf.co/OWNER/NAME`."
    )


def test_a_file_without_an_architecture(tmp_path):
    with pytest.raises(UserError, match=r"does not say its architecture; take one that llama.cpp's converter made"):
        read_header(bare(tmp_path / "odd.gguf", ""))
