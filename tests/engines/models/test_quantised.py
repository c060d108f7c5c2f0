"""Weights in 4 and 8 bits: what the codes are, and that a network with them computes what they say."""

import json

import pytest
import torch

import engines
from engines.core.errors import UserError
from engines.models import quantised
from engines.models.quantised import CodedLinear, codable, coded, decoded
from engines.models.sizing import size_of_folder
from tests.engines.conftest import GOLDEN

MIXTURES = GOLDEN / "diffusion2026"
METHODS = {"llada2": "llada2", "nemotron_labs_diffusion": "greedy"}


def loaded(family, **options):
    return engines.load_model(MIXTURES / family / "checkpoint", dtype="float32", **options)


def logits(family, network):
    ids = torch.arange(12)[None]
    more = {"decoder_input_ids": ids + 16} if family == "diffusion_gemma" else {}
    with torch.no_grad():
        return network(input_ids=ids + 3, **more).logits


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_eight_bits_are_off_by_half_a_step_at_most(dtype):
    weight = torch.randn(48, 64, generator=torch.Generator().manual_seed(0)).to(dtype)
    codes, scales = coded(weight, 8)
    assert codes.dtype == torch.int8 and scales.shape == (48,)
    off = (decoded(codes, scales, weight.shape) - weight.float()).abs()
    assert bool((off <= scales[:, None] / 254 * 1.001).all())


def test_four_bits_are_the_nearest_level():
    weight = torch.randn(32, 32, generator=torch.Generator().manual_seed(0))
    codes, scales = coded(weight, 4)
    assert codes.shape == (512,) and scales.shape == (16,)
    blocks = weight.reshape(-1, 64)
    levels = torch.tensor(quantised.NF4) * scales[:, None, None]
    nearest = (levels - blocks[..., None]).abs().argmin(-1)
    expected = levels.expand(-1, 64, -1).gather(-1, nearest[..., None])[..., 0].reshape(32, 32)
    assert torch.equal(decoded(codes, scales, weight.shape), expected)
    assert torch.equal(decoded(*coded(torch.zeros(8, 8), 4), torch.Size((8, 8))), torch.zeros(8, 8))


def test_the_levels_and_their_order_are_those_of_bitsandbytes():
    functional = pytest.importorskip("bitsandbytes.functional")
    weight = torch.randn(32, 64, generator=torch.Generator().manual_seed(0))
    theirs, state = functional.quantize_4bit(weight, blocksize=64, quant_type="nf4")
    codes, scales = coded(weight, 4)
    assert torch.equal(theirs.reshape(-1), codes) and torch.allclose(state.absmax, scales)
    assert torch.allclose(functional.dequantize_4bit(theirs, state), decoded(codes, scales, weight.shape), atol=1e-6)


@pytest.mark.parametrize("wish", ["8bit", "4bit"])
@pytest.mark.parametrize("family", ["llada2", "nemotron_labs_diffusion", "diffusion_gemma"])
def test_a_network_computes_what_its_codes_say(family, wish):
    """Experts that lie one by one in the file, layers whose q, k, v lie in one, and weights that two layers share."""
    plain, few = loaded(family).model, loaded(family, quantization=wish).model
    exact = logits(family, plain)
    for weight in {id(one): one for _, one in codable(plain)}.values():
        for matrix in weight if weight.dim() == 3 else [weight]:
            with torch.no_grad():
                matrix.copy_(decoded(*coded(matrix, quantised.BITS[wish]), matrix.shape))
    expected = logits(family, plain)
    engines.models.zoo._loaded.clear()  # the one above has other weights now
    assert torch.allclose(logits(family, few), expected, atol=1e-4) and not torch.allclose(expected, exact, atol=1e-3)
    assert any(isinstance(one, CodedLinear) for one in few.modules())


@pytest.mark.parametrize("wish", ["8bit", "4bit"])
@pytest.mark.parametrize("family", ["llada2", "nemotron_labs_diffusion", "diffusion_gemma"])
def test_the_config_tells_their_size(family, wish):
    network = loaded(family, quantization=wish).model
    tensors = {id(one): one for one in (*network.parameters(), *network.buffers())}.values()
    size = size_of_folder(MIXTURES / family / "checkpoint", family, "float32", wish)
    assert size.weights == sum(one.numel() * one.element_size() for one in tensors)


@pytest.mark.parametrize("family", METHODS)
def test_a_run_says_how_its_weights_lay_and_is_made_again(family):
    model = loaded(family, quantization="4bit")
    trace = engines.run(METHODS[family], model, [5, 6, 7, 8], params={"max_new_tokens": 8})
    record = trace.header.models[0]
    assert record.loading["quantization"] == "4bit" and record.parameters == loaded(family).record.parameters
    again = engines.load_model(MIXTURES / family / "checkpoint", **record.loading)
    other = engines.run(METHODS[family], again, [5, 6, 7, 8], params={"max_new_tokens": 8})
    assert other.output_ids == trace.output_ids


def test_heads_routers_and_embeddings_stay():
    names = {name for name, _ in codable(loaded("diffusion_gemma").model)}
    assert names and not any("router" in name or "embed" in name or "lm_head" in name for name in names)
    assert any(name.endswith("experts.gate_up_proj") for name in names)


@pytest.mark.parametrize("name", ["tiny-ar-l", "tiny-dlm", "tiny-vlm"])
def test_a_model_that_ships_runs_in_eight_bits(name):
    method = {"tiny-ar-l": "greedy", "tiny-dlm": "llada", "tiny-vlm": "greedy"}[name]
    prompt = {"tiny-vlm": "scene 12"}.get(name, "copy: Mia, Leo")
    few = engines.run(method, engines.load_model(name, quantization="8bit"), prompt, params={"max_new_tokens": 16})
    assert few.text == engines.run(method, engines.load_model(name), prompt, params={"max_new_tokens": 16}).text


@pytest.mark.parametrize("places", [{"": "disk"}, {"model": 0, "lm_head": "cpu"}])
def test_coded_layers_are_not_left_beside_a_card(places):
    with pytest.raises(UserError, match=r"with 4bit weights all layers stay on graphics cards, or all on the CPU"):
        loaded("llada2", quantization="4bit", device_map=places)


def test_another_word_is_refused(tmp_path):
    with pytest.raises(UserError, match="quantisation '2bit' is unknown; choose 4bit or 8bit, or leave it out"):
        loaded("llada2", quantization="2bit")


def test_the_record_is_plain_json():
    options = loaded("llada2", quantization="8bit").record.options
    assert json.loads(json.dumps(options)) == {"quantization": "8bit"}
