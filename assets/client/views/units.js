// Text in frames, one for each forward, as wide as what it wrote at once; above it the same text one token at a time.
// Over the newest frame stands the window of its forward: a bar for each token that it foresaw, on that token's place,
// against the threshold, which can be moved; what would be written then is said, and would have been another text.

import { el, legend } from "../player/dom.js";
import { LETTER, MIDDLE, render, StepPicture } from "../player/drawing.js";
import { Sliding, short } from "../player/sliding.js";
import { cut, number, tr } from "../player/words.js";

export const view = { title: "Units written at once", place: 115, needs: ["unit"] };

const TOP = 22,
  TALL = 84, // of the bars
  ROW = 34,
  ONES = TOP + TALL + 14, // the row of one by one
  OWN = ONES + ROW,
  LEFT = 110,
  RIGHT = 118,
  LEAST = 26, // of a token
  MOST = 64;
const LIMIT = { "data-s": "rejected", style: "stroke-width:2;stroke-dasharray:6 4" };

const level = (value) => TOP + (1 - Math.min(1, value)) * TALL;

/** The tiles that the first t steps wrote: {step, start, tokens, lowest, parted}; parted: places whose token is not
 * what the model says there one by one, as the step behind read it. A fork or an edit cuts tiles off. */
export function tiles(run, t) {
  const made = [];
  run.steps.slice(0, t).forEach(({ spans = [], commits }, index) => {
    const unit = spans.find(({ kind }) => kind === "unit");
    if (!unit || !commits) return;
    while (made.length && made.at(-1).start + made.at(-1).tokens.length > unit.start) {
      const last = made.at(-1);
      last.tokens.length = Math.max(0, unit.start - last.start);
      if (last.tokens.length) break;
      made.pop();
    }
    const tokens = unit.start < unit.end ? commits.tokens.slice(-(unit.end - unit.start)) : [];
    const sure = commits.probabilities.slice(-tokens.length).filter((p) => p !== null);
    made.push({ step: index, start: unit.start, tokens, lowest: sure.length ? Math.min(...sure) : null, parted: [] });
    const before = made.at(-2);
    if (before)
      before.parted = before.tokens
        .map((token, i) => ({ token, at: before.start + i }))
        .filter(({ token, at }, i) => i && (run.candidates(index, at)?.[0]?.token ?? token) !== token)
        .map(({ at }) => at);
  });
  return made;
}

const count = (made) => made.reduce((n, { tokens }) => n + tokens.length, 0);

export class Units extends StepPicture {
  layers = ["bars", "ones", "frames", "cells", "line"];
  entrance = { transform: "translateY(-24px)", opacity: 0 };
  sliding = new Sliding(this, "unit.beta", "β", tr`Confidence threshold`, [0, 1.05, 0.01]);

  legend = this.below(el("div", "dx-legend"));
  keys = (theme) => [
    legend(theme, "unreached", tr`predicted, not written`),
    el("span", {}, el("b", {}, "≠"), " ", tr`differs from autoregressive decoding`),
  ];

  /** The window of a step. */
  #window(index) {
    return this.run.steps[index]?.unit ?? { sure: [], start: 0, written: 0, beta: 1 };
  }

  told = () => tiles(this.run, this.t);

  also(made) {
    const { sure, beta, written } = this.#window(this.t - 1),
      said = tr`${this.sliding.decided(written)} of ${sure.length} written`;
    this.sliding.show(beta, made?.length > 0 && sure.length > 0, said);
  }

  draw(made) {
    const { run, width, t } = this,
      narrow = width < 640,
      left = narrow ? 64 : LEFT,
      { sure, start, written: wrote, beta } = this.#window(t - 1),
      threshold = this.sliding.at(beta),
      end = Math.max(start + sure.length, ...made.map((tile) => tile.start + tile.tokens.length)),
      space = width - left - (narrow ? 46 : RIGHT),
      fits = Math.max(6, Math.floor(space / LEAST)),
      first = Math.max(made[0]?.start ?? 0, end - fits),
      w = Math.min(MOST, space / Math.max(Math.min(12, fits), Math.min(fits, end - first))),
      x = (at) => left + (at - first) * w,
      shown = made.filter((tile) => tile.tokens.length && tile.start + tile.tokens.length > first);
    const cells = shown
      .flatMap(({ step, start: from, tokens, parted }) =>
        tokens.map((token, i) => ({ token, at: from + i, step, differs: parted.includes(from + i) })),
      )
      .filter(({ at }) => at >= first);
    const one = { rx: 8, class: "dx-round dx-alone", y: ONES, width: w - 2, height: ROW - 6 };
    render(this.ones, cells, ({ at }) => ["rect", { ...one, x: x(at) + 1 }]);
    const frames = render(this.frames, shown, ({ step, start: from, tokens, lowest }) => {
      const begun = Math.max(first, from),
        box = { x: x(begun) + 1, y: OWN, width: (from + tokens.length - begun) * w - 2, height: ROW - 4 };
      return [
        { class: "dx-unit" },
        ["title", {}, tr`step ${step + 1}: ${tokens.length} at once, lowest confidence ${number(lowest)}`],
        ["rect", { rx: 8, class: "dx-round", ...box }],
      ];
    });
    frames.forEach((frame, i) => {
      frame.toggleAttribute("data-now", shown[i].step === t - 1);
      frame.toggleAttribute("data-many", shown[i].tokens.length > 1);
    });
    const ahead = sure.slice(wrote).map((_, i) => start + wrote + i),
      guesses = ahead.map((at) => ({ token: run.candidates(t - 1, at)?.[0]?.token, at }));
    this.#cells([...cells, ...guesses], { x, w });
    this.#bars({ sure, start, count: this.sliding.decided(wrote), threshold }, { x, w });
    const after = x(Math.max(end, first)) + 8,
      calls = (n) => (narrow ? n : tr`${n} model calls`);
    this.frame(OWN + ROW + 6, [
      [left - 8, ONES + 19, "end", narrow ? tr`○ each` : tr`○ one by one`],
      [left - 8, OWN + 20, "end", narrow ? tr`units` : tr`in units`],
      [after, ONES + 19, "start", calls(count(made))],
      [after, OWN + 20, "start", calls(made.length)],
      ...this.#scale(sure, threshold, x(start) - 6),
    ]);
    return frames.slice(-1);
  }

  /** What the bars are, and where the threshold is, left of them. */
  #scale(sure, threshold, x) {
    if (!sure.length) return [];
    const limit = [x, level(threshold) + 4, "end", `β ${short(threshold)}`];
    return x > 150 ? [limit, [x, TOP + TALL - 2, "end", tr`confidence`]] : [limit];
  }

  #cells(cells, { x, w }) {
    const most = Math.max(1, Math.floor((w - 8) / LETTER));
    render(this.cells, cells, ({ token, at, step, differs }) => {
      const whole = token === undefined ? "?" : this.word(token),
        text = differs ? `≠${w > 44 ? cut(whole, most - 1) : ""}` : cut(whole, most);
      return [
        { "data-s": step === undefined ? "unreached" : step === this.t - 1 ? "new" : "old" },
        ["title", {}, differs ? tr`${whole}: differs from autoregressive decoding` : whole],
        ["rect", { rx: 5, x: x(at) + 4, y: OWN + 4, width: Math.max(1, w - 8), height: ROW - 12 }],
        ["text", { ...MIDDLE, x: x(at) + w / 2, y: OWN + 19 }, text],
      ];
    }).forEach((group, i) => group.toggleAttribute("data-parted", Boolean(cells[i].differs)));
  }

  #bars({ sure, start, count, threshold }, { x, w }) {
    const d = `M${x(start)},${level(threshold)}h${sure.length * w}`,
      width = Math.min(w - 6, 40);
    render(this.line, sure.length ? [["path", { ...LIMIT, d }]] : []);
    render(this.bars, sure, (value, i) => {
      const bar = { x: x(start + i) + (w - width) / 2, width, y: level(value), height: Math.max(1, TALL * value) },
        mark = { ...MIDDLE, x: x(start + i) + w / 2, y: level(value) - 5, style: "fill:var(--text)" };
      return [
        { "data-s": i < count ? "accepted" : "unreached" },
        ["title", {}, tr`confidence ${number(value)}`],
        ["rect", bar],
        ["text", mark, w > 32 || sure.length < 3 ? short(value) : ""],
      ];
    });
  }

  describe(t) {
    const { sure, written, beta } = this.#window(t - 1);
    if (!sure.length) return t ? tr`No unit in this step.` : tr`Before the first step.`;
    const made = tiles(this.run, t),
      parted = made.reduce((n, tile) => n + tile.parted.length, 0),
      kept = this.run.header.lossless ? "" : tr` Not lossless.`;
    return tr`${written} of ${sure.length} tokens written, threshold ${short(beta)}. Tokens up to step ${t}: \
${count(made)}; those that differ from autoregressive decoding: ${parted}.${kept}`;
  }
}
