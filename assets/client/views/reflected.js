// One forward that reads a draft twice: the rows that were fed, part by part; below each drafted token what the first
// reading, the second one and their mixture say of it. Whom the second reading rescued is outlined.

import { el, legend } from "../player/dom.js";
import { CHIP, LETTER, render, StepPicture } from "../player/drawing.js";
import { rowsOf } from "../player/rounds.js";
import { Sliding } from "../player/sliding.js";
import { cut, many, tr } from "../player/words.js";

export const view = { title: "The draft, read twice", place: 43, needs: ["reflection"] };

const STRIP = 30,
  TOP = 66,
  TALL = 96,
  FOOT = TOP + TALL,
  HIGH = FOOT + 2 * CHIP + 70,
  LEFT = 56,
  WIDEST = 170;
const PARTS = [
  ["text", "old", tr`text`],
  ["draft", "drafted", tr`draft`],
  ["request", "forced", tr`request to check`],
  ["prefix", "old", tr`end of the text`],
  ["again", "drafted", tr`draft again`],
];
const OPINIONS = [
  ["own", "p", tr`first reading`],
  ["reflected", "q", tr`second reading`],
  ["mixed", "mixed", tr`mixed: decides`],
];
const STATES = { both: "accepted", rescued: "accepted", lost: "rejected", refused: "rejected", behind: "unreached" };

const percent = (share) => `${share > 0 && share < 0.01 ? "<1" : Math.round(100 * share)} %`;

export class Reflected extends StepPicture {
  layers = ["strip", "bars", "cells"];
  none = tr`No draft was made in this step.`;
  entrance = { transform: "translateY(12px)", opacity: 0 };
  legend = this.below(el("div", "dx-legend"));
  sliding = new Sliding(this, "reflection.alpha", "α", tr`Weight of the second reading`);

  keys(theme) {
    const rescue = el("span", {}, el("b", "dx-rescue"), tr`stands only because of the second reading`);
    return [...OPINIONS.map(([, state, words]) => legend(theme, state, words)), rescue];
  }

  /** What became of each drafted token. */
  #recorded({ own }, { tree, commits }) {
    const { rows } = rowsOf(tree);
    return rows.slice(1, own.length + 1).map(({ why }, i) => {
      if (why === "accepted") return commits?.causes[i] === "rescued" ? "rescued" : "both";
      return why === "mismatch" ? "refused" : "behind";
    });
  }

  also(reflection, step) {
    const fates = reflection ? this.sliding.decided(this.#recorded(reflection, step)) : [],
      stand = fates.filter((fate) => STATES[fate] === "accepted").length;
    this.sliding.show(
      reflection?.alpha ?? 0,
      Boolean(reflection?.wins?.length && reflection.again),
      tr`${stand} of ${many(fates.length, "drafted")} stand`,
    );
  }

  draw(reflection, step) {
    const { rows } = rowsOf(step.tree),
      fates = this.sliding.decided(this.#recorded(reflection, step)),
      most = this.most(({ reflection }) => reflection?.own.length),
      w = Math.min(WIDEST, (this.width - LEFT - 4) / Math.max(1, most)),
      bar = Math.min(34, (w - 12) / 3),
      chars = Math.floor((w - 4) / LETTER),
      x = (i) => LEFT + (i + 0.5) * w,
      word = (token, least, room) => cut(this.word(token), Math.max(least, room)),
      labels = [
        [LEFT - 6, TOP + 4, "end", "100 %"],
        [LEFT - 6, FOOT + 4, "end", "0 %"],
      ];
    this.#strip(reflection, labels);
    const drawn = render(this.bars, fates, (fate, i) => {
      const ring = { x: x(i) - w / 2 + 1, y: TOP - 18, width: w - 2, height: TALL + CHIP + 26 },
        shares = OPINIONS.map(([name]) => reflection[name][i]),
        names = OPINIONS.map(([, , words], k) => `${words} ${percent(shares[k])}`),
        bars = OPINIONS.map(([, state], k) => {
          const height = Math.max(1, shares[k] * TALL),
            left = x(i) + (k - 1.5) * (bar + 3);
          if (bar > 26) labels.push([left + bar / 2, FOOT - height - 4, "middle", percent(shares[k])]);
          return ["rect", { rx: 2, "data-s": state, x: left, y: FOOT - height, width: bar, height }];
        });
      if (chars > 6)
        ["own_best", "reflected_best", "mixed_best"].forEach((name, k) => {
          const rather = word(reflection[name][i], 2, chars - 3);
          labels.push([x(i), FOOT + CHIP + 22 + 16 * k, "middle", `${[1, 2, "α"][k]}: ${rather}`]);
        });
      return [
        {},
        ["title", {}, names.join("; ")],
        ...bars,
        ...(fate === "rescued" ? [["rect", { class: "dx-rescue", rx: 8, ...ring }]] : []),
      ];
    });
    const items = fates.map((fate, i) => ({
      ...{ x: x(i), y: FOOT + 4, state: STATES[fate], whole: this.word(rows[i + 1].token), sign: true },
    }));
    this.chips(this.cells, items, w - 4);
    const own = rows[fates.length + 1],
      refused = fates.findIndex((fate) => STATES[fate] === "rejected");
    if (own && (refused >= 0 || own.state === "bonus")) {
      const said = chars > 14 ? tr`then ${word(own.token, 12, 12)}` : word(own.token, 2, chars);
      labels.push([x(refused < 0 ? fates.length - 1 : refused), HIGH - 6, "middle", said]);
    }
    if (chars > 6) labels.push([2, FOOT + CHIP + 22, "start", tr`leads`]);
    this.frame(HIGH, labels);
    return drawn;
  }

  /** The rows of the forward, in proportion, each part with its name where there is room. */
  #strip(reflection, labels) {
    const parts = PARTS.filter(([name]) => reflection[name]),
      all = parts.reduce((sum, [name]) => sum + reflection[name], 0);
    let x = LEFT;
    labels.push([LEFT - 6, STRIP - 8, "end", tr`rows`]);
    render(this.strip, parts, ([name, state, words]) => {
      const n = reflection[name],
        w = ((this.width - LEFT - 4) * n) / all,
        at = x;
      x += w;
      return [
        { "data-s": state, transform: `translate(${at.toFixed(1)},0)` },
        ["title", {}, `${words}: ${many(n, "row")}`],
        ["rect", { height: STRIP - 4, rx: 4, width: Math.max(1, w - 2) }],
        ["text", { x: 6, y: 18 }, cut(`${n} ${words}`, Math.max(1, Math.floor((w - 10) / LETTER)))],
      ];
    });
  }

  sentence(reflection, step) {
    const fates = this.#recorded(reflection, step),
      of = (name) => fates.filter((fate) => fate === name).length,
      stand = of("both") + of("rescued");
    return tr`${many(fates.length, "drafted")}: ${stand} stand, ${of("rescued")} of them only because \
of the second reading. A token stands where it leads the mixture (1 − α) z₁ + α z₂ of both logits. Not lossless.`;
  }
}
