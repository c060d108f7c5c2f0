// What a run's tokens read of a memory, and of the mixture beside it, by position.

import { unpack } from "../player/codec.js";

export const MOST = 32; // tokens read together

/** Of the text behind step t: position -> {layers: [[unit, weight]], rows, columns, experts: [[unit]]}, and K. */
export function gathered(steps, t) {
  const found = new Map();
  let K = 0,
    layers = [];
  for (const { routing = [] } of steps.slice(0, t))
    for (const { kind, role, positions, layers: numbers, chosen, weights, units } of routing) {
      const part = kind === "memory" ? role || "layers" : role === "mixture" ? "experts" : null;
      if (!part) continue;
      const { values, shape } = unpack(chosen),
        [, depth, m] = shape,
        w = weights && part === "layers" ? unpack(weights).values : null;
      if (part === "layers") {
        [K, layers] = [Math.round(Math.sqrt(units)), numbers];
        for (const position of found.keys()) if (position >= positions[0]) found.delete(position);
      }
      positions.forEach((position, i) => {
        const units = Array.from({ length: depth }, (_, l) => {
          const from = (i * depth + l) * m,
            ids = [...values.slice(from, from + m)];
          return w ? ids.map((unit, j) => [unit, w[from + j]]) : ids.filter((unit) => unit >= 0);
        });
        found.set(position, { ...found.get(position), [part]: units });
      });
    }
  return { found: [...found].sort(([a], [b]) => a - b), K, layers };
}

/** Bytes that the last 1, 2, ... tokens read together: [[memory, mixture, dense]], from the facts of a step. */
export function growth(found, facts) {
  const slots = new Set(),
    experts = new Set();
  return found
    .slice(-MOST)
    .reverse()
    .map(([, one]) => {
      one.layers.forEach((units, l) => units.forEach(([unit]) => slots.add(`${l} ${unit}`)));
      (one.experts ?? []).forEach((units, l) => units.forEach((unit) => experts.add(`${l} ${unit}`)));
      const memory = facts.always_bytes + slots.size * facts.slot_bytes;
      return "dense_bytes" in facts
        ? [memory, facts.router_bytes + experts.size * facts.expert_bytes, facts.dense_bytes]
        : [memory];
    });
}

/** [slots that the last position shares with the earlier one it shares most with, index of that one]. */
export function alike(found) {
  const lit = found.at(-1)[1].layers.map((units) => new Set(units.map(([unit]) => unit)));
  let best = [0, -1];
  found.slice(0, -1).forEach(([, one], i) => {
    const same = one.layers.reduce((sum, units, l) => sum + units.filter(([unit]) => lit[l].has(unit)).length, 0);
    if (same >= best[0]) best = [same, i];
  });
  return best;
}
