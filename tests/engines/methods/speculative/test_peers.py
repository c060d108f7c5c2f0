"""transformers' own speculative decoding as an oracle: the same texts from the same models."""

import pytest

import engines
from tests.engines.methods.speculative.peers import assisted, looked_up

PROMPTS = ("add: 457 + 86", "sort: Zoe, Mia, Leo, Ada, Kim", "copy: Ada, Ada, Ada, Ada")


@pytest.fixture(scope="module")
def pair():
    return {
        "target": engines.load_model("tiny-ar-l", dtype="float32"),
        "draft": engines.load_model("tiny-ar-s", dtype="float32"),
    }


@pytest.mark.parametrize("prompt", PROMPTS)
def test_a_chain_writes_what_assisted_generation_writes(pair, prompt):
    ids = list(pair["target"].tokenizer.encode_prompt(prompt))
    ours = engines.run("speculative-sampling", pair, ids, params={"max_new_tokens": 40})
    assert ours.output_ids == assisted(*pair.values(), ids, 40) and ours.totals.forwards_by_role["target"] < len(
        ours.output_ids
    )


@pytest.mark.parametrize("prompt", PROMPTS)
def test_prompt_lookup_writes_what_transformers_writes(pair, prompt):
    ids = list(pair["target"].tokenizer.encode_prompt(prompt))
    assert engines.run("prompt-lookup", pair["target"], ids, params={"max_new_tokens": 40}).output_ids == looked_up(
        pair["target"], ids, 40
    )
