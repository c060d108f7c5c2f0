"""Weights coded in files, in 4 and 8 bits, packed, widened; and what a checkpoint needs, told from its config alone."""

import json
import shutil
import zlib
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

import engines
from engines.core import devices
from engines.core.errors import UserError
from engines.models.files import stored
from engines.models.files.hub import header
from engines.models.files.smollm2 import ensure
from engines.models.layers import packed, quantised
from engines.models.layers.packed import ROWS, PackedLinear, WidenedLinear, can_pack, pack
from engines.models.layers.quantised import CodedLinear, codable, coded, decoded
from engines.models.loading import sizing, zoo
from engines.models.loading.loader import load_folder
from engines.models.loading.sizing import NoRoom, check_room, size_of_folder
from tests.engines.models.published import checkpoint
from tests.engines.refusals import refuses

METHODS = {"llada2": "llada2", "nemotron_labs_diffusion": "greedy"}


def loaded(family, **options):
    return engines.load_model(checkpoint(family), dtype="float32", **options)


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
def test_a_network_computes_what_its_codes_say_and_has_the_size_that_its_config_tells(family, wish):
    """Experts that lie one by one in the file, layers whose q, k, v lie in one, and weights that two layers share."""
    plain, few = loaded(family).model, loaded(family, quantization=wish).model
    exact = logits(family, plain)
    names = [name for name, _ in codable(plain)]
    assert names and not any("router" in name or "embed" in name or "lm_head" in name for name in names)
    for weight in {id(one): one for _, one in codable(plain)}.values():
        for matrix in weight if weight.dim() == 3 else [weight]:
            with torch.no_grad():
                matrix.copy_(decoded(*coded(matrix, quantised.BITS[wish]), matrix.shape))
    expected = logits(family, plain)
    engines.models.loading.zoo._loaded.clear()  # the one above has other weights now
    assert torch.allclose(logits(family, few), expected, atol=1e-4) and not torch.allclose(expected, exact, atol=1e-3)
    assert any(isinstance(one, CodedLinear) for one in few.modules())
    tensors = {id(one): one for one in (*few.parameters(), *few.buffers())}.values()
    size = size_of_folder(checkpoint(family), family, "float32", wish)
    assert size.weights == sum(one.numel() * one.element_size() for one in tensors)


@pytest.mark.parametrize("family", METHODS)
def test_a_run_says_how_its_weights_lay_and_is_made_again(family):
    def run(model):
        return engines.run(METHODS[family], model, [5, 6, 7, 8], params={"max_new_tokens": 8})

    trace = run(loaded(family, quantization="4bit"))
    record = trace.header.models[0]
    assert record.options == {"quantization": "4bit"} and record.parameters == loaded(family).record.parameters
    again = engines.load_model(checkpoint(family), **record.loading)
    assert run(again).output_ids == trace.output_ids


def test_models_that_ship_run_in_eight_bits():
    for name, method, prompt in (
        ("tiny-ar-l", "greedy", "copy: Mia, Leo"), ("tiny-dlm", "llada", "copy: Mia, Leo"),
        ("tiny-vlm", "greedy", "scene 12"),
    ):  # fmt: skip
        models = engines.load_model(name, quantization="8bit"), engines.load_model(name)
        few, plain = (engines.run(method, model, prompt, params={"max_new_tokens": 16}).text for model in models)
        assert few == plain


@pytest.mark.parametrize("places", [{"": "disk"}, {"model": 0, "lm_head": "cpu"}])
def test_coded_layers_are_not_left_beside_a_card(places):
    with pytest.raises(UserError, match=r"with 4bit weights all layers stay on graphics cards, or all on the CPU"):
        loaded("llada2", quantization="4bit", device_map=places)


needs_kernels = pytest.mark.skipif(not can_pack(), reason="no kernels for packed weights here")


def linear(bias: bool) -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(96, 200, bias=bias, dtype=torch.bfloat16)


@needs_kernels
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 5, 16, 33, 128])
def test_packed_gives_what_plain_gives(rows: int, bias: bool) -> None:
    plain = linear(bias)
    x, packed_one = torch.randn(1, rows, 96, dtype=torch.bfloat16), PackedLinear(plain)
    with torch.no_grad():
        expected, got = plain(x), packed_one(x)
    assert got.shape == expected.shape and got.dtype == expected.dtype and torch.equal(packed_one.weight, plain.weight)
    torch.testing.assert_close(got, expected, rtol=2**-7, atol=2**-8)  # a step: others may add up in another order


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 3, 8, 33])
def test_widened_gives_what_plain_gives(rows: int, bias: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "BLOCK", 96 * 64)  # four blocks, the last one smaller
    plain = linear(bias)
    wide, x = WidenedLinear.of(plain), torch.randn(1, rows, 96, dtype=torch.bfloat16)
    with torch.no_grad():
        expected, got = plain(x), wide(x)
        exact = nn.functional.linear(x.float(), plain.weight.float(), plain.bias.float() if bias else None)
    assert got.shape == expected.shape and got.dtype == expected.dtype
    torch.testing.assert_close(got, expected, rtol=2**-7, atol=2**-8)
    if rows >= ROWS:  # in float32, rounded once
        torch.testing.assert_close(got, exact.bfloat16(), rtol=2**-7, atol=1e-6)
    else:
        assert torch.equal(got, expected)


@pytest.mark.parametrize(
    ("capability", "kind"),
    [("AVX2", WidenedLinear), ("AVX512", nn.Linear), pytest.param("", PackedLinear, marks=needs_kernels)],
)
def test_linear_layers_in_bfloat16_are_packed_or_widened_where_that_is_faster(capability, kind, monkeypatch):
    if capability:
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
        monkeypatch.setattr(packed, "can_pack", lambda: False)
    inner = nn.ModuleDict({"c": linear(False)})
    network = pack(nn.ModuleDict({"a": linear(True), "b": inner, "full": nn.Linear(8, 8)}))
    assert {type(network["a"]), type(network["b"]["c"])} == {kind} and type(network["full"]) is nn.Linear


@needs_kernels
@pytest.mark.parametrize(("experts", "copied"), [(10, True), (96 * 200, False)])
def test_what_is_not_packed_is_copied_where_it_is_the_smaller_part(experts: int, copied: bool) -> None:
    network = nn.ModuleDict({"linear": linear(False)})
    network.experts = nn.Parameter(torch.ones(experts, dtype=torch.bfloat16))
    place = network.experts.data_ptr()
    assert (pack(network).experts.data_ptr() != place) == copied and bool((network.experts == 1).all())


@needs_kernels
@pytest.mark.smollm2
def test_smollm2_has_the_same_logits_packed_and_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    folder, tokens = ensure()[0], list(range(200, 230))
    fast = load_folder(folder, "smollm2", kind="causal")
    maps = Path("/proc/self/maps")
    assert not maps.exists() or str(folder.resolve()) not in maps.read_text(), "what was read of the file has gone"
    assert type(load_folder(folder, "smollm2", kind="causal", dtype="float32").model.lm_head) is nn.Linear
    monkeypatch.setattr(packed, "can_pack", lambda: False)
    plain = load_folder(folder, "smollm2", kind="causal")
    assert isinstance(fast.model.lm_head, PackedLinear) and type(plain.model.lm_head) is nn.Linear
    rows = []
    for model in (fast, plain):
        cache = model.new_cache(64)
        model.extend(tokens, cache)
        rows.append(model.extend([5, 6, 7, 8], cache, parents=[-1, 0, 0, 1]).logits)
    assert (rows[0] - rows[1]).abs().max() < 0.25  # equal on the processors that were tried; logits here are about 20
    assert torch.equal(rows[0].argmax(-1), rows[1].argmax(-1))


CODED = {stored.MARK: stored.FORMAT}


def test_every_number_comes_back_bit_by_bit_and_weights_take_two_thirds_of_the_room() -> None:
    """All 65,536 bit patterns: zeros of both signs, subnormal numbers, infinities and every NaN among them."""
    every = torch.arange(65536).sub(32768).to(torch.int16).view(256, 256)
    assert torch.equal(stored.joined(*stored.split(every.view(torch.bfloat16))).view(torch.int16), every)
    weight = torch.randn(256, 768, generator=torch.Generator().manual_seed(0)).mul(0.02).bfloat16()
    rest, exponents = stored.split(weight)
    assert rest.numel() + exponents.numel() < 0.68 * 2 * weight.numel()
    stream = bytearray(zlib.compress(bytes(50_000_000)))
    with pytest.raises(ValueError, match="its exponents do not match"):
        stored.joined(torch.zeros(3, 4, dtype=torch.uint8), torch.frombuffer(stream, dtype=torch.uint8))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 9), st.integers(1, 40), st.integers(0, 2**31), st.sampled_from([1e-30, 1e-3, 1.0, 1e4, 1e30]))
def test_int8_is_wrong_by_half_a_scale_at_most(rows: int, columns: int, seed: int, size: float) -> None:
    weight = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed)) * size
    weight[0] = 0
    scale = stored.absmax(weight)
    integers = stored.quantised(weight, scale)
    error = (stored.restored(integers, scale) - weight).abs()
    assert (error <= scale[:, None] * 0.5001).all() and not error[0].any()
    assert integers.abs().max() <= 127


def coded_file() -> dict[str, torch.Tensor]:
    """A file with one matrix of each kind and a vector."""
    weight = torch.linspace(-1, 1, 12).view(3, 4)
    rest, exponents = stored.split(weight.bfloat16())
    scale = stored.absmax(weight)
    return {
        "a" + stored.REST: rest,
        "a" + stored.EXPONENTS: exponents,
        "b" + stored.INT8: stored.quantised(weight, scale),
        "b" + stored.SCALE: scale,
        "norm.weight": torch.ones(4),
    }


def test_a_coded_file_stands_for_its_matrices_and_a_plain_one_for_itself(tmp_path: Path) -> None:
    file, plain = tmp_path / "m.safetensors", {"a.scale": torch.ones(3), "b.exponents": torch.ones(2, 2)}
    save_file(plain, file)
    found = stored.read(file)
    assert found.keys() == plain.keys() and all(torch.equal(found[name], plain[name]) for name in plain)
    assert stored.numbers(header(file)) == 7
    save_file(coded_file(), file, metadata=CODED)
    assert {name: (tuple(t.shape), t.dtype) for name, t in stored.read(file).items()} == {
        "a": ((3, 4), torch.bfloat16),
        "b": ((3, 4), torch.float32),
        "norm.weight": ((4,), torch.float32),
    }
    assert stored.numbers(header(file)) == 28
    with safe_open(file, "pt") as opened:
        assert not {"a", "b"} & set(opened.keys())  # who does not know the format finds no matrix, not a wrong one
    save_file(coded_file(), file, metadata={stored.MARK: "coded, version 9"})
    with pytest.raises(UserError, match="is stored as 'coded, version 9' and this version reads 'coded, version 1'"):
        stored.read(file)


ROOM = "a" + stored.EXPONENTS
DAMAGES: list[tuple[str, Any, str]] = [
    ("b.scale", lambda t: t[:2], r"the integers of 'b' are \(3, 4\) and its scales \(2,\)"),
    ("b.scale", lambda t: t * torch.tensor([1.0, torch.nan, 1.0]), "a scale of 'b' is negative or not finite"),
    ("b.scale", None, r"'b\.scale' is missing"),
    ("b.int8", None, r"'b\.scale' stands alone"),
    ("b.int8", lambda t: t.float(), "the integers of 'b'"),
    (ROOM, None, r"'a\.exponents' is missing"),
    ("a.rest", None, r"'a\.exponents' stands alone"),
    (ROOM, lambda t: t[:-5], "'a' has 12 entries and its exponents do not match"),
    (ROOM, lambda t: t.flip(0), "the exponents of 'a' cannot be decoded"),
    (ROOM, lambda t: t.float(), "'a' is not in bytes"),
    ("a.rest", lambda t: torch.cat([t, t]), "'a' has 24 entries and its exponents do not match"),
]


@pytest.mark.parametrize(("name", "change", "sentence"), DAMAGES)
def test_what_is_damaged_is_refused_and_named(tmp_path: Path, name: str, change: Any, sentence: str) -> None:
    tensors = coded_file()
    old = tensors.pop(name)
    if change is not None:
        tensors[name] = change(old).contiguous()
    save_file(tensors, tmp_path / "m.safetensors", metadata=CODED)
    with pytest.raises(UserError, match=rf"m\.safetensors is damaged: .*{sentence}.*; restore the file"):
        stored.read(tmp_path / "m.safetensors")


FAMILIES = ["llada2", "nemotron_labs_diffusion", "diffusion_gemma"]
MINI = {  # LLaDA2.0-mini, by the sizes that its config has
    **{"model_type": "llada2_moe", "vocab_size": 157184, "hidden_size": 2048, "intermediate_size": 5120},
    **{"num_hidden_layers": 20, "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 128},
    **{"num_experts": 256, "num_shared_experts": 1, "num_experts_per_tok": 8, "n_group": 8, "topk_group": 4},
    **{"routed_scaling_factor": 2.5, "moe_intermediate_size": 512, "first_k_dense_replace": 1, "dtype": "bfloat16"},
    **{"partial_rotary_factor": 0.5, "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "hidden_act": "silu"},
}


@pytest.fixture
def mini(tmp_path):
    """The folder of a 16B mixture that has a config and nothing else."""
    (tmp_path / "config.json").write_text(json.dumps(MINI))
    return tmp_path


@pytest.mark.parametrize("name", [*FAMILIES, "tiny-ar-l", "tiny-dlm", "tiny-encdec", "tiny-pldr", "tiny-vlm"])
def test_the_config_alone_tells_what_is_loaded(name, tmp_path):
    if name in FAMILIES:
        shutil.copy(checkpoint(name) / "config.json", tmp_path)
        network = engines.load_model(checkpoint(name), dtype="float32").model
        size = size_of_folder(tmp_path, name, "float32")
    else:
        size, network = engines.size_of(name), engines.load_model(name).model
    parameters, tensors = [*network.parameters()], [*network.parameters(), *network.buffers()]
    assert size.parameters == sum(p.numel() for p in parameters) and size.dtype == "float32"
    assert size.weights == sum(t.numel() * t.element_size() for t in tensors)


def test_a_mixture_of_16b(mini):
    whole, eight, four = (size_of_folder(mini, "mini", quantization=one) for one in (None, "8bit", "4bit"))
    assert whole.parameters == eight.parameters == four.parameters == 16_255_638_528
    assert whole.dtype == "bfloat16" and whole.weights == pytest.approx(2 * whole.parameters, rel=1e-6)
    assert [sizing.gigabytes(one.weights) for one in (whole, eight, four)] == ["32.5 GB", "17 GB", "10.1 GB"]
    assert whole.cache == 20 * 2 * 4 * 128 * 2  # layers, keys and values, heads, width, bytes
    assert str(four) == (
        "mini has 16,255,638,528 parameters: 10.1 GB of weights as 4bit and bfloat16, and about 41 MB of cache for "
        "1,000 tokens"
    )
    assert size_of_folder(mini, "mini", "float32").weights == pytest.approx(4 * 16_255_638_528, rel=1e-6)
    refuses(UserError, "dtype 'int8' is unknown; choose float32", size_of_folder, mini, "mini", "int8")
    refuses(UserError, "quantisation '3bit' is unknown; choose", size_of_folder, mini, "mini", quantization="3bit")


@pytest.fixture
def room(monkeypatch):
    """Sets the free bytes of each device, and which cards there are."""

    def put(**free):
        monkeypatch.setattr(sizing, "free_bytes", lambda device: free[device.replace(":", "")])
        monkeypatch.setattr(sizing, "cards", lambda: [f"cuda:{i}" for i in range(8) if f"cuda{i}" in free])

    return put


def refused(size, *given):
    with pytest.raises(NoRoom) as caught:
        check_room(size, *given)
    return str(caught.value)


def test_a_card_of_24_gb(mini, room):
    room(cuda0=25.3e9, cuda=25.3e9, cpu=60e9)
    whole, four = (size_of_folder(mini, "mini", quantization=one) for one in (None, "4bit"))
    smaller = {one: size_of_folder(mini, "mini", quantization=one).weights for one in ("4bit", "8bit")}
    assert refused(whole, "cuda", None, lambda: smaller) == (
        "the weights of 'mini' take 32.5 GB as bfloat16, and 25.3 GB are free on cuda; choose quantisation 4bit "
        "(10.1 GB), quantisation 8bit (17 GB), device_map auto, or a smaller model."
    )
    check_room(four, "cuda")
    check_room(whole, "cpu", "auto")  # 25.3 GB on the card, the rest beside it
    room(cuda0=8e9, cuda=8e9, cpu=20e9)
    assert "take 32.5 GB as bfloat16, and 28 GB are free on cuda:0 + cpu; choose" in refused(whole, "cpu", "auto")
    told = refused(four, "cpu", "auto")
    assert "take 10.1 GB as 4bit, and 8 GB are free on cuda:0" in told, "coded layers stay on cards"


def test_a_map_is_counted_device_by_device(mini, room):
    size = size_of_folder(mini, "mini")
    halves = {f"model.layers.{i}": int(i > 9) for i in range(20)}
    map_ = {"model.embed_tokens": 0, "model.norm": 1, "model.rotary_emb": 0, "lm_head": 1} | halves
    room(cuda0=17e9, cuda1=18e9)
    check_room(size, "cpu", map_)
    room(cuda0=17e9, cuda1=16e9)
    assert "take 17 GB as bfloat16, and 16 GB are free on cuda:1" in refused(size, "cpu", map_)
    room(cuda0=17e9, cuda1=1e9)
    check_room(size, "cpu", map_ | dict.fromkeys((name for name, i in map_.items() if i), "disk"))


def test_loading_is_refused_with_the_figure_and_models_that_were_kept_make_room(monkeypatch):
    zoo._loaded.clear()
    monkeypatch.setattr(sizing, "LARGE", 1000)
    monkeypatch.setattr("engines.models.loading.loader.LARGE", 1000)
    monkeypatch.setattr(sizing, "free_bytes", lambda device: 200_000)
    with pytest.raises(UserError, match=r"'checkpoint' take 0.302 MB as float32, and 0.2 MB are free on cpu"):
        engines.load_model(checkpoint("llada2"), dtype="float32")
    engines.load_model(checkpoint("llada2"), dtype="bfloat16")
    monkeypatch.setattr(sizing, "free_bytes", lambda device: 0 if zoo._loaded else 1e9)
    assert engines.load_model("tiny-dlm").record.name == "tiny-dlm" and len(zoo._loaded) == 1


def test_what_auto_stands_for(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert devices.chosen_device("auto") == "cuda" and devices.chosen_device("cpu") == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert devices.chosen_device("auto") == "mps"
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert devices.chosen_device("auto") == "cpu"
    model = engines.load_model("tiny-ar-s", device="auto")
    assert model is engines.load_model("tiny-ar-s") and engines.is_loaded("tiny-ar-s", "auto")


def test_the_memory_of_a_container(tmp_path, monkeypatch):
    monkeypatch.setattr(devices, "GROUP", tmp_path)
    (tmp_path / "memory.current").write_text("2500")
    (tmp_path / "memory.stat").write_text("inactive_file 100\n")
    for most, known in (("3000", True), ("max\n", False)):
        (tmp_path / "memory.max").write_text(most)
        assert devices.free_bytes("cpu") == 600 if known else devices.free_bytes("cpu") > 10**8
