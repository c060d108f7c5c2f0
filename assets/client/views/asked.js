// A run's text as a person reads it; the question, what is answered so far, and whether that is right, in one line
// above the board; and whether other texts and answers are right, where that is known.

import { el, setText } from "../player/dom.js";
import { prose, tr } from "../player/words.js";

const SHOWN = 90; // characters of an answer: its end, which is its newest part
const UTF8 = new TextDecoder("utf-8", { fatal: true });
const LONGEST = 4; // bytes of a character

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

/** The character that begins at a place of some bytes as [text, bytes], or the byte itself, marked as one. */
function character(bytes, at) {
  for (let n = 1; n <= LONGEST && at + n <= bytes.length; n++)
    try {
      return [UTF8.decode(Uint8Array.from(bytes.slice(at, at + n))), n];
    } catch {
      // more bytes are wanted, or it is none
    }
  return [`⟨0x${bytes[at].toString(16).toUpperCase().padStart(2, "0")}⟩`, 1];
}

/** Cells {bytes, kind, wrong, marked} in order as parts: a character is new, wrong or marked where one of its bytes
 * is. */
function joined(cells) {
  const owner = cells.flatMap((cell) => cell.bytes.map(() => cell)),
    bytes = cells.flatMap((cell) => cell.bytes),
    parts = [];
  for (let at = 0; at < bytes.length; ) {
    const [text, n] = character(bytes, at),
      of = owner.slice(at, at + n),
      has = (name) => of.some((cell) => cell[name]);
    const kind = of.some((cell) => cell.kind === "new") ? "new" : of[0].kind;
    parts.push({ text, kind, wrong: has("wrong"), marked: has("marked") });
    at += n;
  }
  return parts;
}

/** Running text at cursor t as parts {text, kind: "old" | "new" | "hole" | "end", wrong?, marked?}, up to the first end
 * mark; the position `marked` is a part of its own. */
export function reading(run, t, marked = -1) {
  const parts = [],
    broken = [];
  const add = ({ text, kind, wrong, marked }) => {
    const last = parts.at(-1);
    if (last?.kind === kind && Boolean(last.wrong) === wrong && !last.marked && !marked) last.text += text;
    else parts.push({ text, kind, ...(wrong && { wrong }), ...(marked && { marked }) });
  };
  for (const { position, token, entry } of run.board(t).slice(run.prompt.length)) {
    const kind = run.eos.has(token) ? "end" : token === null ? "hole" : entry?.step === t - 1 ? "new" : "old",
      piece = token === null ? null : run.piece(token),
      cell = { kind, wrong: run.wrong(position, t), marked: position === marked };
    if (piece?.kind === "byte" && kind !== "end") {
      broken.push({ ...cell, bytes: piece.text.split(" ").map(Number) }); // Number reads 0xE2
      continue;
    }
    joined(broken.splice(0)).forEach(add);
    add({ ...cell, text: kind === "end" ? "" : kind === "hole" ? "▢" : piece.text });
    if (kind === "end") break;
  }
  joined(broken).forEach(add);
  return parts;
}
