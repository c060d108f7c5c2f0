// How likely it is that all drafts so far stay: a staircase that falls with each drafted token, until it is below the
// line at which drafting stops. Behind it what a fixed number of drafts would have been.

import { CHIP, render, StepPicture } from "../player/drawing.js";
import { rowsOf } from "../player/rounds.js";
import { Sliding, short } from "../player/sliding.js";
import { many, tr } from "../player/words.js";

export const view = { title: "Drafting stops where a refusal is likely", place: 42, needs: ["stopping"] };

const TOP = 52,
  TALL = 150,
  FOOT = TOP + TALL,
  HIGH = FOOT + 2 * CHIP + 34,
  LEFT = 56,
  WIDEST = 150;
const STATE = { accepted: "accepted", mismatch: "rejected" },
  TICKS = [1, 0.5, 0];

const whole = (share) => Math.round(100 * share);

export class Staircase extends StepPicture {
  layers = ["fixed", "scale", "treads", "line", "cells"];
  none = tr`No draft was made in this step.`;
  entrance = { transform: "translateY(-24px)", opacity: 0 };
  sliding = new Sliding(this, "stopping.h", "h", tr`Chance of a refusal at which drafting stops`);

  also(stop, step) {
    this.sliding.show(stop?.h ?? 0, stop?.survival.length > 0, stop ? this.#again(stop, step) : "");
  }

  #again({ drafted, h }, { tree }) {
    const n = this.sliding.decided(drafted),
      stand = tree.why.slice(1, n + 1).filter((why) => why === "accepted").length,
      on = n === drafted && this.sliding.at(h) > h ? tr` It may draft on; what, is not recorded.` : "";
    return tr`${n} of ${many(drafted, "drafted")}, ${stand} accepted.${on}`;
  }

  draw({ survival, drafted, h: recorded }, step) {
    const { rows } = rowsOf(step.tree),
      h = this.sliding.at(recorded),
      n = this.sliding.decided(drafted),
      most = this.most(({ stopping }) => stopping?.drafted),
      w = Math.min(WIDEST, (this.width - LEFT - 8) / (most + 1)),
      right = LEFT + (most + 1) * w,
      x = (i) => LEFT + i * w,
      y = (chance) => TOP + (1 - chance) * TALL,
      made = this.run.steps.flatMap(({ stopping }) => stopping?.drafted || []),
      k = Math.round(made.reduce((sum, n) => sum + n, 0) / made.length), // a fixed number would spend so many on each
      look = (i) => (i > n ? "unreached" : (STATE[rows[i]?.why] ?? "unreached")),
      fixed = { class: "dx-lift dx-plain", rx: 6, x: x(0), y: TOP - 4, width: k * w, height: TALL + 8 };
    render(this.line, [["path", { class: "dx-eta", "data-s": "rejected", d: `M${LEFT},${y(1 - h)}H${right}` }]]);
    render(this.scale, TICKS, (tick) => ["path", { d: `M${LEFT},${y(tick)}H${right}` }]);
    render(this.fixed, [["rect", fixed]]);
    const drawn = render(this.treads, survival, (chance, i) => [
      { "data-s": look(i + 1) },
      ["title", {}, tr`chance that all stay up to here: ${whole(chance)} %`],
      ["path", { class: "dx-arc", d: `M${x(i)},${y(survival[i - 1] ?? 1)}V${y(chance)}H${x(i + 1)}` }],
      ["rect", { class: "dx-bar", x: x(i) + 3, y: y(chance), width: w - 6, height: Math.max(1, FOOT - y(chance)) }],
    ]);
    const own = rows[drafted + 1],
      refused = rows.findIndex(({ why }) => why === "mismatch"),
      items = rows.slice(1, drafted + 1).map(({ token }, i) => ({ token, x: x(i + 0.5), y: 0, state: look(i + 1) }));
    if (own) items.push({ ...own, x: x((refused < 0 ? drafted + 1 : refused) - 0.5), y: CHIP + 4 });
    const cells = items.map(({ token, y: low, ...item }) => ({
      ...{ ...item, y: FOOT + 4 + low, whole: this.word(token), sign: true },
    }));
    this.chips(this.cells, cells, w - 6);
    const always = this.width < 560 ? tr`grey: always ${k}` : tr`grey: always ${k}, as many on average`,
      labels = [
        ...TICKS.map((tick) => [LEFT - 8, y(tick) + 4, "end", `${whole(tick)} %`]),
        [right - 4, y(1 - h) - 6, "end", tr`stop below ${whole(1 - h)} %`],
        [8, 14, "start", tr`chance that all drafts so far stay`],
        [x(0) + 4, TOP - 20, "start", always],
        [LEFT - 8, FOOT + 20, "end", tr`draft`],
        [LEFT - 8, FOOT + 24 + CHIP, "end", tr`target`],
      ];
    if (survival.length < drafted)
      labels.push([x(survival.length + 0.5), FOOT - 8, "middle", w > 130 ? tr`drawn meanwhile` : "?"]);
    if (w > 44)
      survival.forEach((chance, i) => labels.push([x(i + 0.5), y(chance) - 6, "middle", `${whole(chance)} %`]));
    this.frame(HIGH, labels);
    return drawn;
  }

  sentence(stop, step) {
    const { accepted } = rowsOf(step.tree),
      last = stop.survival.at(-1),
      judged = stop.lag ? tr` but the last` : "",
      chance = last === undefined ? "" : tr`, the chance that all${judged} stay is ${whole(last)} %`;
    return tr`${many(stop.drafted, "drafted")}${chance}; drafting stops below ${whole(short(1 - stop.h))} %. \
${accepted} accepted.`;
  }
}
