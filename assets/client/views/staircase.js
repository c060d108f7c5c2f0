// How likely it is that all drafts so far stay: a staircase that falls with each drafted token, until it is below the
// line at which drafting stops. Behind it what a fixed number of drafts would have been.

import { CHIP, chips } from "../player/chips.js";
import { glyphs } from "../player/codec.js";
import { many } from "../player/counted.js";
import { pool, set, setText, svg } from "../player/dom.js";
import { comeIn } from "../player/motion.js";
import { rowsOf } from "../player/rounds.js";
import { Sliding, short } from "../player/sliding.js";
import { StepPicture } from "../player/steppicture.js";
import { tr } from "../player/words.js";

export const view = {
  name: "Staircase",
  title: "Drafting stops where a refusal is likely",
  place: 42,
  needs: ["stopping"],
};

const TOP = 52,
  TALL = 150,
  FOOT = TOP + TALL,
  HIGH = FOOT + 2 * CHIP + 34,
  LEFT = 56,
  WIDEST = 150;
const STATE = { accepted: "accepted", mismatch: "rejected" };

export class Staircase extends StepPicture {
  load(run, dom, context) {
    this.sliding = new Sliding(this, "stopping.h", "h", tr`Chance of a refusal at which drafting stops`);
    this.line = svg("path", { class: "dx-eta", "data-s": "rejected" });
    this.begin(run, dom, context, ["fixed", "scale", "treads", this.line, "cells"], this.sliding.dom);
  }

  also(stop, step) {
    this.sliding.show(stop?.h ?? 0, stop?.survival.length > 0, stop ? this.#again(stop, step) : "");
  }

  #again(stop, { tree }) {
    const { drafted, h: recorded } = stop,
      h = this.sliding.at(recorded),
      n = this.sliding.decided(drafted),
      stand = tree.why.slice(1, n + 1).filter((why) => why === "accepted").length,
      on = n === drafted && h > recorded ? tr` It may draft on; what, is not recorded.` : "";
    return tr`${n} of ${many(drafted, "drafted")}, ${stand} accepted.${on}`;
  }

  /** The mean number of drafts of a round, which a fixed number would spend on each. */
  #mean() {
    const made = this.run.steps.flatMap(({ stopping }) => (stopping?.drafted ? [stopping.drafted] : []));
    return Math.round(made.reduce((sum, n) => sum + n, 0) / made.length);
  }

  draw(stop, step, next) {
    const { run, width } = this,
      { survival, drafted, h: recorded } = stop,
      { rows } = rowsOf(step.tree),
      h = this.sliding.at(recorded),
      most = this.most(({ stopping }) => stopping?.drafted),
      w = Math.min(WIDEST, (width - LEFT - 8) / (most + 1)),
      right = LEFT + (most + 1) * w,
      x = (i) => LEFT + i * w,
      y = (chance) => TOP + (1 - chance) * TALL,
      n = this.sliding.decided(drafted),
      k = this.#mean(),
      look = (i) => (i > n ? "unreached" : (STATE[rows[i]?.why] ?? "unreached"));
    this.frame(HIGH);
    set(this.line, { d: `M${LEFT},${y(1 - h)}H${right}` });
    const ticks = [1, 0.5, 0];
    pool(this.scale, ticks.length, () => svg("path")).forEach((path, i) =>
      set(path, { d: `M${LEFT},${y(ticks[i])}H${right}` }),
    );
    pool(this.fixed, 1, () => svg("rect", { class: "dx-lift dx-plain", rx: 6 })).forEach((box) =>
      set(box, { x: x(0), y: TOP - 4, width: k * w, height: TALL + 8 }),
    );
    const known = survival.map((chance, i) => [i, survival[i - 1] ?? 1, chance]),
      drawn = pool(this.treads, known.length, () =>
        svg("g", {}, svg("title"), svg("path", "dx-arc"), svg("rect", "dx-bar")),
      );
    drawn.forEach((group, at) => {
      const [i, before, chance] = known[at],
        [title, edge, bar] = group.childNodes;
      set(group, { "data-s": look(i + 1) });
      set(edge, { d: `M${x(i)},${y(before)}V${y(chance)}H${x(i + 1)}` });
      set(bar, { x: x(i) + 3, y: y(chance), width: w - 6, height: Math.max(1, FOOT - y(chance)) });
      setText(title, tr`chance that all stay up to here: ${Math.round(100 * chance)} %`);
    });
    const own = rows[drafted + 1],
      items = rows.slice(1, drafted + 1).map((row, i) => ({ row, x: x(i + 0.5), state: look(i + 1), sign: true }));
    const refused = rows.findIndex(({ why }) => why === "mismatch");
    if (own)
      items.push({
        row: own,
        x: x((refused < 0 ? drafted + 1 : refused) - 0.5),
        state: own.state,
        sign: true,
        low: CHIP + 4,
      });
    const told = items.map((item) => ({
      ...item,
      y: FOOT + 4 + (item.low ?? 0),
      whole: glyphs(run.piece(item.row.token).text),
    }));
    chips(this.cells, told, this.context.theme, w - 6);
    this.#name(known, { x, y, w, h, k, right, drafted });
    if (next) comeIn(drawn, { transform: "translateY(-24px)", opacity: 0 });
  }

  #name(known, { x, y, w, h, k, right, drafted }) {
    const labels = [
      ...[1, 0.5, 0].map((tick) => [LEFT - 8, y(tick) + 4, "end", `${100 * tick} %`]),
      [right - 4, y(1 - h) - 6, "end", tr`stop below ${Math.round(100 * (1 - h))} %`],
      [8, 14, "start", tr`chance that all drafts so far stay`],
      [
        x(0) + 4,
        TOP - 20,
        "start",
        this.width < 560 ? tr`grey: always ${k}` : tr`grey: always ${k}, as many on average`,
      ],
      [LEFT - 8, FOOT + 20, "end", tr`draft`],
      [LEFT - 8, FOOT + 24 + CHIP, "end", tr`target`],
    ];
    if (known.length < drafted)
      labels.push([x(known.length + 0.5), FOOT - 8, "middle", w > 130 ? tr`drawn meanwhile` : "?"]);
    if (w > 44)
      for (const [i, , chance] of known)
        labels.push([x(i + 0.5), y(chance) - 6, "middle", `${Math.round(100 * chance)} %`]);
    this.label(labels);
  }

  describe(t) {
    const step = this.run.steps[t - 1],
      stop = step?.stopping;
    if (!stop) return t ? tr`No draft was made in this step.` : tr`Before the first step.`;
    const { accepted } = rowsOf(step.tree),
      last = stop.survival.at(-1),
      judged = stop.lag ? tr` but the last` : "",
      chance = last === undefined ? "" : tr`, the chance that all${judged} stay is ${Math.round(100 * last)} %`,
      limit = short(1 - stop.h);
    return tr`${many(stop.drafted, "drafted")}${chance}; drafting stops below ${Math.round(100 * limit)} %. \
${accepted} accepted.`;
  }
}
