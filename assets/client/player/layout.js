// Where things go: pure functions of sizes.

const DOM_LIMIT = 256; // cells; above it a board is painted
const NARROW = 480;

/** {large, track, cell, gutter} for the boards of a group: they are as dense as the largest of them needs. typical:
 * characters of a long word; kinds: tracks of brackets; compact: several runs in one viewport. */
export function density({ width, typical, kinds, count, compact = false }) {
  const large = count > DOM_LIMIT,
    track = large || compact ? 6 : 8,
    under = 4 + track * kinds,
    w = large ? Math.min(typical, 6) * 7.3 + 5 : compact ? typical * 6.7 + 8 : typical * 7.9 + 12;
  return {
    large,
    track,
    cell: { w: Math.round(w * (large || width >= NARROW ? 1 : 0.85)), h: large ? 20 : compact ? 22 : 30, under },
    gutter: count > 16 ? 30 : 0,
  };
}

/** Columns and cell width of a board of `count` cells in `width` pixels; columns are rounded to a number that is easy
 * to count. first: the position in the first cell; those before it have no place. */
export function grid(width, count, cell, gutter = 34, first = 0, gap = 3) {
  const room = Math.max(width - gutter, cell.w);
  let columns = Math.max(1, Math.floor((room + gap) / (cell.w + gap)));
  columns -= columns % (columns >= 24 ? 8 : columns >= 8 ? 4 : columns >= 6 ? 2 : 1);
  const w = Math.min(Math.floor((room - gap * (columns - 1)) / columns), Math.round(cell.w * 1.5));
  const rowHeight = cell.h + cell.under;
  const rows = Math.ceil(count / columns);
  return { columns, rows, w, h: cell.h, gap, gutter, rowHeight, height: rows * rowHeight, first };
}

/** The left upper corner of a cell. */
export const cornerOf = ({ columns, w, gap, gutter, rowHeight, first = 0 }, position) => ({
  x: gutter + ((position - first) % columns) * (w + gap),
  y: Math.floor((position - first) / columns) * rowHeight,
});

/** The position at a point, -1 where there is none; count: of all positions, those before the first cell too. */
export function cellAt(g, x, y, count) {
  const column = Math.floor((x - g.gutter) / (g.w + g.gap)),
    row = Math.floor(y / g.rowHeight);
  const position = row * g.columns + column + (g.first ?? 0);
  return column < 0 || column >= g.columns || row < 0 || position >= count ? -1 : position;
}

/** A stretch [start, end) of the board as one piece for each row that it touches. */
export function segments(g, start, end) {
  const out = [],
    before = g.first ?? 0,
    begin = Math.max(start - before, 0),
    over = end - before;
  for (let row = Math.floor(begin / g.columns); row * g.columns < over; row++) {
    const from = Math.max(begin, row * g.columns),
      to = Math.min(over, (row + 1) * g.columns);
    out.push({
      row,
      column: from - row * g.columns,
      cells: to - from,
      first: from === start - before,
      last: to === over,
    });
  }
  return out;
}

/** Tidy tree: depth gives the column, leaves get rows in depth-first order, a parent sits midway between its
 * children. */
export function tidy(parents) {
  const children = parents.map(() => []),
    roots = [],
    places = parents.map(() => ({ column: 0, row: 0 }));
  parents.forEach((parent, i) => (parent < 0 ? roots : children[parent]).push(i));
  let rows = 0;
  const place = (node, column) => {
    for (const child of children[node]) place(child, column + 1);
    const first = children[node][0],
      last = children[node].at(-1);
    places[node] = { column, row: first === undefined ? rows++ : (places[first].row + places[last].row) / 2 };
  };
  for (const root of roots) place(root, 0);
  return { places, rows, columns: Math.max(0, ...places.map((p) => p.column + 1)) };
}

/** Rows of a large tree that stay visible: branches refused at depth 1 fold into their head, then whatever was never
 * reached. */
export function fold(parents, why, limit = 200) {
  const shown = parents.map(() => true);
  if (parents.length <= limit) return shown;
  parents.forEach((parent, i) => {
    if (parent > 0 && (!shown[parent] || (parents[parent] === 0 && why[parent] !== "accepted"))) shown[i] = false;
  });
  if (shown.filter(Boolean).length > limit) {
    parents.forEach((parent, i) => {
      if (parent >= 0 && why[i] === "unreached") shown[i] = false;
    });
  }
  return shown;
}

/** Round numbers from 0 to `end`, at most `most` of them behind 0; least: the smallest step between them, if any. */
export function ticks(end, most, least = 0) {
  const power = 10 ** Math.floor(Math.log10(Math.max(end / most, least))),
    step = [1, 2, 5, 10].map((n) => n * power).find((n) => end / n <= most) ?? 10 * power;
  return Array.from({ length: Math.floor(end / step) + 1 }, (_, i) => i * step);
}
