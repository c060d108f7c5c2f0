"""Chains and trees on the cache give what plain forwards give."""

from itertools import pairwise

import pytest
import torch

from engines.core.errors import UserError
from engines.core.kinds import CausalLM, MaskedLM
from engines.core.trace import ModelRecord
from engines.models.adapters.causal import HFCausalLM
from engines.models.tokens import IdTokenizer
from tests.engines.models.stock import stock

SIZE = {"vocab_size": 50, "num_hidden_layers": 3, "max_position_embeddings": 64, "head_dim": 8}
FAMILIES = {"llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3", "sliding": "Mistral"}
PROMPT = [3, 14, 15, 9, 26, 5]
TREE = ([7, 8, 9, 10, 11, 12], [-1, 0, 0, 1, 2, 3])  # tokens, parents


def build(family: str, attention: str = "sdpa") -> HFCausalLM:
    more = {"sliding_window": 4} if family == "sliding" else {}
    network = stock(FAMILIES[family], **SIZE, **more, attn_implementation=attention)
    return HFCausalLM(network, IdTokenizer(50), ModelRecord("target", family, "causal"), frozenset({2}))


def fresh(model: HFCausalLM, ids: list[int]) -> torch.Tensor:
    with torch.no_grad():
        return model.model(input_ids=torch.tensor([ids]), use_cache=False).logits[0]


def path(row: int) -> list[int]:
    tokens, parents = TREE
    return (path(parents[row]) if parents[row] >= 0 else []) + [tokens[row]]


@pytest.fixture(params=["llama", "qwen2", "qwen3"])
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_it_is_a_causal_and_no_masked_model() -> None:
    model = build("llama")
    assert isinstance(model, CausalLM) and not isinstance(model, MaskedLM)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_tree_rows_equal_path_by_path_forwards(family: str, attention: str) -> None:
    model = build(family, attention)
    cache = model.new_cache(20)
    model.extend(PROMPT, cache)
    logits = model.extend(TREE[0], cache, parents=TREE[1]).logits
    assert cache.length == len(PROMPT) + 6 and logits.dtype == torch.float32
    for row in range(6):
        torch.testing.assert_close(logits[row], fresh(model, PROMPT + path(row))[-1], atol=1e-4, rtol=0)


@pytest.mark.parametrize("cuts", [(1, 6), (2, 4, 6), (3, 6)])
def test_a_tree_may_grow_call_by_call(family: str, cuts: tuple[int, ...]) -> None:
    """Rows fed earlier are seen by their descendants only, and the accepted ones stay as if the text had been read at
    once."""
    model = build(family)
    cache = model.new_cache(20)
    model.extend(PROMPT, cache)
    rows = [model.extend(TREE[0][a:b], cache, parents=TREE[1][:b]).logits for a, b in pairwise((0, *cuts))]
    for row, logits in enumerate(torch.cat(rows)):
        torch.testing.assert_close(logits, fresh(model, PROMPT + path(row))[-1], atol=1e-4, rtol=0)
    cache.keep(len(PROMPT), [0, 2, 4])
    torch.testing.assert_close(
        model.extend([20], cache).logits, fresh(model, [*PROMPT, *path(4), 20])[-1:], atol=1e-4, rtol=0
    )


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_kept_rows_go_on_like_a_fresh_prefill(family: str, attention: str) -> None:
    model = build(family, attention)
    cache = model.new_cache(20)
    model.extend(PROMPT, cache)
    model.extend(TREE[0], cache, parents=TREE[1])
    cache.keep(len(PROMPT), [0, 2, 4])
    after = model.extend([20, 21], cache).logits
    torch.testing.assert_close(after, fresh(model, [*PROMPT, *path(4), 20, 21])[-2:], atol=1e-4, rtol=0)


@pytest.mark.parametrize("one", sorted(FAMILIES))
def test_chains_equal_one_full_forward(one: str) -> None:
    model, ids = build(one), [*PROMPT, *range(10, 25)]
    cache = model.new_cache(21)
    parts = [model.extend(ids[a:b], cache).logits for a, b in [(0, 6), (6, 7), (7, 12), (12, 21)]]
    torch.testing.assert_close(torch.cat(parts), fresh(model, ids), atol=1e-4, rtol=0)


def test_a_forest_of_roots_and_a_chain_written_as_a_tree() -> None:
    model = build("llama")
    cache = model.new_cache(20)
    model.extend(PROMPT, cache)
    logits = model.extend([7, 8], cache, parents=[-1, -1]).logits
    torch.testing.assert_close(logits[1], fresh(model, [*PROMPT, 8])[-1], atol=1e-4, rtol=0)
    cache.crop(len(PROMPT))
    chain = model.extend([7, 8], cache, parents=[-1, 0]).logits
    torch.testing.assert_close(chain, fresh(model, [*PROMPT, 7, 8])[-2:], atol=1e-4, rtol=0)


def test_last_only_hidden_and_writable_logits() -> None:
    model = build("llama")
    full = model.extend(PROMPT, model.new_cache(8), hidden=[0, 1, 3])
    last = model.extend(torch.tensor(PROMPT), model.new_cache(8), last_only=True)
    torch.testing.assert_close(last.logits, full.logits[-1:])
    assert set(full.hidden) == {0, 1, 3} and full.hidden[1].shape == (6, 32)
    torch.testing.assert_close(model.model.lm_head(full.hidden[3]), full.logits)
    full.logits[0, 3] = -torch.inf  # allowed outside inference mode


def test_limits_are_said_before_anything_is_written() -> None:
    model = build("llama")
    cache = model.new_cache(7)
    model.extend(PROMPT, cache)
    with pytest.raises(UserError, match="room for 7 positions; 6 are used and 2 more"):
        model.extend([1, 2], cache)
    assert all(layer.length == 6 for layer in cache.layers)
    with pytest.raises(UserError, match="64 positions and position 64 was fed"):
        model.extend([1] * 65, model.new_cache(100))
    for other, parents in ((model.new_cache(7), [-1, 0]), (cache, []), (cache, [-1] * 8)):
        with pytest.raises(ValueError, match=f"1 tokens and {len(parents)} parents"):
            model.extend([1], other, parents=parents)


def test_sliding_models_refuse_trees() -> None:
    model = build("sliding")
    cache = model.new_cache(20)
    model.extend(PROMPT, cache)
    with pytest.raises(UserError, match="sliding_attention layers, which cannot take a draft tree"):
        model.extend(TREE[0], cache, parents=TREE[1])


def test_warm_up_once() -> None:
    model = build("llama")
    assert model.warm_up() > 0 and model.warm_up() == 0.0
