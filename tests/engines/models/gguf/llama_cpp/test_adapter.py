"""GGUF files behind our protocols: rows, trees and caches against torch, and the methods that need logits only."""

import json

import pytest
import torch
from tokenizers import Tokenizer, decoders
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from transformers import PreTrainedTokenizerFast

import engines
from engines import UserError
from engines.models.bits import same_bits
from engines.models.gguf import trial
from tests import gguf_files
from tests.engines.models.gguf.llama_cpp.conftest import PROMPT
from tests.gguf_files import rows_of

IDS = [5, 60, 17, 33, 2, 41, 9, 9, 28]
NEW = 24
CLOSE = {"atol": 1e-3, "rtol": 0}


@pytest.mark.parametrize("make", gguf_files.CAUSAL, ids=lambda make: make.__name__)
def test_a_text_in_pieces_gives_the_rows_of_torch(make, tmp_path):
    path, network = make(tmp_path / "tiny.gguf")
    model, expected = engines.load_model(path), rows_of(network, IDS)
    cache = model.new_cache(16)
    pieces = [model.extend(IDS[a:b], cache).logits for a, b in ((0, 4), (4, 5), (5, 9))]
    torch.testing.assert_close(torch.cat(pieces), expected, **CLOSE)
    cache.crop(4)
    torch.testing.assert_close(model.extend(IDS[4:], cache, last_only=True).logits, expected[-1:], **CLOSE)
    torch.testing.assert_close(model.by_itself(IDS), expected, **CLOSE)


def test_a_tree_in_two_calls_gives_each_branch_its_rows(tmp_path):
    path, network = gguf_files.tiny_llama(tmp_path / "tiny.gguf")
    model = engines.load_model(path)
    cache = model.new_cache(32)
    model.extend(IDS[:4], cache)
    z = model.extend([1, 2, 3], cache, parents=[-1, 0, 0]).logits
    z = torch.cat([z, model.extend([4, 6], cache, parents=[-1, 0, 0, 2, 2]).logits])
    for row, path_ids in enumerate(([1], [1, 2], [1, 3], [1, 3, 4], [1, 3, 6])):
        torch.testing.assert_close(z[row], rows_of(network, [*IDS[:4], *path_ids])[-1], **CLOSE)
    cache.keep(4, [0, 2, 4])
    expected = rows_of(network, [*IDS[:4], 1, 3, 6, 7])[-1]
    torch.testing.assert_close(model.extend([7], cache).logits[0], expected, **CLOSE)


@pytest.mark.parametrize(("make", "shift"), [(gguf_files.tiny_llada, False), (gguf_files.tiny_dream, True)])
def test_a_board_is_seen_whole_and_moved_where_the_family_moves_it(make, shift, tmp_path):
    path, network = make(tmp_path / "tiny.gguf")
    model, board = engines.load_model(path), [5, 60, gguf_files.MASK, 33, gguf_files.MASK]
    rows = rows_of(network, board, causal=False)
    expected = torch.cat([rows[:1], rows[:-1]]) if shift else rows.clone()
    expected[:, gguf_files.MASK] = -torch.inf
    assert model.record.kind == "masked" and model.shift is shift
    torch.testing.assert_close(model(torch.tensor(board)), expected, **CLOSE)
    two = model(torch.tensor([board, board[::-1]]))
    torch.testing.assert_close(two[0], expected, **CLOSE)


CODED = {"specmemo"}  # plans bytes of weights of one type
ALSO = {"specdec-pp": {"head": "confidence"}}  # the trained one is of another model
METHODS = [info for info in engines.list_methods() if {*info.needs.values()} == {"causal"} and not info.parts]


@pytest.mark.parametrize("slug", [info.slug for info in METHODS])
def test_what_needs_logits_alone_runs(slug, llama):
    info = engines.get_method(slug).info
    params = {"max_new_tokens": NEW} if any(param.name == "max_new_tokens" for param in info.params) else {}
    models = dict.fromkeys(info.needs, llama)
    if slug in CODED:
        with pytest.raises(UserError, match="is coded as F32; load the model's safetensors"):
            engines.run(slug, models, PROMPT, params=params)
        return
    trace = engines.run(slug, models, PROMPT, params=params | ALSO.get(slug, {}))
    assert trace.end.reason == "complete" and trace.output_ids
    if info.lossless:
        assert trace.output_ids == engines.run("greedy", llama, PROMPT, params=params).output_ids


@pytest.mark.parametrize("slug", ["threshold", "token-editing", "dream", "factor"])
def test_methods_of_masked_boards_run(slug, files):
    for file in ("llada.gguf", "dream.gguf"):
        trace = engines.run(slug, engines.load_model(files / file), PROMPT, params={"max_new_tokens": 16})
        assert trace.end.reason == "complete" and len(trace.output_ids) == 16


def test_what_reads_layers_says_so_and_names_the_other_form(llama):
    with pytest.raises(UserError, match=r"reads layers.*llama\.gguf is a GGUF file.*logits only.*safetensors"):
        engines.run("kangaroo", llama, PROMPT)
    with pytest.raises(UserError, match=r"reads hidden states and llama\.gguf is a GGUF file"):
        llama.extend([1], llama.new_cache(4), hidden=[1])


def test_a_masked_cache_is_refused(files):
    with pytest.raises(UserError, match="keeps no keys and values between forwards; set cache=none"):
        engines.run("threshold", engines.load_model(files / "llada.gguf"), PROMPT, params={"cache": "dual"})


def test_text_goes_through_the_tokenizer_of_the_file(llama):
    text = "On the other hand, 17% of ä 🙂"
    ids = llama.tokenizer.encode(text)
    assert llama.tokenizer.decode(ids) == text and len(ids) < len(text.encode())
    prompt = llama.tokenizer.encode_prompt("the")
    words = [llama.tokenizer.piece(i) for i in prompt]
    assert [w.text for w in words if w.kind == "special"] == ["<|user|>", "<|end|>", "<|assistant|>"]
    assert llama.tokenizer.plain().encode_prompt("the") == llama.tokenizer.encode("the")
    assert gguf_files.END in llama.eos_ids
    lone = next(i for i, t in llama.tokenizer.vocabulary().items() if t == "Ã")  # the first byte of ä
    assert llama.tokenizer.piece(lone).kind == "byte"
    assert llama.tokenizer.piece(llama.vocab_size + 5).kind == "special"


def test_a_template_that_fails_is_told(tmp_path):
    from tests.gguf_files import write_gguf

    network = gguf_files.tiny_qwen2(tmp_path / "plain.gguf")[1]
    extra = {"tokenizer.chat_template": "{{ raise_exception('no users here') }}"}
    path = write_gguf(network, tmp_path / "tiny.gguf", architecture="qwen2", extra=extra)
    with pytest.raises(UserError, match="refuses this prompt: no users here"):
        engines.load_model(path).tokenizer.encode_prompt("Hi")


def test_a_torch_draft_with_the_words_of_the_file_drafts_for_it(llama, tmp_path):
    _, network = gguf_files.tiny_llama(tmp_path / "draft.gguf")
    network.save_pretrained(tmp_path)
    words = llama.tokenizer.vocabulary()
    merges = [tuple(merge.split()) for merge in gguf_files.MERGES]
    fast = Tokenizer(BPE({text: i for i, text in words.items()}, merges))
    fast.pre_tokenizer, fast.decoder = ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=fast).save_pretrained(tmp_path)
    draft = engines.load_model(tmp_path)
    trace = engines.run(
        "speculative-sampling", {"target": llama, "draft": draft}, PROMPT, params={"max_new_tokens": 12}
    )
    assert trace.output_ids == engines.run("greedy", llama, PROMPT, params={"max_new_tokens": 12}).output_ids
    assert trace.totals.forwards_by_role["target"] < 12, "the same network accepts its drafts"


def test_the_record_says_what_ran(llama):
    record = llama.record
    assert (record.name, record.kind, record.dtype, record.device) == ("llama.gguf", "causal", "F32", "cpu")
    assert record.parameters == llama.header.parameters and len(record.sha256) == 64 and len(record.tokenizer) == 12
    assert record.moved is not None and record.moved < 1e-3


def test_a_run_loads_again_by_its_record(files, llama):
    again = engines.load_model(files / llama.record.name, **llama.record.loading)
    assert again.record.sha256 == llama.record.sha256


def test_rows_that_move_each_other_are_found(llama):
    assert same_bits(llama)[1] < 1e-4
    extend = llama.extend

    def moved(tokens, cache, **more):
        found = extend(tokens, cache, **more)
        found.logits += 0.5 * (len(tokens) >= 4)
        return found

    llama.extend = moved
    try:
        assert same_bits(llama)[1] == pytest.approx(0.5, abs=1e-3)
    finally:
        del llama.extend


def test_a_file_is_tried_once(files, llama, monkeypatch):
    assert any(llama.record.sha256 in key for key in json.loads((files / "decoding-explorer" / trial.KEPT).read_text()))
    monkeypatch.setattr(trial, "COMMAND", ("false",))
    header = llama.header
    assert trial.tried(header, llama.record.sha256, 0, torch.get_num_threads()) == llama.record.moved


def test_weights_that_llama_cpp_does_not_understand_are_told_in_its_words(tmp_path):
    network = gguf_files.tiny_llama(tmp_path / "plain.gguf")[1]
    path = gguf_files.write_gguf(network, tmp_path / "odd.gguf", architecture="llama", extra={"llama.block_count": 5})
    with pytest.raises(UserError, match=r"llama\.cpp cannot load odd\.gguf \(.*blk\.2"):
        engines.load_model(path)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"dtype": "float16"}, "dtype is no option of a GGUF file"),
        ({"quantization": "4bit"}, "quantization is no option of a GGUF file"),
        ({"mask_id": 3}, "mask_id is an option of masked models and .* is causal"),
        ({"eos_id": 9999}, "eos_id=9999 is not in the vocabulary"),
        ({"gpu_layers": "all"}, "gpu_layers='all' cannot be"),
        ({"gpu_layers": 4}, "built for the processor alone"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, said, files):
    with pytest.raises(UserError, match=said):
        engines.load_model(files / "llama.gguf", **options)


def test_layers_of_other_models_are_no_option():
    with pytest.raises(UserError, match="gpu_layers is an option of GGUF files and 'tiny-ar-s' is none"):
        engines.load_model("tiny-ar-s", gpu_layers=3)


def test_a_text_beyond_the_context_is_refused(llama):
    with pytest.raises(UserError, match="has room for 256 in all"):
        engines.run("greedy", llama, "the " * 300, params={"max_new_tokens": 8})
    with pytest.raises(UserError, match="256 positions and position 299 was fed"):
        llama.extend([1] * 300, llama.new_cache(400))


def test_more_branches_than_sequences_are_refused(llama):
    cache = llama.new_cache(400)
    llama.extend([1], cache)
    with pytest.raises(UserError, match="more than 255 ends"):
        llama.extend(list(range(2, 262)), cache, parents=[-1] * 260)
    assert llama.extend([2], cache).logits.shape == (1, llama.vocab_size)


@pytest.mark.parametrize(("stub", "architecture", "slug"), [("l", "llada", "llada"), ("q", "dream", "dream")])
def test_the_loops_of_both_families_write_the_same_steps_as_on_torch(stub, architecture, slug, tmp_path):
    path, network = gguf_files.from_stub(tmp_path / "stub.gguf", stub, architecture)
    mask, shift = int(network.config.mask_token_id), architecture == "dream"
    prompt = [5, 9, 17, 33, 2, 41]
    params = {"max_new_tokens": 16} | ({"block_length": 8} if slug == "llada" else {})
    network.save_pretrained(tmp_path / "torch")
    config = json.loads((tmp_path / "torch" / "config.json").read_text()) | {"is_causal": False}
    config.pop("bd_size", None)  # by which the same weights are also read block by block
    (tmp_path / "torch" / "config.json").write_text(json.dumps(config))
    runs = []
    for name, options in ((path, {}), (tmp_path / "torch", {"mask_id": mask, "shift": shift})):
        model = engines.load_model(name, **options)
        run = engines.run(slug, model, prompt, params=params, seed=3)
        runs.append([(step.commits.positions, step.commits.tokens) for step in run.steps if step.commits])
    assert runs[0] == runs[1] and len(runs[0]) > 3


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
    with pytest.raises(UserError, match="room for 30 positions"):
        llama.extend([1] * 25, second)


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


def test_a_pair_with_other_words_is_refused(llama):
    with pytest.raises(UserError, match=r"one tokenizer; llama\.gguf and tiny-ar-s number their tokens differently"):
        engines.run("speculative-sampling", {"target": llama, "draft": "tiny-ar-s"}, PROMPT)
