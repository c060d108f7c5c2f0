"""Coded weights: nothing is lost without loss, int8 keeps its bound, and what is damaged is refused in a sentence."""

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import save_file

from engines.core.errors import UserError
from engines.models import stored
from engines.models.hub import header

CODED = {stored.MARK: stored.FORMAT}


def every_bfloat16() -> torch.Tensor:
    """All 65,536 bit patterns: zeros of both signs, subnormal numbers, infinities and every NaN among them."""
    return torch.arange(65536).sub(32768).to(torch.int16).view(torch.bfloat16).view(256, 256)


def bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view(torch.int16)


def test_every_number_comes_back_bit_by_bit() -> None:
    weight = every_bfloat16()
    assert torch.equal(bits(stored.joined(*stored.split(weight))), bits(weight))


def test_weights_take_two_thirds_of_the_room() -> None:
    weight = torch.randn(256, 768, generator=torch.Generator().manual_seed(0)).mul(0.02).bfloat16()
    rest, exponents = stored.split(weight)
    assert rest.numel() + exponents.numel() < 0.68 * 2 * weight.numel()
    assert torch.equal(bits(stored.joined(rest, exponents)), bits(weight))


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


def test_a_plain_file_is_read_as_it_is(tmp_path: Path) -> None:
    state = {"a.scale": torch.ones(3), "b.exponents": torch.ones(2, 2), "c": torch.arange(4)}
    save_file(state, tmp_path / "m.safetensors")
    found = stored.read(tmp_path / "m.safetensors")
    assert found.keys() == state.keys() and all(torch.equal(found[name], state[name]) for name in state)
    assert stored.numbers(header(tmp_path / "m.safetensors")) == 11


def coded() -> dict[str, torch.Tensor]:
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


def test_a_coded_file_stands_for_its_matrices(tmp_path: Path) -> None:
    save_file(coded(), tmp_path / "m.safetensors", metadata=CODED)
    found = stored.read(tmp_path / "m.safetensors")
    assert {name: (tuple(t.shape), t.dtype) for name, t in found.items()} == {
        "a": ((3, 4), torch.bfloat16),
        "b": ((3, 4), torch.float32),
        "norm.weight": ((4,), torch.float32),
    }
    assert stored.numbers(header(tmp_path / "m.safetensors")) == 28
    with safe_open(tmp_path / "m.safetensors", "pt") as opened:
        assert not {"a", "b"} & set(opened.keys())  # who does not know the format finds no matrix, not a wrong one


ROOM = "a" + stored.EXPONENTS
DAMAGES: list[tuple[str, Any, str]] = [
    ("b.scale", lambda t: t[:2], r"the integers of 'b' are \(3, 4\) and its scales \(2,\)"),
    ("b.scale", lambda t: t * torch.tensor([1.0, torch.nan, 1.0]), "a scale of 'b' is negative or not finite"),
    ("b.scale", lambda t: -t, "a scale of 'b' is negative or not finite"),
    ("b.scale", lambda t: t.view(3, 1), r"its scales \(3, 1\), where each row has one"),
    ("b.scale", None, r"'b\.scale' is missing"),
    ("b.int8", None, r"'b\.scale' stands alone"),
    ("b.int8", lambda t: t.float(), "the integers of 'b'"),
    (ROOM, None, r"'a\.exponents' is missing"),
    ("a.rest", None, r"'a\.exponents' stands alone"),
    (ROOM, lambda t: t[:-5], "'a' has 12 entries and its exponents do not match"),
    (ROOM, lambda t: t.flip(0), "the exponents of 'a' cannot be decoded"),
    (ROOM, lambda t: t.float(), "'a' is not in bytes"),
    ("a.rest", lambda t: t[:2].clone(), "'a' has 8 entries and its exponents do not match"),
    ("a.rest", lambda t: torch.cat([t, t]), "'a' has 24 entries and its exponents do not match"),
]


@pytest.mark.parametrize(("name", "change", "sentence"), DAMAGES)
def test_what_is_damaged_is_refused_and_named(tmp_path: Path, name: str, change: Any, sentence: str) -> None:
    tensors = coded()
    old = tensors.pop(name)
    if change is not None:
        tensors[name] = change(old).contiguous()
    save_file(tensors, tmp_path / "m.safetensors", metadata=CODED)
    with pytest.raises(UserError, match=rf"m\.safetensors is damaged: .*{sentence}.*; restore the file"):
        stored.read(tmp_path / "m.safetensors")


def test_a_small_stream_cannot_fill_the_memory() -> None:
    """A zlib stream may hold a thousand times its size; never more is decoded than the matrix has entries."""
    import zlib

    stream = zlib.compress(bytes(50_000_000))
    with pytest.raises(ValueError, match="its exponents do not match"):
        stored.joined(torch.zeros(3, 4, dtype=torch.uint8), torch.frombuffer(bytearray(stream), dtype=torch.uint8))


def test_a_format_of_tomorrow_is_refused(tmp_path: Path) -> None:
    save_file(coded(), tmp_path / "m.safetensors", metadata={stored.MARK: "coded, version 9"})
    with pytest.raises(UserError, match="is stored as 'coded, version 9' and this version reads 'coded, version 1'"):
        stored.read(tmp_path / "m.safetensors")
