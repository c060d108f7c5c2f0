// Which experts of a layer the tokens of a text use: as recorded, and as many for each token, but drawn by chance.
// No DOM.

import { unpack } from "../player/codec.js";

const UNITS = 256; // rows that are drawn

/** What a step's records say of one layer: position -> [[unit, weight]], and how many units there are. twin: of the
 * model beside the run's own. */
export function used(entries = [], layer, twin = false) {
  const found = new Map();
  let units = 0;
  for (const { kind, role, positions, layers, chosen, weights, units: all } of entries) {
    if ((role === "twin") !== twin) continue;
    if (kind !== "expert" && kind !== "layer") continue; // places, memories
    const row = layers.indexOf(layer),
      { values, shape } = unpack(chosen),
      k = shape[2],
      w = weights ? unpack(weights).values : null;
    if (row < 0) continue;
    units = Math.max(units, all ?? 0);
    positions.forEach((position, i) => {
      const pairs = [];
      for (let j = (i * shape[1] + row) * k, end = j + k; j < end; j++)
        if (values[j] >= 0) pairs.push([values[j], Number.isFinite(w?.[j]) ? w[j] : 1]);
      found.set(position, pairs);
      for (const [unit] of pairs) units = Math.max(units, unit + 1);
    });
  }
  return { found, units: Math.min(units, UNITS) };
}

/** unit -> the share of these columns that use it. */
export function together(columns) {
  const share = new Map();
  for (const pairs of columns) for (const [unit] of pairs) share.set(unit, (share.get(unit) ?? 0) + 1 / columns.length);
  return share;
}

/** Of the text after step t in one layer: position -> [[unit, weight]], how many units there are, the positions in
 * order, and those of the step. */
export function readOf(steps, t, layer, twin = false) {
  const columns = new Map();
  let units = 0,
    now = [];
  for (const { routing } of steps.slice(0, t)) {
    if (!routing?.some(({ role }) => (role === "twin") === twin)) continue;
    const { found, units: all } = used(routing, layer, twin);
    for (const [position, pairs] of found) columns.set(position, pairs);
    for (const position of columns.keys()) if (position > Math.max(...found.keys())) columns.delete(position);
    units = Math.max(units, all);
    now = [...found.keys()];
  }
  return { columns, units, order: [...columns.keys()].sort((a, b) => a - b), now };
}

/** How many units such columns would use together if each chose its number of them by chance: the mean, exact. */
export const expected = (columns, units) =>
  units * (1 - columns.reduce((rest, pairs) => rest * (1 - Math.min(1, pairs.length / units)), 1));

/** One such choice: for a position as many units as it uses, drawn by chance, the same at each call. */
export function drawn(pairs, position, units) {
  const order = Array.from({ length: units }, (_, i) => i);
  let seed = (position + 1) * 2654435761;
  for (let i = units - 1; i > 0; i--) {
    seed = (Math.imul(seed ^ (seed >>> 15), 2246822519) + i) >>> 0;
    const j = seed % (i + 1);
    [order[i], order[j]] = [order[j], order[i]];
  }
  return pairs.map(([, weight], i) => [order[i], weight]);
}
