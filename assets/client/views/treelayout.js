// Where the nodes, the edges and the passes of a draft tree stand, as plain data.

import { fold, tidy } from "../player/layout.js";
import { tr } from "../player/words.js";

export const NODE = { h: 24, y: 28, gap: 36, least: 112, most: 190 }; // least, most: from one column to the next
const APART = 64; // between the sources and the tree
const NAME = 22; // of what frames the levels of a pass
export const TAIL = { w: 16, h: 7, x: 19, y: 7 }; // a row without a token, hanging below its node

/** Rows of a tree in `wide` pixels: {w, h, top: of the sources, over: whether they stand above, pitch, size, kept:
 * rows that are shown, number: their places by row, at: these places, slabs, edges}. tails: whether rows have pseudo
 * rows; all: columns of the deepest tree; byPass: whether the value of a row is its pass; aligned, least, plan: of the
 * sources. A row that is shown is told how many below it are folded. */
export function layout({ rows, tails, all, wide, byPass, aligned, least, plan }) {
  const [above, fates] = ["parent", "why"].map((name) => rows.map((row) => row[name])),
    shown = fold(above, fates),
    kept = [...rows.keys()].filter((i) => shown[i]),
    number = new Map(kept.map((row, i) => [row, i]));
  rows.forEach((row, i) => {
    if (shown[i]) return;
    let seen = row.parent;
    while (!shown[seen]) seen = rows[seen].parent;
    rows[seen].folded = (rows[seen].folded ?? 0) + 1;
  });
  const parents = kept.map((i) => (rows[i].parent < 0 ? -1 : number.get(rows[i].parent))),
    { places, rows: height, columns } = tidy(parents);
  const below = tails ? TAIL.y : 0,
    narrowest = all * NODE.least - NODE.gap + 8,
    over = aligned || least + APART + narrowest > wide,
    left = plan(over ? wide : wide - narrowest - APART),
    x0 = left.w && !over ? left.w + APART : 0,
    pitch = Math.floor(Math.min(Math.max((wide - x0 - 8 + NODE.gap) / all, NODE.least), NODE.most)),
    size = pitch - NODE.gap,
    tall = (height - 1) * (NODE.y + below) + NODE.h + below + 8,
    y0 = over && left.h ? left.h + 22 : Math.max(0, (left.h - tall) / 2);
  const at = places.map(({ column, row }) => ({
    x: 4 + x0 + column * pitch,
    y: 4 + y0 + row * (NODE.y + below),
    w: size,
    h: NODE.h,
  }));
  const w = Math.max(x0 + (columns - 1) * pitch + size + 8, left.w),
    passes = byPass ? kept.map((i) => rows[i].value).filter(Boolean) : [],
    slabs = [...new Set(passes)],
    named = slabs.length ? NAME : 0,
    h = (over ? y0 + tall : Math.max(tall, left.h + 4)) + named;
  const top = over ? 2 : Math.max(2, (h - left.h) / 2);
  const framed = slabs.map((slab) => {
    const own = places.flatMap(({ column }, j) => (rows[kept[j]].value === slab ? [column] : [])),
      [from, to] = [Math.min(...own), Math.max(...own)],
      x = 1 + x0 + from * pitch;
    return {
      box: { x, width: (to - from) * pitch + size + 6, height: h - 2 },
      name: { x: x + 8, y: h - 8 },
      text: from < to ? tr`pass ${slab} drafts levels ${from}–${to} at once` : tr`pass ${slab} drafts level ${from}`,
    };
  });
  const edges = kept
    .filter((i) => rows[i].parent >= 0)
    .map((i) => {
      const a = at[number.get(rows[i].parent)],
        b = at[number.get(i)],
        x1 = a.x + size,
        y1 = a.y + NODE.h / 2,
        y2 = b.y + NODE.h / 2,
        middle = (x1 + b.x) / 2;
      return { row: rows[i], d: `M${x1},${y1}C${middle},${y1} ${middle},${y2} ${b.x},${y2}` };
    });
  return { w, h, top, over, pitch, size, kept, number, at, slabs: framed, edges };
}
