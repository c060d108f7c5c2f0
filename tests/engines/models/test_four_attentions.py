"""Networks of our own: four attentions in one mixture, and power-law attention: caches, halves of layers, refusals."""

import pytest
import torch
from torch import nn

from engines.core.errors import UserError
from engines.core.kinds import counted, kinds_of
from engines.core.meter import Meter
from engines.core.trace import ModelRecord
from engines.models.adapters.power_law import HFPowerLawLM
from engines.models.adapters.split import HFSplitLM
from engines.models.configs.mapping import plan
from engines.models.forwards import prepared
from engines.models.networks import network_class
from engines.models.networks.four_attentions import ATTENTIONS, FourAttentionsConfig, LatentAttention
from engines.models.networks.pldr import PLDRConfig, PLDRForCausalLM
from engines.models.tokenizers.tokens import IdTokenizer
from engines.training.architectures.attentions import SHAPES
from tests.engines.refusals import refuses

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
    return prepared(
        HFSplitLM(made, IdTokenizer(64, {2: "<eos>"}), ModelRecord("target", "x", "causal"), frozenset({2}))
    )


def rows_of(made, n=12):
    """Rows [1, n, H] at root mean square 1 and the turns of their places, as the attention of a layer reads them."""
    x = torch.randn(1, n, made.config.hidden_size)
    x = x / x.square().mean(-1, keepdim=True).sqrt()
    return x, made.model.rotary_emb(x, position_ids=torch.arange(n)[None])


@pytest.mark.parametrize("rank", [48, 96])
def test_one_head_and_a_rank_as_large_as_the_hidden_size_are_ordinary_attention(rank):
    """A square map that keeps lengths makes MFA's norm the identity, and a longer rank only rescales it."""
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


@pytest.mark.parametrize(
    ("attention", "elements", "heads"),
    [("mha", 256, 4 * 32), ("gqa", 128, 6 * 32), ("mla", 80, 4 * 80), ("mfa", 64, 8 * 32)],
)
def test_behind_a_cache_that_keeps_what_the_config_says_a_text_reads_as_a_whole(attention, elements, heads):
    model = wrapped(network(attention))
    cache = model.new_cache(32)
    z = torch.cat([model.extend(IDS[:7], cache).logits, *(model.extend([t], cache).logits for t in IDS[7:])])
    assert torch.allclose(model.model(torch.tensor([IDS])).logits[0], z, atol=1e-5)
    assert model.position_bytes == 3 * elements * 4 and cache.bytes == 32 * model.position_bytes
    assert model.position_operations == 4 * 3 * heads


def test_the_latent_is_read_as_if_keys_and_values_had_been_made_of_it():
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


@pytest.mark.parametrize("n", [1, 5])
def test_the_feed_forward_half_in_numpy_is_that_of_the_network(n):
    made = network()
    model = wrapped(made)
    x = 3 * torch.randn(n, 48)
    for layer, half in enumerate(model.feed_forwards):
        assert torch.allclose(made.model.layers[layer].mlp(x), torch.from_numpy(half(x.numpy())), atol=1e-5)


def test_its_layers_come_apart_and_what_cannot_be_is_refused():
    model = wrapped(network(max_position_embeddings=4))
    assert kinds_of(model) == {"causal", "layered", "moe", "split"}
    assert plan({"model_type": "four_attentions"}, "x").kinds == ("causal", "layered", "moe", "split")
    cache = model.spread(model.new_cache(1), 2, 8)
    for _ in range(4):
        model.attend(model.embed([5, 6]), cache, 0)
    refuses(UserError, "4 positions", model.attend, model.embed([5, 6]), cache, 0)
    refuses(ValueError, "attention 'linear' is unknown; choose one of mha,", FourAttentionsConfig, attention="linear")
    refuses(ValueError, "9 experts of 8", FourAttentionsConfig, num_experts_per_tok=9)


TEXT = [3, 9, 4, 17, 5]


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    sizes = {"vocab_size": 40, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3}
    sizes |= {"intermediate_size": 32, "metric_units": 2, "metric_size": 16, "max_position_embeddings": 16}
    config = PLDRConfig(**sizes)
    record = ModelRecord("target", "small", "power-law")
    return HFPowerLawLM(PLDRForCausalLM(config), IdTokenizer(40), record, frozenset({2}))


def test_a_whole_text_is_what_the_network_says_and_rows_behind_a_cache_are_those_with_its_g(model):
    found = model.forward(TEXT, last_only=False)
    assert torch.equal(found.G_LM, model.model.model(torch.tensor([TEXT])).G[:, 0])
    assert torch.allclose(found.logits, model.model(torch.tensor([TEXT])).logits[0], atol=1e-6)
    assert found.A_LM is not None and found.A_LM.shape == found.G_LM.shape == (2, 3, 8, 8)
    assert 0 < found.operator_seconds < found.ended - found.began
    assert torch.allclose(model.forward(TEXT).logits[0], found.logits[-1], atol=1e-6)
    cache = model.new_cache(8)
    G = model.forward(TEXT[:3], cache).G_LM
    later = model.forward(TEXT[3:], cache, last_only=False)  # two at once, G of the cache's A
    whole = model.forward(TEXT, G=G, last_only=False)
    assert torch.equal(later.G_LM, G) and whole.A_LM is None and whole.operator_seconds == 0
    assert torch.allclose(later.logits, whole.logits[3:], atol=1e-5)


def test_cropping_forgets_rows_and_keeps_g_and_what_is_counted(model):
    cache = model.new_cache(8)
    first = model.forward(TEXT, cache)
    cache.crop(3)
    assert cache.length == 3 and torch.equal(model.forward([7], cache).G_LM, first.G_LM)
    cache.keep(2, [1])
    assert cache.length == 3
    refuses(ValueError, "holds 3 positions; it cannot be cropped to 4", cache.crop, 4)
    refuses(ValueError, "no token was fed", model.forward, [])
    refuses(UserError, "small has 16 positions and position 16 was fed", model.forward, [1] * 17)
    refuses(ValueError, r"\[2, 3, 8, 8\] is needed", model.forward, TEXT, G=torch.eye(8))
    refuses(UserError, "cache", model.forward, TEXT, model.new_cache(4))
    meter = Meter()
    view = counted(model, "target", meter)
    meter.forbidden = {5: {int(view.forward(TEXT).logits.argmax())}}
    assert int(view.forward(TEXT).logits.argmax()) not in meter.forbidden[5]
    assert (meter.forwards, meter.tokens_fed, meter.work) == ({"target": 2}, 10, {"target": 20})
    assert view.beside(TEXT).logits.isinf().sum() == 1 and meter.forwards == {"target": 2}
    assert view.operator_bytes == 2 * 2 * 3 * 64 * 4 and view.position_bytes == 2 * 2 * 24 * 4
