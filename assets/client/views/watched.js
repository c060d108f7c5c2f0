// An answer that is watched before it is written: what it would be after each forward, its mean lead against the
// stairs of thresholds. Once it reaches them the rest is written; the schedule would go on.

import { CHIP, LETTER, MIDDLE, render, StepPicture } from "../player/drawing.js";
import { Sliding, short } from "../player/sliding.js";
import { cut, glyphs, many, tr } from "../player/words.js";

export const view = { title: "The answer before the end", place: 56, needs: ["watched"] };

const TOP = 34,
  PLOT = 128, // the mean lead over forwards
  TICKER = TOP + PLOT + 22,
  ROW = 26,
  WROTE = TICKER + ROW + 34, // tokens written over forwards
  HIGH = 76,
  NOW = WROTE + HIGH + 40;

const mean = (values) => values.reduce((sum, v) => sum + v, 0) / values.length;

export class Watched extends StepPicture {
  layers = ["saved", "axis", "plain", "line", "stairs", "ticks", "ticker", "dots", "cells"];
  none = tr`No answer is watched in this step.`;
  sliding = new Sliding(this, "watched.factor", tr`thresholds ×`, tr`Thresholds, times`, [0, 2, 0.05]);

  #all(t = this.run.length) {
    return this.run.steps.slice(0, t).flatMap(({ watched }) => (watched?.tokens.length ? [watched] : []));
  }

  /** Whether the answer of step t reaches its threshold: then the rest is written. */
  #leaps(t) {
    return this.sliding.decided(this.run.steps[t - 1].choice?.chosen === "all-in", t);
  }

  told = ({ watched }) => watched?.tokens.length && watched;

  also(told) {
    const { steps } = this.run,
      stop = told && steps.find((_, i) => this.#leaps(i + 1))?.watched,
      said = stop ? tr`stops at forward ${stop.forward}: ${this.#reading(stop)}` : tr`no recorded forward stops`;
    this.sliding.show(1, Boolean(told), said);
  }

  #reading({ tokens }, most = 40) {
    return cut(tokens.map((id) => (this.run.eos.has(id) ? " " : "") + glyphs(this.run.piece(id).text)).join(""), most);
  }

  draw(watched, { choice }) {
    const { run, width } = this,
      { tokens, leads, forward, planned, open, start } = watched,
      wide = width >= 640,
      left = wide ? 64 : 34,
      all = this.#all(this.t),
      factor = this.sliding.at(1),
      n = Math.max(planned, forward),
      unit = (width - left - 10) / n,
      labels = [],
      stopped = this.#leaps(this.t),
      at = { left, n, unit, wide, labels, end: (g) => (left + g * unit).toFixed(1) },
      title = wide
        ? tr`Lead of the answer’s first choices, mean in nats, against a falling threshold`
        : tr`The answer’s lead (nats), falling threshold`;
    labels.push([0, 14, "start", title]);
    const saved = stopped ? n - forward : 0,
      box = { x: left + forward * unit, width: saved * unit, y: TOP - 8, height: WROTE + HIGH - TOP + 8 };
    render(this.saved, saved ? [["rect", { class: "dx-lift dx-plain", rx: 6, ...box }]] : []);
    if (saved * unit > 90) {
      const never = saved * unit > 160 ? tr`${saved} forwards never run` : tr`${saved} never run`;
      labels.push([left + (forward + saved / 2) * unit, TOP + 16, "middle", never]);
    }
    const dots = this.#lead(all, watched, factor, at);
    this.#read(all, this.#reading(watched), at);
    this.#wrote(all, watched, stopped, at);
    const w = (width - left) / tokens.length,
      items = tokens.map((token, i) => ({
        ...{ x: left + (i + 0.5) * Math.min(72, w), y: NOW, whole: this.word(token) },
        state: stopped ? "new" : run.board(this.t)[start + i]?.token != null ? "old" : "masked",
      }));
    this.chips(this.cells, items, Math.min(70, w - 2));
    const foot = NOW + CHIP + 16;
    items.forEach(({ x }, i) => labels.push([x, foot, "middle", short(leads[i])]));
    labels.push([0, NOW + 17, "start", wide ? tr`answer` : ""], [0, foot, "start", tr`lead`]);
    const [lead, bar] = [mean(leads), factor * choice.threshold].map(short),
      said = stopped
        ? tr`mean ${lead} ≥ ${bar}: all ${open} masks left are written at once`
        : tr`mean ${lead} < ${bar}: the schedule goes on`;
    if (wide) labels.push([items.at(-1).x + 44, foot, "start", said]);
    this.frame(NOW + CHIP + 26, labels);
    return dots;
  }

  /** The mean lead of each forward and the stairs that it is held against. */
  #lead(all, { bars }, factor, { left, n, unit, end, labels }) {
    const most = Math.max(...bars.map((bar) => bar * factor), ...this.#all().map(({ leads }) => mean(leads)), 0.1),
      y = (v) => TOP + PLOT * (1 - Math.min(v, most) / most);
    let path = "",
      last = null;
    for (let g = 1; g <= n; g++) {
      const recorded = g > this.t ? null : this.run.steps[g - 1].choice?.threshold,
        own = recorded ?? this.run.asked(this.t, "watched", "bar", g),
        bar = factor * own;
      if (own === null) break;
      if (bar !== last) {
        path += `${path ? "V" : `M${left},`}${y(bar).toFixed(1)}`;
        labels.push([left + (g - 1) * unit + 4, y(bar) - 5, "start", tr`threshold ${short(bar)}`]);
      }
      path += `H${end(g)}`;
      last = bar;
    }
    labels.push([left - 6, y(0) + 4, "end", 0]);
    const points = all.map(({ forward, leads }) => [left + (forward - 0.5) * unit, y(mean(leads))]),
      trail = points.map(([a, b], i) => `${i ? "L" : "M"}${a.toFixed(1)},${b.toFixed(1)}`).join(""),
      [cx, cy] = points.at(-1);
    render(this.stairs, [["path", { class: "dx-eta", "data-s": "rejected", d: path }]]);
    render(this.axis, [["path", { d: `M${left},${TOP}V${y(0)}H${left + n * unit}` }]]);
    render(this.line, [["path", { class: "dx-trail", d: trail }]]);
    return render(this.dots, [["circle", { class: "dx-dot", r: 6, cx, cy }]]);
  }

  /** What the answer would read, forward by forward; equal neighbours are one band. */
  #read(all, reading, { left, unit, labels }) {
    const bands = [];
    for (const watched of all) {
      const { forward: to } = watched,
        text = this.#reading(watched),
        last = bands.at(-1);
      if (last?.text === text && last.to === to - 1) last.to = to;
      else bands.push({ text, from: to, to });
    }
    labels.push([0, TICKER - 6, "start", tr`What the answer would read`]);
    render(this.ticker, bands, ({ text, from, to }) => {
      const w = (to - from + 1) * unit,
        x = left + (from - 1) * unit;
      return [
        { "data-s": text === reading ? "accepted" : "unreached" },
        ["title", {}, from === to ? tr`forward ${from}: ${text}` : tr`forwards ${from} to ${to}: ${text}`],
        ["rect", { rx: 4, x: x + 0.5, y: TICKER, width: Math.max(1, w - 1), height: ROW }],
        ["text", { ...MIDDLE, x: x + w / 2, y: TICKER + 17 }, LETTER * [...text].length + 2 <= w ? text : ""],
      ];
    });
  }

  /** Tokens written: by this run, and by the schedule that it cuts short. */
  #wrote(all, { forward, open }, stopped, { left, unit, n, wide, end, labels }) {
    const total = all[0].open + all[0].forward - 1,
      y = (v) => WROTE + HIGH * (1 - v / Math.max(1, total)),
      x = (g) => left + (g - 0.5) * unit,
      hidden = this.run.board(this.t).filter(({ token }) => token === null).length,
      path = all.map(({ forward }, i) => `H${end(forward)}V${y(total - (all[i + 1]?.open ?? hidden)).toFixed(1)}`),
      plain = Array.from({ length: n }, (_, i) => `H${end(i + 1)}V${y((total * (i + 1)) / n).toFixed(1)}`),
      draw = (layer, look, steps) => render(layer, [["path", { class: look, d: `M${left},${y(0)}${steps.join("")}` }]]);
    draw(this.ticks, "dx-trail", path);
    draw(this.plain, "dx-alone", plain);
    labels.push([0, WROTE - 10, "start", tr`Written; dashed: schedule’s mean (derived)`]);
    labels.push([left - 6, WROTE + 8, "end", total], [left - 6, WROTE + HIGH + 4, "end", 0]);
    const every = [1, 2, 5, 10, 20, 50, 100, 200, 500].find((step) => step * unit > 44) ?? n;
    for (let g = every; g <= n; g += every) labels.push([x(g), WROTE + HIGH + 18, "middle", g]);
    labels.push([left, WROTE + HIGH + 18, "end", wide ? tr`forward` : ""]);
    if (stopped) labels.push([x(forward) - 10, y(total) + 14, "end", many(open, "token", tr`at once: ${open}`)]);
  }

  sentence(watched, { choice }, t) {
    const reading = this.#reading(watched),
      before = this.#all(t).toReversed(),
      since = before.findIndex((other) => this.#reading(other) !== reading),
      same = since < 0 ? before.length : since,
      bar = short(choice.threshold),
      lead = short(mean(watched.leads)),
      answer = tr`The answer would read ${reading}, for ${many(same, "alone")}; mean lead ${lead}`;
    return choice.chosen === "all-in"
      ? tr`${answer}, at least ${bar}: the ${watched.open} masks left are written at once.`
      : tr`${answer}, below ${bar}: the schedule goes on.`;
  }
}
