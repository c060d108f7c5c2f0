// Tokens as boxes in a drawing.

import { cut } from "./codec.js";
import { pool, set, setText, svg } from "./dom.js";
import { translated } from "./words.js";

const WIDE = 7.4; // of a letter
export const CHIP = 24; // height of a box

/** Boxes around their x, at most `w` wide: [{x, y, state, whole, text}]; text stands in place of the token, sign lets
 * the state's sign stand before it. */
export function chips(parent, items, theme, w) {
  return pool(parent, items.length, () =>
    svg("g", {}, svg("title"), svg("rect", { height: CHIP, rx: 6 }), svg("text", { "text-anchor": "middle", y: 16.5 })),
  ).map((group, i) => {
    const { x, y, state, whole, text, sign } = items[i],
      [title, box, word] = group.childNodes,
      { glyph, label } = theme.states[state],
      most = Math.floor((w - 12) / WIDE),
      before = sign && most > 4 ? `${glyph} ` : "",
      shown = text ?? before + cut(whole, Math.max(1, most - before.length)),
      wide = WIDE * [...shown].length + 12;
    set(group, { transform: `translate(${x.toFixed(1)},${y})`, "data-s": state });
    set(box, { x: -wide / 2, width: wide });
    setText(word, shown);
    setText(title, `${whole}: ${translated(label)}`);
    return group;
  });
}
