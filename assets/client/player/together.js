// What a modelled order does at once.

/** Modelled parts of one kind that begin together on several tracks, such as the attention of several layers:
 * {begin, end, from, to, first, last}; from and to are parts on the outer tracks, first and last their layers. */
export function together(shown) {
  const groups = new Map();
  for (const one of shown) {
    const n = one.about?.layer;
    if (one.measured !== false || n === undefined) continue;
    const key = `${one.kind} ${one.start.toFixed(6)}`;
    groups.set(key, [...(groups.get(key) ?? []), { one, n }]);
  }
  return [...groups.values()]
    .filter((all) => new Set(all.map(({ one }) => one.track)).size > 1)
    .map((all) => {
      const by = [...all].sort((a, b) => a.n - b.n),
        end = Math.max(...all.map(({ one }) => one.end));
      return { begin: by[0].one.start, end, from: by[0].one, to: by.at(-1).one, first: by[0].n, last: by.at(-1).n };
    });
}
