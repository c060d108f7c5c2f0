"""A checkpoint of any family gives what its own network gives, or is refused in a sentence."""

from pathlib import Path
from typing import Any

import pytest
import torch

import engines
from engines.core.errors import UserError
from tests.engines.models import families
from tests.engines.refusals import refuses

PROMPT = [5, 6, 7, 8, 9, 10, 11, 12, 13, 5, 6, 7]  # longer than every window
TREE = ([20, 21, 22, 23, 24, 25], [-1, 0, 0, 1, 2, 3])  # tokens, parents
NEW = 8
LONG = {"rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [4.0] * 4, "rope_theta": 100.0}


def rows(network: Any, ids: list[int]) -> torch.Tensor:
    """Logits [n, V] of the network by itself, without a cache."""
    with torch.no_grad():
        return network(input_ids=torch.tensor([ids]), use_cache=False).logits[0].float()


def plain(network: Any, ids: list[int], new: int = NEW) -> list[int]:
    """The text that the network writes greedily, the whole of it read again for every token."""
    text = list(ids)
    for _ in range(new):
        text.append(int(rows(network, text)[-1].argmax()))
    return text[len(ids) :]


def path(row: int) -> list[int]:
    tokens, parents = TREE
    return (path(parents[row]) if parents[row] >= 0 else []) + [tokens[row]]


def same(a: torch.Tensor, b: torch.Tensor) -> None:
    torch.testing.assert_close(a, b, atol=1e-3 * float(b.std()), rtol=1e-3)


def as_by_itself(model_type: str, folder: Path, **more: Any) -> list[str]:
    """Hold a family against its own network. Returns the sentences with which something was refused."""
    network, refused = families.save(model_type, folder, **more), list[str]()
    try:
        model = engines.load_model(folder)
    except UserError as error:
        return [str(error)]
    cache = model.new_cache(40)
    parts = [model.extend(PROMPT[a:b], cache).logits for a, b in ((0, 5), (5, 6), (6, 12))]
    same(torch.cat(parts), rows(network, PROMPT))
    wanted = plain(network, PROMPT)
    found = engines.run("greedy", model, PROMPT, params={"max_new_tokens": NEW}).output_ids
    assert wanted[: len(found)] == found and (len(found) == NEW or found[-1] in model.eos_ids)
    try:
        tree = model.extend(TREE[0], cache, parents=TREE[1]).logits
        same(tree, torch.stack([rows(network, PROMPT + path(row))[-1] for row in range(6)]))
    except UserError as error:
        refused.append(str(error))
    for slug in ("token-recycling", "beam", "rpc"):  # drafts a tree; writes several paths
        try:
            trace = engines.run(slug, model, PROMPT, params={"max_new_tokens": NEW})
        except UserError as error:
            refused.append(str(error))
            continue
        assert slug != "token-recycling" or trace.output_ids == found
    return refused


@pytest.mark.parametrize(
    ("model_type", "more", "sentence"),
    [
        ("gpt2", {}, None),
        ("deepseek_v2", {}, None),
        ("falcon", {"alibi": True}, "has ALiBi, which counts distances in rows of the cache"),
        ("gpt_neo", {}, "full_attention, local_attention layers, which cannot take a draft tree"),
        ("llama4_text", {}, "chunked_attention, full_attention layers, which cannot take a draft tree"),
        ("roformer", {}, "gives other logits for the branches of a draft tree"),
        ("roberta", {}, "gives different logits with a KV cache"),
        ("bloom", {}, "of the type 'bloom', whose config has no max_position_embeddings"),
        ("mamba", {}, "of the type 'mamba', whose network takes no cache of keys and values"),
        ("qwen3_next", {}, "has linear_attention layers; only full, sliding, local and chunked attention"),
        ("prophetnet", {}, "cannot be run with a cache of keys and values"),
    ],
)
def test_another_family_gives_what_its_network_gives_or_a_sentence(tmp_path, model_type, more, sentence):
    refused = as_by_itself(model_type, tmp_path, **more)
    assert bool(refused) == (sentence is not None)
    assert all(sentence in one and "choose" in one for one in refused)


@pytest.mark.exhaustive
@pytest.mark.parametrize("model_type", families.ALL)
def test_every_causal_family_gives_what_its_network_gives_or_a_sentence(tmp_path, model_type):
    if model_type in families.CLASSES:  # transformers drops families, too
        assert all(one.endswith(".") and "choose" in one for one in as_by_itself(model_type, tmp_path))


@pytest.mark.parametrize("first", [16, 20])
def test_rotations_that_change_with_the_length_end_a_text_before_they_do(tmp_path, first):
    """LongRoPE: behind `original_max_position_embeddings` all positions are turned by other angles, cached ones too."""
    more = {"rope_parameters": LONG, "original_max_position_embeddings": first, "sliding_window": None}
    network = families.save("phi3", tmp_path, **more)
    model, room = engines.load_model(tmp_path), first - len(PROMPT)
    assert model.max_positions == first
    found = engines.run("greedy", model, PROMPT, params={"max_new_tokens": room}).output_ids
    assert found == plain(network, PROMPT, room)[: len(found)]
    for slug in ("greedy", "token-recycling", "beam"):
        with pytest.raises(UserError, match=f"the rotations of .* .LongRoPE. change after {first} tokens"):
            engines.run(slug, model, PROMPT, params={"max_new_tokens": room + 1})
    refuses(UserError, f"LongRoPE. change at position {first}", model.extend, PROMPT * 2, model.new_cache(40))


def test_what_a_network_cannot_do_is_told_and_what_a_position_costs_is_measured(tmp_path):
    families.save("gpt_neo", tmp_path / "table", attention_types=[[["global"], 4]], max_position_embeddings=32)
    with pytest.raises(UserError, match="causal mask as a table of 32 rows"):
        engines.run("rpc", engines.load_model(tmp_path / "table"), PROMPT, params={"max_new_tokens": 18})
    families.save("deepseek_v2", tmp_path / "latent")
    model = engines.load_model(tmp_path / "latent")
    cache = model.new_cache(10)
    model.extend(PROMPT[:3], cache)
    assert model.position_bytes * 10 == cache.bytes
    families.save("gpt2", tmp_path / "vit")
    (tmp_path / "vit" / "config.json").write_text('{"model_type": "vit", "architectures": ["ViTModel"]}')
    refuses(UserError, "of the type 'vit', which AutoModelForCausalLM of", engines.load_model, tmp_path / "vit")
