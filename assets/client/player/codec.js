// Bytes to numbers, characters to visible glyphs. No DOM here.

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

// Characters that the usual fonts of every system have.
const PICTURES = { " ": "␣", "\n": "↵", "\t": "→", "\u2028": "↵", "\u2029": "↵" };

// Characters that are invisible or turn the reading direction: shown by their number.
const HIDDEN = /[\p{Cc}\u00a0\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]|[\u{e0000}-\u{e0fff}]/u;

function visible(char, keepSpace) {
  if (keepSpace && (char === " " || char === "\n" || char === "\t")) return char;
  const code = char.codePointAt(0);
  if (PICTURES[char]) return PICTURES[char];
  if (code >= 0xd800 && code <= 0xdfff) return "\ufffd";
  return HIDDEN.test(char) ? `‹${code.toString(16).toUpperCase()}›` : char;
}

/** One line in which white space, control and direction characters can be seen, cut at `limit` characters. */
export function glyphs(text, limit = 40) {
  let out = "",
    n = 0;
  for (const char of text) {
    if (n++ >= limit) return `${out}…`;
    out += visible(char, false);
  }
  return out || "∅";
}

/** Text in a room for `limit` characters. */
export const cut = (text, limit) => (text.length > limit ? `${text.slice(0, limit - 1)}…` : text);

/** Running text: line breaks stay, what could hide or turn text becomes visible. */
export function prose(text) {
  let out = "";
  for (const char of text) out += visible(char, true);
  return out;
}

/** A number for a person: short, never in the wrong order of magnitude. */
export function number(value, unit = "") {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  let text;
  if (Number.isInteger(value)) text = size >= 1e4 ? value.toLocaleString("en") : String(value);
  else if (size >= 1000) text = Math.round(value).toLocaleString("en");
  else if (size >= 100) text = value.toFixed(0);
  else if (size >= 1) text = value.toFixed(2);
  else if (size >= 0.001) text = value.toFixed(3);
  else text = value.toExponential(1);
  return unit && !/^(probability|score|count)$/.test(unit) ? `${text} ${unit}` : text;
}

export function seconds(value) {
  if (value === 0) return "0 s";
  return value < 0.001
    ? `${(value * 1e6).toFixed(0)} µs`
    : value < 1
      ? `${(value * 1e3).toFixed(value < 0.1 ? 1 : 0)} ms`
      : `${value.toFixed(2)} s`;
}

export function bytes(value) {
  const power = value < 1000 ? 0 : Math.min(3, Math.floor(Math.log10(value) / 3));
  return `${power ? (value / 1000 ** power).toFixed(1) : value} ${["B", "kB", "MB", "GB"][power]}`;
}
