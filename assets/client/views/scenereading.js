// What a region of a scene was read as, and how well that fits.

import { glyphs } from "../player/codec.js";
import { short } from "../player/sliding.js";
import { tr } from "../player/words.js";

const ROW = 42;
export const BOLD = { "font-weight": 600 };

/** Words of a drawing. */
export const text = (x, y, words, more) => ["text", { fill: "var(--text)", "font-size": 14, x, y, ...more }, words];

const little = (value) => (value > 0 && value < 0.005 ? "< 0.01" : short(value));

/** What one region was read as, as wide as w: how it fits by meaning (S) and by spelling (L), or the chance p. Adds to
 * what is drawn, [tag, attributes, text]; gives its foot. */
export function readingOf(drawn, w, y, { source, text: said, confidence, S, L, C, chosen }) {
  const narrow = w < 420,
    words = narrow ? 64 : 84,
    left = words + (narrow ? 84 : 112),
    name = (key) => (narrow && key !== "p" ? key : { S: tr`meaning S`, L: tr`spelling L`, p: "" }[key]),
    from = left + (narrow ? 16 : 84),
    long = w - from - 100,
    bars = Object.entries(S == null ? { p: confidence } : { S, L: L ?? 0 });
  drawn.push(
    text(0, y + 27, source, { fill: "var(--muted)" }),
    text(words, y + 29, glyphs(said, narrow ? 6 : 7), { "font-size": 22, "font-weight": chosen ? 700 : 400 }),
    text(w, y + 26, `${C == null ? "p" : "C"} ${little(C ?? confidence)}`, { ...BOLD, "text-anchor": "end" }),
  );
  bars.forEach(([key, value], i) => {
    const top = y + (bars.length > 1 ? 6 + 17 * i : 14),
      look = { x: from, y: top, width: Math.max(1, long * value), height: 12, fill: "var(--accent)" };
    drawn.push(text(left, top + 11, name(key), { "font-size": 13 }), ["rect", look]);
    if (key !== "p") drawn.push(text(from + 5 + long * value, top + 11, short(value), { "font-size": 13 }));
  });
  return y + ROW;
}
