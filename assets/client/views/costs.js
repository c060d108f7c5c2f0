// What attention of one token costs: sizes of published models, and accelerators, as Step-3's report has them
// (arXiv:2507.19427); one byte for an element of the cache. The same numbers stand in the study of decoding cost.

/** L layers, c elements of the cache for a token and layer, h query heads, w width of both products. */
export const MODELS = [
  { name: "Step-3", kind: "MFA", L: 61, c: 512, h: 64, w: 256 },
  { name: "DeepSeek-V3", kind: "MLA", L: 61, c: 576, h: 128, w: 576 },
  { name: "Kimi K2", kind: "MLA", L: 61, c: 576, h: 64, w: 576 },
  { name: "Qwen3-235B-A22B", kind: "GQA", L: 94, c: 1024, h: 64, w: 128 },
];

/** Dollars an hour, operations and bytes a second, bytes a second of a server's network. */
export const DEVICES = [
  { name: "H800", usd: 2, F: 1.98e15, W: 3.35e12, net: 4e11 },
  { name: "H20", usd: 0.8, F: 2.96e14, W: 4e12, net: 4e11 },
  { name: "A800", usd: 0.75, F: 3.12e14, W: 2e12, net: 2e11 },
  { name: "910B", usd: 0.67, F: 2.8e14, W: 1.6e12, net: 2e11 },
];

/** Bytes of the cache that a token reads after n others, and operations on them. */
export const attention = ({ L, c, h, w }, n) => ({ bytes: L * n * c, operations: L * n * 4 * h * w });

/** What a device reads and does for a token where a million tokens may cost so many dollars. */
export function bought({ usd, F, W }, dollars) {
  const seconds = (3600 * dollars) / (1e6 * usd);
  return { bytes: W * seconds, operations: F * seconds };
}

export const fits = (cost, box) => cost.bytes <= box.bytes && cost.operations <= box.operations;

const sum = (list) => list.reduce((total, value) => total + value, 0);
export const median = (list) => [...list].sort((a, b) => a - b)[list.length >> 1] ?? null;

/** By attention, the largest reader first: bytes of the cache at step t and at the end, operations for a byte, seconds
 * of attention in the step and in the middle step so far. */
export function readers(steps, t) {
  const told = (i) => steps[i]?.readers?.readers ?? [],
    took = ({ intervals = [] }, name) =>
      sum(
        intervals
          .filter(({ track, kind }) => track === name && kind === "attention")
          .map(({ start, end }) => end - start),
      );
  return told(t - 1)
    .map(({ name, bytes, operations }, i) => {
      const times = steps.slice(0, t).map((step) => took(step, name));
      return {
        name,
        bytes,
        most: told(steps.length - 1)[i]?.bytes ?? bytes,
        intensity: operations / bytes,
        took: times.at(-1) ?? null,
        middle: median(times),
      };
    })
    .sort((a, b) => b.most - a.most);
}
