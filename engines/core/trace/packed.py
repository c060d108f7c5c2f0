"""Numeric arrays inside JSON: base64 of little-endian values."""

import base64
import math
from typing import Literal

import numpy as np

from engines.core.trace.base import Index, Record, TraceError

MISSING = 255  # in a "u1" array: no value at this place


class Packed(Record):
    """A numeric array as base64 of little-endian values, row-major. `u1` holds lo + (hi - lo) * q / 254, with 255 for
    "no value"."""

    dtype: Literal["u1", "u2", "i4", "f4"]
    shape: list[Index]
    data: str
    lo: float = 0.0
    hi: float = 1.0

    def array(self) -> np.ndarray:
        """The values as float32 (NaN where missing) or integers, with `shape`. Raises TraceError if the bytes do not
        fit the shape."""
        try:
            raw = base64.b64decode(self.data, validate=True)
        except ValueError as error:
            raise TraceError(f"a packed array holds text that is not base64: {error}") from None
        size = {"u1": 1, "u2": 2, "i4": 4, "f4": 4}[self.dtype]
        if len(raw) != size * math.prod(self.shape):  # a product that may be too long to be written
            raise TraceError(
                f"a packed {self.dtype} array of shape {str(self.shape)[:80]} does not have {len(raw)} bytes"
            )
        try:
            values = np.frombuffer(raw, dtype="<" + self.dtype).reshape(self.shape)
        except (ValueError, OverflowError):  # no bytes and a huge side, or more dimensions than there can be
            raise TraceError(f"a packed array cannot have the shape {str(self.shape)[:80]}") from None
        if self.dtype != "u1":
            return values
        with np.errstate(over="ignore", invalid="ignore"):  # ends beyond float32 give infinities, which views leave out
            return np.where(values == MISSING, np.nan, self.lo + (self.hi - self.lo) * values.astype(np.float32) / 254)


def pack(values: np.ndarray, lo: float | None = None, hi: float | None = None) -> Packed:
    """Floats become u1 between `lo` and `hi` (their own range if not given; NaN = missing), integers u2 or i4."""
    if np.issubdtype(values.dtype, np.integer):
        dtype: Literal["u2", "i4"] = "u2" if not values.size or (values.min() >= 0 and values.max() < 65536) else "i4"
        return Packed(dtype, list(values.shape), _b64(values.astype("<" + dtype)))
    finite = np.isfinite(values)
    whole = bool(finite.all())
    if lo is None or hi is None:
        known = values if whole else values[finite]
        lo = lo if lo is not None else float(known.min()) if known.size else 0.0
        hi = hi if hi is not None else float(known.max()) if known.size else 1.0
    scaled = (values - lo) * (254 / (hi - lo) if hi > lo else 0.0) + 0.5  # rounds to nearest when cut to an integer
    if not whole:
        scaled = np.where(finite, scaled, 0.0)
    quantised = np.clip(scaled, 0, 254.5).astype(np.uint8)
    if not whole:
        quantised[~finite] = MISSING
    return Packed("u1", list(values.shape), _b64(quantised), lo, hi)


def pack_exact(values: np.ndarray) -> Packed:
    """Nothing is rounded: whole numbers as in `pack`, floats as float32 (NaN = missing)."""
    if np.issubdtype(values.dtype, np.integer):
        return pack(values)
    return Packed("f4", list(values.shape), _b64(values.astype("<f4")))


def _b64(values: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode("ascii")
