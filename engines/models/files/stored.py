"""Weights as they lie on disk: safetensors whose large matrices are coded, without loss or as int8 by row.

Without loss, a bfloat16 matrix [m, n] becomes `NAME.rest` [m, n] (sign and mantissa, one byte each) and
`NAME.exponents`, the exponents as one zlib stream of Huffman codes: the weights of a matrix have nearly one size, so
that an exponent takes 2.7 of its 8 bits and the whole two thirds of the room. By row, a matrix becomes `NAME.int8`
[m, n] and `NAME.scale` [m] (float32), W ~ int8 * scale: symmetric and rounded to nearest, so that an entry is wrong by
at most half the scale of its row. All other tensors lie as they are.

The metadata says that a file is coded (`stored`: FORMAT) and, where nothing was lost, which sha256 the same weights
have as a plain file (`weights_sha256`): coding does not make other weights of them. A reader that does not know the
format misses NAME itself and fails, instead of taking codes for weights. A file without the mark is plain safetensors.
`python -m engines.training.core.coding` codes and decodes files.
"""

import math
import zlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from engines.core.errors import UserError
from engines.core.lazy import Tensor, torch

FORMAT = "coded, version 1"
MARK, IDENTITY = "stored", "weights_sha256"  # keys of the metadata
OWN = "own_names"  # another one: tensors of the network itself whose names end like a helper's, with commas
REST, EXPONENTS = ".rest", ".exponents"
INT8, SCALE = ".int8", ".scale"
BESIDE = {
    EXPONENTS: REST,
    SCALE: INT8,
}  # a tensor that helps another one: its ending -> the ending of the one that has the matrix's shape
LEVELS = 127  # symmetric: -128 is not used


def numbers(entries: Mapping[str, Mapping[str, Any]]) -> int:
    """How many parameters the tensors of a safetensors header (name -> entry with `shape`) stand for: scales and
    exponents are none."""
    return sum(math.prod(entry["shape"]) for name, entry in entries.items() if not _helps(name, entries))


def _helps(name: str, entries: Mapping[str, Any]) -> bool:
    return any(name.endswith(end) and name.removesuffix(end) + main in entries for end, main in BESIDE.items())


def read(file: Path) -> dict[str, Tensor]:
    """The tensors of a weight file by their names, decoded: int8 to float32, all others in the type they had.

    Raises UserError where a coded tensor is damaged, or for a format of a newer version.
    """
    from safetensors import safe_open

    with safe_open(file, "pt") as opened:
        about = opened.metadata() or {}
        stored_format, own = about.get(MARK), about.get(OWN, "").split(",")
        tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (not a dictionary)
    if stored_format is None:
        return tensors
    if stored_format != FORMAT:
        raise UserError(
            f"{file} is stored as '{stored_format[:60]}' and this version reads '{FORMAT}'; update the program, "
            "or take the "
            "plain weights."
        )
    try:
        return decoded(tensors, own)
    except ValueError as error:
        raise UserError(f"{file} is damaged: {error}; restore the file or make it again.") from None


def decoded(tensors: Mapping[str, Tensor], own: Collection[str] = ()) -> dict[str, Tensor]:
    """The tensors that those of a coded file stand for. own: see OWN. Raises ValueError that says what is wrong with
    one."""
    return {
        name if name in own else _plain(name): tensors[name] if name in own else _decoded(name, tensors)
        for name in tensors
        if not _helps(name, tensors)
    }


def like_helpers(names: Collection[str]) -> list[str]:
    """Those names of a network's tensors that end as the helpers of coded ones do."""
    return sorted(name for name in names if name.endswith((REST, EXPONENTS, INT8, SCALE)))


def _plain(name: str) -> str:
    return name.removesuffix(REST).removesuffix(INT8)


def _decoded(name: str, tensors: Mapping[str, Tensor]) -> Tensor:
    if name.endswith((REST, INT8)):
        end = EXPONENTS if name.endswith(REST) else SCALE
        if (beside := tensors.get(_plain(name) + end)) is None:
            raise ValueError(f"'{_plain(name)}{end}' is missing")
        return (joined if end == EXPONENTS else restored)(tensors[name], beside, _plain(name))
    if name.endswith((EXPONENTS, SCALE)):
        raise ValueError(f"'{name}' stands alone")
    return tensors[name]


def absmax(weight: Tensor) -> Tensor:
    """The scales [m] (float32) of the rows of a matrix [m, n]: each row's largest entry becomes 127. A row of zeros
    has 0."""
    return weight.float().abs().amax(1) / LEVELS


def quantised(weight: Tensor, scale: Tensor) -> Tensor:
    """The integers [m, n] (int8) nearest to a matrix [m, n] under the scales [m] of its rows."""
    step = torch.where(scale > 0, scale, 1.0)[:, None]
    return (weight.float() / step).round().clamp(-LEVELS, LEVELS).to(torch.int8)


def restored(integers: Tensor, scale: Tensor, name: str = "the matrix") -> Tensor:
    """The matrix [m, n] (float32) that integers [m, n] and scales [m] stand for. Raises ValueError unless they fit."""
    if integers.dtype != torch.int8 or integers.ndim != 2 or scale.shape != integers.shape[:1]:
        raise ValueError(
            f"the integers of '{name}' are {tuple(integers.shape)} and its scales {tuple(scale.shape)}, where each row "
            "has one"
        )
    if not bool((scale.isfinite() & (scale >= 0)).all()):
        raise ValueError(f"a scale of '{name}' is negative or not finite")
    return integers.float() * scale.float()[:, None]


def split(weight: Tensor) -> tuple[Tensor, Tensor]:
    """(sign and mantissa in the shape of the matrix, Huffman-coded exponents [k]), uint8, of a matrix in bfloat16."""
    bits = weight.contiguous().view(torch.int16).numpy().view(np.uint16)
    rest = (bits & 0x7F | bits >> 8 & 0x80).astype(np.uint8)
    coder = zlib.compressobj(9, zlib.DEFLATED, 15, 9, zlib.Z_HUFFMAN_ONLY)
    stream = coder.compress((bits >> 7 & 0xFF).astype(np.uint8).tobytes()) + coder.flush()
    return torch.from_numpy(rest), torch.from_numpy(np.frombuffer(stream, np.uint8).copy())


def joined(rest: Tensor, exponents: Tensor, name: str = "the matrix") -> Tensor:
    """The bfloat16 matrix that `split` took apart, bit by bit. Raises ValueError where the two are no pair."""
    if rest.dtype != torch.uint8 or exponents.dtype != torch.uint8:
        raise ValueError(f"'{name}' is not in bytes")
    try:
        decoder = zlib.decompressobj()
        plain = decoder.decompress(exponents.numpy().tobytes(), rest.numel() + 1)  # never more than it can need
    except zlib.error as error:
        raise ValueError(f"the exponents of '{name}' cannot be decoded ({error})") from None
    if len(plain) != rest.numel() or not decoder.eof:
        raise ValueError(f"'{name}' has {rest.numel():,} entries and its exponents do not match")
    low = rest.numpy()
    bits = np.frombuffer(plain, np.uint8).reshape(low.shape).astype(np.uint16) << 7
    bits |= low & 0x7F
    bits |= (low & 0x80).astype(np.uint16) << 8
    return torch.from_numpy(bits.view(np.int16)).view(torch.bfloat16)
