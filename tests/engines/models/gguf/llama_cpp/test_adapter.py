"""GGUF files behind our protocols: rows, trees and caches against torch, and the methods that need logits only."""

import json
import math
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, decoders
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from transformers import PreTrainedTokenizerFast

import engines
from engines import UserError
from engines.models.files import smollm2
from engines.models.gguf import c_interface, trial
from engines.models.gguf.llama_cpp import Context
from engines.models.gguf.sequences import SequenceCache
from tests import gguf_files
from tests.engines.fakes import commits
from tests.engines.models.gguf.llama_cpp.conftest import PROMPT
from tests.engines.models.gguf.walks import walk
from tests.engines.refusals import refuses
from tests.gguf_files import WINDOW, rows_of, write_gguf

LONG = [(7 * i + 3) % 250 for i in range(40)]  # several windows
IDS = [5, 60, 17, 33, 2, 41, 9, 9, 28]
NEW = 24
CLOSE = {"atol": 1e-3, "rtol": 0}


@pytest.mark.parametrize("make", gguf_files.CAUSAL, ids=lambda make: make.__name__)
def test_a_text_in_pieces_gives_the_rows_of_torch(make, tmp_path):
    path, network = make(tmp_path / "tiny.gguf")
    text = LONG[:WINDOW] if make is gguf_files.tiny_mistral else LONG
    model, expected = engines.load_model(path), rows_of(network, text)
    cache = model.new_cache(64)
    pieces = [model.extend(text[a:b], cache).logits for a, b in ((0, 4), (4, 5), (5, 20), (20, len(text))) if text[a:]]
    torch.testing.assert_close(torch.cat(pieces), expected, **CLOSE)
    for length in (len(text) - 2, 4):
        cache.crop(length)
        again = model.extend(text[length:], cache, last_only=True).logits
        torch.testing.assert_close(again, expected[-1:], **CLOSE)
    torch.testing.assert_close(model.by_itself(text), expected, **CLOSE)


@pytest.mark.parametrize("make", [gguf_files.tiny_llama, *gguf_files.WINDOWED], ids=lambda make: make.__name__)
def test_a_tree_in_two_calls_gives_its_rows(make, tmp_path):
    path, network = make(tmp_path / "tiny.gguf")
    model = engines.load_model(path)
    for text in (IDS[:4], LONG):
        cache = model.new_cache(64)
        model.extend(text, cache)
        z = model.extend([1, 2, 3], cache, parents=[-1, 0, 0]).logits
        z = torch.cat([z, model.extend([4, 6], cache, parents=[-1, 0, 0, 2, 2]).logits])
        for row, path_ids in enumerate(([1], [1, 2], [1, 3], [1, 3, 4], [1, 3, 6])):
            torch.testing.assert_close(z[row], rows_of(network, [*text, *path_ids])[-1], **CLOSE)
        cache.keep(len(text), [0, 2, 4])
        expected = rows_of(network, [*text, 1, 3, 6, 7])[-1]
        torch.testing.assert_close(model.extend([7], cache).logits[0], expected, **CLOSE)


@pytest.mark.parametrize("make", gguf_files.WINDOWED, ids=lambda make: make.__name__)
def test_what_left_the_window_is_there_again_when_a_text_is_cropped(make, tmp_path):
    path, network = make(tmp_path / "tiny.gguf")
    model, text = engines.load_model(path), [*LONG]
    cache = model.new_cache(120)
    model.extend(text, cache)
    for turn in range(16):  # more rows are dropped than there is room for
        model.extend([*range(50)], cache, parents=[-1] * 50)
        cache.keep(len(text), [49])
        text.append(49)
        if turn % 5 == 4:
            del text[turn:]
            cache.crop(len(text))
            fed = [(11 * i + turn) % 250 for i in range(30)]
            text += fed
            torch.testing.assert_close(model.extend(fed, cache).logits, rows_of(network, text)[-30:], **CLOSE)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("make", [gguf_files.tiny_llama, gguf_files.tiny_gpt_oss], ids=lambda make: make.__name__)
def test_whatever_is_fed_kept_and_cropped_a_row_is_that_of_its_path(make, seed, tmp_path):
    model = engines.load_model(make(tmp_path / "tiny.gguf")[0])
    cache = SequenceCache(Context(model.file, 256, rows=64, threads=1, full=True), 200)
    for z, paths in walk(cache, seed, turns=60, most=20, words=250):
        for row in {0, len(paths) - 1}:
            torch.testing.assert_close(torch.from_numpy(z[row]), model.by_itself(paths[row])[-1], **CLOSE)


def test_rotations_of_a_short_text_are_those_of_one_in_any_cache(tmp_path):
    path, network = gguf_files.tiny_phi3_long(tmp_path / "tiny.gguf")
    model, text = engines.load_model(path), [(7 * i) % 250 for i in range(64)]
    rows = rows_of(network, text)
    for z in (model.by_itself(text), *(model.extend(text, model.new_cache(n)).logits for n in (64, 600))):
        torch.testing.assert_close(z, rows, **CLOSE)
    said = r"the rotations of tiny\.gguf \(LongRoPE\) change at position 64"
    refuses(UserError, said, model.extend, [*text, 1], model.new_cache(80))
    refuses(UserError, "change after 64 tokens", engines.run, "greedy", model, text, params={"max_new_tokens": 8})


@pytest.mark.parametrize("make", gguf_files.WINDOWED, ids=lambda make: make.__name__)
def test_soft_caps_windows_and_sinks_hold_in_the_attention_of_quantised_files(make, tmp_path):
    path, network = make(tmp_path / "tiny.gguf")
    architecture = engines.load_model(path).header.architecture
    write_gguf(network, path, architecture=architecture, extra={"general.file_type": 1})  # it says that it is F16
    model = engines.load_model(path)
    assert not model.full, "keys in float16, values in bfloat16, flash attention"
    torch.testing.assert_close(model.by_itself(LONG), rows_of(network, LONG), atol=0.1, rtol=0)


def test_llama_cpp_rounds_the_bounds_of_yarn(tmp_path):
    path, network = gguf_files.tiny_gpt_oss(tmp_path / "tiny.gguf", truncate=False)
    moved = (engines.load_model(path).by_itself(LONG) - rows_of(network, LONG)).abs().amax(-1)
    assert moved[0] < 1e-3 < moved[8:].min(), "no longer: say so in models.md, and let tiny_gpt_oss be this"


def test_a_split_model_is_read_whole(tmp_path):
    path, network = gguf_files.tiny_llama(tmp_path / "tiny.gguf")
    parts = gguf_files.write_split(network, tmp_path / "split", architecture="llama")
    assert len(parts) == 3 and max(part.stat().st_size for part in parts) < path.stat().st_size
    torch.testing.assert_close(engines.load_model(parts[0]).by_itself(IDS), rows_of(network, IDS), **CLOSE)


def test_a_window_that_llama_cpp_ignores_ends_a_text(tmp_path):
    path, network = gguf_files.tiny_phi3(tmp_path / "tiny.gguf")
    model = engines.load_model(path)
    text, cache = [(7 * i) % 250 for i in range(65)], model.new_cache(80)
    rows = rows_of(network, text)
    torch.testing.assert_close(model.extend(text[:64], cache).logits, rows[:64], **CLOSE)
    refuses(UserError, "window of 64 positions, which llama.cpp ignores, and position 64", model.extend, [1], cache)
    said = r"ignores the sliding window of tiny\.gguf, and computes what the model does for 64 tokens only"
    refuses(UserError, said, engines.run, "greedy", model, text[:60], params={"max_new_tokens": 8})
    assert not torch.allclose(model.by_itself(text)[-1], rows[-1], **CLOSE), "llama.cpp keeps to it now: let it"
    llama, key = gguf_files.tiny_llama(tmp_path / "llama.gguf")[1], "llama.attention.sliding_window"
    told = write_gguf(llama, tmp_path / "llama.gguf", architecture="llama", extra={key: 64})
    assert engines.load_model(told).max_positions == 64, "as of every family in which it has none"
    write_gguf(network, path, architecture="phi3", extra={"phi3.attention.sliding_window": 0})
    assert engines.load_model(path).max_positions == 256, "0 is Phi-4's, which has none"


@pytest.mark.parametrize("make", gguf_files.MASKED, ids=lambda make: make.__name__)
def test_a_board_is_seen_whole_and_moved_where_the_family_moves_it(make, tmp_path):
    path, network = make(tmp_path / "tiny.gguf")
    model, board = engines.load_model(path), [5, 60, gguf_files.MASK, 33, gguf_files.MASK]
    rows = rows_of(network, board, causal=False)
    assert model.record.kind == "masked" and model.shift is (make is gguf_files.tiny_dream)
    expected = torch.cat([rows[:1], rows[:-1]]) if model.shift else rows.clone()
    expected[:, gguf_files.MASK] = -torch.inf
    torch.testing.assert_close(model(torch.tensor(board)), expected, **CLOSE)
    torch.testing.assert_close(model(torch.tensor([board[::-1], board]))[1], expected, **CLOSE)


CODED = {"specmemo"}  # plans bytes of weights of one type
ALSO = {"specdec-pp": {"head": "confidence"}}  # the trained one is of another model
METHODS = [info for info in engines.list_methods() if {*info.needs.values()} == {"causal"} and not info.parts]


@pytest.mark.parametrize("slug", [info.slug for info in METHODS])
def test_what_needs_logits_alone_runs(slug, llama):
    info = engines.get_method(slug).info
    params = {"max_new_tokens": NEW} if any(param.name == "max_new_tokens" for param in info.params) else {}
    models = dict.fromkeys(info.needs, llama)
    if slug in CODED:
        refuses(UserError, "is coded as F32; load the model's", engines.run, slug, models, PROMPT, params=params)
        return
    trace = engines.run(slug, models, PROMPT, params=params | ALSO.get(slug, {}))
    assert trace.end.reason == "complete" and trace.output_ids
    if info.lossless:
        assert trace.output_ids == engines.run("greedy", llama, PROMPT, params=params).output_ids


def test_a_template_that_fails_and_weights_that_do_not_fit_are_told(tmp_path):
    network = gguf_files.tiny_qwen2(tmp_path / "plain.gguf")[1]
    extra = {"tokenizer.chat_template": "{{ raise_exception('no users here') }}"}
    path = gguf_files.write_gguf(network, tmp_path / "tiny.gguf", architecture="qwen2", extra=extra)
    refuses(UserError, "refuses this prompt: no users here", engines.load_model(path).tokenizer.encode_prompt, "Hi")
    path = gguf_files.write_gguf(network, tmp_path / "odd.gguf", architecture="qwen2", extra={"qwen2.block_count": 5})
    refuses(UserError, r"llama\.cpp cannot load odd\.gguf \(.*blk\.2", engines.load_model, path)
    network = gguf_files.tiny_phi3(tmp_path / "plain.gguf")[1]
    path = gguf_files.write_gguf(network, tmp_path / "odd.gguf", architecture="phi3", extra={"phi3.block_count": 5})
    refuses(UserError, r"cannot load odd\.gguf \(.*blk\.2", engines.load_model, path)  # not its warning of the window


@pytest.mark.parametrize("extra", [{"llama.expert_count": 4}, {"llama.attention.layer_norm_rms_epsilon": math.nan}])
def test_a_file_on_which_llama_cpp_gives_up_ends_its_trial_alone_and_its_words_are_told(extra, tmp_path):
    network = gguf_files.tiny_llama(tmp_path / "tiny.gguf")[1]
    path = gguf_files.write_gguf(network, tmp_path / "odd.gguf", architecture="llama", extra=extra)
    said = r"ended its process while it read 'odd\.gguf' \([\w-]+\.cpp:\d+: GGML_ASSERT\(.+\) failed\); the file may"
    refuses(UserError, said, engines.load_model, path)


def test_smollm2_in_4_bits_is_fetched_once_by_its_name_and_not_where_nothing_runs_it(tmp_path, monkeypatch):
    file = gguf_files.tiny_llama(tmp_path / "of-the-wheel.gguf")[0]
    fetched = list[Path]()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(smollm2, "find_gguf", lambda work: fetched.append(work) or file)

    def where():
        return next(model.where for model in engines.list_models() if model.name == smollm2.CODED)

    assert where() == "download"
    refuses(UserError, "models --fetch smollm2-gguf` gets it", engines.size_of, smollm2.CODED)
    with monkeypatch.context() as patch:
        patch.setattr(c_interface, "candidates", lambda: iter(()))
        refuses(UserError, "llama.cpp, which is not installed here", engines.load_model, smollm2.CODED)
    assert fetched == []
    model = engines.load_model(smollm2.CODED)
    assert (model.record.name, where(), engines.size_of(smollm2.CODED).dtype) == (smollm2.CODED, "cache", "F32")
    assert engines.load_model(smollm2.CODED) is model and len(fetched) == 1


def test_text_goes_through_the_tokenizer_of_the_file(llama):
    text, words = "On the other hand, 17% of ä 🙂", llama.tokenizer
    ids = words.encode(text)
    assert words.decode(ids) == text and len(ids) < len(text.encode())
    special = [words.piece(i).text for i in words.encode_prompt("the") if words.piece(i).kind == "special"]
    assert special == ["<|user|>", "<|end|>", "<|assistant|>"] and gguf_files.END in llama.eos_ids
    assert words.plain().encode_prompt("the") == words.encode("the")
    assert words.piece(next(i for i, t in words.vocabulary().items() if t == "Ã")).kind == "byte", "the first of ä"


def test_a_torch_draft_with_the_words_of_the_file_drafts_for_it(llama, tmp_path):
    gguf_files.tiny_llama(tmp_path / "draft.gguf")[1].save_pretrained(tmp_path)
    merges = [tuple(merge.split()) for merge in gguf_files.MERGES]
    fast = Tokenizer(BPE({text: i for i, text in llama.tokenizer.vocabulary().items()}, merges))
    fast.pre_tokenizer, fast.decoder = ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=fast).save_pretrained(tmp_path)
    models = {"target": llama, "draft": engines.load_model(tmp_path)}
    trace = engines.run("speculative-sampling", models, PROMPT, params={"max_new_tokens": 12})
    assert trace.output_ids == engines.run("greedy", llama, PROMPT, params={"max_new_tokens": 12}).output_ids
    assert trace.totals.forwards_by_role["target"] < 12, "the same network accepts its drafts"


def test_a_file_is_tried_once_and_loads_again_by_its_record(files, llama, monkeypatch):
    assert engines.load_model(files / llama.record.name, **llama.record.loading).record.sha256 == llama.record.sha256
    assert any(llama.record.sha256 in key for key in json.loads((files / "decoding-explorer" / trial.KEPT).read_text()))
    monkeypatch.setattr(trial, "COMMAND", ("false",))
    moved = trial.tried(llama.header, llama.record.sha256, 0, torch.get_num_threads())
    assert moved == llama.record.moved < 1e-3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"dtype": "float16"}, "dtype is not an option of a GGUF file"),
        ({"mask_id": 3}, "mask_id is an option of masked models and .* is causal"),
        ({"eos_id": 9999}, "eos_id=9999 is not in the vocabulary"),
        ({"gpu_layers": "all"}, "gpu_layers='all' cannot be"),
        ({"gpu_layers": 4}, "runs on the processor alone"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, said, files):
    refuses(UserError, said, engines.load_model, files / "llama.gguf", **options)


def test_what_does_not_fit_is_refused(llama, files):
    refuses(UserError, "gpu_layers is an option of GGUF files and", engines.load_model, "tiny-ar-s", gpu_layers=3)
    with pytest.raises(UserError, match="has room for 256 in all"):
        engines.run("greedy", llama, "the " * 300, params={"max_new_tokens": 8})
    refuses(UserError, "256 positions and position 299 was fed", llama.extend, [1] * 300, llama.new_cache(400))
    with pytest.raises(UserError, match="keeps no keys and values between forwards; set cache=none"):
        engines.run("threshold", engines.load_model(files / "llada.gguf"), PROMPT, params={"cache": "dual"})
    refuses(UserError, r"reads layers.*llama\.gguf is a GGUF file.*logits", engines.run, "kangaroo", llama, PROMPT)
    refuses(UserError, r"reads hidden states and llama\.gguf is a", llama.extend, [1], llama.new_cache(4), hidden=[1])
    with pytest.raises(UserError, match=r"one tokenizer; llama\.gguf and tiny-ar-s number their tokens differently"):
        engines.run("speculative-sampling", {"target": llama, "draft": "tiny-ar-s"}, PROMPT)


@pytest.mark.parametrize(("stub", "architecture", "slug"), [("l", "llada", "llada"), ("q", "dream", "dream")])
def test_the_loops_of_both_families_write_the_same_steps_as_on_torch(stub, architecture, slug, tmp_path):
    path, network = gguf_files.from_stub(tmp_path / "stub.gguf", stub, architecture)
    options = {"mask_id": int(network.config.mask_token_id), "shift": architecture == "dream"}
    params = {"max_new_tokens": 16} | ({"block_length": 8} if slug == "llada" else {})
    network.save_pretrained(tmp_path / "torch")
    config = json.loads((tmp_path / "torch" / "config.json").read_text()) | {"is_causal": False}
    config.pop("bd_size", None)  # by which the same weights are also read block by block
    (tmp_path / "torch" / "config.json").write_text(json.dumps(config))
    here, there = (
        commits(engines.run(slug, model, [5, 9, 17, 33, 2, 41], params=params, seed=3))
        for model in (engines.load_model(path), engines.load_model(tmp_path / "torch", **options))
    )
    assert here == there and len(here) > 3


def test_a_context_is_used_again_and_nothing_of_the_text_before_is_seen(llama):
    expected = llama.by_itself(IDS)
    first = llama.new_cache(40)
    llama.extend([7, 8, 9, 10, 11, 12], first)
    context = first.cells
    del first
    second, third = llama.new_cache(30), llama.new_cache(30)
    assert second.cells is context and third.cells is not context
    torch.testing.assert_close(llama.extend(IDS, second).logits, expected, **CLOSE)
    torch.testing.assert_close(llama.extend(IDS, third).logits, expected, **CLOSE)
    refuses(UserError, "room for 30 positions", llama.extend, [1] * 25, second)


def test_more_rows_than_llama_cpp_takes_at_once_are_read_in_pieces(tmp_path):
    path, network = gguf_files.tiny_llama(tmp_path / "tiny.gguf")
    model, text = engines.load_model(path), [(7 * i) % 250 for i in range(150)]
    cache = model.new_cache(250)
    torch.testing.assert_close(model.extend(text, cache).logits, rows_of(network, text), **CLOSE)
    tree = [(11 * i) % 250 for i in range(80)]
    parents = [-1, *((i - 1) // 2 for i in range(1, 80))]
    z = model.extend(tree, cache, parents=parents).logits
    for row in (0, 63, 64, 79):
        line, at = [], row
        while at >= 0:
            line, at = [tree[at], *line], parents[at]
        torch.testing.assert_close(z[row], rows_of(network, [*text, *line])[-1], **CLOSE)
