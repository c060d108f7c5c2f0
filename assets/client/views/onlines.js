// Tokens on lines.

import { cut } from "../player/words.js";

const LETTER = 8, // width of one in a cell
  NARROWEST = 38; // of a cell

/** Tokens on lines of at most `most` letters: [{i, line, from, text}]; a line break is a letter at the end of its
 * line. */
export function onLines(texts, most) {
  let line = 0,
    from = 0;
  return texts.map((text, i) => {
    const [head, ...rest] = text.split("\n"),
      shown = rest.length ? `${head}↵` : head;
    if (from && from + shown.length > most) [line, from] = [line + 1, 0];
    const cell = { i, line, from, text: cut(shown, most) };
    from += shown.length;
    if (rest.length) [line, from] = [line + rest.length, rest.at(-1).length];
    return cell;
  });
}

/** Cells on lines of a width: [{i, line, x, w}], for texts in this order. */
export function inLines(texts, width) {
  let line = 0,
    x = 0;
  return texts.map((text, i) => {
    const w = Math.min(width, Math.max(NARROWEST, LETTER * [...text].length + 16));
    if (x && x + w > width) [line, x] = [line + 1, 0];
    x += w;
    return { i, line, x: x - w, w };
  });
}
