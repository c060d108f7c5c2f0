// Where the threads from the sources of a draft tree go, as plain data.

export const H = 24;
export const LINE = 29;

/** Threads from the cells of sources to their nodes: [{d, "data-source", ...}]. sources: {kind, links} by line; from
 * the corner (x, y): left, w, pitch: of their names, cells and columns; cells: how many are shown where they stand
 * `above` as the tree does. at: the place of a row of the tree, {x, y, w, h}, or undefined; over: whether they stand
 * above it. */
export function threads({ sources, states, at, x, y, left, w, pitch, cells, above, over }) {
  const cellAt = (line, cell) => ({ x: x + left + 6 + cell * pitch, y: y + line * LINE });
  const all = sources.flatMap(({ links, kind }, line) =>
    links
      .filter(([row, cell]) => at(row) && (!above || (cell >= 0 && cell < cells)))
      .map(([row, cell]) => ({ kind, row, line, cell, from: cell < 0 ? null : cellAt(line, cell) })),
  );
  return all.map(({ kind, row, line, cell, from }) => {
    const to = at(row),
      end = over ? { x: to.x + to.w / 2, y: to.y } : { x: to.x, y: to.y + to.h / 2 };
    const down = !from ? 0 : end.y >= from.y + H / 2 ? 1 : -1,
      start = from
        ? { x: from.x + w / 2, y: from.y + (down > 0 ? H : 0) }
        : { x: x + left, y: y + line * LINE + H / 2 };
    const bend = over
      ? `${start.x},${start.y + 30} ${end.x},${end.y - 30}`
      : `${start.x + (from ? 0 : 50)},${start.y + 26 * down} ${end.x - 60},${end.y}`;
    return {
      d: `M${start.x},${start.y}C${bend} ${end.x},${end.y}`,
      "data-source": kind,
      "data-fate": states[row],
      "data-row": row,
      "data-line": line,
      "data-cell": cell,
    };
  });
}
