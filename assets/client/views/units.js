// Text in frames, one for each forward, as wide as what it wrote at once; above it the same text one token at a time.
// Over the newest frame stands the window of its forward: a bar for each token that it foresaw, on that token's place,
// against the threshold, which can be moved; what would be written then is said, and would have been another text.

import { cut, glyphs, number } from "../player/codec.js";
import { el, legend, pool, set, setText, svg } from "../player/dom.js";
import { comeIn } from "../player/motion.js";
import { Sliding, short } from "../player/sliding.js";
import { StepPicture } from "../player/steppicture.js";
import { tr } from "../player/words.js";

export const view = { name: "Units", title: "Units written at once", place: 115, needs: ["unit"] };

const TOP = 22,
  TALL = 84, // of the bars
  ROW = 34,
  ONES = TOP + TALL + 14, // the row of one by one
  OWN = ONES + ROW,
  LEFT = 110,
  RIGHT = 118,
  LEAST = 26, // of a token
  MOST = 64;

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

export class Units extends StepPicture {
  load(run, dom, context) {
    this.dom = dom;
    this.sliding = new Sliding(this, "unit.beta", "β", tr`Confidence threshold`, [0, 1.05, 0.01]);
    this.line = svg("path", { "data-s": "rejected", style: "stroke-width:2;stroke-dasharray:6 4" });
    this.key = el(
      "div",
      "dx-legend",
      legend(context.theme, "unreached", tr`predicted, not written`),
      el("span", {}, el("b", {}, "≠"), " ", tr`differs from autoregressive decoding`),
    );
    this.begin(run, dom, context, ["bars", "ones", "frames", "cells", this.line], this.sliding.dom, this.key);
  }

  /** The window of a step. */
  #window(index) {
    return this.run.steps[index]?.unit ?? { sure: [], start: 0, written: 0, beta: 1 };
  }

  told() {
    return tiles(this.run, this.t);
  }

  also(made) {
    const { sure, beta, written } = this.#window(this.t - 1),
      said = tr`${this.sliding.decided(written)} of ${sure.length} written`;
    this.sliding.show(beta, made?.length > 0 && sure.length > 0, said);
  }

  draw(made, _, next) {
    const { run, width, t } = this,
      narrow = width < 640,
      left = narrow ? 64 : LEFT,
      { sure, start, written: wrote, beta } = this.#window(t - 1),
      threshold = this.sliding.at(beta),
      begin = made[0]?.start ?? 0,
      end = Math.max(start + sure.length, ...made.map((tile) => tile.start + tile.tokens.length)),
      space = width - left - (narrow ? 46 : RIGHT),
      fits = Math.max(6, Math.floor(space / LEAST)),
      first = Math.max(begin, end - fits),
      w = Math.min(MOST, space / Math.max(Math.min(12, fits), Math.min(fits, end - first))),
      x = (at) => left + (at - first) * w,
      shown = made.filter((tile) => tile.tokens.length && tile.start + tile.tokens.length > first);
    this.frame(OWN + ROW + 6);
    const cells = shown
      .flatMap(({ step, start: from, tokens, parted }) =>
        tokens.map((token, i) => ({ token, at: from + i, step, differs: parted.includes(from + i) })),
      )
      .filter(({ at }) => at >= first);
    pool(this.ones, cells.length, () => svg("rect", { rx: 8, class: "dx-round dx-alone" })).forEach((box, i) =>
      set(box, { x: x(cells[i].at) + 1, y: ONES, width: w - 2, height: ROW - 6 }),
    );
    const frames = pool(this.frames, shown.length, () =>
      svg("g", "dx-unit", svg("title"), svg("rect", { rx: 8, class: "dx-round" })),
    );
    frames.forEach((group, i) => {
      const { step, start: from, tokens, lowest } = shown[i],
        [title, box] = group.childNodes,
        begun = Math.max(first, from);
      group.toggleAttribute("data-now", step === t - 1);
      group.toggleAttribute("data-many", tokens.length > 1);
      set(box, { x: x(begun) + 1, y: OWN, width: (from + tokens.length - begun) * w - 2, height: ROW - 4 });
      setText(title, tr`step ${step + 1}: ${tokens.length} at once, lowest confidence ${number(lowest)}`);
    });
    const ahead = sure.slice(wrote).map((_, i) => ({
      token: run.candidates(t - 1, start + wrote + i)?.[0]?.token,
      at: start + wrote + i,
    }));
    this.#cells([...cells, ...ahead], { x, w });
    this.#bars({ sure, start, count: this.sliding.decided(wrote), threshold }, { x, w });
    const all = made.reduce((n, { tokens }) => n + tokens.length, 0),
      after = x(Math.max(end, first)) + 8,
      said = (n) => (narrow ? n : tr`${n} model calls`);
    this.label([
      [left - 8, ONES + 19, "end", narrow ? tr`○ each` : tr`○ one by one`],
      [left - 8, OWN + 20, "end", narrow ? tr`units` : tr`in units`],
      [after, ONES + 19, "start", said(all)],
      [after, OWN + 20, "start", said(made.length)],
      ...this.#scale(sure, threshold, x(start) - 6),
    ]);
    if (next) comeIn(frames.slice(-1), { transform: "translateY(-24px)", opacity: 0 });
  }

  /** What the bars are, and where the threshold is, left of them. */
  #scale(sure, threshold, x) {
    if (!sure.length) return [];
    const y = TOP + (1 - Math.min(1, threshold)) * TALL;
    const said = [x, y + 4, "end", `β ${short(threshold)}`];
    return x > 150 ? [said, [x, TOP + TALL - 2, "end", tr`confidence`]] : [said];
  }

  #cells(cells, { x, w }) {
    pool(this.cells, cells.length, () =>
      svg("g", {}, svg("title"), svg("rect", { rx: 5 }), svg("text", { "text-anchor": "middle" })),
    ).forEach((group, i) => {
      const { token, at, step, differs } = cells[i],
        [title, box, word] = group.childNodes,
        whole = token === undefined ? "?" : glyphs(this.run.piece(token).text),
        most = Math.max(1, Math.floor((w - 8) / 7.4));
      set(group, { "data-s": step === undefined ? "unreached" : step === this.t - 1 ? "new" : "old" });
      group.toggleAttribute("data-parted", Boolean(differs));
      set(box, { x: x(at) + 4, y: OWN + 4, width: Math.max(1, w - 8), height: ROW - 12 });
      set(word, { x: x(at) + w / 2, y: OWN + 19 });
      setText(word, differs ? `≠${w > 44 ? cut(whole, most - 1) : ""}` : cut(whole, most));
      setText(title, differs ? tr`${whole}: differs from autoregressive decoding` : whole);
    });
  }

  #bars({ sure, start, count, threshold }, { x, w }) {
    const y = (value) => TOP + (1 - value) * TALL;
    set(this.line, { d: sure.length ? `M${x(start)},${y(Math.min(1, threshold))}h${sure.length * w}` : "" });
    pool(this.bars, sure.length, () =>
      svg("g", {}, svg("title"), svg("rect"), svg("text", { "text-anchor": "middle" })),
    ).forEach((group, i) => {
      const [title, bar, mark] = group.childNodes,
        wide = Math.min(w - 6, 40);
      set(group, { "data-s": i < count ? "accepted" : "unreached" });
      set(bar, { x: x(start + i) + (w - wide) / 2, width: wide, y: y(sure[i]), height: Math.max(1, TALL * sure[i]) });
      set(mark, { x: x(start + i) + w / 2, y: y(sure[i]) - 5 });
      mark.style.fill = "var(--text)";
      setText(mark, w > 32 || sure.length < 3 ? short(sure[i]) : "");
      setText(title, tr`confidence ${number(sure[i])}`);
    });
  }

  describe(t) {
    const { sure, written, beta } = this.#window(t - 1);
    if (!sure.length) return t ? tr`No unit in this step.` : tr`Before the first step.`;
    const made = tiles(this.run, t),
      all = made.reduce((n, { tokens }) => n + tokens.length, 0),
      parted = made.reduce((n, tile) => n + tile.parted.length, 0),
      kept = this.run.header.lossless ? "" : tr` Not lossless.`;
    return tr`${written} of ${sure.length} tokens written, threshold ${short(beta)}. Tokens up to step ${t}: \
${all}; those that differ from autoregressive decoding: ${parted}.${kept}`;
  }
}
