"""Encoder-decoders: greedy equals transformers' own, the cache can be cropped, everything is counted."""

from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import T5Config, T5ForConditionalGeneration

from engines.core.errors import UserError
from engines.core.kinds import LayeredLM, Seq2SeqLM, counted
from engines.core.meter import Meter
from engines.core.trace import ModelRecord
from engines.models.adapters.seq2seq import HFSeq2SeqLM, MuSeq2SeqLM
from engines.models.loading.zoo import load_model
from engines.models.networks.mu import MuConfig, MuForSeq2Seq
from engines.models.networks.plain_decoder import PlainDecoderConfig, PlainDecoderForCausalLM
from engines.models.tokenizers.tokens import IdTokenizer
from engines.training.core.weights import write_network
from tests.engines.models.stock import close
from tests.engines.refusals import refuses

SIZE: dict[str, Any] = {
    "vocab_size": 40, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 3, "num_decoder_layers": 2,
    "num_heads": 4, "dropout_rate": 0.0, "feed_forward_proj": "gated-gelu", "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 12, "decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 2,
    "bos_token_id": None,
}  # fmt: skip
MU = {"vocab_size": 40, "num_attention_heads": 4, "num_key_value_heads": 4, "tie_word_embeddings": True}
MU |= {"hidden_size": 32, "eos_token_id": 2}
PROMPT = [3, 14, 15, 9, 26, 5, 35, 8, 9]
ANSWER = [21, 7, 30, 7, 11]


def network(attention: str = "sdpa", **other: Any) -> T5ForConditionalGeneration:
    torch.manual_seed(3)
    return T5ForConditionalGeneration(T5Config(**SIZE | other, initializer_factor=2.0, attn_implementation=attention))


def build(attention: str = "sdpa", **other: Any) -> HFSeq2SeqLM:
    record = ModelRecord("model", "t5", "seq2seq")
    return HFSeq2SeqLM(network(attention, **other), IdTokenizer(40), record, frozenset({2}))


def fresh(model: HFSeq2SeqLM, answer: list[int], **options: Any) -> Any:
    with torch.no_grad():
        decoder = torch.tensor([[model.start_id, *answer]])
        return model.model(input_ids=torch.tensor([PROMPT]), decoder_input_ids=decoder, use_cache=False, **options)


def greedy(model: Seq2SeqLM, prompt: list[int], new: int) -> list[int]:
    """The loop that an engine would write, in positions of the board."""
    ids = list(prompt)
    cache = model.new_cache(model.encode(prompt), len(prompt) + new)
    while len(ids) < len(prompt) + new and not (len(ids) > len(prompt) and ids[-1] in model.eos_ids):
        behind = [model.start_id, *ids[len(prompt) :]][cache.length - len(prompt) + 1 :]
        ids.append(int(model.extend(behind, cache, last_only=True).logits[0].argmax()))
    return ids[len(prompt) :]


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_greedy_equals_generate(attention: str) -> None:
    model, lengths = build(attention), set()
    for seed in range(6):
        prompt = torch.randint(3, 40, (4 + 3 * seed,), generator=torch.Generator().manual_seed(seed)).tolist()
        theirs = model.model.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=24)[0, 1:].tolist()
        assert greedy(model, prompt, 24) == theirs
        lengths.add(len(set(theirs)))
    assert max(lengths) > 3  # the random networks say something


def mu(**other: Any) -> MuSeq2SeqLM:
    """Our own encoder-decoder."""
    torch.manual_seed(3)
    own = MuForSeq2Seq(MuConfig(**MU | {"initializer_range": 0.3} | other))
    return MuSeq2SeqLM(own, IdTokenizer(40), ModelRecord("model", "mu", "seq2seq"), frozenset({2}))


@pytest.mark.parametrize("make", [build, partial(build, "eager"), mu], ids=["sdpa", "eager", "mu"])
def test_parts_on_the_cache_equal_one_full_forward(make: Any) -> None:
    model = make()
    rows = fresh(model, ANSWER).logits[0]
    cache = model.new_cache(model.encode(PROMPT), 20)
    fed = [model.start_id, *ANSWER]
    parts = [model.extend(fed[a:b], cache).logits for a, b in [(0, 1), (1, 4), (4, 5), (5, 6)]]
    close(torch.cat(parts), rows)
    assert cache.length == len(PROMPT) - 1 + 6
    parts[0][0, 3] = -torch.inf  # a method may write into them
    again = model.new_cache(model.encode(torch.tensor(PROMPT)), 20)
    close(model.extend(torch.tensor(fed), again, last_only=True).logits, rows[-1:])


@pytest.mark.parametrize("make", [build, mu])
def test_a_cropped_cache_goes_on_like_a_fresh_one(make: Any) -> None:
    model = make()
    memory = model.encode(PROMPT)
    cache, other = model.new_cache(memory, 20), model.new_cache(memory, 20)
    first = model.extend([model.start_id, *ANSWER], cache).logits
    cache.crop(len(PROMPT) + 2)  # start, 21, 7
    close(model.extend([12, 13], cache).logits, fresh(model, [21, 7, 12, 13]).logits[0, -2:])
    cache.keep(len(PROMPT), [0, 2])  # start and 21 stay, then the rows of 7 and of 13
    assert cache.length == len(PROMPT) + 2
    close(model.extend([model.start_id, *ANSWER], other).logits, first)  # the memory serves several caches
    with pytest.raises(ValueError, match="holds 10 positions, 8 of them from the encoder; it cannot be cropped to 7"):
        cache.crop(cache.length - 1) or cache.crop(7)


def test_attention_over_the_prompt() -> None:
    model, eager = build(), build("eager")
    cache = model.new_cache(model.encode(PROMPT), 20)
    model.extend([model.start_id, *ANSWER[:2]], cache)
    found = model.extend(ANSWER[2:], cache, attention=True)
    assert found.attention.shape == (4, 3, len(PROMPT))
    close(found.attention, fresh(eager, ANSWER, output_attentions=True).cross_attentions[-1][0, :, 3:])
    close(found.attention.sum(-1), torch.ones(4, 3))
    assert model.extend([1], cache).attention is None and not model._last.q._forward_hooks


def test_limits() -> None:
    model = build(n_positions=16)
    memory = model.encode(PROMPT)
    cache = model.new_cache(memory, 10)
    refuses(UserError, "room for 10 positions; 8 are used and 3 more", model.extend, [0, 1, 2], cache)
    assert cache.length == 8
    refuses(UserError, "16 positions and position 16 was fed", model.extend, [0] * 9, model.new_cache(memory, 40))
    refuses(UserError, "16 positions and a prompt of 17", model.encode, [3] * 17)
    refuses(UserError, "a prompt of 9 tokens needs room for them; capacity=8", model.new_cache, memory, 8)
    for call in (lambda: model.encode([]), lambda: model.extend([], cache)):
        refuses(ValueError, "no token was given", call)
    refuses(UserError, "does not say what its decoder starts with", build, decoder_start_token_id=None)


def test_encoder_and_decoder_are_booked_apart_and_edits_apply() -> None:
    meter = Meter(forbidden={9: {5}, 11: {6}})
    model = counted(build(), "model", meter)
    memory = model.encode(PROMPT)
    assert (meter.forwards, meter.tokens_fed, meter.work) == ({}, 9, {"model": 27})
    meter.reset()
    cache = model.new_cache(memory, 20)
    logits = model.extend([0, *ANSWER[:2]], cache).logits
    assert (meter.forwards, meter.tokens_fed) == ({"model": 1}, 3)
    assert logits.isinf().nonzero().tolist() == [[0, 5], [2, 6]]  # rows of positions 9, 10, 11
    for tokens, more, gone in (([21, 7], {"last_only": True}, []), ([21], {"attention": True}, [[0, 6]])):
        cache.crop(10)
        assert model.extend(tokens, cache, **more).logits.isinf().nonzero().tolist() == gone
    assert (meter.forwards, meter.tokens_fed) == ({"model": 3}, 6)


def test_a_folder(tmp_path: Path) -> None:
    network().save_pretrained(tmp_path / "t5")
    model = load_model(tmp_path / "t5", kind="seq2seq")
    found = type(model).__name__, model.record.kind, model.eos_ids, model.start_id
    assert found == ("HFSeq2SeqLM", "seq2seq", {2}, 0)
    assert model.record.parameters == sum(p.numel() for p in model.model.parameters()), "the tied embedding once"
    assert greedy(model, PROMPT, 8) == greedy(build(), PROMPT, 8)


def test_the_encoder_reads_both_ways_and_only_order_counts():
    model = mu()
    with torch.no_grad():
        seen = model.model.encode(torch.tensor([PROMPT]))
        other = model.model.encode(torch.tensor([[*PROMPT[:-1], 30]]))
        padded = model.model.encode(torch.tensor([[0, 0, *PROMPT]]), torch.tensor([[False] * 2 + [True] * len(PROMPT)]))
    assert not torch.allclose(seen[0, 0], other[0, 0], atol=1e-3)  # the first token has seen the last one
    close(padded[:, 2:], seen)


def test_attention_over_the_prompt_and_times_by_layer():
    """The last layer's output follows from the attention that is handed out."""
    (model, marks), kept = (mu(), []), {}
    last = model.model.decoder[-1].cross
    cache = model.new_cache(model.encode(PROMPT, marks=marks), 20)
    told = [(m.phase, m.layer) for m in marks]
    assert told == [*(("encode", i) for i in range(8)), *(("cross_kv", i) for i in range(3))]
    hook = last.register_forward_hook(lambda _m, given, out: kept.update(out=out))
    found = model.extend([model.start_id, *ANSWER], cache, attention=True, marks=marks)
    hook.remove()
    assert [(m.phase, m.layer) for m in marks[11:]] == [("decode", i) for i in range(3)]
    assert all(m.began <= m.ended for m in marks) and all(a.ended <= b.began for a, b in pairwise(marks))
    assert found.attention.shape == (4, 6, len(PROMPT))
    close(found.attention.sum(-1), torch.ones(4, 6))
    again = found.attention @ cache.memory.cross.layers[-1].values[0]
    close(last.o_proj(again.transpose(0, 1).flatten(1)), kept["out"][0])
    assert all(not one._forward_hooks for one in model.model.modules())  # nothing is left behind


def test_folders_load_as_what_they_are(tmp_path):
    write_network(tmp_path / "one", mu().model, "int8")
    torch.manual_seed(0)
    twin = PlainDecoderForCausalLM(PlainDecoderConfig(**MU, num_hidden_layers=12))
    write_network(tmp_path / "two", twin)
    one, two = load_model(tmp_path / "one"), load_model(tmp_path / "two", kind="layered")
    assert isinstance(one, Seq2SeqLM) and isinstance(two, LayeredLM)
    assert one.record.kind == "seq2seq" and one.record.parameters == two.record.parameters == 144 * 32**2 + 40 * 32
    assert sum(one.weights.values()) == sum(two.weights.values()) == one.record.parameters
    assert one.position_bytes * 4 == two.position_bytes == 2 * 12 * 32 * 4
    z = two.extend(PROMPT, two.new_cache(12)).logits
    close(z, twin.eval()(torch.tensor([PROMPT])).logits[0])
