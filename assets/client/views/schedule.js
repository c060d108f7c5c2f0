// Parts of one step by track, the measured ones above those modelled from them, on one clock; below, what branches were
// drafted meanwhile, and which rows of the text a cache holds exactly. Modelled parts are of the kinds of measured
// ones.

import { el, frame, set, setText, svg, swatch } from "../player/dom.js";
import { MIDDLE, option, render } from "../player/drawing.js";
import { number, seconds, tr, translated } from "../player/words.js";
import { BranchList, CacheRows, together } from "./schedulerows.js";

export const view = { title: "Schedule of a step", place: 128, needs: ["intervals"] };

const LETTER = 7, // pixels of one, on average
  LEAST = 620,
  ROW = 28,
  AXIS = 20,
  INK = "--ink:var(--text)";

/** What gives a part its colour, and what stands in its bar. */
const kindOf = ({ kind, label = "" }) => kind || label,
  markOf = ({ about: { mark, layer } = {}, ...one }) => String(mark ?? layer ?? kindOf(one)).trim();

/** The modelled intervals of a step with the measured ones that they are made of, or all where nothing is modelled;
 * where they begin, the sum of the measured ones, the length of the modelled order. Null without any. */
export function parts(intervals = []) {
  const timed = intervals.filter(({ unit }) => (unit ?? "seconds") === "seconds"),
    modelled = timed.filter(({ measured }) => measured === false),
    kinds = new Set(modelled.map(kindOf)),
    all = timed.filter(({ measured }) => measured !== false),
    own = modelled.length ? all.filter((one) => kinds.has(kindOf(one))) : all,
    extent = (list) =>
      list.length ? Math.max(...list.map(({ end }) => end)) - Math.min(...list.map(({ start }) => start)) : 0,
    shown = [...own, ...modelled];
  if (!shown.length) return null;
  const order = (list) =>
    [...new Set(list.map(({ track }) => track))].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  return {
    shown,
    tracks: [...order(own).map((track) => [track, true]), ...order(modelled).map((track) => [track, false])],
    start: Math.min(...shown.map(({ start }) => start)),
    long: extent(shown),
    measured: own.length ? own.reduce((sum, { start, end }) => sum + end - start, 0) : null,
    modelled: modelled.length ? extent(modelled) : null,
  };
}

export class Schedule {
  load(run, dom, context) {
    Object.assign(this, { run, dom, context, kinds: [], wide: 760, t: 0 });
    this.say = el("p", "dx-readout");
    const layers = ["axis", "groups", "names", "bars", "ticks"].map((name) => (this[name] = svg("g")));
    for (const words of [this.names, this.ticks]) set(words, { style: INK });
    this.picture = svg("svg", { class: "dx-tree", role: "img" }, ...layers);
    this.legend = el("div", "dx-legend");
    this.branches = new BranchList(run);
    this.cache = new CacheRows(run);
    this.why = el("p");
    const scroll = { class: "dx-scroll", tabindex: 0, "aria-label": tr`Schedule of this step` },
      picture = el("div", scroll, this.picture);
    dom.append(this.say, picture, this.why, this.legend, this.branches.dom, this.cache.dom);
    this.grow();
  }

  /** Colours go by kind, in order of appearance. */
  grow() {
    this.kinds = [...new Set(this.run.steps.flatMap((step) => (parts(step.intervals)?.shown ?? []).map(kindOf)))];
    this.legend.replaceChildren(
      ...this.kinds.map((kind) => swatch(`background:${this.#fill(kind)}`, ` ${translated(kind)}`)),
      swatch("background:var(--text)", ` ${tr`solid: measured`}`),
      swatch("border:1.5px dashed var(--text);background:none", ` ${tr`dashed: modelled`}`),
      swatch("background:var(--accent);opacity:.3", ` ${tr`shaded: layers at once`}`),
    );
    this.cache.grow();
  }

  #fill(kind) {
    return option(Math.max(0, this.kinds.indexOf(kind)));
  }

  resize(width) {
    this.wide = Math.max(width - 8, LEAST);
    this.show(this.t);
  }

  show(t, hurry) {
    if (hurry) return;
    this.t = t;
    const step = this.run.steps[t - 1];
    setText(this.say, this.describe(t));
    this.#draw(parts(step?.intervals), t);
    this.branches.show(step);
    this.cache.show(step?.spans ?? []);
  }

  #draw(found, t) {
    const { shown = [], tracks = [], start = 0, long = 1 } = found ?? {},
      WIDE = this.wide,
      LEFT = 12 + LETTER * Math.max(12, ...tracks.map(([name]) => translated(name).length)),
      x = (time) => LEFT + ((time - start) / (long || 1)) * (WIDE - LEFT - 8),
      high = tracks.length * ROW,
      row = ({ track, measured }) =>
        tracks.findIndex(([name, real]) => name === track && real === (measured !== false)),
      drawn = new Set(shown.map(kindOf));
    this.kinds.forEach((kind, i) => (this.legend.children[i].hidden = !drawn.has(kind)));
    frame(this.picture, WIDE, found ? high + AXIS : 1);
    set(this.picture, { "aria-label": this.describe(t) });
    const name = (y, words) => ["text", { x: 0, y, class: "dx-small" }, words],
      how = (real) => (real ? tr`measured` : tr`modelled`);
    render(
      this.names,
      tracks.flatMap(([track, real], i) => [name(i * ROW + 11, translated(track)), name(i * ROW + 23, how(real))]),
    );
    render(this.bars, shown, (part) => {
      const real = part.measured !== false,
        width = Math.max(1, x(part.end) - x(part.start) - 0.5),
        fill = this.#fill(kindOf(part)),
        last = markOf(part),
        pale = `fill:color-mix(in srgb,${fill} 30%,transparent);stroke:var(--text);stroke-width:1;stroke-dasharray:3 2`,
        ink = `fill:${real ? fill.replace("-fill", "-text") : "var(--text)"}`,
        word = { ...MIDDLE, x: width / 2, y: 14, class: "dx-small", style: ink },
        took = seconds(part.end - part.start),
        title = tr`${translated(part.track)}: ${part.label ?? ""}, ${took}, ${how(real)}`;
      return [
        { transform: `translate(${x(part.start)},${row(part) * ROW + 3})` },
        ["title", {}, title],
        ["rect", { height: 20, rx: 2, width, style: real ? `fill:${fill};stroke:none` : pale }],
        ["text", word, width > 7.5 * last.length + 4 ? last : ""],
      ];
    });
    const groups = together(shown);
    this.legend.lastChild.hidden = !groups.length;
    render(this.groups, groups, ({ begin, end, from, to, first, last }) => {
      const [top, foot] = [row(from) * ROW, row(to) * ROW],
        box = { x: x(begin) - 2, y: top, width: x(end) - x(begin) + 4, height: foot - top + 26, rx: 4 };
      return [
        {},
        ["rect", { ...box, style: "fill:var(--accent);opacity:.18;stroke:none" }],
        ["text", { x: x(end) + 5, y: foot + 17, class: "dx-small", style: INK }, `${first}–${last}`],
        ["path", { d: `M${x(begin) - 3},${top}V${foot + 26}`, style: "stroke:var(--accent);stroke-width:4" }],
      ];
    });
    const [{ first, last } = {}] = groups,
      why = tr`Blue lines: one input for all of ${first}–${last}, what layer ${first - 1} left. In order, \
${translated(this.kinds[0])} ${first + 1} would wait for what layer ${first} adds: so its result is approximate.`;
    setText(this.why, groups.length ? why : "");
    const axis = ["path", { d: `M${LEFT},${high}H${WIDE - 8}`, style: "stroke:var(--line);fill:none" }],
      tick = (x, anchor, words) => ["text", { class: "dx-small", x, y: high + 14, "text-anchor": anchor }, words];
    render(this.axis, found ? [axis] : []);
    render(this.ticks, found ? [tick(LEFT, "start", "0"), tick(WIDE - 8, "end", seconds(long))] : []);
  }

  describe(t) {
    const found = parts(this.run.steps[t - 1]?.intervals);
    if (!found) return t ? tr`Nothing was timed in this step.` : tr`Before the first step.`;
    const { measured, modelled } = found,
      ours = tr`Parts one after another, measured without the pauses between them: ${seconds(measured ?? 0)}.`;
    if (modelled === null) return measured > found.long ? tr`Side by side, measured: ${seconds(found.long)}.` : ours;
    const there = tr`On these lanes, modelled from it: ${seconds(modelled)}.`;
    return measured
      ? `${ours} ${there} ${tr`That is ${number(measured / modelled)} times as fast, if it ran so.`}`
      : there;
  }
}
