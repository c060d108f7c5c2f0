// What a token board shows of its cells: how dense they are, and which rows where it scrolls.

import { cornerOf } from "../player/layout.js";

const ROWS = { growing: 3, masked: 4, narrow: 3 }; // of a board above a picture, which scrolls then
export const NARROW = 560;

/** Characters of a long word among the texts' lengths. */
export function typicalOf(lengths) {
  const sorted = lengths.map((length) => Math.min(length, 9)).sort((a, b) => a - b);
  return Math.max(2.4, sorted[Math.floor(sorted.length * 0.75)] ?? 5);
}

export const rowsSeen = (canvas, width) => ROWS[canvas === null ? "growing" : width < NARROW ? "narrow" : "masked"];

/** Where a board that scrolls stands: it shows what was written last, from its first place on. top: where it stood;
 * written: positions; most: rows that are seen. */
export function scrolledTo(grid, { top, written, most }) {
  const room = Math.min(most * grid.rowHeight, grid.height);
  if (room >= grid.height) return top;
  const [from, to] = written.length ? [Math.min(...written), Math.max(...written)] : [0, 0],
    low = cornerOf(grid, to).y + grid.rowHeight - room;
  return Math.max(0, Math.min(Math.max(top, low), cornerOf(grid, from).y));
}

/** Whether a cell is in sight of a board that has scrolled. */
export function inSight({ columns, rowHeight }, i, { top, most }) {
  const y = Math.floor(i / columns) * rowHeight - top;
  return y > -rowHeight && y < most * rowHeight;
}
