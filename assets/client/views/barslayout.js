// Where the bars of scores and their line stand under the cells of the board, as plain data.

import { cornerOf } from "../player/layout.js";

const HIGH = 132; // pixels for all rows, as far as one row has at least LEAST and at most MOST
const LEAST = 28;
const MOST = 96;
const BETWEEN = 6; // rows

/** The board's columns, with rows that are as high as a bar may be. start: the first position; widest: of the board. */
export function gridOf(grid, start, widest) {
  const first = start - ((start - grid.first) % grid.columns), // of the row that holds it
    rows = Math.ceil(Math.max(widest - first, 1) / grid.columns),
    h = Math.min(Math.max(Math.floor(HIGH / rows), LEAST), MOST);
  return { ...grid, first, rows, h, rowHeight: h + BETWEEN, height: rows * (h + BETWEEN) };
}

/** Bars as paths: {out, rest, now, lift}. value, base: of a position, or null; y: of a value in its row; written:
 * positions; inside: whether a position is in the block. */
export function layout({ g, start, widest, value, base, y, written, inside }) {
  const bar = (p, from, to) => {
    const corner = cornerOf(g, p),
      x = corner.x + 0.14 * g.w,
      down = (v) => (corner.y + v).toFixed(1);
    return `M${x.toFixed(1)},${down(from)}V${down(to)}h${(0.72 * g.w).toFixed(1)}V${down(from)}Z`;
  };
  const out = [],
    rest = [],
    now = [],
    lift = [];
  for (let p = start; value && p < widest; p++) {
    const v = value(p),
      b = base ? base(p) : NaN;
    if (Number.isNaN(v)) continue;
    const top = Math.min(y(v), g.h - 1.5), // a bar of nothing is still there
      middle = Number.isNaN(b) || b >= v ? top : Math.min(y(b), g.h);
    (written.has(p) ? now : inside(p) ? rest : out).push(bar(p, g.h, middle));
    if (middle > top + 0.5 && inside(p)) lift.push(bar(p, middle, top));
  }
  return { out, rest, now, lift };
}

/** The line, or one at each position, row by row as far as there are positions. */
export function lineOf({ g, start, widest, y, threshold, lines }) {
  const parts = [];
  let last = ""; // where the line so far ends
  for (let p = start; p < widest; p++) {
    const v = lines ? lines(p) : (threshold ?? NaN),
      { x, y: top } = cornerOf(g, p),
      from = `${x},${(top + y(v)).toFixed(1)}`;
    if (Number.isNaN(v)) continue;
    if (from !== last) parts.push(`M${from}`);
    parts.push(`h${g.w + g.gap}`);
    last = `${x + g.w + g.gap},${(top + y(v)).toFixed(1)}`;
  }
  return parts.join("");
}
