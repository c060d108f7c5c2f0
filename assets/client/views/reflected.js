// One forward that reads a draft twice: the rows that were fed, part by part; below each drafted token what the first
// reading, the second one and their mixture say of it. Whom the second reading rescued is outlined.

import { CHIP, chips } from "../player/chips.js";
import { cut } from "../player/codec.js";
import { many } from "../player/counted.js";
import { el, legend, pool, set, setText, svg } from "../player/dom.js";
import { comeIn } from "../player/motion.js";
import { rowsOf } from "../player/rounds.js";
import { Sliding } from "../player/sliding.js";
import { StepPicture } from "../player/steppicture.js";
import { tr } from "../player/words.js";

export const view = { name: "Reflected", title: "The draft, read twice", place: 43, needs: ["reflection"] };

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
  load(run, dom, context) {
    this.sliding = new Sliding(this, "reflection.alpha", "α", tr`Weight of the second reading`);
    const key = el("div", "dx-legend", ...OPINIONS.map(([, state, words]) => legend(context.theme, state, words)));
    key.append(el("span", {}, el("b", "dx-rescue"), tr`stands only because of the second reading`));
    this.begin(run, dom, context, ["strip", "bars", "cells"], key, this.sliding.dom);
  }

  /** What became of each drafted token. */
  #recorded(told, { tree, commits }) {
    const { rows } = rowsOf(tree),
      rescued = commits?.causes ?? [];
    return rows.slice(1, told.own.length + 1).map(({ why }, i) => {
      if (why === "accepted") return rescued[i] === "rescued" ? "rescued" : "both";
      return why === "mismatch" ? "refused" : "behind";
    });
  }

  also(told, step) {
    const fates = told ? this.sliding.decided(this.#recorded(told, step)) : [],
      stand = fates.filter((fate) => fate === "both" || fate === "rescued").length;
    this.sliding.show(
      told?.alpha ?? 0,
      Boolean(told?.wins?.length && told.again),
      tr`${stand} of ${many(fates.length, "drafted")} stand`,
    );
  }

  draw(told, step, next) {
    const { rows } = rowsOf(step.tree),
      fates = this.sliding.decided(this.#recorded(told, step));
    const { width } = this,
      most = this.most(({ reflection }) => reflection?.own.length),
      w = Math.min(WIDEST, (width - LEFT - 4) / Math.max(1, most)),
      labels = [];
    this.frame(HIGH);
    this.#strip(told, width, labels);
    const bar = Math.min(34, (w - 12) / 3),
      drawn = pool(this.bars, fates.length, () =>
        svg(
          "g",
          {},
          svg("title"),
          svg("rect", { class: "dx-rescue", rx: 8 }),
          ...OPINIONS.map(() => svg("rect", { rx: 2 })),
        ),
      ),
      chars = Math.floor((w - 4) / 7.4);
    drawn.forEach((group, i) => {
      const [title, ring, ...columns] = group.childNodes,
        x = LEFT + i * w,
        middle = x + w / 2,
        shares = OPINIONS.map(([name]) => told[name][i]);
      set(ring, { x: x + 1, y: TOP - 18, width: w - 2, height: TALL + CHIP + 26 });
      ring.style.display = fates[i] === "rescued" ? "" : "none";
      columns.forEach((column, k) => {
        const high = Math.max(1, shares[k] * TALL),
          left = middle + (k - 1.5) * (bar + 3);
        set(column, { "data-s": OPINIONS[k][1], x: left, y: FOOT - high, width: bar, height: high });
        if (bar > 26) labels.push([left + bar / 2, FOOT - high - 4, "middle", percent(shares[k])]);
      });
      setText(title, OPINIONS.map(([, , words], k) => `${words} ${percent(shares[k])}`).join("; "));
      const rather = [told.own_best[i], told.reflected_best[i], told.mixed_best[i]].map((token) =>
        cut(this.word(token), Math.max(2, chars - 3)),
      );
      if (chars > 6)
        rather.forEach((word, k) =>
          labels.push([middle, FOOT + CHIP + 22 + 16 * k, "middle", `${[1, 2, "α"][k]}: ${word}`]),
        );
    });
    const items = fates.map((fate, i) => ({
      x: LEFT + (i + 0.5) * w,
      y: FOOT + 4,
      state: STATES[fate],
      whole: this.word(rows[i + 1].token),
      sign: true,
    }));
    chips(this.cells, items, this.context.theme, w - 4);
    const own = rows[fates.length + 1],
      refused = fates.findIndex((fate) => fate === "lost" || fate === "refused");
    if (own && (refused >= 0 || own.state === "bonus"))
      labels.push([
        LEFT + ((refused < 0 ? fates.length - 1 : refused) + 0.5) * w,
        HIGH - 6,
        "middle",
        chars > 14 ? tr`then ${cut(this.word(own.token), 12)}` : cut(this.word(own.token), Math.max(2, chars)),
      ]);
    labels.push([LEFT - 6, TOP + 4, "end", "100 %"], [LEFT - 6, FOOT + 4, "end", "0 %"]);
    if (chars > 6) labels.push([2, FOOT + CHIP + 22, "start", tr`leads`]);
    this.label(labels);
    if (next) comeIn(drawn, { transform: "translateY(12px)", opacity: 0 });
  }

  /** The rows of the forward, in proportion, each part with its name where there is room. */
  #strip(told, width, labels) {
    const parts = PARTS.filter(([name]) => told[name]),
      all = parts.reduce((sum, [name]) => sum + told[name], 0);
    let x = LEFT;
    labels.push([LEFT - 6, STRIP - 8, "end", tr`rows`]);
    pool(this.strip, parts.length, () =>
      svg("g", {}, svg("title"), svg("rect", { height: STRIP - 4, rx: 4 }), svg("text", { y: 18 })),
    ).forEach((group, i) => {
      const [name, state, words] = parts[i],
        [title, box, text] = group.childNodes,
        w = ((width - LEFT - 4) * told[name]) / all;
      set(group, { "data-s": state, transform: `translate(${x.toFixed(1)},0)` });
      set(box, { width: Math.max(1, w - 2) });
      set(text, { x: 6 });
      setText(text, cut(`${told[name]} ${words}`, Math.max(1, Math.floor((w - 10) / 7.4))));
      setText(title, `${words}: ${many(told[name], "row")}`);
      x += w;
    });
  }

  describe(t) {
    const told = this.run.steps[t - 1]?.reflection;
    if (!told) return t ? tr`No draft was made in this step.` : tr`Before the first step.`;
    const fates = this.#recorded(told, this.run.steps[t - 1]),
      of = (name) => fates.filter((fate) => fate === name).length;
    const stand = of("both") + of("rescued");
    return tr`${many(fates.length, "drafted")}: ${stand} stand, ${of("rescued")} of them only because \
of the second reading. A token stands where it leads the mixture (1 − α) z₁ + α z₂ of both logits. Not lossless.`;
  }
}
