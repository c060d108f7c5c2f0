// Tiles of attention and the workers that compute them: as a step recorded, and shared out again for other sizes by the
// rules of the published kernels (engines/methods/system/lean_attention/partition.py). No DOM.

import { tr } from "../words.js";

/** The ways of a step with their pieces, tiles counted from 1. Merges are pieces beyond the first of each head. */
export function ways(intervals = []) {
  const found = new Map();
  for (const { kind, about, start, end } of intervals) {
    if (kind !== "tiles") continue;
    const { way, ...piece } = { found: "", ...about, start, end };
    found.set(way, [...(found.get(way) ?? []), piece]);
  }
  return [...found].map(([name, pieces]) => ({
    name,
    pieces,
    long: Math.max(...pieces.map(({ end }) => end)),
    workers: Math.max(...pieces.map(({ worker }) => worker)),
    tiles: pieces.reduce((sum, { start, end }) => sum + end - start, 0),
    merges: pieces.filter(({ first }) => first > 1).length,
    done: pieces.some(({ found: one }) => one),
  }));
}

/** Tiles of `heads` heads, t each, end to end, cut into as many equal ranges as there are workers, and these where a
 * head ends: [[worker, head, first, end]]. */
export function lean(heads, t, slots) {
  const T = heads * t,
    G = Math.min(slots, T),
    q = Math.ceil(T / G),
    heavy = T - (q - 1) * G,
    cut = [];
  let from = 0;
  for (let worker = 0; worker < G; worker++) {
    const end = from + (worker < heavy ? q : q - 1);
    while (from < end) {
      const head = Math.floor(from / t),
        last = Math.min(end, (head + 1) * t);
      cut.push([worker, head, from - head * t, last - head * t]);
      from = last;
    }
  }
  return cut;
}

/** Into how many equal pieces FlashDecoding cuts every head. */
export function splits(heads, t, slots) {
  if (heads >= 0.8 * slots) return 1;
  const filled = new Map();
  for (let s = 1; s <= Math.min(128, slots, t); s++) {
    const waves = (heads * s) / slots;
    if (s === 1 || Math.ceil(t / s) !== Math.ceil(t / (s - 1))) filled.set(s, waves / Math.ceil(waves));
  }
  const best = Math.max(...filled.values());
  return [...filled].find(([, share]) => share >= 0.85 * best)[0];
}

/** Every head in at most s pieces of equally many tiles, each to the worker that is free first. */
export function split(heads, t, slots, s) {
  const free = Array(slots).fill(0),
    size = Math.ceil(t / s),
    cut = [];
  for (let head = 0; head < heads; head++)
    for (let first = 0; first < t; first += size) {
      const worker = free.indexOf(Math.min(...free)),
        end = Math.min(t, first + size);
      cut.push([worker, head, first, end]);
      free[worker] += end - first;
    }
  return cut;
}

const WAYS = {
  lean,
  "flash-decoding": (heads, t, slots) => split(heads, t, slots, splits(heads, t, slots)),
  plain: (heads, t, slots) => split(heads, t, slots, 1),
};
export const ORDER = Object.keys(WAYS);

/** Three ways to share out what was never computed, as `ways` gives them. */
export function modelled(heads, t, slots) {
  const intervals = ORDER.flatMap((way) => {
    const free = [];
    return WAYS[way](heads, t, slots).map(([worker, head, first, end]) => {
      const start = free[worker] ?? 0;
      free[worker] = start + end - first;
      return {
        kind: "tiles",
        about: { way, worker: worker + 1, head: head + 1, first: first + 1, last: end },
        start,
        end: free[worker],
      };
    });
  });
  return ways(intervals);
}

/** A piece as a path, with lines between its tiles where they are told apart. */
export function boxOf({ first, last }, from, to, top, tall, apart) {
  const n = last - first + 1,
    cuts = apart
      ? Array.from({ length: n - 1 }, (_, k) => `M${from + ((k + 1) * (to - from)) / n},${top}v${tall}`)
      : [];
  return `M${from},${top}H${to}v${tall}H${from}z${cuts.join("")}`;
}

/** A piece in words. */
export function wordOf({ worker, head, first, last, found }) {
  const where = tr`head ${head}, tiles ${first} to ${last}: worker ${worker}`;
  return found ? `${where}; ${found}` : where;
}
