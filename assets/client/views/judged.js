// Drafted tokens before two tests: above what the target itself would have let stand, below the judge's score against
// its threshold; under both who let each token stand. The threshold can be moved, and the recorded step decides again;
// what came after it would have been another text.

import { el, legend } from "../player/dom.js";
import { CHIP, comeIn, MIDDLE, StepPicture } from "../player/drawing.js";
import { Sliding, short } from "../player/sliding.js";
import { fine as percent, tr } from "../player/words.js";

export const view = { title: "Judged drafts", place: 119, needs: ["judged"] };

const ROW = 34,
  TOP = 4, // of the target's own test
  BARS = TOP + ROW + 22,
  TALL = 84,
  FOOT = BARS + TALL + 6, // the tokens
  HIGH = FOOT + CHIP + 26,
  PLOT = 130,
  LEFT = 134,
  MOST = 110,
  FLOOR = -12; // natural logarithm; less likely tokens stand at the edge
const FATES = {
  both: ["accepted", tr`both tests`],
  standard: ["old", tr`the target's choice alone`],
  judge: ["judged", tr`the judge alone`],
  none: ["rejected", tr`refused`],
  behind: ["unreached", tr`after a refusal or the end`],
};
const dashed = (width) => `stroke-width:${width};stroke-dasharray:6 4`;

/** The drafted tokens of a step with both tests: [{token, value, logp, standard}]. */
const rowsOf = ({ judged, tree } = {}) =>
  (judged?.scores ?? []).map((value, i) => ({
    token: tree.tokens[i + 1],
    value,
    logp: tree.target_logprobs?.[i + 1] ?? null,
    standard: judged.standard[i],
  }));

/** Who lets each drafted token stand: both, standard, judge, none; those after the first refusal are behind. */
const recorded = (step) =>
  rowsOf(step).map(({ value, standard }, i) => {
    const why = step.tree.why[i + 1];
    if (why !== "accepted") return why === "mismatch" ? "none" : "behind";
    if (!standard) return "judge";
    return value > step.judged.delta ? "both" : "standard"; // its bar is above the line
  });

const kept = (fates) => fates.filter((fate) => fate !== "none" && fate !== "behind").length;

export class Judged extends StepPicture {
  layers = ["alone", "standard", "bars", "line", "cells", "axis", "across", "dots"];
  sliding = new Sliding(this, "judged.delta", "δ", tr`The judge's threshold`);
  none = tr`Nothing was drafted in this step.`;
  legend = this.below(el("div", "dx-legend"));
  keys = (theme) => Object.values(FATES).map(([state, words]) => legend(theme, state, words));

  told(step) {
    return step.judged ? rowsOf(step) : null;
  }

  also(rows, step) {
    const fates = this.sliding.decided(recorded(step)),
      said = tr`${kept(fates)} of ${fates.length} stay`;
    this.sliding.show(step?.judged?.delta ?? 0, Boolean(rows), said);
    const seen = new Set(fates);
    Object.keys(FATES).forEach((fate, i) => (this.legend.children[i].hidden = !seen.has(fate)));
  }

  draw(rows, step, next) {
    const { width, context } = this,
      narrow = width < 640,
      left = narrow ? 62 : LEFT,
      threshold = this.sliding.at(step.judged.delta),
      fates = this.sliding.decided(recorded(step)),
      alone = rows.findIndex(({ standard }) => !standard),
      without = alone < 0 ? rows.length : alone,
      stay = kept(fates),
      w = Math.min(MOST, (width - left - (narrow ? 40 : 136)) / rows.length),
      x = (i) => left + i * w,
      y = (value) => BARS + (1 - value) * TALL,
      after = x(rows.length) + 8;
    const standard = rows.map(({ token, logp, standard: yes }, i) => {
      const state = i > without ? "unreached" : yes ? "accepted" : "rejected",
        { glyph } = context.theme.states[state],
        share = logp === null ? "?" : percent(Math.exp(logp));
      return [
        { "data-s": state },
        ["title", {}, tr`${this.word(token)}: target probability ${share}`],
        ["rect", { rx: 5, x: x(i) + 3, y: TOP + 3, width: Math.max(1, w - 6), height: ROW - 10 }],
        ["text", { ...MIDDLE, x: x(i) + w / 2, y: TOP + 19 }, w > 62 ? `${glyph} ${share}` : glyph],
      ];
    });
    const bars = rows.map(({ token, value }, i) => {
      const [state, words] = FATES[fates[i]],
        wide = Math.min(w - 8, 44),
        mark = { ...MIDDLE, x: x(i) + w / 2, y: y(value) - 5, style: "fill:var(--text)" };
      return [
        { "data-s": state },
        ["title", {}, tr`${this.word(token)}: judge ${percent(value)}, ${words}`],
        ["rect", { x: x(i) + (w - wide) / 2, width: wide, y: y(value), height: Math.max(1, TALL * value) }],
        ["text", mark, w > 36 ? percent(value) : ""],
      ];
    });
    const items = rows.map(({ token }, i) => {
      const [state] = FATES[fates[i]],
        text = w < 44 ? context.theme.states[state].glyph : undefined;
      return { x: x(i + 0.5), y: FOOT, state, whole: this.word(token), text, sign: true };
    });
    this.chips(this.cells, items, w - 2);
    const { labels, ...dots } = this.#scatter(threshold, left, narrow),
      frame = { rx: 8, class: "dx-round dx-alone", x: left, y: TOP, width: without * w, height: ROW - 4 },
      line = { "data-s": "rejected", style: dashed(2), d: `M${x(0)},${y(threshold)}H${x(rows.length)}` };
    labels.unshift(
      [left - 8, TOP + 19, "end", narrow ? tr`○ target` : tr`○ the target's p`],
      [left - 8, threshold > 0.5 ? BARS + TALL - 2 : BARS + 8, "end", narrow ? tr`judge` : tr`the judge`],
      [left - 8, y(threshold) + 4, "end", `δ ${short(threshold)}`],
      [after, TOP + 19, "start", narrow ? without : tr`${without} stay by p`],
      [after, FOOT + 17, "start", narrow ? stay : tr`${stay} stay by either`],
    );
    const layers = { alone: without ? [["rect", frame]] : [], standard, bars, line: [["path", line]], ...dots },
      drawn = this.paint(HIGH + PLOT + 34, labels, layers).bars;
    if (next) comeIn(drawn, { transform: "translateY(-24px)", opacity: 0 });
  }

  /** Every token that was looked at so far: the judge's score over the target's own probability. */
  #scatter(threshold, left, narrow) {
    const right = this.width - (narrow ? 24 : 110),
      top = HIGH + 22,
      across = (logp) => left + (1 - Math.max(FLOOR, logp) / FLOOR) * (right - left),
      y = (value) => top + (1 - value) * (PLOT - 40),
      foot = y(0),
      ticks = narrow ? [1e-4, 1e-2, 1] : [1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1];
    const dots = this.run.steps.slice(0, this.t).flatMap((step, t) => {
      const fates = this.sliding.decided(recorded(step), t + 1);
      return rowsOf(step).flatMap(({ token, value, logp }, i) => {
        if (fates[i] === "behind") return [];
        const [state, words] = FATES[fates[i]],
          [cx, cy] = [across(logp ?? FLOOR) - 4.5, y(value) - 4.5].map((place) => place.toFixed(1)),
          dot = [
            { "data-s": state, transform: `translate(${cx},${cy})` },
            ["title", {}, tr`${this.word(token)}: judge ${percent(value)}, ${words}`],
            ["rect", { width: 9, height: 9, rx: fates[i] === "none" ? 0 : 4.5 }],
          ];
        return [dot];
      });
    });
    const what = narrow
        ? tr`over the target's probability`
        : tr`all tokens so far: the judge's score \
over the target's own probability (logarithmic)`,
      line = { "data-s": "rejected", style: dashed(1.5), d: `M${left},${y(threshold)}H${right}` };
    const labels = [
      ...ticks.map((p) => [across(Math.log(p)), foot + 18, "middle", percent(p)]),
      [left - 8, y(1) + 4, "end", tr`good`],
      [left - 8, y(0) + 4, "end", tr`bad`],
      [left, HIGH + 8, "start", what],
    ];
    return { labels, axis: [["path", { d: `M${left},${foot}H${right}` }]], across: [["path", line]], dots };
  }

  sentence(rows, step, t) {
    if (!rows.length) return this.none;
    const without = this.run.asked(t, "judged", "delta", 1),
      own = this.run.header.lossless ? "" : tr` Not lossless.`,
      all = recorded(step),
      alone = all.filter((fate) => fate === "judge").length,
      far = 2 * alone > kept(all) ? tr` Most of them by the judge alone: not what the target would have written.` : "";
    return tr`Tokens kept at threshold ${short(step.judged.delta)}: ${kept(all)} of ${rows.length}; \
${without ? kept(without) : "–"} without the judge.${far}${own}`;
  }
}
