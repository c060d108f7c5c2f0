// Bytes to numbers. No DOM here.

import { tr } from "./words.js";

const SIZES = { u1: 1, u2: 2, i4: 4, f4: 4 };
const TYPES = { u2: Uint16Array, i4: Int32Array, f4: Float32Array };
const MISSING = 255;
const decoded = new WeakMap();

/** A packed array of the trace as {values, shape}; decoded once, NaN where a u1 array has no value. */
export function unpack(packed) {
  let result = decoded.get(packed);
  if (!result) decoded.set(packed, (result = decode(packed)));
  return result;
}

/** Numbers that never were packed, as an array that `unpack` takes. */
export function unpacked(values, shape) {
  const packed = { shape };
  decoded.set(packed, { values, shape });
  return packed;
}

function decode({ dtype, shape, data, lo = 0, hi = 1 }) {
  const size = SIZES[dtype];
  if (!size)
    throw new Error(tr`A packed array has the type "${dtype}"; this player knows ${Object.keys(SIZES).join(", ")}.`);
  const bytes = fromBase64(data);
  const count = shape.reduce((a, b) => a * b, 1);
  if (bytes.length !== count * size) {
    throw new Error(
      tr`A packed ${dtype} array of shape [${String(shape).slice(0, 80)}] needs ${count * size} bytes, got \
${bytes.length}.`,
    );
  }
  if (dtype !== "u1") return { values: new TYPES[dtype](bytes.buffer), shape };
  const values = new Float32Array(count);
  for (let i = 0; i < count; i++) values[i] = bytes[i] === MISSING ? NaN : lo + ((hi - lo) * bytes[i]) / 254;
  return { values, shape };
}

export function fromBase64(text) {
  let raw;
  try {
    raw = atob(text);
  } catch {
    throw new Error(tr`A packed array holds text that is not base64.`);
  }
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
}
