"""transformers' own speculative decoding as an oracle: the same texts from the same models."""

import pytest

import engines
from tests.engines.methods.speculative.peers import assisted, looked_up


@pytest.mark.parametrize("prompt", ["add: 457 + 86", "sort: Zoe, Mia, Leo, Ada, Kim", "copy: Ada, Ada, Ada, Ada"])
def test_a_chain_and_prompt_lookup_write_what_transformers_writes(prompt):
    target, draft = (engines.load_model(name, dtype="float32") for name in ("tiny-ar-l", "tiny-ar-s"))
    ids, params = list(target.tokenizer.encode_prompt(prompt)), {"max_new_tokens": 40}
    ours = engines.run("speculative-sampling", {"target": target, "draft": draft}, ids, params=params)
    assert ours.output_ids == assisted(target, draft, ids, 40)
    assert ours.totals.forwards_by_role["target"] < len(ours.output_ids)
    assert engines.run("prompt-lookup", target, ids, params=params).output_ids == looked_up(target, ids, 40)
