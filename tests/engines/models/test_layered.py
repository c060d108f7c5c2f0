"""A forward made in parts is the whole forward: to the bit where the parts do the same sums, closely where they do
not."""

from itertools import pairwise
from typing import Any

import pytest
import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from engines.core.errors import UserError
from engines.core.kinds import KINDS, CausalLM, LayeredLM, Taps, counted, kinds_of
from engines.core.kinds.layered import CountedLayered
from engines.core.meter import Meter
from engines.core.trace import ModelRecord
from engines.models.adapters.causal import HFCausalLM
from engines.models.adapters.layered import HFLayeredLM
from engines.models.loader import load_folder
from engines.models.mapping import LAYERED, ROUTED, plan
from engines.models.networks import OURS, network_class
from engines.models.packed import PackedLinear, can_pack, pack
from engines.models.tokens import IdTokenizer

needs_kernels = pytest.mark.skipif(not can_pack(), reason="no kernels for packed weights here")

SIZE: dict[str, Any] = {
    "vocab_size": 50, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "head_dim": 8,
    "pad_token_id": None, "bos_token_id": None, "eos_token_id": None,
}  # fmt: skip
EXPERTS = {
    "num_experts": 4,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
    "shared_expert_intermediate_size": 24,
}
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
    return HFLayeredLM(one, IdTokenizer(50), ModelRecord("target", family, "causal"), frozenset({2}))


def fresh(model: HFLayeredLM, ids: list[int]) -> torch.Tensor:
    with torch.no_grad():
        logits: torch.Tensor = model.model(input_ids=torch.tensor([ids]), use_cache=False).logits[0]
    return logits


def close(a: torch.Tensor, b: torch.Tensor) -> None:
    torch.testing.assert_close(a, b, atol=1e-4, rtol=0)


# --- the whole forward


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


@pytest.mark.parametrize("changes", [{"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 2}])
def test_layers_of_two_types_get_their_own_masks(changes: dict[str, Any]) -> None:
    model = build("qwen2", **changes)
    assert model._types == ["full_attention"] * 2 + ["sliding_attention"] * 2
    ours, stock = model.new_cache(40), model.new_cache(40)
    for tokens in (PROMPT, [7], [8, 9, 10], [4] * 9):
        assert torch.equal(model.extend(tokens, ours).logits, HFCausalLM.extend(model, tokens, stock).logits)
    with pytest.raises(UserError, match="full_attention, sliding_attention layers, which cannot take a draft tree"):
        model.extend(TREE[0], ours, parents=TREE[1])
    assert ours.lengths == stock.lengths


# --- parts


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
    """Rows leave one by one behind layer 2; then the others take all of them at once. The first layers' keys are the
    same to the bit, since the same rows went through in the same calls; what catches up does other sums."""
    model = build()
    cache, stepwise = model.new_cache(20), model.new_cache(20)
    in_parts(model, PROMPT, cache, (0, 4))
    model.extend(PROMPT, stepwise)
    left = [model.layers(model.embed([token]), cache, 0, 2) for token in (7, 8, 9)]
    assert cache.lengths == (9, 9, 6, 6) and cache.length == 6
    logits = model.unembed(model.layers(torch.cat(left), cache, 2, 4))
    want = torch.cat([model.extend([token], stepwise).logits for token in (7, 8, 9)])
    close(logits, want)
    close(logits, fresh(model, [*PROMPT, 7, 8, 9])[-3:])
    assert torch.equal(cache.layers[1].keys[:, :, :9], stepwise.layers[1].keys[:, :, :9])
    close(cache.layers[3].keys[:, :, :9], stepwise.layers[3].keys[:, :, :9])
    one, other = model.extend([10], cache).logits, model.extend([10], stepwise).logits
    close(one, other)


def test_one_row_at_a_time_catches_up_to_the_bit() -> None:
    model = build()
    cache, plain = model.new_cache(20), model.new_cache(20)
    for one in (cache, plain):
        model.extend(PROMPT, one)
    left = [model.layers(model.embed([token]), cache, 0, 3) for token in (7, 8)]
    caught = [model.unembed(model.layers(h, cache, 3, 4)) for h in left]
    want = [model.extend([token], plain).logits for token in (7, 8)]
    assert torch.equal(torch.cat(caught), torch.cat(want))


def test_rejected_rows_are_dropped_where_they_are() -> None:
    """Three drafts behind layer 2, of which the first is kept: crop acts on the first layers only, keep on a tree."""
    model = build()
    cache = model.new_cache(20)
    model.extend(PROMPT, cache)
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


def test_a_tree_may_grow_in_the_first_layers_and_be_verified_by_the_others() -> None:
    model = build()
    cache = model.new_cache(20)
    model.extend(PROMPT, cache)
    tokens, parents = TREE
    first = model.layers(model.embed(tokens[:2]), cache, 0, 1, parents=parents[:2])
    second = model.layers(model.embed(tokens[2:]), cache, 0, 1, parents=parents)
    logits = model.unembed(model.layers(torch.cat([first, second]), cache, 1, 4, parents=parents))
    for row, path in enumerate([[7], [7, 8], [7, 9], [7, 8, 10], [7, 9, 11], [7, 8, 10, 12]]):
        close(logits[row], fresh(model, PROMPT + path)[-1])


def test_rows_made_up_between_layers_do_not_disturb_the_real_ones() -> None:
    """Pseudo rows enter above layer 2, as children of a row: the real rows' logits stay, and none of them is kept."""
    model = build()
    cache = model.new_cache(20)
    model.extend(PROMPT, cache)
    h = model.layers(model.embed([7]), cache, 0, 2)
    own = torch.randn(2, 32, generator=torch.Generator().manual_seed(1))
    logits = model.unembed(model.layers(torch.cat([h, own]), cache, 2, 4, parents=[-1, 0, 1]))
    assert cache.lengths == (7, 7, 9, 9)
    close(logits[:1], fresh(model, [*PROMPT, 7])[-1:])
    cache.crop(7)
    close(model.extend([8], cache).logits, fresh(model, [*PROMPT, 7, 8])[-1:])


def test_input_by_embeddings_and_positions_of_ones_own() -> None:
    """Embeddings of tokens are what the tokens are; two rows at one position are two readings of that position."""
    model = build()
    cache = model.new_cache(20)
    model.extend(PROMPT, cache)
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
    with pytest.raises(UserError, match="tokens 3 to 50 were asked for; ids of llama go from 0 to 49"):
        model.unembed(h, [3, 50])


@needs_kernels
@pytest.mark.parametrize("tied", [False, True])
def test_packed_weights_in_bfloat16(tied: bool) -> None:
    torch.manual_seed(0)
    stock = network("llama", tie_word_embeddings=tied).to(torch.bfloat16)
    model = HFLayeredLM(pack(stock), IdTokenizer(50), ModelRecord("target", "packed", "causal"))
    assert isinstance(model._head, PackedLinear)
    ours, other = model.new_cache(40), model.new_cache(40)
    for tokens, parents in CALLS:
        got, want = (
            one(model, tokens, c, parents=parents)
            for one, c in ((HFLayeredLM.extend, ours), (HFCausalLM.extend, other))
        )
        assert torch.equal(got.logits, want.logits)
    h = model.layers(model.embed([7]).float(), ours, 0, 4)  # rows of another dtype are taken too
    assert h.dtype == torch.bfloat16
    few = model.unembed(h, torch.tensor([4, 40, 7]))
    torch.testing.assert_close(few, model.unembed(h)[:, [4, 40, 7]], atol=0.1, rtol=0.02)


# --- refusals


@pytest.mark.parametrize(("first", "last"), [(0, 5), (-1, 2), (3, 2), (5, 5)])
def test_layers_that_are_not_there_are_refused(first: int, last: int) -> None:
    model = build()
    cache = model.new_cache(8)
    with pytest.raises(UserError, match=rf"layers {first} to {last} of llama were asked for and it has 4; choose"):
        model.layers(model.embed([7]), cache, first, last)
    assert cache.lengths == (0,) * 4


def test_rows_that_do_not_fit_are_refused_before_anything_is_written() -> None:
    model = build()
    cache = model.new_cache(7)
    model.extend(PROMPT, cache)
    model.layers(model.embed([7]), cache, 0, 2)
    with pytest.raises(ValueError, match="layer 1 holds 7 rows and layer 2 holds 6; layers that run in one call"):
        model.layers(model.embed([8]), cache, 1, 4)
    with pytest.raises(ValueError, match="layer 0 holds 7 rows and layer 2 holds 6"):
        model.extend([8], cache)
    with pytest.raises(UserError, match="room for 7 positions; 7 are used and 1 more"):
        model.layers(model.embed([8]), cache, 0, 2)
    with pytest.raises(ValueError, match="1 rows and 2 positions were given"):
        model.layers(model.embed([8]), cache, 2, 4, positions=[6, 7])
    with pytest.raises(UserError, match="64 positions and position 64 was fed"):
        model.layers(model.embed([8]), cache, 2, 4, positions=[64])
    assert cache.lengths == (7, 7, 6, 6)


def test_which_models_are_layered() -> None:
    other = HFCausalLM(
        transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=50, n_embd=32, n_layer=2, n_head=4)),
        IdTokenizer(50),
        ModelRecord("target", "gpt2", "causal"),
    )
    assert kinds_of(other) == {"causal"} and not isinstance(other, LayeredLM)
    assert kinds_of(build()) == {"causal", "layered"} and isinstance(build(), CausalLM)
    assert plan({"model_type": "gpt2"}, "x").kinds == ("causal",)
    assert plan({"model_type": "qwen3_moe"}, "x").kinds == ("causal", "layered", "moe")
    assert plan({"model_type": "llama", "is_causal": False}, "x").kinds == ("masked",)


def test_a_causal_model_without_layers_is_refused_by_name(tmp_path: Any) -> None:
    transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=50, n_embd=32, n_layer=2, n_head=4, bos_token_id=None, eos_token_id=None)
    ).save_pretrained(tmp_path)
    assert kinds_of(load_folder(tmp_path, "small", kind="causal")) == {"causal"}
    with pytest.raises(UserError, match="a layered model is needed and small is causal; choose a layered model"):
        load_folder(tmp_path, "small", kind="layered")


# --- seen through the meter


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
    assert meter.work == {}
    x = view.embed(PROMPT)
    assert (meter.forwards, meter.work, meter.tokens_fed) == ({}, {}, 0) and meter.seconds > 0
    x = view.layers(x, cache, 0, 3)
    assert (meter.forwards, meter.work, meter.tokens_fed) == ({}, {"target": 18}, 6)
    x = view.layers(x, cache, 3, 4)
    view.unembed(x, predicts=1)
    assert (meter.forwards, meter.work, meter.tokens_fed) == ({"target": 1}, {"target": 24}, 6)
    assert [fed for *_, fed in meter.calls] == [0, 6, 0, 0]


def test_an_early_exit_is_a_forward_that_did_less_work_and_a_draft_is_booked_as_one() -> None:
    view, meter = seen()
    cache, draft = view.new_cache(20), view.playing("draft")
    assert isinstance(draft, CountedLayered)
    h = [draft.layers(draft.embed([token]), cache, 0, 1) for token in (7, 8)]
    for row in h:
        draft.unembed(row)
    view.unembed(view.layers(torch.cat(h), cache, 1, 4))
    assert meter.forwards == {"draft": 2, "target": 1}
    assert meter.work == {"draft": 2, "target": 6} and meter.tokens_fed == 2


def test_forbidden_tokens_are_minus_infinity_in_unembedded_rows_too() -> None:
    view, _ = seen({1: {4}, 2: {5, 6}})
    h = view.layers(view.embed(PROMPT[:3]), view.new_cache(8), 0, 4)
    gone = [(1, 4), (2, 5), (2, 6)]
    for predicts in (1, [1, 2, 3]):
        logits = view.unembed(h, predicts=predicts)
        assert [(r + 1, c) for r, c in (logits == -torch.inf).nonzero().tolist()] == gone
    assert torch.isfinite(view.unembed(h)).all() and torch.isfinite(view.unembed(h, predicts=3)).all()
    few = view.unembed(h, [6, 40, 4], predicts=1)
    assert [(r + 1, c) for r, c in (few == -torch.inf).nonzero().tolist()] == [(1, 2), (2, 0)]
    with pytest.raises(ValueError, match="3 rows were unembedded and 2 positions given"):
        view.unembed(h, predicts=[1, 2])


def test_what_is_read_for_the_record_is_booked_nowhere_and_forbids_the_same() -> None:
    view, meter = seen({1: {4}, 2: {5, 6}})
    h = view.layers(view.embed(PROMPT[:3]), view.new_cache(8), 0, 2)
    z = view.unembed(h, predicts=1)
    before = (dict(meter.forwards), meter.seconds, meter.called, list(meter.calls))
    meter.spent = True
    assert torch.equal(view.unbooked().unembed(h, predicts=1), z)
    assert before == (meter.forwards, meter.seconds, meter.called, meter.calls)


def test_a_method_that_needs_a_causal_model_sees_no_layers() -> None:
    assert not hasattr(counted(build(), "target", Meter(), "causal"), "embed")
    assert KINDS["layered"].board == "causal"


# --- taps


def run(model: HFLayeredLM, taps: Taps | None, first: int = 0, last: int = 4) -> torch.Tensor:
    cache = model.new_cache(20)
    model.extend(PROMPT, cache)
    return model.layers(model.embed([7, 8]), cache, first, last, taps=taps)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", LAYERED)
def test_taps_hand_out_and_change_nothing(family: str, attention: str) -> None:
    model = build(family, attention)
    found: dict[str, list[Any]] = {name: [] for name in ("stream", "reads", "feeds", "attention", "channels", "router")}
    maps = list[tuple[int, str, int]]()
    taps = Taps(
        stream=lambda i, x: found["stream"].append((i, x)),
        reads=lambda i, x: found["reads"].append((i, x)),
        feeds=lambda i, x: found["feeds"].append((i, x)),
        attention=lambda given: found["attention"].append(given),
        channels=lambda i, u: found["channels"].append((i, u)),
        linear=lambda i, name, x, y: maps.append((i, name, len(x) - len(y))),
        router=lambda given: found["router"].append(given),
    )
    assert torch.equal(run(model, None), run(model, taps))
    streams = dict(found["stream"])
    assert sorted(streams) == [0, 1, 2, 3, 4]
    assert all(torch.equal(x, streams[i]) for i, x in found["reads"]) and len(found["reads"]) == 4
    assert [i for i, _ in found["feeds"]] == [0, 1, 2, 3]
    assert not any(torch.equal(x, streams[i]) for i, x in found["feeds"])  # the attention is added already
    g = 1 if family == "four_attentions" else 2  # heads of keys: its default, MFA, has one
    for one in found["attention"]:
        assert one.queries.shape == (4, 2, 8) and one.keys.shape == one.values.shape == (g, 8, 8)
        assert one.sees.tolist() == [[True] * 7 + [False], [True] * 8] or "sliding_attention" in model._types
    sparse = family in ROUTED
    assert [i for i, _ in found["channels"]] == ([] if sparse else [0, 1, 2, 3])
    assert [one.layer for one in found["router"]] == ([0, 1, 2, 3] if sparse else [])
    assert {i for i, _, rows in maps if rows == 0} == {0, 1, 2, 3} and ((3, "o_proj", 0) in maps)
    assert sparse or (3, "down_proj", 0) in maps
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.model.modules())


def test_what_is_added_to_a_linear_map_is_a_change_of_its_weight() -> None:
    model, changed = build(), build()
    up = next(one for name, one in changed._layers[2].named_modules() if name == "mlp.up_proj")
    delta = 0.1 * torch.randn(up.weight.shape, generator=torch.Generator().manual_seed(1))
    up.weight.data += delta

    def add(layer: int, name: str, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor | None:
        return y + x @ delta.T if (layer, name) == (2, "up_proj") else None

    ours, plain, want = (
        one.layers(one.embed(PROMPT), one.new_cache(8), 0, 4, taps=taps)
        for one, taps in ((model, Taps(linear=add)), (model, None), (changed, None))
    )
    close(ours, want)
    assert not torch.allclose(plain, want, atol=1e-2)


def test_attention_from_what_was_handed_out() -> None:
    """Softmax by hand over the handed-out rows, put in its place, gives the forward; so it is truly what is used."""
    model, want = build(), run(build(), None)

    def by_hand(given: Any) -> torch.Tensor:
        keys, values = (x.repeat_interleave(2, 0) for x in (given.keys, given.values))
        scores = given.scale * given.queries @ keys.mT
        return scores.masked_fill(~given.sees, -torch.inf).softmax(-1) @ values

    close(run(model, Taps(attention=by_hand)), want)
    other = run(model, Taps(attention=lambda given: torch.zeros_like(given.queries), layers=[2]))
    assert not torch.allclose(other, want, atol=1e-2)
    assert torch.equal(run(model, None), want)  # nothing of it stayed


def test_a_tree_s_mask_is_handed_out_as_what_each_row_sees() -> None:
    model = build(attention="eager")
    cache, found = model.new_cache(20), list[torch.Tensor]()
    model.extend(PROMPT, cache)
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


def test_channels_can_be_masked() -> None:
    """A masked channel is one whose column of the last matrix is zero."""
    model, cut = build(), build()
    for layer in cut._layers:
        layer.mlp.down_proj.weight.data[:, 10:] = 0
    mask = (torch.arange(48) < 10).float()
    taps = Taps(channels=lambda i, u: u * mask)
    h = model.layers(model.embed(PROMPT), model.new_cache(8), 0, 4, taps=taps)
    close(h, cut.layers(cut.embed(PROMPT), cut.new_cache(8), 0, 4))


@pytest.mark.parametrize("family", ["llama", "olmo2"])
def test_what_an_attention_reads_can_be_another_row(family: str) -> None:
    """Layers 1 and 2 read what entered layer 1, one after the other all the same: their own keys and values come from
    it, and what is added to stays the stream."""
    model, start = build(family), dict[int, torch.Tensor]()
    cache = model.new_cache(20)
    model.extend(PROMPT, cache)
    x = model.layers(model.embed([7, 8]), cache, 0, 1)
    fuzzy = Taps(reads=lambda i, h: start.setdefault(0, h), layers=(1, 2))
    out = model.layers(x, cache, 1, 4, taps=fuzzy)
    assert torch.equal(start[0], x) and not torch.allclose(out, run(model, None), atol=1e-2)
    layer, read = model._layers[2], x[None]
    if family == "llama":
        read = layer.input_layernorm(read)
    values = layer.self_attn.v_proj(read).view(1, 2, 2, 8).transpose(1, 2)
    close(cache.layers[2].values[:, :, 6:8], values)


@pytest.mark.parametrize("family", ["llama", "olmo2"])
def test_what_a_feed_forward_part_reads_can_be_another_row(family: str) -> None:
    """With zeros read in layer 2, that layer adds its attention alone, what its parts make of zeros being zero."""
    model, fed, streams = build(family), dict[int, torch.Tensor](), dict[int, torch.Tensor]()
    nothing = Taps(
        stream=streams.__setitem__, feeds=lambda i, x: fed.setdefault(i, x) * 0 if i == 2 else None, layers=(2, 3)
    )
    run(model, nothing)
    close(streams[3], fed[2])


def test_a_model_on_several_devices_hands_nothing_out() -> None:
    model = build()
    model._layers[1]._hf_hook = object()
    with pytest.raises(UserError, match=r"spread over several devices.*load it on one device, without device_map"):
        run(model, Taps(attention=lambda given: None))
    assert run(model, Taps(stream=lambda i, x: None)).shape == (2, 32)
