// Cells of a block side by side with bars above them, on as many lines as a panel needs.

import { pool, set, setText, svg } from "./dom.js";

/** n cells from x = left on, at least and at most so wide: {lines, w, line(i), x(i): its middle, ends(line): [from, to]
 * in pixels}. */
export function plan(n, width, left, least = 44, most = 88) {
  const room = Math.max(1, Math.floor((width - left) / least)),
    lines = Math.max(1, Math.ceil(n / room)),
    per = Math.max(1, Math.ceil(n / lines)),
    w = Math.min(most, (width - left) / per);
  return {
    lines,
    w,
    line: (i) => Math.floor(i / per),
    x: (i) => left + ((i % per) + 0.5) * w,
    ends: (line) => [left, left + Math.min(per, n - line * per) * w],
  };
}

/** Bars from 0 to 1, `tall` at 1: [{x, w, foot, value, state, look, title, words}]; words stand on top. */
export function bars(parent, items, tall) {
  return pool(parent, items.length, () =>
    svg("g", {}, svg("title"), svg("rect", { rx: 2 }), svg("text", { "text-anchor": "middle" })),
  ).map((group, i) => {
    const { x, w, foot, value, state, look = "", title = "", words = "" } = items[i],
      [name, bar, text] = group.childNodes,
      high = Math.max(1.5, tall * value);
    set(group, { "data-s": state });
    set(bar, { class: look, x: x - w / 2, width: w, y: foot - high, height: high });
    set(text, { x, y: foot - high - 4, class: "dx-over" });
    setText(text, words);
    setText(name, title);
    return group;
  });
}
