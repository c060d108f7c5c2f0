// What each of two models ran and how long it took, from the phases of the recorded intervals.

import { bytes, seconds } from "../player/codec.js";
import { render } from "../player/render.js";
import { tr, translated } from "../player/words.js";

const PHASES = new Set(["encode", "cross_kv", "prefill", "decode", "token"]);

/** By model: each step's layers, times and token; how many layers. */
export function sides(steps) {
  const found = new Map();
  steps.forEach(({ intervals = [] }, at) => {
    for (const { track, start, end, kind: phase, about } of intervals) {
      if (!PHASES.has(phase)) continue;
      if (!found.has(track)) found.set(track, { name: track, steps: [], low: 0, high: 0 });
      const side = found.get(track);
      side.steps[at] ??= { cells: [], start, end, token: "" };
      const step = side.steps[at];
      const { layer, mark, cache_bytes: size } = about;
      if (phase === "token") Object.assign(step, { token: mark, size });
      else {
        const part = phase === "encode" ? "high" : "low";
        step.cells.push({ phase, layer });
        step.end = Math.max(step.end, end);
        side[part] = Math.max(side[part], layer + 1);
      }
    }
  });
  return [...found.values()].reverse(); // the twin above
}

/** What each of a view's sides took for t tokens, from y on: the first token, and the later ones. */
export function timeBars(view, t, y) {
  render(view.bars, view.sides, ({ name, steps }, i) => {
    const { narrow, LEFT } = view,
      spent = (n) => steps.slice(0, n).reduce((sum, { start, end }) => sum + end - start, 0),
      room = view.wide - LEFT - (narrow ? 0 : 420),
      [first, later] = [Math.min(1, t), t].map((n) => (spent(n) / view.whole) * room),
      size = steps.slice(0, t).findLast((step) => step?.size)?.size ?? 0,
      said = tr`${seconds(spent(t))}, first token ${seconds(spent(Math.min(1, t)))}; cache ${bytes(size)}`;
    return [
      { transform: `translate(0,${y + i * view.bar})` },
      ["rect", { height: 16, x: LEFT, width: first, style: "fill:var(--muted);stroke:none" }],
      ["rect", { height: 16, x: LEFT + first, width: later - first, style: "fill:var(--accent);stroke:none" }],
      ["text", narrow ? { x: 0, y: 47 } : { x: LEFT + later + 8, y: 13 }, said],
      ["text", narrow ? { x: 0, y: 31 } : { x: LEFT - 10, y: 13, "text-anchor": "end" }, translated(name)],
    ];
  });
}
