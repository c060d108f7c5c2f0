// Cells of a block side by side with bars above them, on as many lines as a panel needs.

import { MIDDLE } from "./drawing.js";

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

/** Bars from 0 to 1, `tall` at 1, as `render` takes them: [{x, w, foot, value, state, look, title, words}]; words stand
 * on top. */
export const bars = (items, tall) =>
  items.map(({ x, w, foot, value, state, look = "", title = "", words = "" }) => {
    const height = Math.max(1.5, tall * value),
      y = foot - height;
    return [
      { "data-s": state },
      ["title", {}, title],
      ["rect", { rx: 2, class: look, x: x - w / 2, width: w, y, height }],
      ["text", { ...MIDDLE, class: "dx-over", x, y: y - 4 }, words],
    ];
  });

/** A threshold, as a dashed line. */
export const limit = (from, to, y) => ["path", { class: "dx-eta", "data-s": "rejected", d: `M${from},${y}H${to}` }];

/** A frame around a cell that two rules decide in different ways; w: of a cell. */
export const odd = (x, w, y, height) => ["rect", { class: "dx-odd", rx: 6, x: x - w / 2 + 1, width: w - 2, y, height }];
