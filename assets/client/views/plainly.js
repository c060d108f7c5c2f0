// Whether texts and answers beside that of a run are right, where that is known.

import { tr } from "../player/words.js";

/** What a text answers, and whether that is right: [answer, right]; null, too, where that is not known. */
export const answerOf = (run, text) => run.figures.marks?.[text] ?? ["", null];

/** "✓ right", "✕ wrong", or nothing. */
export const marked = (right) => (right === null ? "" : right ? tr`✓ right` : tr`✕ wrong`);
