"""A forward made in parts is the whole forward: to the bit where the sums are the same."""

from collections import defaultdict
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

import engines
from engines.core.errors import UserError
from engines.core.kinds import CausalLM, LayeredLM, Taps, counted, kinds_of
from engines.core.kinds.layered import CountedLayered
from engines.core.meter import Meter
from engines.core.trace import ModelRecord
from engines.models.adapters.causal import HFCausalLM
from engines.models.adapters.layered import HFLayeredLM
from engines.models.configs.mapping import LAYERED, ROUTED, plan
from engines.models.forwards import prepared
from engines.models.layers.packed import PackedLinear, can_pack, pack
from engines.models.loading.loader import load_folder
from engines.models.networks import OURS, network_class
from engines.models.tokenizers.tokens import IdTokenizer
from tests.engines.models.stock import close
from tests.engines.refusals import refuses

needs_kernels = pytest.mark.skipif(not can_pack(), reason="no kernels for packed weights here")

SIZE: dict[str, Any] = {
    "vocab_size": 50, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "head_dim": 8,
    "pad_token_id": None, "bos_token_id": None, "eos_token_id": None,
}  # fmt: skip
EXPERTS = {"num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2}
EXPERTS |= {"moe_intermediate_size": 24, "shared_expert_intermediate_size": 24}
SPARSE = ("mixtral", "olmoe", "qwen2_moe", "qwen3_moe")
PROMPT = [13, 14, 15, 9, 26, 5]
TREE = ([7, 8, 9, 10, 11, 12], [-1, 0, 0, 1, 2, 3])  # tokens, parents
CALLS: list[tuple[list[int], list[int] | None]] = [
    (PROMPT, None),
    ([7], None),
    ([8, 9, 10], None),
    ([7, 8], [-1, 0]),  # a chain written as a tree
    (TREE[0][:3], TREE[1][:3]),
    (TREE[0][3:], TREE[1]),  # behind the three that are in the cache
]


def network(family: str, attention: str = "sdpa", **changes: Any) -> Any:
    torch.manual_seed(0)
    given = SIZE | (EXPERTS if family in SPARSE else {}) | {"initializer_range": 0.3} | changes
    if family in OURS:
        ours = network_class(family)
        return ours(ours.config_class(**given, attn_implementation=attention))
    config = CONFIG_MAPPING[family](**given, attn_implementation=attention)
    return getattr(transformers, MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[family])(config)


def build(family: str = "llama", attention: str = "sdpa", **changes: Any) -> HFLayeredLM:
    one = network(family, attention, **changes)
    return prepared(HFLayeredLM(one, IdTokenizer(50), ModelRecord("target", family, "causal"), frozenset({2})))


def primed(*given: Any, room: int = 20, **changes: Any) -> tuple[HFLayeredLM, Any]:
    """A model and a cache that holds the prompt."""
    model = build(*given, **changes)
    cache = model.new_cache(room)
    model.extend(PROMPT, cache)
    return model, cache


def fresh(model: HFLayeredLM, ids: list[int]) -> torch.Tensor:
    with torch.no_grad():
        logits: torch.Tensor = model.model(input_ids=torch.tensor([ids]), use_cache=False).logits[0]
    return logits


def path(row: int) -> list[int]:
    tokens, parents = TREE
    return (path(parents[row]) if parents[row] >= 0 else []) + [tokens[row]]


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("cuts", [(6,), (1, 6), (2, 4, 6), (3, 6)])
def test_rows_of_a_tree_equal_path_by_path_forwards_and_kept_rows_go_on(family, attention, cuts):
    """Of the causal adapter. A tree may grow call by call; what is accepted stays as if it had been read at once."""
    model = build(family, attention)
    extend, cache = partial(HFCausalLM.extend, model), model.new_cache(20)
    extend(PROMPT, cache)
    rows = [extend(TREE[0][a:b], cache, parents=TREE[1][:b]).logits for a, b in pairwise((0, *cuts))]
    for row, logits in enumerate(torch.cat(rows)):
        close(logits, fresh(model, PROMPT + path(row))[-1])
    cache.keep(len(PROMPT), [0, 2, 4])
    close(extend([20, 21], cache).logits, fresh(model, [*PROMPT, *path(4), 20, 21])[-2:])
    cache.crop(len(PROMPT))
    close(extend([7, 8], cache, parents=[-1, -1]).logits[1], fresh(model, [*PROMPT, 8])[-1])


def test_last_only_hidden_writable_logits_and_limits_of_the_causal_adapter() -> None:
    model = build()
    extend = partial(HFCausalLM.extend, model)
    full = extend(PROMPT, model.new_cache(8), hidden=[0, 1, 4])
    close(extend(torch.tensor(PROMPT), model.new_cache(8), last_only=True).logits, full.logits[-1:])
    assert set(full.hidden) == {0, 1, 4} and full.hidden[1].shape == (6, 32)
    close(model.model.lm_head(full.hidden[4]), full.logits)
    full.logits[0, 3] = -torch.inf  # allowed outside inference mode
    assert model.warm_up() > 0 and model.warm_up() == 0.0
    cache = model.new_cache(7)
    extend(PROMPT, cache)
    refuses(UserError, "room for 7 positions; 6 are used and 2 more", extend, [1, 2], cache)
    assert cache.lengths == (6,) * 4
    refuses(UserError, "64 positions and position 64 was fed", extend, [1] * 65, model.new_cache(100))
    for other, parents in ((model.new_cache(7), [-1, 0]), (cache, []), (cache, [-1] * 8)):
        refuses(ValueError, f"1 tokens and {len(parents)} parents", extend, [1], other, parents=parents)


@pytest.mark.parametrize("attention", ["sdpa", pytest.param("eager", marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("family", LAYERED)
def test_the_three_calls_composed_are_the_stock_forward_to_the_bit(family: str, attention: str) -> None:
    model = build(family, attention)
    ours, stock = model.new_cache(40), model.new_cache(40)
    for tokens, parents in CALLS:
        if parents and model._layer_types != {"full_attention"} and parents != [-1, 0]:
            continue
        for last_only in (False, True):
            held = ours.length
            got = model.extend(tokens, ours, parents=parents, hidden=[0, 2, 4], last_only=last_only)
            want = HFCausalLM.extend(model, tokens, stock, parents=parents, hidden=[0, 2, 4], last_only=last_only)
            assert torch.equal(got.logits, want.logits) and got.logits.dtype == torch.float32
            assert all(torch.equal(got.hidden[i], want.hidden[i]) for i in (0, 2, 4))
            assert ours.lengths == stock.lengths == (held + len(tokens),) * 4
            if not last_only:
                ours.crop(held)
                stock.crop(held)


def test_layers_of_two_types_get_their_own_masks() -> None:
    model = build("qwen2", use_sliding_window=True, sliding_window=4, max_window_layers=2)
    assert model._types == ["full_attention"] * 2 + ["sliding_attention"] * 2
    ours, stock = model.new_cache(40), model.new_cache(40)
    for tokens in (PROMPT, [7], [8, 9, 10], [4] * 9):
        assert torch.equal(model.extend(tokens, ours).logits, HFCausalLM.extend(model, tokens, stock).logits)
    refuses(UserError, "full_attention, sliding_attention layers, which", model.extend, TREE[0], ours, parents=TREE[1])
    assert ours.lengths == stock.lengths


def in_parts(model: HFLayeredLM, tokens: list[int], cache: Any, cuts: tuple[int, ...], **where: Any) -> torch.Tensor:
    x = model.embed(tokens)
    for first, last in pairwise(cuts):
        x = model.layers(x, cache, first, last, **where)
    return model.unembed(x)


@pytest.mark.parametrize("family", ["llama", "qwen2", "mistral", "qwen3_moe"])
@pytest.mark.parametrize("cuts", [(0, 4), (0, 1, 4), (0, 2, 2, 3, 4)])
def test_cuts_between_layers_change_no_bit(family: str, cuts: tuple[int, ...]) -> None:
    model = build(family)
    whole, parts = model.new_cache(40), model.new_cache(40)
    for tokens, parents in CALLS[: 4 if family == "mistral" else None]:
        want = model.extend(tokens, whole, parents=parents).logits
        assert torch.equal(in_parts(model, tokens, parts, cuts, parents=parents), want)
    assert torch.equal(whole.layers[3].keys, parts.layers[3].keys)


def test_an_early_exit_fills_the_first_layers_only_and_the_rest_catch_up() -> None:
    """The first layers' keys are the same to the bit; what catches up does other sums."""
    model = build()
    cache, stepwise = model.new_cache(20), model.new_cache(20)
    in_parts(model, PROMPT, cache, (0, 4))
    model.extend(PROMPT, stepwise)
    left = [model.layers(model.embed([token]), cache, 0, 2) for token in (7, 8, 9)]
    assert cache.lengths == (9, 9, 6, 6) and cache.length == 6
    logits = model.unembed(model.layers(torch.cat(left), cache, 2, 4))
    close(logits, torch.cat([model.extend([token], stepwise).logits for token in (7, 8, 9)]))
    close(logits, fresh(model, [*PROMPT, 7, 8, 9])[-3:])
    assert torch.equal(cache.layers[1].keys[:, :, :9], stepwise.layers[1].keys[:, :, :9])
    close(cache.layers[3].keys[:, :, :9], stepwise.layers[3].keys[:, :, :9])


def test_rejected_rows_are_dropped_where_they_are() -> None:
    """Three drafts behind layer 2, of which the first is kept: crop acts on the first layers only, keep on a tree."""
    model, cache = primed()
    h = model.layers(model.embed([7, 8, 9]), cache, 0, 2)
    cache.crop(7)
    assert cache.lengths == (7, 7, 6, 6)
    close(model.unembed(model.layers(h[:1], cache, 2, 4)), fresh(model, [*PROMPT, 7])[-1:])

    cache.crop(6)
    h = model.layers(model.embed(TREE[0]), cache, 0, 2, parents=TREE[1])
    cache.keep(6, [0, 2, 4])
    assert cache.lengths == (9, 9, 6, 6)
    logits = model.unembed(model.layers(h[[0, 2, 4]], cache, 2, 4))
    close(logits, fresh(model, [*PROMPT, 7, 9, 11])[-3:])


def test_input_by_embeddings_and_positions_of_ones_own() -> None:
    model, cache = primed()
    table = model.model.get_input_embeddings().weight
    close(model.unembed(model.layers(table[[7, 8]], cache, 0, 4)), fresh(model, [*PROMPT, 7, 8])[-2:])
    cache.crop(6)
    both = model.unembed(model.layers(table[[7, 8]], cache, 0, 4, parents=[-1, -1], positions=[6, 6]))
    close(both[1], fresh(model, [*PROMPT, 8])[-1])
    cache.crop(6)
    with torch.no_grad():
        want = model.model(
            input_ids=torch.tensor([[*PROMPT, 7]]),
            position_ids=torch.tensor([[0, 1, 2, 3, 4, 5, 9]]),
            attention_mask=torch.ones(1, 7),  # or a gap would count as the border of another text
            use_cache=False,
        ).logits[0, -1:]
    close(model.unembed(model.layers(table[[7]], cache, 0, 4, positions=[9])), want)


@pytest.mark.parametrize("tied", [False, True])
def test_some_rows_of_the_head(tied: bool) -> None:
    model = build(tie_word_embeddings=tied)
    h = model.layers(model.embed(PROMPT), model.new_cache(8), 0, 4)
    few, whole = torch.tensor([4, 40, 7]), model.unembed(h)
    assert whole.shape == (6, 50) and whole.dtype == torch.float32
    for vocabulary in (few, few, [4, 40, 7]):
        close(model.unembed(h, vocabulary), whole[:, [4, 40, 7]])
    assert list(model._heads) == [few] or len(model._heads) == 1
    del few, vocabulary
    assert len(model._heads) == 0  # goes with the tensor that named it
    assert torch.equal(model.unembed(model.normed(h), normed=True), whole)
    refuses(UserError, "tokens 3 to 50 were asked for; ids of llama go from 0 to 49", model.unembed, h, [3, 50])


@needs_kernels
@pytest.mark.parametrize("tied", [False, True])
def test_packed_weights_in_bfloat16(tied: bool) -> None:
    stock = network("llama", tie_word_embeddings=tied).to(torch.bfloat16)
    model = HFLayeredLM(pack(stock), IdTokenizer(50), ModelRecord("target", "packed", "causal"))
    assert isinstance(model._head, PackedLinear)
    ours, other = model.new_cache(40), model.new_cache(40)
    for tokens, parents in CALLS:
        got = model.extend(tokens, ours, parents=parents).logits
        assert torch.equal(got, HFCausalLM.extend(model, tokens, other, parents=parents).logits)
    h = model.layers(model.embed([7]).float(), ours, 0, 4)  # rows of another dtype are taken too
    few = model.unembed(h, torch.tensor([4, 40, 7]))
    torch.testing.assert_close(few, model.unembed(h)[:, [4, 40, 7]], atol=0.1, rtol=0.02)


def test_layers_and_rows_that_do_not_fit_are_refused_before_anything_is_written() -> None:
    model, cache = primed(room=7)
    row = model.layers(model.embed([7]), cache, 0, 2)
    for first, last in ((0, 5), (-1, 2), (3, 2), (5, 5)):
        with pytest.raises(UserError, match=rf"layers {first} to {last} of llama were asked for and it has 4; choose"):
            model.layers(row, cache, first, last)
    refuses(ValueError, "layer 1 holds 7 rows and layer 2 holds 6; layers that run in", model.layers, row, cache, 1, 4)
    refuses(ValueError, "layer 0 holds 7 rows and layer 2 holds 6", model.extend, [8], cache)
    refuses(UserError, "room for 7 positions; 7 are used and 1 more", model.layers, row, cache, 0, 2)
    refuses(ValueError, "1 rows and 2 positions were given", model.layers, row, cache, 2, 4, positions=[6, 7])
    refuses(UserError, "64 positions and position 64 was fed", model.layers, row, cache, 2, 4, positions=[64])
    assert cache.lengths == (7, 7, 6, 6)
    model = build()
    model._layers[1]._hf_hook = object()
    refuses(UserError, r"spread over several devices.*load it on one", run, model, Taps(attention=lambda given: None))
    assert run(model, Taps(stream=lambda i, x: None)).shape == (2, 32)


def test_a_model_that_cannot_be_cut_is_causal_and_refused_by_name_where_layers_are_needed(tmp_path: Any) -> None:
    transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=50, n_embd=32, n_layer=2, n_head=4, bos_token_id=None, eos_token_id=None)
    ).save_pretrained(tmp_path)
    other = load_folder(tmp_path, "small", kind="causal")
    assert kinds_of(other) == {"causal"} and not isinstance(other, LayeredLM)
    refuses(UserError, "a layered model is needed and small is", load_folder, tmp_path, "small", kind="layered")
    assert kinds_of(build()) == {"causal", "layered"} and isinstance(build(), CausalLM)
    assert not hasattr(counted(build(), "target", Meter(), "causal"), "embed"), "a causal method sees no layers"
    assert plan({"model_type": "qwen3_moe"}, "x").kinds == ("causal", "layered", "moe")


def seen(forbidden: dict[int, set[int]] | None = None) -> tuple[CountedLayered, Meter]:
    meter = Meter(forbidden=forbidden or {})
    view = counted(build(), "target", meter, "layered")
    assert isinstance(view, CountedLayered)
    return view, meter


def test_parts_add_up_to_what_a_whole_forward_costs() -> None:
    view, meter = seen()
    cache = view.new_cache(20)
    view.extend(PROMPT, cache)
    assert (meter.forwards, meter.work, meter.tokens_fed) == ({"target": 1}, {"target": 24}, 6)
    cache.crop(0)
    meter.reset()
    x = view.layers(view.embed(PROMPT), cache, 0, 3)
    assert (meter.forwards, meter.work, meter.tokens_fed) == ({}, {"target": 18}, 6)
    view.unembed(view.layers(x, cache, 3, 4), predicts=1)
    assert (meter.forwards, meter.work, meter.tokens_fed) == ({"target": 1}, {"target": 24}, 6)
    assert [fed for *_, fed in meter.calls] == [0, 6, 0, 0]


def test_an_early_exit_is_a_forward_that_did_less_work_and_a_draft_is_booked_as_one() -> None:
    view, meter = seen()
    cache, draft = view.new_cache(20), view.playing("draft")
    h = [draft.layers(draft.embed([token]), cache, 0, 1) for token in (7, 8)]
    for row in h:
        draft.unembed(row)
    view.unembed(view.layers(torch.cat(h), cache, 1, 4))
    assert meter.forwards == {"draft": 2, "target": 1}
    assert meter.work == {"draft": 2, "target": 6} and meter.tokens_fed == 2


def test_forbidden_tokens_are_minus_infinity_in_unembedded_rows_too() -> None:
    view, meter = seen({1: {4}, 2: {5, 6}})
    h = view.layers(view.embed(PROMPT[:3]), view.new_cache(8), 0, 4)
    gone = [(1, 4), (2, 5), (2, 6)]
    for predicts in (1, [1, 2, 3]):
        logits = view.unembed(h, predicts=predicts)
        assert [(r + 1, c) for r, c in (logits == -torch.inf).nonzero().tolist()] == gone
    assert torch.isfinite(view.unembed(h)).all() and torch.isfinite(view.unembed(h, predicts=3)).all()
    few = view.unembed(h, [6, 40, 4], predicts=1)
    assert [(r + 1, c) for r, c in (few == -torch.inf).nonzero().tolist()] == [(1, 2), (2, 0)]
    refuses(ValueError, "3 rows were unembedded and 2 positions given", view.unembed, h, predicts=[1, 2])
    before = (dict(meter.forwards), meter.seconds, meter.called, list(meter.calls))
    meter.spent = True  # what is read for the record is booked nowhere and forbids the same
    assert torch.equal(view.unbooked().unembed(h, predicts=1), logits)
    assert before == (meter.forwards, meter.seconds, meter.called, meter.calls)


def run(model: HFLayeredLM, taps: Taps | None, first: int = 0, last: int = 4) -> torch.Tensor:
    cache = model.new_cache(20)
    model.extend(PROMPT, cache)
    return model.layers(model.embed([7, 8]), cache, first, last, taps=taps)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", LAYERED)
def test_taps_hand_out_and_change_nothing(family: str, attention: str) -> None:
    model, found = build(family, attention), defaultdict[str, list[Any]](list)
    names = ("stream", "reads", "feeds", "attention", "channels", "router", "linear")
    taps = Taps(**{name: lambda *given, name=name: found[name].append(given) for name in names})
    assert torch.equal(run(model, None), run(model, taps))
    streams = dict(found["stream"])
    assert sorted(streams) == [0, 1, 2, 3, 4]
    assert all(torch.equal(x, streams[i]) for i, x in found["reads"]) and len(found["reads"]) == 4
    assert [i for i, _ in found["feeds"]] == [0, 1, 2, 3]
    assert not any(torch.equal(x, streams[i]) for i, x in found["feeds"])  # the attention is added already
    g = 1 if family == "four_attentions" else 2  # heads of keys: its default, MFA, has one
    for (one,) in found["attention"]:
        assert one.queries.shape == (4, 2, 8) and one.keys.shape == one.values.shape == (g, 8, 8)
        assert one.sees.tolist() == [[True] * 7 + [False], [True] * 8] or "sliding_attention" in model._types
    sparse = family in ROUTED
    assert [i for i, _ in found["channels"]] == ([] if sparse else [0, 1, 2, 3])
    assert [one.layer for (one,) in found["router"]] == ([0, 1, 2, 3] if sparse else [])
    maps = {(i, name) for i, name, x, y in found["linear"] if len(x) == len(y)}
    assert {i for i, _ in maps} == {0, 1, 2, 3} and (3, "o_proj") in maps and (sparse or (3, "down_proj") in maps)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.model.modules())


def test_attention_and_a_trees_mask_are_what_was_handed_out() -> None:
    model, want = build(), run(build(), None)

    def by_hand(given: Any) -> torch.Tensor:
        keys, values = (x.repeat_interleave(2, 0) for x in (given.keys, given.values))
        scores = given.scale * given.queries @ keys.mT
        return scores.masked_fill(~given.sees, -torch.inf).softmax(-1) @ values

    close(run(model, Taps(attention=by_hand)), want)
    other = run(model, Taps(attention=lambda given: torch.zeros_like(given.queries), layers=[2]))
    assert not torch.allclose(other, want, atol=1e-2)
    assert torch.equal(run(model, None), want)  # nothing of it stayed
    (model, cache), found = primed(attention="eager"), list[torch.Tensor]()
    taps = Taps(attention=lambda given: found.append(given.sees), layers=[0])
    model.layers(model.embed(TREE[0][:3]), cache, 0, 4, parents=TREE[1][:3], taps=taps)
    assert len(found) == 1 and found[0][:, :6].all()
    assert found[0][:, 6:].tolist() == [[True, False, False], [True, True, False], [True, False, True]]


@pytest.mark.parametrize("family", SPARSE)
def test_router_outputs_are_the_module_s_own(family: str) -> None:
    model, found = build(family), list[Any]()
    run(model, Taps(router=found.append))
    for one in found:
        assert one.logits.shape == (2, 4) and one.experts.shape == one.weights.shape == (2, 2)
        chosen = one.logits.float().softmax(-1).gather(1, one.experts)
        assert (chosen.sort(-1).values == one.logits.float().softmax(-1).sort(-1).values[:, 2:]).all()
        share = chosen / chosen.sum(-1, keepdim=True)
        assert torch.allclose(one.weights, share, atol=1e-6) or torch.allclose(one.weights, chosen, atol=1e-6)


def test_channels_can_be_masked_and_what_is_added_to_a_map_is_a_change_of_its_weight() -> None:
    model, cut = build(), build()
    for layer in cut._layers:
        layer.mlp.down_proj.weight.data[:, 10:] = 0
    mask = (torch.arange(48) < 10).float()
    taps = Taps(channels=lambda i, u: u * mask)
    h = model.layers(model.embed(PROMPT), model.new_cache(8), 0, 4, taps=taps)
    close(h, cut.layers(cut.embed(PROMPT), cut.new_cache(8), 0, 4))
    model, changed, plain = build(), build(), run(build(), None)
    up = next(one for name, one in changed._layers[2].named_modules() if name == "mlp.up_proj")
    delta = 0.1 * torch.randn(up.weight.shape, generator=torch.Generator().manual_seed(1))

    def add(layer: int, name: str, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor | None:
        return y + x @ delta.T if (layer, name) == (2, "up_proj") else None

    cache = changed.new_cache(20)
    changed.extend(PROMPT, cache)
    up.weight.data += delta
    want = changed.layers(changed.embed([7, 8]), cache, 0, 4)
    close(run(model, Taps(linear=add)), want)
    assert not torch.allclose(plain, want, atol=1e-2)


@pytest.mark.parametrize("family", ["llama", "olmo2"])
def test_what_an_attention_or_a_feed_forward_part_reads_can_be_another_row(family: str) -> None:
    """Layers 1 and 2 read what entered layer 1: so their keys and values. A part that reads zeros adds none."""
    (model, cache), start = primed(family), dict[int, torch.Tensor]()
    x = model.layers(model.embed([7, 8]), cache, 0, 1)
    fuzzy = Taps(reads=lambda i, h: start.setdefault(0, h), layers=(1, 2))
    out = model.layers(x, cache, 1, 4, taps=fuzzy)
    assert torch.equal(start[0], x) and not torch.allclose(out, run(model, None), atol=1e-2)
    layer, read = model._layers[2], x[None]
    if family == "llama":
        read = layer.input_layernorm(read)
    values = layer.self_attn.v_proj(read).view(1, 2, 2, 8).transpose(1, 2)
    close(cache.layers[2].values[:, :, 6:8], values)
    fed, streams = dict[int, torch.Tensor](), dict[int, torch.Tensor]()
    feeds = lambda i, x: fed.setdefault(i, x) * 0 if i == 2 else None  # noqa: E731
    run(model, Taps(stream=streams.__setitem__, feeds=feeds, layers=(2, 3)))
    close(streams[3], fed[2])


@pytest.mark.parametrize("V", [2_000, 128_000])
def test_a_step_with_a_tree_keeps_its_size_in_the_trace_whatever_the_vocabulary(V: int) -> None:
    model = HFCausalLM(network("llama", vocab_size=V), IdTokenizer(V), ModelRecord("target", "large", "causal"))
    params = {"max_new_tokens": 40, "template": "80"}
    trace = engines.run("token-recycling", model, [5, 6, 7, 8], params=params)
    assert max(len(step.tree.tokens) for step in trace.steps) > 30
    assert len(trace.to_json()) / len(trace.steps) < 60_000
