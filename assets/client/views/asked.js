// The question, what is answered so far, and whether that is right, in one line above the board; and whether other texts
// and answers are right, where that is known.

import { el, setText } from "../player/dom.js";
import { reading } from "../player/reading.js";
import { prose, tr } from "../player/words.js";

const SHOWN = 90; // characters of an answer: its end, which is its newest part

/** Whether an answer that was checked is known to be right after t steps: true, false, or null where that is not told
 * yet. */
export function rightAt(run, t) {
  const { right, step = null } = run.verdict ?? {};
  return !run.verdict || (t < run.length && (right || step === null || t <= step)) ? null : right;
}

const line = (text) => prose(text).replace(/\s+/g, " ").trim();

export class Asked {
  constructor(run) {
    this.run = run;
    this.question = el("span", "dx-question");
    this.answer = el("span", "dx-answer");
    this.mark = el("strong", {});
    this.root = el("p", "dx-asked", this.question, this.answer, this.mark);
    const { prompt = "" } = run.header;
    setText(this.question, line(prompt).slice(0, 400));
    this.question.title = prompt;
  }

  show(t) {
    const { run } = this,
      said = line(
        reading(run, t)
          .map(({ text, kind }) => (kind === "hole" ? " … " : text))
          .join("")
          .replace(/( … )+/g, " … "),
      ),
      right = rightAt(run, t);
    setText(this.answer, said.length > SHOWN ? `…${said.slice(-SHOWN)}` : said);
    this.answer.title = said;
    setText(this.mark, right === null ? "" : right ? tr`✓ right` : tr`✗ wrong`);
    this.mark.dataset.mark = right === null ? "" : right ? "right" : "wrong";
  }
}

/** What a text answers, and whether that is right: [answer, right]; null, too, where that is not known. */
export const answerOf = (run, text) => run.figures.marks?.[text] ?? ["", null];

/** "✓ right", "✕ wrong", or nothing. */
export const marked = (right) => (right === null ? "" : right ? tr`✓ right` : tr`✕ wrong`);
