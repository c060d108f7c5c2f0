"""What a GGUF file's header tells, held against its network; files that are none; what is said before llama.cpp."""

import json
import struct
import subprocess
import sys
from pathlib import Path

import gguf
import pytest
import torch

import engines
from engines.core.errors import UserError
from engines.models.gguf import refusals
from engines.models.gguf.header import MISTRAL_7B, read_header
from engines.models.loading import sizing
from engines.models.loading.sizing import NoRoom, Size, check_gguf
from explorer.cli import main
from tests import gguf_files
from tests.engines.refusals import refuses
from tests.gguf_files import CAUSAL, END, MASK, MASKED, tiny_llama, tiny_qwen2, tiny_qwen3, write_file, write_gguf


@pytest.mark.parametrize("make", [*CAUSAL, *MASKED], ids=lambda make: make.__name__)
def test_it_tells_what_the_network_is(make, tmp_path):
    path, network = make(tmp_path / "tiny.gguf")
    header, config = read_header(path), network.config
    parameters = sum(p.numel() for p in network.parameters())
    assert (header.parameters, header.bytes, header.quantisation) == (parameters, 4 * parameters, "F32")
    sizes = (config.num_hidden_layers, config.vocab_size, config.max_position_embeddings)
    assert (header.layers, header.vocab, header.context) == sizes
    own = make.__name__[5:].replace("_", "-").replace("mistral", "llama")
    assert header.name == f"Tiny {header.architecture}" and header.architecture == own
    assert (header.path, header.parts, header.type) == (path, (path,), "model")
    assert (header.tokenizer, header.chat_template, header.end_ids) == ("gpt2", gguf_files.TEMPLATE, (END,))
    assert header.causal == (make in CAUSAL) and header.mask_id == (None if header.causal else MASK)
    kept = config.num_key_value_heads * 2 * config.head_dim * 2 * config.num_hidden_layers if header.causal else 0
    assert header.kv_bytes == kept, "keys and values of every layer, two bytes a number"


def test_rows_are_shifted_where_the_family_or_the_file_says_so(tmp_path):
    shifts = {make.__name__: read_header(make(tmp_path / "tiny.gguf")[0]).shift for make in (*MASKED, *CAUSAL)}
    assert [name for name, shifted in shifts.items() if shifted] == ["tiny_dream"]
    path, network = MASKED[0](tmp_path / "tiny.gguf")
    for said in (True, False):
        write_gguf(network, path, architecture="dream", extra={"diffusion.shift_logits": said})
        assert read_header(path).shift is said
    write_gguf(network, path, architecture="llada", extra={"diffusion.shift_logits": None})
    assert not read_header(path).shift, "llama.cpp would shift the rows of a LLaDA that does not say; it never does"


def test_layers_may_keep_different_heads_and_share_a_cache_and_see_a_window(tmp_path):
    path, network = tiny_llama(tmp_path / "tiny.gguf")
    other = {"llama.attention.head_count_kv": [2, 1], "llama.attention.key_length": 16}
    write_gguf(network, path, architecture="llama", extra=other)
    assert read_header(path).kv_bytes == (2 + 1) * (16 + 8) * 2
    other = {"llama.attention.shared_kv_layers": 1, "llama.attention.sliding_window": 64}
    ends = {"tokenizer.ggml.eot_token_id": 270, "tokenizer.ggml.eom_token_id": END}
    write_gguf(network, path, architecture="llama", extra=other | ends)
    header = read_header(path)
    assert (header.kv_bytes, header.window, header.end_ids) == (2 * (8 + 8) * 2, 64, (END, 270))


def test_the_window_of_mistral_is_known_where_the_file_does_not_tell_of_it(tmp_path):
    sizes = {**MISTRAL_7B, "attention.head_count": 32, "context_length": 32768, "rope.freq_base": 1e4}
    others = ({}, {"rope.freq_base": None}, {"rope.freq_base": 1e6}, {"rope.scaling.type": "yarn"}, {"block_count": 48})
    windows = []
    for other in others:
        keys = {"tokenizer.ggml.model": "llama"} | {f"llama.{key}": value for key, value in (sizes | other).items()}
        windows.append(read_header(write_file(tmp_path / "mistral.gguf", "llama", keys)).window)
    assert windows == [4096, 4096, 0, 0, 0]


def test_the_type_of_most_bytes_is_the_quantisation(tmp_path):
    writer = gguf.GGUFWriter(tmp_path / "mixed.gguf", "llama")
    writer.add_tokenizer_model("gpt2")
    for name, kind, rows in (("a", "Q4_0", 64), ("b", "Q6_K", 8), ("c", "F32", 1)):
        code = gguf.GGMLQuantizationType[kind]
        block, size = gguf.GGML_QUANT_SIZES[code]
        coded = torch.zeros(rows, 256 // block * size, dtype=torch.uint8).numpy()
        writer.add_tensor(name, coded, raw_dtype=code)
    for write in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
        write()
    writer.close()
    header = read_header(tmp_path / "mixed.gguf")
    assert header.quantisation == "Q4_0" and header.parameters == 256 * (64 + 8 + 1)
    assert header.bytes == 64 * 256 // 32 * 18 + 8 * 210 + 1024


def test_a_split_model_is_read_whole_from_any_of_its_files(tmp_path):
    _, network = tiny_llama(tmp_path / "one.gguf")
    alone = read_header(tmp_path / "one.gguf")
    parts = gguf_files.write_split(network, tmp_path / "split", architecture="llama", parts=3)
    first, *others = [read_header(part) for part in parts]
    assert (first.path, first.parts) == (parts[0], tuple(parts)) and others == [first, first]
    assert (first.parameters, first.bytes) == (alone.parameters, alone.bytes)
    parts[2].unlink()
    said = "is one of 3 files, and tiny-00003-of-00003.gguf is not in its folder; put"
    refuses(UserError, said, read_header, parts[1])
    renamed = parts[0].rename(tmp_path / "renamed.gguf")
    refuses(UserError, r"'renamed.gguf' is one of 3 files of a model and does not bear its", read_header, renamed)


COUNTS = b"\0\0\0\0\0\1\0\0"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda raw: b"", "'bad.gguf' is not a GGUF file: it does not begin with the four letters GGUF; give one"),
        (lambda raw: b"PK\3\4" + raw[4:], "'bad.gguf' is not a GGUF file"),
        (lambda raw: raw[:4], "'bad.gguf' is of version 0 of the format, which llama.cpp no longer reads"),
        (lambda raw: raw[:4] + struct.pack("<I", 4) + raw[8:], "is of version 4 of the format, and versions 2 to 3"),
        (lambda raw: raw[:4] + struct.pack(">I", 3) + raw[8:], "'bad.gguf' was written for big-endian machines; take"),
        (lambda raw: raw[:12], "'bad.gguf' breaks off in its header, after 12 bytes; download it again."),
        (lambda raw: raw[:16] + b"\xff" * 8 + raw[24:], "'bad.gguf' (is damaged|breaks off)"),
        (lambda raw: raw[:8] + COUNTS + raw[16:], r"'bad.gguf' is damaged \(it counts [\d,]+ of something\)"),
        (lambda raw: raw[:-1000], r"'bad.gguf' is not whole: its weights end at byte [\d,]+, and the file has"),
    ],
)
def test_a_file_that_is_none_or_not_whole_is_refused_in_a_sentence(change, said, tmp_path):
    path, _ = tiny_llama(tmp_path / "bad.gguf")
    path.write_bytes(change(path.read_bytes()))
    refuses(UserError, said, read_header, path)


def test_bytes_that_change_anywhere_in_the_header_end_in_a_sentence_at_worst(tmp_path):
    path, _ = gguf_files.from_stub(tmp_path / "bad.gguf")
    raw = path.read_bytes()
    end = len(raw) - read_header(path).bytes
    for at in range(4, end, 41):
        path.write_bytes(raw[:at] + bytes([raw[at] ^ 0xFF]) + raw[at + 1 :])
        try:
            read_header(path)
        except UserError as error:
            assert "\n" not in str(error) and str(error).endswith(".")


def test_a_file_without_a_tokenizer_and_one_that_is_not_there(tmp_path):
    path, network = tiny_qwen2(tmp_path / "mute.gguf")
    for word in (None, "no_vocab"):
        write_gguf(network, path, architecture="qwen2", extra={"tokenizer.ggml.model": word})
        refuses(UserError, r"'mute.gguf' has no tokenizer in it, so no text can be read or written", read_header, path)
    refuses(UserError, r"cannot be read \(No such file or directory\); give the", read_header, tmp_path / "none.gguf")
    refuses(UserError, "cannot be read", read_header, tmp_path)


def test_importing_it_loads_neither_torch_nor_the_package_gguf():
    told = "import sys, engines.models.gguf.header; print({'torch', 'gguf', 'transformers'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True, cwd=Path.cwd())
    assert done.stdout == "set()\n"


def test_weights_and_cache_are_told_by_path_and_by_folder(tmp_path, capsys, monkeypatch):
    path, network = tiny_qwen3(tmp_path / "tiny.gguf")
    size, numbers = engines.size_of(path), sum(p.numel() for p in network.parameters())
    assert (size.parameters, size.weights, size.dtype) == (numbers, 4 * numbers, "F32")
    assert size.cache == 2 * 2 * 8 * 2 * 2, "keys and values, heads, width, layers, bytes"
    folder = engines.size_of(tmp_path)
    assert (folder.weights, folder.cache) == (size.weights, size.cache)
    monkeypatch.setattr(sizing, "free_bytes", lambda device: 3e9)
    assert main(["models", "--size", str(path)]) == 0
    assert capsys.readouterr().out == (
        f"{path} has 27,328 parameters: 0.109 MB of weights as F32, and about 0.128 MB of cache for 1,000 tokens; 3 GB "
        "are free on cpu\n"
    )
    assert main(["models", "--size", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["parameters"], found["dtype"], found["cache"]) == (27_328, "F32", 128)
    assert main(["models", "--size", str(tmp_path / "none.gguf")]) == 2
    assert f"there is no file '{tmp_path}/none.gguf'; in {tmp_path} there is tiny.gguf." in capsys.readouterr().err
    refuses(
        UserError, "dtype is not an option of a GGUF file, whose weights are", engines.size_of, path, dtype="float16"
    )
    write_gguf(network, path, architecture="qwen3", extra={"general.architecture": "mamba2"})
    refuses(UserError, r"'tiny.gguf' is a recurrent model", engines.size_of, path)


def test_a_model_that_ships_keeps_its_name_beside_a_folder_of_that_name(tmp_path, monkeypatch):
    shipped = engines.size_of("tiny-ar-s")
    (tmp_path / "tiny-ar-s").mkdir()
    tiny_llama(tmp_path / "tiny-ar-s" / "other.gguf")
    monkeypatch.chdir(tmp_path)
    assert engines.size_of("tiny-ar-s").parameters == shipped.parameters


EIGHT = Size("ollama:qwen3:8b", 8_190_735_360, "Q4_K", "", 5_000_000_000, 147_456)


@pytest.mark.parametrize(("free", "shorter"), [(4, ""), (8, "a shorter context, ")])
def test_where_there_is_no_room_the_figures_are_told(free, shorter, monkeypatch):
    monkeypatch.setattr(sizing, "free_bytes", lambda device: free * 1e9)
    with pytest.raises(NoRoom) as caught:
        check_gguf(EIGHT, "cpu", 32_768)
    assert str(caught.value) == (
        f"'ollama:qwen3:8b' takes 5 GB of weights as Q4_K and 4.83 GB of cache for 32,768 tokens, and {free} GB are "
        f"free on cpu; choose {shorter}a file of fewer bits (Q4_K_M has about 4.8 a weight), or a smaller model."
    )
    for enough in (10e9, None):
        monkeypatch.setattr(sizing, "free_bytes", lambda device, enough=enough: enough)
        check_gguf(EIGHT, "cpu", 32_768)


KINDS = [
    ("bert", "an embedding model, which gives a vector and writes nothing (bert); take a language model."),
    ("clip", "the vision projector of a model, without its language model (clip); take the file of the language model"),
    ("eagle3", "a draft head, which works on the states of another model (eagle3); take that model, and for its head"),
    ("t5", "an encoder-decoder, which is not run through llama.cpp here (t5); take its safetensors checkpoint by hub"),
    ("wavtokenizer-dec", "an audio model, which makes sound and no text (wavtokenizer-dec)"),
    ("mamba", "a recurrent model: it keeps a recurrent state, which cannot be cut back to an earlier position"),
    ("jamba", "a hybrid model: besides attention it keeps a recurrent state, which cannot be cut back"),
    ("controlvector", "a control vector, which steers another model"),
    ("gptoss", "a model in a form that only Ollama's own engine reads (gptoss); take the GGUF of the same model from"),
]


def bare(path, architecture, **keys):
    """A file with keys and no tokenizer."""
    return write_file(path, architecture, {key.replace("_", ".", 1): value for key, value in keys.items()})


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
        ("adapter", "a LoRA adapter, which changes another model's weights (llama); take a file that it was merged"),
        ("imatrix", "an importance matrix, which serves to quantise a model"),
        ("mmproj", "the vision projector of a model"),
    ],
)
def test_files_that_are_no_models_say_so_by_their_type(kind, said, tmp_path):
    with pytest.raises(UserError, match=r"'odd.gguf' is ") as caught:
        read_header(bare(tmp_path / "odd.gguf", "llama", general_type=kind))
    assert str(caught.value).startswith(f"'odd.gguf' is {said}")


def test_decoders_that_were_changed_are_told(tmp_path):
    path, network = tiny_qwen3(tmp_path / "odd.gguf")
    refusals.check(read_header(path))
    write_gguf(network, path, architecture="qwen3", extra={"qwen3.pooling_type": 3})
    refuses(UserError, r"'odd.gguf' is an embedding model, .* \(qwen3\); take a", refusals.check, read_header(path))
    refuses(UserError, "does not say its architecture; take one that", read_header, bare(tmp_path / "odd.gguf", ""))
    tensors = dict.fromkeys(("token_embd.weight", "v.blk.0.attn_q.weight"), torch.zeros(4, 32))
    write_file(tmp_path / "odd.gguf", "gemma3", {"tokenizer.ggml.model": "llama"}, tensors)
    with pytest.raises(UserError, match=r"with its vision or audio tower in the same file, as Ollama .* \(gemma3\); t"):
        refusals.check(read_header(tmp_path / "odd.gguf"))
