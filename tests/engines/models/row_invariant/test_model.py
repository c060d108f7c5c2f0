"""Row-invariant forwards: a row's bits are the same beside any rows, in any tree."""

import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import nn

import engines
from engines.core.errors import UserError
from engines.core.kinds import Taps
from engines.models.adapters.layered import HFLayeredLM
from engines.models.adapters.sparse import HFMoELM
from engines.models.configs.mapping import LAYERED, ROUTED
from engines.models.forwards import prepared
from engines.models.forwards.row_invariant import model as making
from engines.models.forwards.row_invariant.attention import BLOCK
from engines.models.forwards.row_invariant.layers import fill
from engines.models.forwards.row_invariant.model import HFRowInvariantLM, of
from engines.models.layers.packed import PackedLinear, WidenedLinear, pack
from engines.models.measures import bits
from tests.engines.models.test_layered import build
from tests.engines.refusals import refuses

SLIDING = ("ministral", "mistral")  # by default
PLAIN = [f for f in LAYERED if f not in (*ROUTED, *SLIDING, "ultra_mem", "scene_text")]  # a picture goes in whole
TEXT = BLOCK - 4  # tokens before the rows, which so cross a block
DTYPES = (torch.float32, torch.bfloat16)


def plain_for(names: Sequence[str], *first: str) -> list[Any]:
    """These families or models, of which the first are tried by plain `pytest`."""
    return [name if name in first else pytest.param(name, marks=pytest.mark.exhaustive) for name in names]


def wrapped(family: str, dtype: torch.dtype = torch.float32, room: int = 4 * BLOCK, **changes: Any) -> HFRowInvariantLM:
    plain = build(family, max_position_embeddings=room, **changes)
    network = pack(plain.model.to(dtype))
    return HFRowInvariantLM(prepared(HFLayeredLM(network, plain.tokenizer, plain.record, plain.eos_ids)))


def some(model: Any, n: int, seed: int = 0) -> list[int]:
    g = torch.Generator().manual_seed(seed)
    return [int(i) for i in torch.randint(3, model.vocab_size, (n,), generator=g)]


def filled(model: Any, pieces: list[list[int]]) -> Any:
    cache = model.new_cache(min(TEXT + 80, model.max_positions))
    for piece in pieces:
        model.extend(piece, cache)
    return cache


def alone(model: Any, cache: Any, tokens: list[int]) -> torch.Tensor:
    return torch.stack([model.extend([token], cache).logits[0] for token in tokens])


def branch(parents: list[int], row: int) -> list[int]:
    return [*branch(parents, parents[row]), row] if row >= 0 else []


def grown(n: int, seed: int) -> list[int]:
    rng = random.Random(seed)
    return [-1, *(rng.choice([-1, *range(max(0, i - 5), i)]) for i in range(1, n))]


def keeps_its_bits(model: Any, sizes: list[int], trees: list[int], length: int = TEXT) -> None:
    """A row alone against it beside others, in trees, behind a cache filled otherwise, behind a kept branch."""
    text, rows = some(model, length), some(model, max(sizes), 1)
    cache = filled(model, [text])
    own = alone(model, cache, rows)
    for n in sizes:
        cache.crop(length)
        assert torch.equal(model.extend(rows[:n], cache).logits, own[:n]), n
    for pieces in ([[token] for token in text], [text[:7], text[7:20], text[20:]]):
        assert torch.equal(model.extend(rows[:5], filled(model, pieces)).logits, own[:5])
    assert torch.equal(model.extend([*text, *rows], filled(model, [])).logits[length:], own)
    for n in trees:
        parents, tokens = grown(n, n), some(model, n, n)
        cache.crop(length)
        z = model.extend(tokens, cache, parents=parents).logits
        for row in random.Random(n).sample(range(n), min(n, 3)):
            line = branch(parents, row)
            other = filled(model, [text])
            assert torch.equal(alone(model, other, [tokens[i] for i in line])[-1], z[row]), (n, row)
        cache.keep(length, line)
        assert torch.equal(model.extend([5], cache).logits, model.extend([5], other).logits)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("family", plain_for(PLAIN, "llama", "plain_decoder"))
def test_a_row_keeps_its_bits_beside_others_in_trees_and_however_the_cache_was_filled(family, dtype):
    keeps_its_bits(wrapped(family, dtype), [1, 2, 3, 8, 17, 64], [2, 7, 40])


@pytest.mark.parametrize("heads", [(6, 2), (4, 4), (8, 1), (9, 3)])
def test_it_does_so_for_any_groups_of_heads(heads):
    changes = {"num_attention_heads": heads[0], "num_key_value_heads": heads[1], "hidden_size": 72, "head_dim": 8}
    keeps_its_bits(wrapped("llama", **changes), [1, 2, 16, 31], [9, 40])


LONG = (130, 140, 150, 160, 182, 193, 300)  # rows; of the first six oneDNN with AMX was seen to move some


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_text_read_at_once_has_the_bits_of_its_rows(dtype):
    made = wrapped("llama", dtype, 2 * LONG[-1])
    rows = some(made, LONG[-1])
    own = alone(made, made.new_cache(LONG[-1]), rows)
    for n in LONG:
        assert torch.equal(made.extend(rows[:n], made.new_cache(n)).logits, own[:n]), n
    parents, tokens = grown(LONG[1], 1), some(made, LONG[1], 2)
    z = made.extend(tokens, made.new_cache(LONG[1]), parents=parents).logits
    for row in (31, 32, LONG[1] - 1):
        line = [tokens[i] for i in branch(parents, row)]
        assert torch.equal(alone(made, made.new_cache(len(line)), line)[-1], z[row]), row
    assert torch.equal(made.by_itself(rows), own)


def test_no_product_has_more_rows_than_were_tried(monkeypatch):
    """A product may go through other code from any number of rows on."""
    seen, bmm = list[int](), torch.bmm
    for kind in (nn.Linear, PackedLinear, WidenedLinear):

        def product(layer: Any, x: torch.Tensor, plain: Any = kind.forward) -> Any:
            seen.append(x.numel() // x.shape[-1])
            return plain(layer, x)

        monkeypatch.setattr(kind, "forward", product)
    for n in range(1, LONG[-1]):
        layer = fill(nn.Linear(8, 8))
        assert layer(torch.ones(1, n, 8)).shape == (1, n, 8)
    made = wrapped("llama", torch.bfloat16, 2 * LONG[-1])
    g = made.config.num_attention_heads // made.config.num_key_value_heads
    monkeypatch.setattr(torch, "bmm", lambda q, k: seen.append(q.shape[1] // g) or bmm(q, k))
    made.extend(some(made, 200), made.new_cache(200))
    made.extend(some(made, 99), made.new_cache(99), parents=grown(99, 1))
    made.by_itself(some(made, 99))
    made.unembed(torch.ones(99, made.config.hidden_size), [3, 4])
    assert max(seen) == bits.SIZES[-1]


@pytest.mark.parametrize("family", PLAIN)
def test_its_numbers_are_those_of_the_plain_network(family):
    made = wrapped(family)
    text, tokens, parents = some(made, TEXT), some(made, 24, 3), grown(24, 4)
    ours, theirs = filled(made, [text]), filled(made.plain, [text])
    for rows, tree in ((some(made, 9, 5), None), ([3], None), (tokens[:9], parents[:9]), (tokens[9:], parents)):
        a = made.extend(rows, ours, parents=tree, hidden=[0, 2, 4])
        b = made.plain.extend(rows, theirs, parents=tree, hidden=[0, 2, 4])
        torch.testing.assert_close(a.logits, b.logits, atol=2e-4, rtol=0)
        assert all(torch.allclose(a.hidden[i], b.hidden[i], atol=2e-4) for i in (0, 2, 4))


def test_layers_run_apart_and_taps_see_what_the_rows_see():
    made = wrapped("llama")
    text, seen = some(made, TEXT), list[Any]()
    whole = made.extend(text, made.new_cache(100)).logits
    cache = made.new_cache(100)
    taps = Taps(attention=lambda given: seen.append(given))
    x = made.layers(made.embed(text), cache, 0, 2)
    x = made.layers(x, cache, 2, 4, taps=taps)
    assert torch.equal(made.unembed(x), whole)
    assert [given.sees.sum(1).tolist() for given in seen] == [list(range(1, TEXT + 1))] * 2
    some_tokens = torch.tensor([4, 9, 11])
    few = made.unembed(x, some_tokens)
    torch.testing.assert_close(few, whole[:, some_tokens])
    assert torch.equal(made.unembed(x[:1], some_tokens), few[:1])


def test_the_weights_are_shared_and_the_plain_model_stays_as_it_was():
    plain = build("llama")
    before, ids = plain.extend(some(plain, 9), plain.new_cache(16)).logits, some(plain, 9)
    made = of(plain)
    theirs = {p.data_ptr() for p in plain.model.parameters()}
    assert {p.data_ptr() for p in made.model.parameters()} == theirs
    assert torch.equal(plain.extend(ids, plain.new_cache(16)).logits, before)
    assert (made.record.moved, plain.record.moved) == (0.0, None) and made.record.slower > 0
    assert torch.equal(made.by_itself(ids), made.extend(ids, made.new_cache(16)).logits), "nor does our cache change it"
    torch.testing.assert_close(made.by_itself(ids), plain.by_itself(ids))
    made = engines.load_model("tiny-ar-s", row_invariant=True)
    assert made.record.loading == {"device": "cpu", "dtype": "float32", "row_invariant": True}
    assert engines.load_model("tiny-ar-s", row_invariant=True) is made
    trace = engines.run("greedy", made, "add: 457 + 86", params={"max_new_tokens": 8})
    kept = engines.read_trace(trace.to_json()).header.models[0]
    assert kept.options == {"row_invariant": True} and kept.slower == made.record.slower


@pytest.mark.parametrize(
    ("name", "what"),
    [("tiny-dlm", "masked, llama"), ("tiny-encdec", "seq2seq, mu"), ("tiny-ultramem", "causal, ultra_mem")],
)
def test_a_model_that_cannot_have_them_is_named(name, what, monkeypatch):
    with pytest.raises(UserError, match=rf"row_invariant is not for '{name}' \({what}\); take a left-to-right model"):
        engines.load_model(name, row_invariant=True)
    refuses(UserError, "row_invariant='yes' cannot be", engines.load_model, "tiny-ar-s", row_invariant="yes")
    dense = build("mixtral")
    refuses(UserError, "row_invariant is not for 'mixtral'", of, HFMoELM(dense.model, dense.tokenizer, dense.record))
    with pytest.raises(UserError, match="whose layers all have full attention"):
        of(build("qwen2", use_sliding_window=True, sliding_window=4, max_window_layers=2))
    monkeypatch.setattr(making, "same_bits", lambda *given: (16, 0.25))
    refuses(UserError, r"move by 0.25 with 16 other rows even with row_invariant; leave it out", of, build("llama"))


def test_the_trial_finds_rows_that_move():
    """Behind a text that the rows leave in another block, too."""
    made = of(build("llama", max_position_embeddings=4 * BLOCK))
    assert bits.same_bits(made)[1] == bits.same_bits(made, text=BLOCK - 2)[1] == 0
    broken = of(build("llama"))
    plain = broken.layers

    def moving(x: torch.Tensor, *given: Any, **named: Any) -> torch.Tensor:
        return plain(x, *given, **named) + 1e-3 * len(x)

    broken.layers = moving  # type: ignore[method-assign]
    assert bits.same_bits(broken)[1] > 0


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    "name",
    plain_for(["tiny-ar-s", "tiny-ar-m", "tiny-ar-l", "tiny-deconly", "tiny-digits", "tiny-reasoner"], "tiny-ar-s"),
)
def test_the_embedded_models_keep_their_bits(name, dtype):
    made = engines.load_model(name, row_invariant=True, dtype=dtype)
    if made.max_positions > TEXT + 80:
        keeps_its_bits(made, [1, 2, 16, 64], [30])
    else:
        keeps_its_bits(made, [1, 2, 16], [16], made.max_positions - 20)


@pytest.mark.smollm2
@pytest.mark.parametrize("dtype", ["bfloat16", pytest.param("float32", marks=pytest.mark.slow)])
def test_smollm2_keeps_its_bits(dtype):
    made = engines.load_model("smollm2", row_invariant=True, dtype=dtype)
    keeps_its_bits(made, [1, 2, 3, 8, 16, 17, 64], [8, 64])


@pytest.mark.smollm2
def test_smollm2_reads_a_prompt_with_the_bits_of_its_rows():
    made = engines.load_model("smollm2", row_invariant=True, dtype="bfloat16")
    rows = some(made, 193)
    own = alone(made, made.new_cache(193), rows)
    for n in (130, 150, 160, 193):
        assert torch.equal(made.extend(rows[:n], made.new_cache(n)).logits, own[:n]), n
