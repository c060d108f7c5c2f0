"""Packed and widened linear layers give the numbers of the plain ones, and only causal models in bfloat16 on a CPU have
them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from engines.models import packed
from engines.models.loader import load_folder
from engines.models.packed import ROWS, PackedLinear, WidenedLinear, can_pack, pack
from engines.models.smollm2 import ensure

needs_kernels = pytest.mark.skipif(
    not can_pack(), reason="this processor or build of torch has no kernels for packed weights"
)


def linear(bias: bool) -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(96, 200, bias=bias, dtype=torch.bfloat16)


@needs_kernels
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 5, 8, 16, 33, 128])
def test_packed_gives_what_plain_gives(rows: int, bias: bool) -> None:
    plain = linear(bias)
    x = torch.randn(1, rows, 96, dtype=torch.bfloat16)
    with torch.no_grad():
        expected, got = plain(x), PackedLinear(plain)(x)
    assert got.shape == expected.shape and got.dtype == expected.dtype
    torch.testing.assert_close(
        got, expected, rtol=2**-7, atol=2**-8
    )  # one step of bfloat16: another processor may add up in another order


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 3, 8, 33])
def test_widened_gives_what_plain_gives(rows: int, bias: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "BLOCK", 96 * 64)  # four blocks, the last one smaller
    plain = linear(bias)
    wide, x = WidenedLinear.of(plain), torch.randn(1, rows, 96, dtype=torch.bfloat16)
    assert wide.weight is plain.weight and wide.bias is plain.bias
    with torch.no_grad():
        expected, got = plain(x), wide(x)
        exact = nn.functional.linear(
            x.float(), plain.weight.float(), None if plain.bias is None else plain.bias.float()
        )
    assert got.shape == expected.shape and got.dtype == expected.dtype
    torch.testing.assert_close(got, expected, rtol=2**-7, atol=2**-8)
    if rows >= ROWS:  # in float32, rounded once
        torch.testing.assert_close(got, exact.bfloat16(), rtol=2**-7, atol=1e-6)
    else:
        assert torch.equal(got, expected)


@pytest.mark.parametrize(("capability", "kind"), [("AVX2", WidenedLinear), ("AVX512", nn.Linear)])
def test_without_the_kernels_a_processor_without_bfloat16_widens(
    capability: str, kind: type[nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    monkeypatch.setattr(packed, "can_pack", lambda: False)
    network = pack(tree())
    assert {type(network["a"]), type(network["b"]["c"])} == {kind} and type(network["full"]) is nn.Linear


@needs_kernels
def test_the_weight_can_be_read_back() -> None:
    plain = linear(False)
    assert torch.equal(PackedLinear(plain).weight, plain.weight)


def tree() -> nn.Module:
    return nn.ModuleDict(
        {
            "a": linear(True),
            "b": nn.ModuleDict({"c": linear(False)}),
            "full": nn.Linear(8, 8),
            "other": nn.Embedding(4, 8),
        }
    )


@needs_kernels
def test_only_linear_layers_in_bfloat16_are_packed() -> None:
    network = pack(tree())
    assert {name for name, layer in network.named_modules() if isinstance(layer, PackedLinear)} == {"a", "b.c"}
    assert type(network["full"]) is nn.Linear


def test_nothing_is_packed_where_the_kernels_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "can_pack", lambda: False)
    assert not any(isinstance(layer, PackedLinear) for layer in pack(tree()).modules())


@needs_kernels
@pytest.mark.smollm2
def test_smollm2_has_the_same_logits_packed_and_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    folder, tokens = ensure()[0], list(range(200, 230))
    fast = load_folder(folder, "smollm2", kind="causal")
    monkeypatch.setattr(packed, "can_pack", lambda: False)
    plain = load_folder(folder, "smollm2", kind="causal")
    assert isinstance(fast.model.lm_head, PackedLinear) and type(plain.model.lm_head) is nn.Linear
    rows = []
    for model in (fast, plain):
        cache = model.new_cache(64)
        model.extend(tokens, cache)
        tree_logits = model.extend([5, 6, 7, 8], cache, parents=[-1, 0, 0, 1]).logits
        rows.append(tree_logits)
    assert (
        rows[0] - rows[1]
    ).abs().max() < 0.25  # equal to the bit on the processors that were tried; logits here are about 20
    assert torch.equal(rows[0].argmax(-1), rows[1].argmax(-1))


@pytest.mark.smollm2
def test_in_float32_nothing_is_packed() -> None:
    model = load_folder(ensure()[0], "smollm2", kind="causal", dtype="float32")
    assert type(model.model.lm_head) is nn.Linear
