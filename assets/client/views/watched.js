// An answer that is watched before it is written: what it would be after each forward, its mean lead against the
// stairs of thresholds. Once it reaches them the rest is written; the schedule would go on.

import { CHIP, chips } from "../player/chips.js";
import { cut, glyphs } from "../player/codec.js";
import { many } from "../player/counted.js";
import { pool, set, setText, svg } from "../player/dom.js";
import { comeIn } from "../player/motion.js";
import { Sliding, short } from "../player/sliding.js";
import { StepPicture } from "../player/steppicture.js";
import { tr } from "../player/words.js";

export const view = { name: "Watched", title: "The answer before the end", place: 56, needs: ["watched"] };

const TOP = 34,
  PLOT = 128, // the mean lead over forwards
  TICKER = TOP + PLOT + 22,
  ROW = 26,
  WROTE = TICKER + ROW + 34, // tokens written over forwards
  HIGH = 76,
  NOW = WROTE + HIGH + 40;

const mean = (values) => values.reduce((sum, v) => sum + v, 0) / values.length;

export class Watched extends StepPicture {
  load(run, dom, context) {
    this.factor = new Sliding(this, "watched.factor", tr`thresholds ×`, tr`Thresholds, times`, [0, 2, 0.05]);
    const layers = ["saved", "axis", "plain", "line", "stairs", "ticks", "ticker", "dots", "cells"];
    this.begin(run, dom, context, layers, this.factor.dom);
  }

  #all(t = this.run.length) {
    return this.run.steps.slice(0, t).flatMap(({ watched }) => (watched?.tokens.length ? [watched] : []));
  }

  /** The threshold of forward g: as recorded up to step t, then as that answers. */
  #bar(t, g) {
    return (g > t ? null : this.run.steps[g - 1].choice?.threshold) ?? this.run.asked(t, "watched", "bar", g);
  }

  /** Whether the answer of step t reaches its threshold: then the rest is written. */
  #leaps(t) {
    return this.factor.decided(this.run.steps[t - 1].choice?.chosen === "all-in", t);
  }

  told({ watched }) {
    return watched?.tokens.length ? watched : null;
  }

  also(told) {
    const { steps } = this.run,
      stop = told && steps.find((_, i) => this.#leaps(i + 1))?.watched,
      said = stop ? tr`stops at forward ${stop.forward}: ${this.#reading(stop)}` : tr`no recorded forward stops`;
    this.factor.show(1, Boolean(told), said);
  }

  #reading({ tokens }, most = 40) {
    return cut(tokens.map((id) => (this.run.eos.has(id) ? " " : "") + glyphs(this.run.piece(id).text)).join(""), most);
  }

  draw(told, { choice }, next) {
    const { run, width } = this,
      wide = width >= 640,
      left = wide ? 64 : 34,
      all = this.#all(this.t),
      factor = this.factor.at(1),
      n = Math.max(told.planned, told.forward),
      unit = (width - left - 10) / n,
      x = (g) => left + (g - 0.5) * unit,
      most = Math.max(...told.bars.map((bar) => bar * factor), ...this.#all().map(({ leads }) => mean(leads)), 0.1),
      y = (v) => TOP + PLOT * (1 - Math.min(v, most) / most),
      labels = [],
      stopped = this.#leaps(this.t),
      reading = this.#reading(told);
    this.frame(NOW + CHIP + 26);
    labels.push([
      0,
      14,
      "start",
      wide
        ? tr`Lead of the answer’s first choices, mean in nats, against a falling threshold`
        : tr`The answer’s lead (nats), falling threshold`,
    ]);
    const saved = stopped ? n - told.forward : 0;
    pool(this.saved, saved ? 1 : 0, () => svg("rect", { class: "dx-lift dx-plain", rx: 6 })).forEach((box) =>
      set(box, { x: left + told.forward * unit, width: saved * unit, y: TOP - 8, height: WROTE + HIGH - TOP + 8 }),
    );
    if (saved * unit > 90) {
      const said = saved * unit > 160 ? tr`${saved} forwards never run` : tr`${saved} never run`;
      labels.push([left + (told.forward + saved / 2) * unit, TOP + 16, "middle", said]);
    }
    this.#lead(all, { x, y, n, unit, left, factor }, labels, next);
    this.#read(all, reading, { left, unit }, labels);
    this.#wrote(all, told, { left, unit, n, x, wide, stopped }, labels);
    const items = told.tokens.map((token, i) => ({
      x: left + (i + 0.5) * Math.min(72, (width - left) / told.tokens.length),
      y: NOW,
      state: stopped ? "new" : run.board(this.t)[told.start + i]?.token != null ? "old" : "masked",
      whole: glyphs(run.piece(token).text),
    }));
    chips(this.cells, items, this.context.theme, Math.min(70, (width - left) / told.tokens.length - 2));
    items.forEach(({ x: middle }, i) => labels.push([middle, NOW + CHIP + 16, "middle", short(told.leads[i])]));
    labels.push([0, NOW + 17, "start", wide ? tr`answer` : ""], [0, NOW + CHIP + 16, "start", tr`lead`]);
    const end = (items.at(-1)?.x ?? 0) + 44,
      bar = factor * choice.threshold;
    if (wide)
      labels.push([
        end,
        NOW + CHIP + 16,
        "start",
        stopped
          ? tr`mean ${short(mean(told.leads))} ≥ ${short(bar)}: all ${told.open} masks left are written at once`
          : tr`mean ${short(mean(told.leads))} < ${short(bar)}: the schedule goes on`,
      ]);
    this.label(labels);
  }

  /** The mean lead of each forward and the stairs that it is held against. */
  #lead(all, { x, y, n, unit, left, factor }, labels, next) {
    let path = "",
      last = null;
    for (let g = 1; g <= n; g++) {
      const own = this.#bar(this.t, g),
        bar = factor * own;
      if (own === null) break;
      if (bar !== last) {
        path += `${path ? "V" : `M${left},`}${y(bar).toFixed(1)}`;
        labels.push([left + (g - 1) * unit + 4, y(bar) - 5, "start", tr`threshold ${short(bar)}`]);
      }
      path += `H${(left + g * unit).toFixed(1)}`;
      last = bar;
    }
    pool(this.stairs, 1, () => svg("path", { class: "dx-eta", "data-s": "rejected" })).forEach((line) =>
      set(line, { d: path }),
    );
    pool(this.axis, 1, () => svg("path")).forEach((line) =>
      set(line, { d: `M${left},${TOP}V${y(0)}H${left + n * unit}` }),
    );
    labels.push([left - 6, y(0) + 4, "end", 0]);
    const points = all.map((one) => [x(one.forward), y(mean(one.leads))]);
    pool(this.line, 1, () => svg("path", "dx-trail")).forEach((line) =>
      set(line, { d: points.map(([a, b], i) => `${i ? "L" : "M"}${a.toFixed(1)},${b.toFixed(1)}`).join("") }),
    );
    const dots = pool(this.dots, points.length ? 1 : 0, () => svg("circle", { class: "dx-dot", r: 6 }));
    dots.forEach((dot) => set(dot, { cx: points.at(-1)[0], cy: points.at(-1)[1] }));
    if (next) comeIn(dots, { opacity: 0 });
  }

  /** What the answer would read, forward by forward; equal neighbours are one band. */
  #read(all, reading, { left, unit }, labels) {
    const bands = [];
    for (const told of all) {
      const text = this.#reading(told),
        last = bands.at(-1);
      if (last?.text === text && last.to === told.forward - 1) last.to = told.forward;
      else bands.push({ text, from: told.forward, to: told.forward });
    }
    labels.push([0, TICKER - 6, "start", tr`What the answer would read`]);
    const make = () => svg("g", {}, svg("title"), svg("rect", { rx: 4 }), svg("text", { "text-anchor": "middle" }));
    pool(this.ticker, bands.length, make).forEach((group, i) => {
      const { text, from, to } = bands[i],
        [title, box, word] = group.childNodes,
        w = (to - from + 1) * unit,
        at = left + (from - 1) * unit;
      set(group, { "data-s": text === reading ? "accepted" : "unreached" });
      set(box, { x: at + 0.5, y: TICKER, width: Math.max(1, w - 1), height: ROW });
      set(word, { x: at + w / 2, y: TICKER + 17 });
      setText(word, 7.4 * [...text].length + 2 <= w ? text : "");
      setText(title, from === to ? tr`forward ${from}: ${text}` : tr`forwards ${from} to ${to}: ${text}`);
    });
  }

  /** Tokens written: by this run, and by the schedule that it cuts short. */
  #wrote(all, told, { left, unit, n, x, wide, stopped }, labels) {
    const total = all[0].open + all[0].forward - 1,
      y = (v) => WROTE + HIGH * (1 - v / Math.max(1, total)),
      hidden = this.run.board(this.t).filter(({ token }) => token === null).length;
    labels.push([0, WROTE - 10, "start", tr`Written; dashed: schedule’s mean (derived)`]);
    labels.push([left - 6, WROTE + 8, "end", total], [left - 6, WROTE + HIGH + 4, "end", 0]);
    const path = all.map(({ forward }, i) => {
      const open = all[i + 1]?.open ?? hidden;
      return `H${(left + forward * unit).toFixed(1)}V${y(total - open).toFixed(1)}`;
    });
    pool(this.ticks, 1, () => svg("path", "dx-trail")).forEach((line) =>
      set(line, { d: `M${left},${y(0)}${path.join("")}` }),
    );
    const plain = Array.from(
      { length: n },
      (_, i) => `H${(left + (i + 1) * unit).toFixed(1)}V${y((total * (i + 1)) / n).toFixed(1)}`,
    );
    pool(this.plain, 1, () => svg("path", "dx-alone")).forEach((line) =>
      set(line, { d: `M${left},${y(0)}${plain.join("")}` }),
    );
    const every = [1, 2, 5, 10, 20, 50, 100, 200, 500].find((step) => step * unit > 44) ?? n;
    for (let g = every; g <= n; g += every) labels.push([x(g), WROTE + HIGH + 18, "middle", g]);
    labels.push([left, WROTE + HIGH + 18, "end", wide ? tr`forward` : ""]);
    if (stopped)
      labels.push([x(told.forward) - 10, y(total) + 14, "end", many(told.open, "token", tr`at once: ${told.open}`)]);
  }

  describe(t) {
    const { watched: told, choice } = this.run.steps[t - 1] ?? {};
    if (!told) return t ? tr`No answer is watched in this step.` : tr`Before the first step.`;
    const reading = this.#reading(told),
      before = this.#all(t).toReversed(),
      since = before.findIndex((one) => this.#reading(one) !== reading),
      same = since < 0 ? before.length : since,
      bar = choice.threshold,
      value = mean(told.leads);
    const said = tr`The answer would read ${reading}, for ${many(same, "alone")}; mean lead ${short(value)}`;
    return choice.chosen === "all-in"
      ? tr`${said}, at least ${short(bar)}: the ${told.open} masks left are written at once.`
      : tr`${said}, below ${short(bar)}: the schedule goes on.`;
  }
}
