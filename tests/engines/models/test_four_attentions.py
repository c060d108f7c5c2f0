"""Four attentions in one mixture: MFA with one head is ordinary attention, what the caches keep, MLA as it is decoded,
the halves of a layer, and the feed-forward half in numpy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import nn

from engines.core.errors import UserError
from engines.core.kinds import KINDS, kinds_of
from engines.core.trace import ModelRecord
from engines.models.adapters.split import HFSplitLM
from engines.models.feed_forward import FeedForward
from engines.models.mapping import plan
from engines.models.networks import network_class
from engines.models.networks.four_attentions import ATTENTIONS, FourAttentionsConfig, LatentAttention
from engines.models.tokens import IdTokenizer
from engines.training.architectures.attentions import SHAPES

IDS = [*range(5, 35)]


def network(attention="mfa", seed=0, **changed):
    torch.manual_seed(seed)
    small = {"vocab_size": 64, "hidden_size": 48, "num_hidden_layers": 3, "max_position_embeddings": 64}
    given = {**small, **SHAPES[attention], "bos_token_id": None, "eos_token_id": 2, "pad_token_id": 0} | changed
    made = network_class("four_attentions")(FourAttentionsConfig(attention=attention, **given)).eval()
    for one in made.parameters():  # also the gains of norms, so that each one tells
        one.data += 0.05 * torch.randn_like(one)
    return made


def wrapped(made):
    record = ModelRecord(
        role="target", name="x", kind="causal", sha256="", revision="", parameters=0, dtype="float32", device="cpu",
        threads=1, tokenizer="", licence="",
    )  # fmt: skip
    return HFSplitLM(made, IdTokenizer(64, {2: "<eos>"}), record, frozenset({2}))


def rows_of(made, n=12):
    """Rows [1, n, H] at root mean square 1 and the turns of their places, as the attention of a layer reads them."""
    x = torch.randn(1, n, made.config.hidden_size)
    x = x / x.square().mean(-1, keepdim=True).sqrt()
    return x, made.model.rotary_emb(x, position_ids=torch.arange(n)[None])


@pytest.mark.parametrize("rank", [48, 96])
def test_one_head_and_a_rank_as_large_as_the_hidden_size_are_ordinary_attention(rank):
    """Any single-head attention is such an MFA: a square map that keeps lengths makes its norm the identity on what the
    layer's own norm hands in, and a longer rank only rescales it."""
    H = 48
    stock = network("mha", num_attention_heads=1, num_key_value_heads=1, hidden_size=H)
    ours = network("mfa", num_attention_heads=1, hidden_size=H, query_rank=rank)
    one, other = stock.model.layers[0].self_attn, ours.model.layers[0].self_attn
    turn = nn.init.orthogonal_(torch.empty(H, H))
    with torch.no_grad():
        other.q_down_proj.weight.zero_()[:H] = turn
        other.q_norm.weight.fill_((H / rank) ** 0.5)
        other.q_up_proj.weight.zero_()[:, :H] = one.q_proj.weight @ turn.T
        for name in ("k_proj", "v_proj", "o_proj"):
            getattr(other, name).weight.copy_(getattr(one, name).weight)
    x, turns = rows_of(stock)
    wanted, got = (part(hidden_states=x, position_embeddings=turns)[0] for part in (one, other))
    assert torch.allclose(wanted, got, atol=1e-5) and float(wanted.detach().abs().max()) > 0.1
    with torch.no_grad():
        other.q_norm.weight *= 1.5
    assert not torch.allclose(wanted, other(hidden_states=x, position_embeddings=turns)[0], atol=1e-3)


def test_the_cache_of_mfa_is_that_of_grouped_queries_on_one_head():
    mfa, gqa = (wrapped(network(name, **more)) for name, more in (("mfa", {}), ("gqa", {"num_key_value_heads": 1})))
    kept = {}
    for name, model in (("mfa", mfa), ("gqa", gqa)):
        cache = model.new_cache(40)
        model.extend(IDS, cache)
        kept[name] = cache.bytes
        assert cache.bytes == 40 * model.position_bytes
    assert kept["mfa"] == kept["gqa"] == 40 * 3 * 2 * 32 * 4


@pytest.mark.parametrize(("attention", "elements"), [("mha", 256), ("gqa", 128), ("mla", 80), ("mfa", 64)])
def test_a_cache_keeps_what_the_config_says(attention, elements):
    model = wrapped(network(attention))
    cache = model.new_cache(32)
    model.extend(IDS, cache)
    assert model.position_bytes == 3 * elements * 4 and cache.bytes == 32 * model.position_bytes
    heads = {"mha": (4, 32), "gqa": (6, 32), "mla": (4, 80), "mfa": (8, 32)}[attention]
    assert model.position_operations == 4 * 3 * heads[0] * heads[1]


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_behind_a_cache_a_text_reads_as_a_whole(attention):
    model = wrapped(network(attention))
    whole = model.model(torch.tensor([IDS])).logits[0]
    cache = model.new_cache(32)
    z = torch.cat([model.extend(IDS[:7], cache).logits, *(model.extend([t], cache).logits for t in IDS[7:])])
    assert torch.allclose(whole, z, atol=1e-5)


def test_the_latent_is_read_as_if_keys_and_values_had_been_made_of_it():
    """MLA without absorption, written out."""
    made = network("mla")
    part, c = made.model.layers[1].self_attn, made.config
    assert isinstance(part, LatentAttention)
    x, (cos, sin) = rows_of(made, 9)
    h, nope, turned, v_dim = c.num_attention_heads, c.nope_dim, c.head_dim, c.value_dim

    def turn(y):
        a, b = y.chunk(2, -1)
        return y * cos[:, None] + torch.cat([-b, a], -1) * sin[:, None]

    q = part.q_up_proj(part.q_norm(part.q_down_proj(x))).view(1, 9, h, nope + turned).transpose(1, 2)
    latent, k_turned = part.kv_down_proj(x).split((c.kv_rank, turned), -1)
    made_of_it = (part.kv_norm(latent) @ part.kv_up.T).view(1, 9, h, nope + v_dim).transpose(1, 2)
    k = torch.cat([made_of_it[..., :nope], turn(k_turned[:, None]).expand(-1, h, -1, -1)], -1)
    q = torch.cat([q[..., :nope], turn(q[..., nope:])], -1)
    scores = (q @ k.mT) * (nope + turned) ** -0.5
    scores = scores.masked_fill(torch.ones(9, 9).triu(1).bool(), -torch.inf)
    wanted = part.o_proj((scores.softmax(-1) @ made_of_it[..., nope:]).transpose(1, 2).flatten(-2))
    got = part(hidden_states=x, position_embeddings=(cos, sin))[0]
    assert torch.allclose(wanted, got, atol=1e-5)


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_the_halves_of_all_layers_are_a_forward_for_every_text(attention):
    model = wrapped(network(attention))
    cache = model.new_cache(16)
    model.extend(IDS[:9], cache)
    several = model.spread(cache, 3, 32)
    tokens = [[11, 12, 13], [21, 22, 23], [31, 32, 33]]
    for t in range(3):
        x = model.embed([text[t] for text in tokens])
        for layer in range(model.num_layers):
            x, u = model.attend(x, several, layer)
            x = x + model.feed(u, layer)
        z = model.unembed(x)
    for text, row in zip(tokens, z, strict=True):
        whole = model.model(torch.tensor([[*IDS[:9], *text]])).logits[0, -1]
        assert torch.allclose(whole, row, atol=1e-5)
    assert several.length == 12 and several.bytes == 3 * 32 * model.position_bytes
    assert cache.length == 9


def test_a_text_longer_than_the_model_is_refused():
    model = wrapped(network(max_position_embeddings=4))
    cache = model.spread(model.new_cache(1), 2, 8)
    for _ in range(4):
        model.attend(model.embed([5, 6]), cache, 0)
    with pytest.raises(UserError, match="4 positions"):
        model.attend(model.embed([5, 6]), cache, 0)


@pytest.mark.parametrize("n", [1, 5])
def test_the_feed_forward_half_in_numpy_is_that_of_the_network(n):
    made = network()
    model = wrapped(made)
    x = 3 * torch.randn(n, 48)
    for layer, half in enumerate(model.feed_forwards):
        assert torch.allclose(made.model.layers[layer].mlp(x), torch.from_numpy(half(x.numpy())), atol=1e-5)


def test_experts_that_a_row_does_not_use_do_not_reach_it():
    half = wrapped(network()).feed_forwards[0]
    x = np.random.default_rng(0).normal(size=(6, 48)).astype(np.float32)
    scores = x @ half.weights["router"].T
    for i, row in enumerate(scores):
        weights = {name: w.copy() for name, w in half.weights.items()}
        for unused in np.argsort(row)[:-2]:
            weights["down_rows"].reshape(8, -1, 48)[unused] = 1e3
        assert np.allclose(FeedForward(weights, 2)(x[i : i + 1]), half(x[i : i + 1]), atol=1e-5)


def test_the_four_have_as_many_weights_to_a_five_hundredth():
    sizes = [
        sum(p.numel() for n, p in network(name, hidden_size=96, num_hidden_layers=1).named_parameters() if "attn" in n)
        for name in ATTENTIONS
    ]
    assert all(abs(a - b) / a < 0.002 for a, b in itertools.combinations(sizes, 2))


def test_it_is_of_the_kind_whose_layers_come_apart():
    model = wrapped(network())
    assert kinds_of(model) == {"causal", "layered", "moe", "split"} and KINDS["split"].board == "causal"
    assert plan({"model_type": "four_attentions"}, "x").kinds == ("causal", "layered", "moe", "split")
    assert plan({"model_type": "block_ffn"}, "x").kinds == ("causal", "layered", "moe")


def test_an_unknown_attention_and_too_many_experts_are_refused():
    with pytest.raises(ValueError, match="attention 'linear' is unknown; choose one of mha, gqa, mla, mfa"):
        FourAttentionsConfig(attention="linear")
    with pytest.raises(ValueError, match="9 experts of 8"):
        FourAttentionsConfig(num_experts_per_tok=9)
