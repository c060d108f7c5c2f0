"""Layers in few calls give the bits of transformers' own modules, which run where a hook stands."""

import sys
from typing import Any

import pytest
import torch
import transformers
from torch import nn
from torch.nn.functional import rms_norm, scaled_dot_product_attention
from transformers.models.llama.modeling_llama import LlamaRMSNorm

import engines
from engines.core.errors import UserError
from engines.core.kinds import Taps
from engines.core.trace import ModelRecord
from engines.models.adapters.causal import HFCausalLM
from engines.models.adapters.layered import HFLayeredLM
from engines.models.forwards import merged, prepared
from engines.models.forwards.merged import FAMILIES, NORMED, MergedBody, MergedLayer
from engines.models.forwards.row_invariant import model as making
from engines.models.loading.zoo import load_model
from engines.models.tokenizers.tokens import IdTokenizer
from tests.engines.models import forwards
from tests.engines.models.test_layered import CALLS, PROMPT, build, network
from tests.engines.refusals import refuses

TYPES = {"Qwen2Moe": "qwen2_moe", "Qwen3Moe": "qwen3_moe"}
NAMED = [TYPES.get(one, one.lower()) for one in FAMILIES + NORMED]


def in_type(family: str, dtype: torch.dtype, **changes: Any) -> HFLayeredLM:
    one = network(family, **changes).to(dtype)
    return prepared(HFLayeredLM(one, IdTokenizer(50), ModelRecord("target", family, "causal"), frozenset({2})))


def counted(monkeypatch: pytest.MonkeyPatch) -> list[MergedLayer]:
    """Every call of a merged layer from now on."""
    calls: list[MergedLayer] = []
    usual = MergedLayer.__call__

    def call(self: MergedLayer, *given: Any, **named: Any) -> torch.Tensor:
        calls.append(self)
        return usual(self, *given, **named)

    monkeypatch.setattr(MergedLayer, "__call__", call)
    return calls


@pytest.mark.parametrize("changes", [{}, {"num_key_value_heads": 4}], ids=["grouped", "a key head each"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("family", NAMED)
def test_every_named_family_gives_the_bits_of_its_own_modules(family, dtype, changes, monkeypatch):
    model, modules = (in_type(family, dtype, **changes) for _ in range(2))  # transformers leaves hooks for its states
    calls, ours, stock = counted(monkeypatch), model.new_cache(40), model.new_cache(40)
    for tokens, parents in CALLS:
        if parents and model._layer_types != {"full_attention"} and parents != [-1, 0]:
            continue
        calls.clear()
        got = model.extend(tokens, ours, parents=parents, hidden=[0, 2, 4])
        assert len(calls) == 4
        want = HFCausalLM.extend(modules, tokens, stock, parents=parents, hidden=[0, 2, 4])
        assert len(calls) == 4, "the network's own forward takes its own modules"
        if dtype == torch.float32 or len(tokens) >= merged.LEAST or not ours.length - len(tokens):
            assert torch.equal(got.logits, want.logits)
            assert all(torch.equal(got.hidden[i], want.hidden[i]) for i in (0, 2, 4))
        else:
            torch.testing.assert_close(got.logits, want.logits, atol=0.2, rtol=0.05)


@pytest.mark.parametrize("name", ["tiny-ar-m", "tiny-dlm", "tiny-blockdlm", "tiny-two-way", "tiny-moe"])
def test_the_embedded_models_run_merged_with_the_same_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model: Any = load_model(name)
    calls, ids = counted(monkeypatch), torch.arange(20) % model.vocab_size

    def logits() -> list[torch.Tensor]:
        if model.record.kind == "masked":
            cache = model.new_cache(20)
            return [model(ids), model(torch.stack([ids, ids.flip(0)])), *(model.feed(ids, cache, *at) for at in SPANS)]
        if model.record.kind == "block":
            whole, cache = len(ids) // model.block_size * model.block_size, model.new_cache(3 * model.block_size)
            block = ids[: model.block_size]
            return [model(ids[:whole]), model.store(block, cache), model.denoise(block, cache)]
        cache = model.new_cache(30)
        rows = [model.extend(ids, cache).logits, model.extend([3], cache).logits]
        return rows + ([model.denoise([1, 2, 3, 4], cache)] if hasattr(model, "denoise") else [])

    got = logits()
    assert calls and all(one._gated for one in calls if "MLP" in type(one._feed).__name__)
    calls.clear()
    monkeypatch.setattr(model, "body", None)
    want = logits()
    assert not calls and len(got) == len(want) and all(map(torch.equal, got, want))


SPANS = ((0, 20), (5, 12), (19, 20))


@pytest.mark.parametrize("part", ["self_attn", "mlp", "input_layernorm"])
def test_a_hook_on_a_part_is_called_and_an_exchanged_part_runs(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, calls, heard = build(), counted(monkeypatch), list[str]()
    held = getattr(model._layers[2], part).register_forward_hook(lambda *_: heard.append(part))
    hooked = model.extend(PROMPT, model.new_cache(10)).logits
    held.remove()
    assert heard == [part] and len(calls) == 3
    calls.clear()
    assert torch.equal(model.extend(PROMPT, model.new_cache(10)).logits, hooked) and heard == [part] and len(calls) == 4
    model._layers[1].mlp = nn.Identity()
    calls.clear()
    after = model.extend(PROMPT, model.new_cache(10)).logits
    assert len(calls) == 3 and not torch.equal(hooked, after)
    assert torch.equal(after, HFCausalLM.extend(model, PROMPT, model.new_cache(10)).logits)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_only_layers_that_are_tapped_inside_run_their_modules(family, dtype, monkeypatch):
    model, calls, seen = in_type(family, dtype), counted(monkeypatch), dict[int, torch.Tensor]()
    for ids in (PROMPT, [7]):
        cache, plain = model.new_cache(20), None
        model.extend(PROMPT, cache)
        for taps, merged_ones in (
            (None, 4),
            (Taps(stream=seen.__setitem__, layers={0, 3, 4}), 4),
            (Taps(reads=lambda *_: None, layers={1, 2}), 2),
            (Taps(attention=lambda _: None, layers={1, 2}), 2),
        ):
            calls.clear()
            h = model.layers(model.embed(ids), cache, 0, 4, taps=taps)
            cache.crop(len(PROMPT))
            plain = h if plain is None else plain
            assert len(calls) == merged_ones and torch.equal(h, plain)
        assert set(seen) == {0, 3, 4} and torch.equal(seen[4], plain)


@pytest.mark.parametrize(
    ("family", "changes"),
    [("olmo2", {}), ("phi3", {}), ("plain_decoder", {}), ("llama", {"attention": "eager"})],
    ids=["other norms", "fused projections", "no gains", "eager attention"],
)
def test_other_layers_are_left_alone(family: str, changes: dict[str, Any]) -> None:
    assert MergedBody.of(network(family, **changes)) is None
    assert MergedBody.of(network("llama").half()) is MergedBody.of(network("llama").to("meta")) is None


def renamed(monkeypatch: pytest.MonkeyPatch, model: Any) -> None:
    for module in model.modules():
        if isinstance(module, LlamaRMSNorm):
            module.eps = module.__dict__.pop("variance_epsilon")
    monkeypatch.setattr(LlamaRMSNorm, "forward", lambda self, x: rms_norm(x, self.weight.shape, self.weight, self.eps))


def other_norms(monkeypatch: pytest.MonkeyPatch, model: Any) -> None:
    usual = LlamaRMSNorm.forward
    monkeypatch.setattr(LlamaRMSNorm, "forward", lambda self, x: usual(self, x) * 1.5)


def no_list_of_functions(monkeypatch: pytest.MonkeyPatch, model: Any) -> None:
    monkeypatch.delattr(transformers.modeling_utils, "ALL_ATTENTION_FUNCTIONS")
    monkeypatch.delitem(sys.modules, MergedBody.__module__)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (renamed, "AttributeError: 'LlamaRMSNorm' object has no attribute 'variance_epsilon'"),
        (other_norms, "other bits than in few calls"),
        (no_list_of_functions, "ImportError: cannot import name 'ALL_ATTENTION_FUNCTIONS'"),
    ],
)
def test_where_transformers_parts_change_its_own_modules_run_and_the_log_says_so(change, why, monkeypatch, caplog):
    one = network("llama")
    change(monkeypatch, one)
    model = prepared(HFLayeredLM(one, IdTokenizer(50), ModelRecord("target", "changed", "causal")))
    assert model.body is None
    assert f"the layers of 'changed' run as transformers' own modules, slower: {why}" in caplog.text
    got = model.extend(PROMPT, model.new_cache(10)).logits
    assert torch.equal(got, HFCausalLM.extend(model, PROMPT, model.new_cache(10)).logits)


def test_row_invariant_forwards_are_refused_where_transformers_parts_change(monkeypatch):
    model = build()
    monkeypatch.setattr(making, "HFRowInvariantLM", lambda plain: plain.model.base_model.no_such_part)
    refuses(UserError, "row_invariant does not know the parts of 'llama' in this version", prepared, model, True)


def heads(n: int, columns: int, g: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(n * columns + g)
    q, k, v = (torch.randn(1, h, r, 64).to(dtype) for h, r in ((2 * g, n), (2, columns), (2, columns)))
    return q, k, v


class Module:
    is_causal = True


@pytest.mark.parametrize("g", [1, 3, 4])
@pytest.mark.parametrize("columns", [70, 500, 1030])
def test_in_bfloat16_a_row_alone_has_the_bits_that_it_has_beside_others(g: int, columns: int) -> None:
    q, k, v = heads(8, columns, g, torch.bfloat16)
    sees = (torch.arange(columns) <= columns - 8 + torch.arange(8)[:, None])[None, None]
    together = merged.attend(Module, q, k, v, sees)[0]
    alone = merged.attend(Module, q[:, :, 7:], k, v, None)[0]
    assert torch.equal(alone, together[:, 7:])
    for first in (5, 6):  # two and three rows
        some = merged.attend(Module, q[:, :, first:], k, v, sees[:, :, first:])[0]
        assert torch.equal(some, together[:, first:])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 9])
def test_it_is_as_exact_as_the_call_that_it_replaces(n: int, dtype: torch.dtype) -> None:
    q, k, v = heads(n, 300, 3, dtype)
    sees = (torch.arange(300) <= 300 - n + torch.arange(n)[:, None])[None, None]
    exact, stock = (
        scaled_dot_product_attention(*(one.to(kind) for one in (q, k, v)), sees, enable_gqa=True).transpose(1, 2)
        for kind in (torch.float64, dtype)
    )
    for mask in (sees, None) if n == 1 else (sees,):
        got = merged.attend(Module, q, k, v, mask)[0]
        assert (got - exact).abs().max() <= 1.5 * (stock - exact).abs().max()
        if dtype == torch.float32 and n > 1:
            assert torch.equal(got, stock)


def test_a_whole_text_is_causal_unless_all_are_to_see_all() -> None:
    q, k, v = heads(6, 6, 2, torch.float32)
    causal = scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).transpose(1, 2)
    every = scaled_dot_product_attention(q, k, v, enable_gqa=True).transpose(1, 2)
    assert torch.equal(merged.attend(Module, q, k, v, None)[0], causal)
    assert torch.equal(merged.attend(Module, q, k, v, None, is_causal=False)[0], every)
    ids = torch.tensor([PROMPT])
    with torch.no_grad():
        assert torch.equal(network("llama")(ids).logits, network("llama", attention=merged.GROUPED)(ids).logits)


def test_both_sides_of_a_ratio_compute_the_same() -> None:
    model = engines.load_model("tiny-ar-s")
    for past, rows in ((40, 1), (40, 5)):
        found = forwards.causal(model, forwards.stock_of("tiny-ar-s", model), past, rows, 2)
        assert found.same and found.stock > 0 and found.ours > 0 and len(found.over) == 3
    for name in ("tiny-dlm", "tiny-blockdlm"):
        masked = engines.load_model(name)
        assert forwards.board(masked, forwards.stock_of(name, masked), 32, 2).same, name


@pytest.mark.smollm2
@pytest.mark.slow
def test_greedys_text_is_that_of_generate() -> None:
    model = engines.load_model("smollm2", dtype="float32")
    same, asked, shared = forwards.texts(model, forwards.stock_of("smollm2", model), 12)
    assert same == asked > 5 and shared > 5 * 6
