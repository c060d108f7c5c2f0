// Tokens as boxes in a drawing.

import { cut } from "./codec.js";
import { MIDDLE, render } from "./render.js";
import { translated } from "./words.js";

export const LETTER = 7.4; // width of one
export const CHIP = 24; // height of a box

/** How wide the box of a text is. */
export const widthOf = (text) => LETTER * [...text].length + 12;

/** Boxes around their x, at most `w` wide: [{x, y, state, whole, text, title}]; text stands in place of the token
 * `whole`, sign lets the state's sign stand before it. */
export const chips = (parent, items, theme, w) =>
  render(parent, items, ({ x, y, state, text, whole = text, sign, title }) => {
    const { glyph, label } = theme.states[state],
      most = Math.floor((w - 12) / LETTER),
      before = sign && most > 4 ? `${glyph} ` : "",
      shown = text ?? before + cut(whole, Math.max(1, most - before.length)),
      width = widthOf(shown);
    return [
      { transform: `translate(${x.toFixed(1)},${y})`, "data-s": state },
      ["title", {}, title ?? `${whole}: ${translated(label)}`],
      ["rect", { height: CHIP, rx: 6, x: -width / 2, width }],
      ["text", { ...MIDDLE, y: 16.5 }, shown],
    ];
  });
