"""Ours against the harness's own model of transformers, on one network of random weights."""

import shutil
from types import SimpleNamespace

import pytest

from explorer import ASSETS

pytest.importorskip("lm_eval", reason="lm_eval is not installed (the extra eval)")

CONTEXTS = ["sort: Mia, Leo, Ada", "<user> copy: Tom, Eva<turn>", "Question: what?\n\nAnswer:"]


def asked(*args):
    return SimpleNamespace(args=args, arguments=args, task_name="t", repeats=1)


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    import torch
    from lm_eval.models.huggingface import HFLM
    from transformers import LlamaConfig, LlamaForCausalLM

    from explorer.evaluation import DecodingLM

    folder = tmp_path_factory.mktemp("models") / "random"
    torch.manual_seed(0)
    sizes = {"vocab_size": 2048, "hidden_size": 64, "intermediate_size": 96, "max_position_embeddings": 256}
    heads = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    marks = {"bos_token_id": None, "eos_token_id": 2, "pad_token_id": 0}
    config = LlamaConfig(**sizes, **heads, **marks, initializer_range=0.3)
    LlamaForCausalLM(config).float().save_pretrained(folder)
    for file in (ASSETS / "models" / "tokenizer").iterdir():
        shutil.copy(file, folder / file.name)
    theirs = HFLM(pretrained=str(folder), device="cpu", dtype="float32")
    return DecodingLM("greedy", str(folder), dtype="float32", resume=False), theirs


def texts(lm, until):
    asks = {"until": until, "do_sample": False, "max_gen_toks": 24}
    return lm.generate_until([asked(context, asks) for context in CONTEXTS], disable_tqdm=True)


def test_greedy_answers_are_the_same_whole_and_cut(both):
    ours, theirs = both
    whole = texts(ours, [])
    assert whole == texts(theirs, []) and all(len(text) > 12 for text in whole)
    ends = [text[6:9] for text in whole]
    cut = texts(ours, ends)
    assert cut == texts(theirs, ends)
    assert all(text.startswith(short) and len(short) < len(text) for short, text in zip(cut, whole, strict=True))


LONG = "sort: Mia, Leo, Ada. " * 70


def test_a_context_that_is_too_long_loses_its_beginning_in_both(both):
    ours, theirs = both
    room = ours.main.max_positions
    assert len(ours.tok_encode(LONG)) > room
    asks = {"until": [], "do_sample": False, "max_gen_toks": 24}
    found, wanted = (lm.generate_until([asked(LONG, asks)], disable_tqdm=True) for lm in (ours, theirs))
    assert found == wanted and len(found[0]) > 12
    item = ours.item(LONG, asks)
    assert (len(item.prompt), item.left_out) == (room - 24, len(ours.tok_encode(LONG)) - room + 24)
    pairs = [asked(LONG, text) for text in (" Ada Leo", " x" * 80)]
    found, wanted = (lm.loglikelihood(pairs, disable_tqdm=True) for lm in (ours, theirs))
    assert [greedy for _, greedy in found] == [greedy for _, greedy in wanted]
    assert [score for score, _ in found] == pytest.approx([score for score, _ in wanted], rel=1e-4)
    assert ours.get_model_info()["decoding_explorer"]["cost"]["t"]["shortened"] == 3


def test_likelihoods_are_the_same_of_texts_longer_than_the_model_too(both):
    ours, theirs = both
    pairs = [asked(context, text) for context in [*CONTEXTS, ""] for text in (" Ada Leo", " x", " 12")]
    found, wanted = (lm.loglikelihood(pairs, disable_tqdm=True) for lm in (ours, theirs))
    assert [greedy for _, greedy in found] == [greedy for _, greedy in wanted]
    assert [score for score, _ in found] == pytest.approx([score for score, _ in wanted], rel=1e-4)
    ours, theirs = both
    long = [asked(LONG), asked("Tom")]
    found, wanted = (lm.loglikelihood_rolling(long, disable_tqdm=True) for lm in (ours, theirs))
    assert found == pytest.approx(wanted, rel=1e-4)
