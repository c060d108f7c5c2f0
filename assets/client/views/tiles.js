// Tiles of attention and the workers that compute them: as a step recorded, and as the method would share them out for
// other sizes. No DOM.

import { tr } from "../player/words.js";

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

export const ORDER = ["lean", "flash-decoding", "plain"];
const ASKED = ["lean", "plain", "flash-decoding"]; // as the method names them

/** Three ways to share out what was never computed, as `ways` gives them: of each piece its worker and its tiles, in
 * the order of heads, which have t tiles each. */
export function modelled(plans, t) {
  const intervals = plans.flatMap(([workers, tiles], way) => {
    const free = [];
    let from = 0;
    return workers.map((worker, i) => {
      const [start, first] = [free[worker] ?? 0, from % t],
        about = { way: ASKED[way], worker: worker + 1, head: Math.floor(from / t) + 1, first: first + 1 };
      free[worker] = start + tiles[i];
      from += tiles[i];
      return { kind: "tiles", about: { ...about, last: first + tiles[i] }, start, end: free[worker] };
    });
  });
  return ways(intervals);
}

/** A piece as a path, with lines between its tiles where they are told apart. */
export function boxOf({ first, last }, from, to, top, tall, apart) {
  const n = apart ? last - first + 1 : 1,
    cuts = Array.from({ length: n - 1 }, (_, k) => `M${from + ((k + 1) * (to - from)) / n},${top}v${tall}`);
  return `M${from},${top}H${to}v${tall}H${from}z${cuts.join("")}`;
}

export function wordOf({ worker, head, first, last, found }) {
  const where = tr`head ${head}, tiles ${first} to ${last}: worker ${worker}`;
  return found ? `${where}; ${found}` : where;
}

/** The pieces of a head, in order. */
export const linesOf = (pieces) =>
  pieces
    .sort((a, b) => a.first - b.first)
    .map((piece, i) => (i ? wordOf(piece) : `${wordOf(piece)}; ${tr`this worker merges`}`));
