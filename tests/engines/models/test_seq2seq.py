"""Encoder-decoders: greedy equals transformers' own, the encoder runs once, the cache can be cropped, everything is
counted."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import T5Config, T5ForConditionalGeneration

from engines.core.errors import UserError
from engines.core.kinds import BlockMaskedLM, CausalLM, MaskedLM, Seq2SeqLM, counted
from engines.core.meter import Meter
from engines.core.trace import ModelRecord
from engines.models.adapters.seq2seq import HFSeq2SeqLM
from engines.models.tokens import IdTokenizer
from engines.models.zoo import load_model

SIZE: dict[str, Any] = {
    "vocab_size": 40, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 3, "num_decoder_layers": 2,
    "num_heads": 4, "dropout_rate": 0.0, "feed_forward_proj": "gated-gelu", "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 12, "decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 2,
    "bos_token_id": None,
}  # fmt: skip
PROMPT = [3, 14, 15, 9, 26, 5, 35, 8, 9]
ANSWER = [21, 7, 30, 7, 11]


def network(attention: str = "sdpa", **other: Any) -> T5ForConditionalGeneration:
    torch.manual_seed(3)
    return T5ForConditionalGeneration(T5Config(**SIZE | other, initializer_factor=2.0, attn_implementation=attention))


def build(attention: str = "sdpa", **other: Any) -> HFSeq2SeqLM:
    return HFSeq2SeqLM(
        network(attention, **other), IdTokenizer(40), ModelRecord("model", "t5", "seq2seq"), frozenset({2})
    )


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


def close(a: torch.Tensor, b: torch.Tensor) -> None:
    torch.testing.assert_close(a, b, atol=1e-4, rtol=0)


def test_it_is_of_no_other_kind() -> None:
    model = build()
    assert isinstance(model, Seq2SeqLM) and not isinstance(model, (CausalLM, MaskedLM, BlockMaskedLM))
    assert (model.encoder_layers, model.decoder_layers, model.start_id, model.max_positions) == (3, 2, 0, 512)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_greedy_equals_generate(attention: str) -> None:
    model, lengths = build(attention), set()
    for seed in range(6):
        prompt = torch.randint(3, 40, (4 + 3 * seed,), generator=torch.Generator().manual_seed(seed)).tolist()
        theirs = model.model.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=24)[0, 1:].tolist()
        assert greedy(model, prompt, 24) == theirs
        lengths.add(len(set(theirs)))
    assert max(lengths) > 3  # the random networks say something


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_parts_on_the_cache_equal_one_full_forward(attention: str) -> None:
    model = build(attention)
    rows = fresh(model, ANSWER).logits[0]
    cache = model.new_cache(model.encode(PROMPT), 20)
    assert cache.length == len(PROMPT) - 1
    fed = [model.start_id, *ANSWER]
    parts = [model.extend(fed[a:b], cache).logits for a, b in [(0, 1), (1, 4), (4, 5), (5, 6)]]
    close(torch.cat(parts), rows)
    assert cache.length == len(PROMPT) - 1 + 6 and parts[0].dtype == torch.float32
    parts[0][0, 3] = -torch.inf  # a method may write into them
    last = model.extend(
        torch.tensor(fed), model.new_cache(model.encode(torch.tensor(PROMPT)), 20), last_only=True
    ).logits
    close(last, rows[-1:])


def test_a_cropped_cache_goes_on_like_a_fresh_one() -> None:
    model = build()
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
    assert model.extend([1], cache).attention is None and not model._cross[-1].q._forward_hooks


def test_limits() -> None:
    model = build(n_positions=16)
    memory = model.encode(PROMPT)
    cache = model.new_cache(memory, 10)
    with pytest.raises(UserError, match="room for 10 positions; 8 are used and 3 more"):
        model.extend([0, 1, 2], cache)
    assert cache.length == 8
    with pytest.raises(UserError, match="16 positions and position 16 was fed"):
        model.extend([0] * 9, model.new_cache(memory, 40))
    with pytest.raises(UserError, match="16 positions and a prompt of 17"):
        model.encode([3] * 17)
    with pytest.raises(UserError, match="a prompt of 9 tokens needs room for them; capacity=8"):
        model.new_cache(memory, 8)
    for call in (lambda: model.encode([]), lambda: model.extend([], cache)):
        with pytest.raises(ValueError, match="no token was given"):
            call()
    with pytest.raises(UserError, match="does not say what its decoder starts with"):
        build(decoder_start_token_id=None)
    assert model.warm_up() > 0 and model.warm_up() == 0.0


def test_encoder_and_decoder_are_booked_apart_and_edits_apply() -> None:
    meter = Meter(forbidden={9: {5}, 11: {6}})
    model = counted(build(), "model", meter)
    assert isinstance(model, Seq2SeqLM) and (model.start_id, model.encoder_layers, model.decoder_layers) == (0, 3, 2)
    memory = model.encode(PROMPT)
    assert (meter.forwards, meter.tokens_fed) == ({}, 9) and meter.seconds > 0 and meter.work == {"model": 27}
    meter.reset()
    cache = model.new_cache(memory, 20)
    logits = model.extend([0, *ANSWER[:2]], cache).logits
    assert (meter.forwards, meter.tokens_fed) == ({"model": 1}, 3)
    assert logits.isinf().nonzero().tolist() == [[0, 5], [2, 6]]  # rows of positions 9, 10, 11
    cache.crop(10)
    assert model.extend([21, 7], cache, last_only=True).logits.isinf().nonzero().tolist() == []
    cache.crop(10)
    assert model.extend([21], cache, last_only=True, attention=True).logits.isinf().nonzero().tolist() == [[0, 6]]
    assert meter.tokens_fed == 6
    cache.crop(10)
    assert model.extend(ANSWER[:2], cache).logits.isinf().nonzero().tolist() == [[0, 6]]
    assert meter.forwards == {"model": 4}


def test_a_folder(tmp_path: Path) -> None:
    """What `tiny-encdec` is: stock T5, loaded by `load_model`, and a clear word where an option does not fit."""
    network().save_pretrained(tmp_path / "t5")
    model = load_model(tmp_path / "t5", kind="seq2seq")
    found = type(model).__name__, model.record.kind, model.eos_ids, model.start_id
    assert found == ("HFSeq2SeqLM", "seq2seq", {2}, 0)
    assert model.record.parameters == sum(
        p.numel() for p in model.model.parameters()
    )  # the tied embedding is stored and counted once
    assert greedy(model, PROMPT, 8) == greedy(build(), PROMPT, 8)
    with pytest.raises(UserError, match="mask_id is an option of masked, block and two-way models and t5 is seq2seq"):
        load_model(tmp_path / "t5", mask_id=3)
    config = json.loads((tmp_path / "t5" / "config.json").read_text()) | {"model_type": "bart"}
    (tmp_path / "t5" / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match="an encoder-decoder of the type 'bart'; only those of the type 't5'"):
        load_model(tmp_path / "t5", dtype="float32")
