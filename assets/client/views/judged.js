// Drafted tokens before two tests: above what the target itself would have let stand, below the judge's score against
// its threshold; under both who let each token stand. The threshold can be moved, and the recorded step decides again;
// what came after it would have been another text.

import { CHIP, chips } from "../player/chips.js";
import { glyphs } from "../player/codec.js";
import { el, legend, pool, set, setText, svg } from "../player/dom.js";
import { comeIn } from "../player/motion.js";
import { fine as percent } from "../player/shares.js";
import { Sliding, short } from "../player/sliding.js";
import { StepPicture } from "../player/steppicture.js";
import { tr } from "../player/words.js";

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
const STATES = { both: "accepted", standard: "old", judge: "judged", none: "rejected", behind: "unreached" };
const SAID = {
  both: tr`both tests`,
  standard: tr`the target's choice alone`,
  judge: tr`the judge alone`,
  none: tr`refused`,
  behind: tr`after a refusal or the end`,
};

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

const dot = (x) => x.toFixed(1);

export class Judged extends StepPicture {
  load(run, dom, context) {
    this.sliding = new Sliding(this, "judged.delta", "δ", tr`The judge's threshold`);
    this.line = svg("path", { "data-s": "rejected", style: "stroke-width:2;stroke-dasharray:6 4" });
    this.across = svg("path", { "data-s": "rejected", style: "stroke-width:1.5;stroke-dasharray:6 4" });
    const key = Object.entries(STATES).map(([fate, state]) => legend(context.theme, state, SAID[fate]));
    this.key = el("div", "dx-legend", ...key);
    const layers = ["alone", "standard", "bars", this.line, "cells", "axis", this.across, "dots"];
    this.begin(run, dom, context, layers, this.sliding.dom, this.key);
  }

  told(step) {
    return step.judged ? rowsOf(step) : null;
  }

  also(rows, step) {
    const fates = this.sliding.decided(recorded(step)),
      said = tr`${kept(fates)} of ${fates.length} stay`;
    this.sliding.show(step?.judged?.delta ?? 0, Boolean(rows), said);
    const seen = new Set(fates);
    Object.keys(STATES).forEach((fate, i) => (this.key.children[i].hidden = !seen.has(fate)));
  }

  draw(rows, step, next) {
    const { run, width, context } = this,
      narrow = width < 640,
      left = narrow ? 62 : LEFT,
      threshold = this.sliding.at(step.judged.delta),
      fates = this.sliding.decided(recorded(step)),
      alone = rows.findIndex(({ standard }) => !standard),
      without = alone < 0 ? rows.length : alone,
      stay = kept(fates),
      w = Math.min(MOST, (width - left - (narrow ? 40 : 136)) / rows.length),
      x = (i) => left + i * w,
      after = x(rows.length) + 8;
    this.frame(HIGH + PLOT + 34);
    pool(this.alone, without ? 1 : 0, () => svg("rect", { rx: 8, class: "dx-round dx-alone" })).forEach((box) =>
      set(box, { x: left, y: TOP, width: without * w, height: ROW - 4 }),
    );
    pool(this.standard, rows.length, () =>
      svg("g", {}, svg("title"), svg("rect", { rx: 5 }), svg("text", { "text-anchor": "middle" })),
    ).forEach((group, i) => {
      const { token, logp, standard } = rows[i],
        [title, box, word] = group.childNodes,
        state = i > without ? "unreached" : standard ? "accepted" : "rejected",
        share = logp === null ? "?" : percent(Math.exp(logp));
      set(group, { "data-s": state });
      set(box, { x: x(i) + 3, y: TOP + 3, width: Math.max(1, w - 6), height: ROW - 10 });
      set(word, { x: x(i) + w / 2, y: TOP + 19 });
      setText(word, `${context.theme.states[state].glyph}${w > 62 ? ` ${share}` : ""}`);
      setText(title, tr`${glyphs(run.piece(token).text)}: target probability ${share}`);
    });
    const drawn = this.#bars(rows, fates, threshold, { x, w });
    const items = rows.map(({ token }, i) => ({
      x: x(i + 0.5),
      y: FOOT,
      state: STATES[fates[i]],
      whole: glyphs(run.piece(token).text),
      text: w < 44 ? context.theme.states[STATES[fates[i]]].glyph : undefined,
      sign: true,
    }));
    chips(this.cells, items, context.theme, w - 2);
    this.label([
      [left - 8, TOP + 19, "end", narrow ? tr`○ target` : tr`○ the target's p`],
      [left - 8, threshold > 0.5 ? BARS + TALL - 2 : BARS + 8, "end", narrow ? tr`judge` : tr`the judge`],
      [left - 8, BARS + (1 - threshold) * TALL + 4, "end", `δ ${short(threshold)}`],
      [after, TOP + 19, "start", narrow ? without : tr`${without} stay by p`],
      [after, FOOT + 17, "start", narrow ? stay : tr`${stay} stay by either`],
      ...this.#scatter(threshold, left, narrow),
    ]);
    if (next) comeIn(drawn, { transform: "translateY(-24px)", opacity: 0 });
  }

  #bars(rows, fates, threshold, { x, w }) {
    const y = (value) => BARS + (1 - value) * TALL,
      wide = Math.min(w - 8, 44);
    set(this.line, { d: `M${x(0)},${y(threshold)}H${x(rows.length)}` });
    return pool(this.bars, rows.length, () =>
      svg("g", {}, svg("title"), svg("rect"), svg("text", { "text-anchor": "middle" })),
    ).map((group, i) => {
      const [title, bar, mark] = group.childNodes,
        { token, value } = rows[i];
      set(group, { "data-s": STATES[fates[i]] });
      set(bar, { x: x(i) + (w - wide) / 2, width: wide, y: y(value), height: Math.max(1, TALL * value) });
      set(mark, { x: x(i) + w / 2, y: y(value) - 5 });
      mark.style.fill = "var(--text)";
      setText(mark, w > 36 ? percent(value) : "");
      setText(title, tr`${glyphs(this.run.piece(token).text)}: judge ${percent(value)}, ${SAID[fates[i]]}`);
      return group;
    });
  }

  /** Every token that was looked at so far: the judge's score over the target's own probability. */
  #scatter(threshold, left, narrow) {
    const right = this.width - (narrow ? 24 : 110),
      top = HIGH + 22,
      across = (logp) => left + (1 - Math.max(FLOOR, logp) / FLOOR) * (right - left),
      y = (value) => top + (1 - value) * (PLOT - 40),
      foot = y(0),
      dots = this.run.steps.slice(0, this.t).flatMap((step, i) => {
        const rows = rowsOf(step),
          fates = this.sliding.decided(recorded(step), i + 1);
        return rows.map((row, i) => ({ ...row, fate: fates[i] })).filter(({ fate }) => fate !== "behind");
      });
    set(this.across, { d: `M${left},${y(threshold)}H${right}` });
    pool(this.axis, 1, () => svg("path")).forEach((path) => set(path, { d: `M${left},${foot}H${right}` }));
    pool(this.dots, dots.length, () => svg("g", {}, svg("title"), svg("rect", { width: 9, height: 9 }))).forEach(
      (group, i) => {
        const { token, value, logp, fate } = dots[i];
        set(group, {
          "data-s": STATES[fate],
          transform: `translate(${dot(across(logp ?? FLOOR) - 4.5)},${dot(y(value) - 4.5)})`,
        });
        set(group.lastChild, { rx: fate === "none" ? 0 : 4.5 });
        setText(group.firstChild, tr`${glyphs(this.run.piece(token).text)}: judge ${percent(value)}, ${SAID[fate]}`);
      },
    );
    const ticks = (narrow ? [1e-4, 1e-2, 1] : [1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1]).map((p) => [
      across(Math.log(p)),
      foot + 18,
      "middle",
      percent(p),
    ]);
    return [
      ...ticks,
      [left - 8, y(1) + 4, "end", tr`good`],
      [left - 8, y(0) + 4, "end", tr`bad`],
      [
        left,
        HIGH + 8,
        "start",
        narrow
          ? tr`over the target's probability`
          : tr`all tokens so far: the judge's score \
over the target's own probability (logarithmic)`,
      ],
    ];
  }

  describe(t) {
    const step = this.run.steps[t - 1],
      rows = rowsOf(step);
    if (!rows.length) return t ? tr`Nothing was drafted in this step.` : tr`Before the first step.`;
    const line = step.judged.delta,
      without = this.run.asked(t, "judged", "delta", 1),
      own = this.run.header.lossless ? "" : tr` Not lossless.`,
      all = recorded(step),
      alone = all.filter((fate) => fate === "judge").length,
      far = 2 * alone > kept(all) ? tr` Most of them by the judge alone: not what the target would have written.` : "";
    return tr`Tokens kept at threshold ${short(line)}: ${kept(all)} of ${rows.length}; \
${without ? kept(without) : "–"} without the judge.${far}${own}`;
  }
}
