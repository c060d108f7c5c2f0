// The parts of a memory's picture: one layer as a sky, where a row and a column of keys cross in each slot; what of
// each design was read; how many bytes are read as more tokens are taken together. Below, what a run's tokens read of a
// memory, and of the mixture beside it, by position.

import { unpack } from "../player/codec.js";
import { render } from "../player/drawing.js";
import { bytes, tr } from "../player/words.js";

const LEFT = 58; // of the chart
export const MOST = 32; // tokens read together
export const BOLD = "font-weight:600";
const SIGNED = "var(--span-fed)";

/** The slots of one layer at x, y, as wide as side. K: slots in a row; earlier, recent: slots read by earlier tokens
 * and by the last ones; now: [[slot, weight]] of the latest; rows, columns: its candidates, drawn as lines. */
export function sky(parent, { x, y, side, K, earlier, recent, now, rows, columns }) {
  const cell = side / K,
    at = (slot) => [x + (slot % K) * cell, y + Math.floor(slot / K) * cell],
    squares = (slots) =>
      slots.map(
        (slot) => `M${at(slot).map((n) => n.toFixed(1))}h${cell.toFixed(1)}v${cell.toFixed(1)}h-${cell.toFixed(1)}z`,
      ),
    middle = (n) => ((n + 0.5) * cell).toFixed(1),
    lines = [
      ...rows.map((row) => `M${x},${y + +middle(row)}h${side}`),
      ...columns.map((column) => `M${x + +middle(column)},${y}v${side}`),
    ];
  const top = Math.max(1e-9, ...now.map(([, w]) => Math.abs(w))),
    most = Math.max(2.2, Math.min(7, 1.4 * cell)),
    room = `M${x},${y}h${side}v${side}h-${side}z`,
    dots = now.map(([slot, w]) => {
      const [left, up] = at(slot),
        style = `fill:${w < 0 ? "var(--panel)" : SIGNED};stroke:${SIGNED};stroke-width:2`,
        r = most * (0.45 + 0.55 * Math.sqrt(Math.abs(w) / top));
      return ["circle", { cx: left + cell / 2, cy: up + cell / 2, r, style }];
    });
  const path = (d, style) => ["path", { d, style }],
    parts = [
      path(room, "fill:var(--raised);stroke:var(--line);opacity:1"),
      path(squares(earlier).join(""), "fill:var(--accent);stroke:none;opacity:.22"),
      path(squares(recent).join(""), "fill:var(--accent);stroke:none;opacity:.8"),
      path(lines.join(""), `stroke:${SIGNED};stroke-width:1;opacity:.35`),
    ],
    [group] = render(parent, [[{}, ...parts, ["g", {}, ...dots]]]);
  return group.lastChild;
}

/** What the last tokens read of each design, as strips as wide as w: hairlines of a memory, blocks of a mixture, the
 * whole of a dense layer. parts: [{n, read}], y of each. */
export function strips(parent, parts, w, ys) {
  render(parent, parts, ({ n, read }, k) => {
    const y = ys[k],
      wide = w / n,
      gap = wide > 6 ? 2 : 0,
      drawn = Math.max(1, wide - gap).toFixed(1),
      box = (i) => `M${(i * wide).toFixed(1)},${y}h${drawn}v18h-${drawn}z`,
      all = gap ? Array.from({ length: n }, (_, i) => box(i)) : [`M0,${y}h${w}v18h-${w}z`];
    return [
      {},
      ["path", { d: all.join(""), style: "fill:var(--raised);stroke:var(--line);opacity:1" }],
      ["path", { d: read.map(box).join(""), style: "fill:var(--accent);stroke:none;opacity:.8" }],
    ];
  });
}

/** A line for each design, with its name at its end. lines: bytes of each design for 1, 2, ... tokens; n: the number
 * that is chosen; names: of the designs. words gets the texts: [x, y, anchor, text, style]. */
export function growthLines(parent, lines, { n, names, w, top, tall }, words) {
  const most = Math.max(1, ...lines.flat()),
    wide = w > 420,
    right = w - (wide ? 170 : 130),
    foot = top + tall,
    x = (count) => LEFT + ((count - 1) / (MOST - 1)) * (right - LEFT),
    y = (size) => foot - (size / most) * (tall - 12),
    ends = (lines.at(-1) ?? []).map((size, i) => ({ i, size, y: y(size) + 4 })).sort((a, b) => a.y - b.y);
  ends.forEach((end, k) => (end.y = Math.max(end.y, k ? ends[k - 1].y + 16 : 0)));
  const along = (i) =>
      lines.map((sizes, c) => `${c ? "L" : "M"}${x(c + 1).toFixed(1)},${y(sizes[i]).toFixed(1)}`).join(""),
    paths = [
      { d: `M${LEFT},${top}V${foot}H${right}`, style: "stroke:var(--line)" },
      { d: `M${x(n)},${top}V${foot}`, style: "stroke:var(--muted);stroke-dasharray:3 3" },
      ...ends.map(({ i }) => ({
        d: `${along(i)}h.1`,
        style: `stroke:var(--span-${["fed", "block", "cache"][i]});stroke-width:3;stroke-linecap:round`,
      })),
    ];
  render(parent, paths, ({ d, style }) => ["path", { d, style: `${style};fill:none;opacity:1` }]);
  const title = wide ? tr`Bytes read in all layers by that many tokens together` : tr`Bytes read in all layers`;
  words.push(
    [0, top - 12, "start", title, BOLD],
    [LEFT - 6, top + 10, "end", bytes(most)],
    [LEFT - 6, foot, "end", "0"],
    [LEFT, foot + 18, "start", "1"],
    [right, foot + 18, "end", wide ? tr`${MOST} tokens together` : String(MOST)],
    ...ends.map(({ i, size, y }) => [x(lines.length) + 8, y, "start", `${names[i]} ${bytes(size)}`]),
  );
}

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
