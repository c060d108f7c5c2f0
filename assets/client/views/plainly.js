// Answers as they are compared with the right one, where that is known.

import { tr } from "../player/words.js";

/** The last number of a text, else the text. */
export const plainly = (text) => text.match(/-?\d[\d.,/]*/g)?.at(-1) ?? text.trim();

/** Whether a text answers what the task's exact check expects; null where that is not known. */
export function isRight(run, text) {
  const expected = run.verdict?.expected;
  return expected && text ? plainly(text) === plainly(expected) : null;
}

/** "✓ right", "✕ wrong", or nothing. */
export const marked = (right) => (right === null ? "" : right ? tr`✓ right` : tr`✕ wrong`);
