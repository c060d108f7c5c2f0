"""What a GGUF file's header tells, held against the network that it was written from; and files that are none."""

import struct
import subprocess
import sys
from pathlib import Path

import gguf
import pytest
import torch

from engines.core.errors import UserError
from engines.models.gguf.header import read_header
from tests.gguf_files import (
    CAUSAL,
    END,
    MASK,
    MASKED,
    TEMPLATE,
    from_stub,
    tiny_llama,
    tiny_qwen2,
    write_gguf,
    write_split,
)


@pytest.mark.parametrize("make", [*CAUSAL, *MASKED], ids=lambda make: make.__name__)
def test_it_tells_what_the_network_is(make, tmp_path):
    path, network = make(tmp_path / "tiny.gguf")
    header, config = read_header(path), network.config
    parameters = sum(p.numel() for p in network.parameters())
    assert (header.parameters, header.bytes, header.quantisation) == (parameters, 4 * parameters, "F32")
    assert (header.layers, header.vocab, header.context) == (2, config.vocab_size, config.max_position_embeddings)
    assert header.name == f"Tiny {header.architecture}" and header.architecture == make.__name__[5:].replace("_", "-")
    assert (header.path, header.parts, header.type) == (path, (path,), "model")
    assert (header.tokenizer, header.chat_template, header.end_ids) == ("gpt2", TEMPLATE, (END,))
    assert header.causal == (make in CAUSAL) and header.mask_id == (None if header.causal else MASK)
    kept = config.num_key_value_heads * 2 * config.head_dim * 2 * config.num_hidden_layers if header.causal else 0
    assert header.kv_bytes == kept, "keys and values of every layer, two bytes a number"


def test_rows_are_shifted_where_the_family_or_the_file_says_so(tmp_path):
    shifts = {make.__name__: read_header(make(tmp_path / "tiny.gguf")[0]).shift for make in (*MASKED, *CAUSAL)}
    assert [name for name, shifted in shifts.items() if shifted] == ["tiny_dream"]
    for said in (True, False):
        path, network = MASKED[0](tmp_path / "tiny.gguf")
        write_gguf(network, path, architecture="dream", extra={"diffusion.shift_logits": said})
        assert read_header(path).shift is said
        write_gguf(network, path, architecture="llada", extra={"diffusion.shift_logits": None})
        assert not read_header(path).shift, "llama.cpp would shift the rows of a LLaDA that does not say; it never does"


def test_layers_may_keep_different_heads_and_share_a_cache(tmp_path):
    path, network = tiny_llama(tmp_path / "tiny.gguf")
    other = {"llama.attention.head_count_kv": [2, 1], "llama.attention.key_length": 16}
    write_gguf(network, path, architecture="llama", extra=other)
    assert read_header(path).kv_bytes == (2 + 1) * (16 + 8) * 2
    write_gguf(network, path, architecture="llama", extra={"llama.attention.shared_kv_layers": 1})
    assert read_header(path).kv_bytes == 2 * (8 + 8) * 2


def test_a_window_and_the_ends_of_turns_are_told(tmp_path):
    path, network = tiny_llama(tmp_path / "tiny.gguf")
    keys = {"tokenizer.ggml.eot_token_id": 270, "tokenizer.ggml.eom_token_id": END}
    write_gguf(network, path, architecture="llama", extra=keys | {"llama.attention.sliding_window": 64})
    header = read_header(path)
    assert header.window == 64 and header.end_ids == (END, 270)


def test_the_type_of_most_bytes_is_the_quantisation(tmp_path):
    writer = gguf.GGUFWriter(tmp_path / "mixed.gguf", "llama")
    writer.add_tokenizer_model("gpt2")
    for name, kind, rows in (("a", "Q4_0", 64), ("b", "Q6_K", 8), ("c", "F32", 1)):
        data = torch.randn(rows, 256).numpy()
        code = gguf.GGMLQuantizationType[kind]
        coded = gguf.quants.quantize(data, code) if kind == "Q4_0" else data
        if kind == "Q6_K":  # the package only reads it
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
    parts = write_split(network, tmp_path / "split", architecture="llama", parts=3)
    headers = [read_header(part) for part in parts]
    assert {header.path for header in headers} == {parts[0]} and headers[0].parts == tuple(parts)
    assert (headers[0].parameters, headers[0].bytes) == (alone.parameters, alone.bytes)
    assert headers[1] == headers[2] == headers[0]
    parts[2].unlink()
    with pytest.raises(UserError) as caught:
        read_header(parts[1])
    assert str(caught.value) == (
        "'tiny-00002-of-00003.gguf' is one of 3 files, and tiny-00003-of-00003.gguf is not beside it; put all of them "
        "into one folder."
    )
    renamed = parts[0].rename(tmp_path / "renamed.gguf")
    with pytest.raises(UserError, match=r"'renamed.gguf' is one of 3 files of a model and does not bear its number"):
        read_header(renamed)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda raw: b"", "'bad.gguf' is not a GGUF file: it does not begin with the four letters GGUF; give one"),
        (lambda raw: b"PK\3\4" + raw[4:], "'bad.gguf' is not a GGUF file"),
        (lambda raw: raw[:4], "'bad.gguf' is of version 0 of the format, which llama.cpp no longer reads"),
        (
            lambda raw: raw[:4] + struct.pack("<I", 4) + raw[8:],
            "is of version 4 of the format, and versions 2 to 3 are",
        ),
        (lambda raw: raw[:4] + struct.pack(">I", 3) + raw[8:], "'bad.gguf' was written for big-endian machines; take"),
        (lambda raw: raw[:12], "'bad.gguf' breaks off in its header, after 12 bytes; download it again."),
        (lambda raw: raw[:700], "'bad.gguf' breaks off in its header, after 700 bytes; download it again."),
        (lambda raw: raw[:16] + b"\xff" * 8 + raw[24:], "'bad.gguf' (is damaged|breaks off)"),
        (
            lambda raw: raw[:8] + b"\0\0\0\0\0\1\0\0" + raw[16:],
            r"'bad.gguf' is damaged \(it counts [\d,]+ of something\)",
        ),
        (lambda raw: raw[:-1000], r"'bad.gguf' is not whole: its weights end at byte [\d,]+, and the file has"),
        (lambda raw: raw[:24] + b"\xff" * 16 + raw[40:], "breaks off in its header"),
    ],
)
def test_a_file_that_is_none_or_not_whole_is_refused_in_a_sentence(change, said, tmp_path):
    path, _ = tiny_llama(tmp_path / "bad.gguf")
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(UserError, match=said):
        read_header(path)


def test_bytes_that_change_anywhere_in_the_header_end_in_a_sentence_at_worst(tmp_path):
    path, _ = from_stub(tmp_path / "bad.gguf")
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
        with pytest.raises(UserError, match=r"'mute.gguf' has no tokenizer in it, so no text can be read or written"):
            read_header(path)
    with pytest.raises(UserError, match=r"cannot be read \(No such file or directory\); give the path of a GGUF file."):
        read_header(tmp_path / "none.gguf")
    with pytest.raises(UserError, match="cannot be read"):
        read_header(tmp_path)


def test_importing_it_loads_neither_torch_nor_the_package_gguf():
    told = (
        "import sys, engines.models.gguf.header; print({'torch', 'gguf', 'transformers', 'llama_cpp'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True, cwd=Path.cwd())
    assert done.stdout == "set()\n"
