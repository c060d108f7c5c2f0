"""Tiny-A2D as it is published: a Qwen3 (or Qwen2, or Llama) without a causal mask, masked or by blocks, against the
stock class with an explicit mask."""

import json

import pytest
import torch
import transformers
from safetensors.torch import save_file
from transformers import LlamaConfig, Qwen2Config, Qwen3Config

import engines
from engines.core.errors import UserError
from engines.models.mapping import plan
from engines.models.plans import Plan
from engines.models.tokens import HFTokenizer
from engines.models.vocabulary import wrap

SIZE = {
    "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 130,
    "rms_norm_eps": 1e-6, "initializer_range": 0.3, "tie_word_embeddings": True, "eos_token_id": 62,
}  # fmt: skip
STOCK = {"a2d-qwen3": (Qwen3Config, "Qwen3"), "a2d-qwen2": (Qwen2Config, "Qwen2"), "a2d-llama": (LlamaConfig, "Llama")}
MASK, IDS = 63, torch.randint(1, 62, (40,), generator=torch.Generator().manual_seed(0))


def written(folder, model_type="a2d-qwen3", **said):
    """A checkpoint of dllm's `convert`: the stock config with another type, the stock tensors, no class named but its
    own. Gives the stock network."""
    config_class, name = STOCK[model_type]
    torch.manual_seed(0)
    stock = getattr(transformers, f"{name}ForCausalLM")(config_class(**SIZE)).eval()
    folder.mkdir()
    own = {"model_type": model_type, "architectures": [f"A2D{name}LMHeadModel"]}
    (folder / "config.json").write_text(json.dumps(stock.config.to_dict() | own | said))
    tensors = {key: tensor.contiguous() for key, tensor in stock.state_dict().items() if key != "lm_head.weight"}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return stock


@torch.no_grad()
def rows(stock, ids, sees):
    """Logits of the stock causal class where row i sees column j as sees [n, n] says."""
    mask = torch.zeros(1, 1, *sees.shape).masked_fill_(~sees, torch.finfo(torch.float32).min)
    return stock(input_ids=ids[None], attention_mask=mask, use_cache=False).logits[0][:, :MASK]


@pytest.mark.parametrize("model_type", STOCK)
def test_the_masked_ones_see_everything(tmp_path, model_type):
    stock = written(tmp_path / "Qwen3-0.6B-diffusion-mdlm-v0.1", model_type)
    model = engines.load_model(tmp_path / "Qwen3-0.6B-diffusion-mdlm-v0.1", mask_id=MASK)
    assert (model.record.kind, model.shift, model.mask_id, model.eos_ids) == ("masked", False, MASK, {62})
    everything = torch.ones(len(IDS), len(IDS), dtype=torch.bool)
    torch.testing.assert_close(model(IDS)[:, :MASK], rows(stock, IDS, everything), atol=1e-4, rtol=0)
    assert float((rows(stock, IDS, everything) - rows(stock, IDS, everything.tril())).abs().max()) > 0.1


@pytest.mark.parametrize(
    ("name", "said", "options", "block"),
    [
        ("Qwen3-0.6B-diffusion-bd3lm-v0.1", {}, {}, 32),
        ("mine", {}, {"block_size": 8}, 8),
        ("mine", {"block_size": 16}, {}, 16),
        ("mine-bd3lm", {"block_size": 16}, {"block_size": 4}, 4),
    ],
)
def test_the_others_see_their_block_and_what_is_before_it(tmp_path, name, said, options, block):
    """Blocks are counted from the beginning of the text, as in training; neither file says that it is one of them."""
    stock = written(tmp_path / name, **said)
    model = engines.load_model(tmp_path / name, mask_id=MASK, **options)
    assert (model.record.kind, model.shift, model.block_size) == ("block", False, block)
    at = torch.arange(len(IDS)) // block
    wanted = rows(stock, IDS, at[None] <= at[:, None])
    torch.testing.assert_close(model(IDS)[:, :MASK], wanted, atol=1e-4, rtol=0)
    cache = model.new_cache(64)
    model.store(IDS[:block], cache)
    if len(behind := IDS[block : 2 * block]) == block:
        z = model.denoise(behind, cache)[:, :MASK]
        torch.testing.assert_close(z, wanted[block : 2 * block], atol=1e-4, rtol=0)


def test_methods_of_both_kinds_run(tmp_path):
    written(tmp_path / "a-mdlm")
    written(tmp_path / "a-bd3lm", block_size=8)
    for name, kind in (("a-mdlm", "masked"), ("a-bd3lm", "block")):
        model = engines.load_model(tmp_path / name, mask_id=MASK)
        for info in (one for one in engines.list_methods() if dict(one.needs) == {"model": kind} and not one.parts):
            names = {"steps", "block_length", "small_block_size"} & {param.name for param in info.params}
            params = {"max_new_tokens": 16} | dict.fromkeys(names, 8)
            trace = engines.run(info.slug, model, [17, 5, 9], params=params)
            assert trace.output_ids and MASK not in trace.output_ids, info.slug
            break


def test_a_mask_that_nobody_names_is_asked_for(tmp_path):
    written(tmp_path / "mdlm")
    with pytest.raises(UserError, match="'mdlm' does not say which token is its mask; give it as mask_id="):
        engines.load_model(tmp_path / "mdlm")
    assert plan({"model_type": "a2d-qwen3", "mask_token_id": 9}, "mdlm").mask_id == 9


def test_its_chat_format_is_asked_not_to_think():
    """As dllm's own chat does; a template that does not know the word ignores it."""
    how = plan({"model_type": "a2d-qwen3", **SIZE}, "mdlm")
    plain = engines.load_model("tiny-ar-s").tokenizer.tokenizer
    template = "{% for one in messages %}{{ one.content }}{% endfor %}{% if enable_thinking is false %}: 1{% endif %}"
    plain.chat_template, before = template, plain.chat_template
    try:
        said = wrap(plain, None, frozenset(), None, how).encode_prompt("add: 2")
        assert said == HFTokenizer(plain).encode("add: 2: 1")
        other = wrap(plain, None, frozenset(), None, Plan("causal", "x")).encode_prompt("add: 2")
        assert other == HFTokenizer(plain).encode("add: 2")
    finally:
        plain.chat_template = before
