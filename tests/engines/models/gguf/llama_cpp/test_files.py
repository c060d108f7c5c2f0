"""The tiny GGUF files of the tests load in llama.cpp and compute there what torch computes."""

import ctypes

import llama_cpp
import numpy as np
import pytest
import torch

from tests import gguf_files
from tests.gguf_files import CAUSAL, MASKED, from_stub, rows_of

IDS = [5, 60, 17, 33, 2, 41, 9, 9, 28]
STUBS = [("l", "llada"), ("q", "dream"), ("q", "qwen2")]


@pytest.fixture(scope="module", autouse=True)
def quiet():
    """llama.cpp says nothing while these tests run."""
    callback = llama_cpp.llama_log_callback(lambda level, text, data: None)
    llama_cpp.llama_log_set(callback, ctypes.c_void_p())
    yield
    llama_cpp.llama_log_set(ctypes.cast(None, llama_cpp.llama_log_callback), ctypes.c_void_p())


def computed(path, ids, causal):
    """llama.cpp's logits [L, V] of the ids."""
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), llama_cpp.llama_model_default_params())
    assert model, f"{path.name} does not load"
    how = llama_cpp.llama_context_default_params()
    how.n_ctx = how.n_batch = how.n_ubatch = 32
    how.type_k = how.type_v = llama_cpp.GGML_TYPE_F32  # by default the cache is rounded to float16
    how.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
    context = llama_cpp.llama_init_from_model(model, how)
    llama_cpp.llama_set_causal_attn(context, causal)
    batch = llama_cpp.llama_batch_init(len(ids), 0, 1)
    batch.n_tokens = len(ids)
    for i, token in enumerate(ids):
        batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0], batch.logits[i] = token, i, 1, 0, 1
    assert llama_cpp.llama_decode(context, batch) == 0
    wide = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
    rows = np.ctypeslib.as_array(llama_cpp.llama_get_logits(context), (len(ids), wide)).copy()
    llama_cpp.llama_batch_free(batch)
    llama_cpp.llama_free(context)
    llama_cpp.llama_model_free(model)
    return torch.from_numpy(rows)


def alike(made, causal):
    path, network = made
    expected = rows_of(network, IDS, causal)
    assert expected.std() > 0.5, "rows that are all alike would hide a wrong tensor"
    torch.testing.assert_close(computed(path, IDS, causal), expected, atol=1e-3, rtol=0)


@pytest.mark.parametrize("make", CAUSAL, ids=lambda make: make.__name__)
def test_causal_rows_are_those_of_torch(make, tmp_path):
    alike(make(tmp_path / "tiny.gguf"), causal=True)


@pytest.mark.parametrize("make", MASKED, ids=lambda make: make.__name__)
def test_rows_of_a_board_are_those_of_torch(make, tmp_path):
    alike(make(tmp_path / "tiny.gguf"), causal=False)


@pytest.mark.parametrize(("stub", "architecture"), STUBS)
def test_so_are_the_rows_of_the_golden_stubs(stub, architecture, tmp_path):
    causal = architecture not in gguf_files.TWO_WAY
    alike(from_stub(tmp_path / "stub.gguf", stub, architecture), causal)


def test_a_split_model_loads_whole(tmp_path):
    path, network = gguf_files.tiny_llama(tmp_path / "tiny.gguf")
    parts = gguf_files.write_split(network, tmp_path / "split", architecture="llama")
    assert len(parts) == 3 and max(part.stat().st_size for part in parts) < path.stat().st_size
    alike((parts[0], network), causal=True)


def test_a_text_is_read_and_written(tmp_path):
    path, _ = gguf_files.tiny_qwen2(tmp_path / "tiny.gguf")
    model = llama_cpp.Llama(str(path), n_ctx=64, verbose=False)
    ids = model.tokenize(b"On the other hand, 17% of \xc3\xa4", add_bos=False, special=True)
    assert model.detokenize(ids) == b"On the other hand, 17% of \xc3\xa4" and len(ids) < 26, "with merges"
    turn = model.tokenize(b"<|user|>Hi<|end|><|assistant|>", add_bos=False, special=True)
    assert gguf_files.END in turn and len(turn) == 5
    assert model.metadata["tokenizer.chat_template"] == gguf_files.TEMPLATE
    model.close()
