// One layer of a memory as a sky: a row and a column of keys cross in each slot.

import { render } from "../player/render.js";

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
