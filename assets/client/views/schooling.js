// One draft at several moments of its training, one row for each: where its first choice is what the text says, and the
// model calls that this text would have taken with that draft. Any row follows from the text: a round ends at the
// first choice that the text does not have, or after gamma of them, with a token of the target's own.

import { MIDDLE, render, StepPicture } from "../player/drawing.js";
import { Sliding } from "../player/sliding.js";
import { many, number, tr } from "../player/words.js";

export const view = {
  title: "The longer it was trained, the longer its guesses hold",
  place: 49,
  needs: ["schooling"],
};

const TOP = 70,
  ROW = 32,
  LEFT = 140,
  RIGHT = 124,
  LEAST = 26, // of a token
  MOST = 56,
  LONGEST = 8; // letters of a token, which stands askew

/** A round of an answer, as a digit says it: how many drafts stay, and whether all do. */
const round = (digit) => ({ kept: Number.parseInt(digit, 36) >> 1, full: Number.parseInt(digit, 36) % 2 === 1 });

const about = (n) => number(Number(n.toPrecision(2)));

export class Schooling extends StepPicture {
  layers = ["boxes", "cells", "text"];
  none = tr`No checkpoint read along in this step.`;
  sliding = new Sliding(this, "schooling.gamma", "γ", tr`Drafts of a round, at most`, [0, 16, 1]);

  also(last) {
    const calls = last ? this.#rounds(this.#read(last))[last.drafting].length : 0,
      said = tr`${many(calls, "target")} for this text, ${this.#recorded().length} as recorded.`;
    this.sliding.show(last?.gamma ?? 0, !!last, said);
  }

  /** What stands on the board up to here, and what each checkpoint puts first there; null where none was asked. */
  #read({ start, first, gamma, drafting, tokens_seen }) {
    const { run, t } = this,
      from = run.prompt.length,
      cells = run.board(t).slice(from, start + first[0].length),
      guesses = cells.map(() => null);
    for (const { schooling } of run.steps.slice(0, t))
      for (const i of schooling?.first[0].keys() ?? [])
        guesses[schooling.start + i - from] = schooling.first.map((row) => row[i]);
    const tokens = cells.map(({ token }) => token);
    return { tokens, guesses, gamma, drafting, checkpoints: tokens_seen.length };
  }

  /** The rounds of each checkpoint: {from: where one begins, kept: drafts that stay, own: whether a token of the
   * target's own stands after them, full: whether all that were drafted stay}; null where they are not known. */
  #rounds({ tokens, gamma, drafting, checkpoints }) {
    const { run, t, sliding } = this,
      asked = run.asked(t, "schooling", "gamma", sliding.at(gamma));
    return Array.from({ length: checkpoints }, (_, c) => {
      const digits = c === drafting ? sliding.decided(null)?.[c] : asked?.[c];
      if (digits === undefined && c !== drafting) return null;
      let from = 0;
      return (digits === undefined ? this.#recorded() : [...digits].map(round)).map(({ kept, full }) => {
        const own = from + kept < tokens.length, // else the text ends here, or goes no further yet
          made = { from, kept, own, full };
        from += kept + Number(own);
        return made;
      });
    });
  }

  /** Of each round up to here how many drafts stay, and whether all do. */
  #recorded() {
    return this.run.steps.slice(0, this.t).flatMap(({ schooling, tree }) => {
      const kept = tree?.accepted.filter(Boolean).length - 1;
      return schooling ? { kept, full: kept === tree.tokens.length - 1 } : [];
    });
  }

  draw(last) {
    const { width } = this,
      narrow = width < 640,
      left = narrow ? 66 : LEFT,
      right = narrow ? 58 : RIGHT,
      read = this.#read(last),
      { tokens, guesses } = read,
      all = this.#rounds(read),
      fits = Math.max(1, Math.floor((width - left - right) / LEAST)),
      first = Math.max(0, tokens.length - fits),
      w = Math.min(MOST, (width - left - right) / Math.max(tokens.length - first, Math.min(fits, 12))),
      x = (i) => left + (i - first) * w,
      y = (row) => TOP + row * ROW,
      begun = last.start - this.run.prompt.length - first; // the first new one that is shown
    const words = render(this.text, tokens.slice(first), (token, i) => {
      const turned = `translate(${x(first + i) + w / 2 - 2},${TOP - 6}) rotate(-42)`;
      return ["text", { transform: turned, style: `font-weight:${i >= begun ? 700 : 400}` }, this.word(token, LONGEST)];
    });
    const plain = tokens.map((_, from) => ({ from, kept: 0, own: true })),
      rows = [plain, ...all];
    const boxes = rows.flatMap((rounds, row) =>
      (rounds ?? [])
        .map(({ from, kept, own }) => ({ row, from: Math.max(first, from), to: from + kept + Number(own) }))
        .filter(({ from, to }) => to > from),
    );
    render(this.boxes, boxes, ({ row, from, to }) => {
      const box = { x: x(from) + 1, y: y(row) + 2, width: (to - from) * w - 2, height: ROW - 4 };
      return ["rect", { rx: 8, class: row ? "dx-round" : "dx-round dx-alone", ...box }];
    });
    const cells = all.flatMap((rounds, c) =>
      (rounds ?? []).flatMap(({ from, kept, own, full }) =>
        Array.from({ length: kept + Number(own) }, (_, k) => {
          const state = k < kept ? "accepted" : full ? "bonus" : "correction";
          return { row: c + 1, at: from + k, guess: guesses[from + k]?.[c], state };
        }),
      ),
    );
    const shown = cells.filter(({ at }) => at >= first);
    render(this.cells, shown, ({ row, at, guess, state }) => [
      { "data-s": state },
      ["title", {}, this.#why(state, guess == null ? "?" : this.word(guess))],
      ["rect", { rx: 5, x: x(at) + 4, y: y(row) + 5, width: Math.max(1, w - 8), height: ROW - 10 }],
      ["text", { ...MIDDLE, x: x(at) + w / 2, y: y(row) + 21 }, this.context.theme.states[state].glyph],
    ]);
    const labels = [[left - 8, TOP - 8, "end", narrow ? tr`trained` : tr`draft trained on`]];
    rows.forEach((rounds, row) => {
      const seen = row ? about(last.tokens_seen[row - 1]) : "",
        drafts = row === last.drafting + 1 && !narrow ? "▸ " : "",
        calls = rounds?.length,
        name = row ? drafts + (narrow ? seen : tr`${seen} tokens`) : narrow ? tr`none` : tr`○ one by one`;
      labels.push([left - 8, y(row) + 21, "end", name]);
      labels.push([
        x(tokens.length) + 8,
        y(row) + 21,
        "start",
        rounds ? (narrow ? calls : many(calls, "target")) : "–",
      ]);
    });
    this.frame(TOP + (all.length + 1) * ROW + 12, labels);
    return words.slice(begun);
  }

  #why(state, whole) {
    if (state === "accepted") return tr`drafted and accepted: ${whole}`;
    return state === "bonus"
      ? tr`after a whole accepted draft: the target's own token`
      : tr`the draft says ${whole}, the text does not: the target's own token`;
  }

  sentence(last) {
    const read = this.#read(last),
      calls = this.#rounds(read).map((rounds) => rounds?.length ?? "–"),
      n = many(read.tokens.length, "token");
    return tr`${n}: ${read.tokens.length} model calls without a draft, ${calls[0]} with a draft that had read \
${about(last.tokens_seen[0])} tokens in training, ${calls.at(-1)} with one that had read \
${about(last.tokens_seen.at(-1))}. Derived; each frame is one call.`;
  }
}
