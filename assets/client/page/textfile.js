// The text of a file that a person brings: UTF-8, or UTF-16 where Windows wrote it. A mark in front says which, and the
// decoder leaves it out.

const WIDE = { "255,254": "utf-16le", "254,255": "utf-16be" };

export const textOf = (bytes) => new TextDecoder(WIDE[bytes.subarray(0, 2).join()] ?? "utf-8").decode(bytes);
