"""Adaptive blocks: fixed where no delimiter may close one, late tokens, and which ids are delimiters."""

import pytest

import engines
from engines.core.params import resolve
from engines.methods.diffusion.adablock import delimiter_test
from tests.engines.conftest import GOLDEN
from tests.engines.fakes import TableMasked, commits

PROMPTS = ([1, 9, 10, 7, 10, 17, 5], [1, 16, 16, 12, 6, 5])


@pytest.fixture(scope="module")
def stub():
    return engines.load_model(str(GOLDEN / "diffusion" / "stubs" / "b"), kind="masked", mask_id=63)


def decode(model, prompt, slug="adablock", **params):
    ids = {"delimiter_ids": "5"} if slug == "adablock" else {}
    return engines.run(slug, model, prompt, params={"max_new_tokens": 32, "block_length": 8, **ids, **params})


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("params", [{"delimiter_threshold": 1.01}, {"delimiter_ids": "60"}])
def test_without_delimiters_it_is_the_threshold_decoder(stub, prompt, params):
    assert commits(decode(stub, prompt, **params)) == commits(decode(stub, prompt, "threshold"))


def test_late_tokens_stand_behind_the_block(stub):
    for step in decode(stub, PROMPTS[0], threshold=0.5).steps:
        block = next(s for s in step.spans if s.kind == "block")
        late = [s.start for s in step.spans if s.kind == "late"]
        assert step.facts["late"] == len(late) and all(q >= block.end for q in late)
        assert step.facts["premature"] == step.commits.causes.count("top1")


@pytest.mark.parametrize("ids", ["five", "5;6", "5,,6", "9" * 1990 + "x"])
def test_delimiters_that_are_no_ids_are_refused_before_the_first_forward(ids):
    with pytest.raises(engines.UserError, match="delimiter_ids"):
        engines.stream("adablock", TableMasked(), [1], params={"delimiter_ids": ids})


def test_delimiters_by_text_take_any_token_that_holds_one():
    p = resolve(engines.get_method("adablock").info.params, {"delimiters": "3"})
    test = delimiter_test(TableMasked(vocab_size=40).tokenizer, p)
    assert [t for t in range(40) if test(t)] == [3, 13, 23, *range(30, 39)]  # 39 is the mask
