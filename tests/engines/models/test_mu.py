"""Our encoder-decoder and its decoder-only twin: equal numbers of weights, one forward in parts, times by layer."""

from itertools import pairwise

import pytest
import torch

import engines
from engines.core.kinds import LayeredLM, Seq2SeqLM
from engines.core.trace import ModelRecord
from engines.models.adapters.seq2seq import MuSeq2SeqLM
from engines.models.networks.mu import MuConfig, MuForSeq2Seq
from engines.models.networks.plain_decoder import PlainDecoderConfig, PlainDecoderForCausalLM
from engines.models.tokens import IdTokenizer
from engines.training.core.weights import write_network

SIZE = {"vocab_size": 40, "num_attention_heads": 4, "num_key_value_heads": 4, "tie_word_embeddings": True}
PROMPT, ANSWER = [3, 14, 15, 9, 26, 5, 35, 8, 9], [21, 7, 30, 7, 11]


def network(**other):
    torch.manual_seed(3)
    return MuForSeq2Seq(MuConfig(**SIZE | {"hidden_size": 32, "initializer_range": 0.3, "eos_token_id": 2} | other))


def build(**other):
    return MuSeq2SeqLM(network(**other), IdTokenizer(40), ModelRecord("model", "mu", "seq2seq"), frozenset({2}))


def close(a, b):
    torch.testing.assert_close(a, b, atol=1e-4, rtol=0)


def fresh(model, answer):
    """Logits of an answer, all at once and without any cache."""
    with torch.no_grad():
        return model.model(torch.tensor([PROMPT]), torch.tensor([[model.start_id, *answer]])).logits[0]


@pytest.mark.parametrize("d", [32, 96])
def test_eight_and_three_layers_have_the_weights_of_twelve(d):
    own = {"hidden_size": d, "eos_token_id": 2}
    pair = (
        MuForSeq2Seq(MuConfig(**SIZE | own)),
        PlainDecoderForCausalLM(PlainDecoderConfig(**SIZE | own, num_hidden_layers=12)),
    )
    both = [sum(p.numel() for p in one.parameters()) for one in pair]
    assert both == [144 * d * d + 40 * d] * 2


def test_the_parts_of_a_forward_are_one_forward():
    model = build()
    rows, fed = fresh(model, ANSWER), [model.start_id, *ANSWER]
    cache = model.new_cache(model.encode(PROMPT), 20)
    parts = [model.extend(fed[a:b], cache).logits for a, b in [(0, 1), (1, 4), (4, 5), (5, 6)]]
    close(torch.cat(parts), rows)
    assert (rows.argmax(-1)[1:] != rows.argmax(-1)[:-1]).any()  # the random network says something
    cache.crop(len(PROMPT) + 2)
    close(model.extend([12, 13], cache).logits, fresh(model, [21, 7, 12, 13])[-2:])


def test_the_encoder_reads_both_ways_and_only_order_counts():
    model = build()
    with torch.no_grad():
        seen = model.model.encode(torch.tensor([PROMPT]))
        other = model.model.encode(torch.tensor([[*PROMPT[:-1], 30]]))
        padded = model.model.encode(torch.tensor([[0, 0, *PROMPT]]), torch.tensor([[False] * 2 + [True] * len(PROMPT)]))
    assert not torch.allclose(seen[0, 0], other[0, 0], atol=1e-3)  # the first token has seen the last one
    close(padded[:, 2:], seen)


def test_attention_over_the_prompt_and_times_by_layer():
    model, marks = build(), []
    cache = model.new_cache(model.encode(PROMPT, marks=marks), 20)
    told = [(m.phase, m.layer) for m in marks]
    assert told == [*(("encode", i) for i in range(8)), *(("cross_kv", i) for i in range(3))]
    found = model.extend([model.start_id, *ANSWER], cache, attention=True, marks=marks)
    assert [(m.phase, m.layer) for m in marks[11:]] == [("decode", i) for i in range(3)]
    assert all(m.began <= m.ended for m in marks) and all(a.ended <= b.began for a, b in pairwise(marks))
    assert found.attention.shape == (4, 6, len(PROMPT))
    close(found.attention.sum(-1), torch.ones(4, 6))
    assert all(not one._forward_hooks for one in model.model.modules())  # nothing is left behind
    plain = model.extend([model.start_id], model.new_cache(model.encode(PROMPT), 12))
    assert plain.attention is None


def test_what_was_looked_at_is_what_the_layer_used():
    """The last layer's output follows from the attention that is handed out."""
    model, kept = build(), {}
    last = model.model.decoder[-1].cross
    hook = last.register_forward_hook(lambda _m, given, out: kept.update(x=given[0], out=out))
    cache = model.new_cache(model.encode(PROMPT), 20)
    found = model.extend([model.start_id, *ANSWER], cache, attention=True)
    hook.remove()
    values = cache.memory.cross.layers[-1].values[0]
    again = last.o_proj((found.attention @ values).transpose(0, 1).flatten(1))
    close(again, kept["out"][0])


def test_folders_load_as_what_they_are(tmp_path):
    write_network(tmp_path / "one", network(), "int8")
    torch.manual_seed(0)
    twin = PlainDecoderForCausalLM(PlainDecoderConfig(**SIZE, hidden_size=32, num_hidden_layers=12, eos_token_id=2))
    write_network(tmp_path / "two", twin)
    one, two = engines.load_model(tmp_path / "one"), engines.load_model(tmp_path / "two", kind="layered")
    assert isinstance(one, Seq2SeqLM) and isinstance(two, LayeredLM)
    assert one.record.kind == "seq2seq" and one.record.parameters == two.record.parameters == 144 * 32**2 + 40 * 32
    assert sum(one.weights.values()) == sum(two.weights.values()) == one.record.parameters
    assert one.position_bytes * 4 == two.position_bytes == 2 * 12 * 32 * 4
    z = two.extend(PROMPT, two.new_cache(12)).logits
    close(z, twin.eval()(torch.tensor([PROMPT])).logits[0])
