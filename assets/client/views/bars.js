// The scores of one step against the line that decides: a bar for each position that is still open, under its cell of
// the board and wrapping with it, those that are written now in their colour. Where the deciding score is the
// confidence with something added, the addition is a part of its own.

import { unpack } from "../player/codec.js";
import { el, set, setText, svg } from "../player/dom.js";
import { Parts, render } from "../player/drawing.js";
import { cellAt, cornerOf } from "../player/layout.js";
import { glyphs, number, tr, translated } from "../player/words.js";

export const view = { title: "Scores vs. threshold", place: 160, needs: ["scores+masked"] };

const SEEN = 176; // pixels; more rows scroll
const BASE = "confidence";
const STEP = 1 / 100; // scores are kept in steps of about 1/254
const LINE = "threshold"; // a score of this name is a line of its own at each position
const HIGH = 132; // pixels for all rows, as far as one row has at least LEAST and at most MOST
const LEAST = 28;
const MOST = 96;
const BETWEEN = 6; // rows

const LOOK = { class: "dx-bars-box", role: "group", "aria-label": tr`Bars under the cells of the board`, tabindex: 0 };

const part = (name) => svg("path", { class: `dx-bar-${name}` });

export class Bars extends Parts {
  t = 0;
  sums = { seen: 0, below: new Set() };
  say = this.below(el("p", "dx-readout"));
  parts = { out: part("out"), rest: part("rest"), now: part("now"), lift: part("lift"), line: part("line") };
  numbers = svg("g", { "aria-hidden": "true" });
  picture = svg("svg", { class: "dx-bars-now", role: "img" }, ...Object.values(this.parts), this.numbers);
  on = { onpointermove: (event) => this.#read(event), onpointerleave: () => setText(this.say, this.words) };
  box = this.below(el("div", { ...LOOK, ...this.on }, this.picture));
  key = this.below(el("div", "dx-legend"));

  relook() {
    this.show(this.t);
  }

  /** The boards of the group have a new plan. */
  relay() {
    this.show(this.t);
  }

  #grid() {
    const { run, context } = this;
    return context.grid ? gridOf(context.grid, run.prompt.length, run.widest) : null;
  }

  #frame(g) {
    const laid = [g.columns, g.rows, g.w, g.h, g.first].join();
    if (laid === this.laid) return;
    this.laid = laid;
    const w = g.gutter + g.columns * (g.w + g.gap);
    set(this.picture, { viewBox: `0 0 ${w} ${g.height}`, width: w, height: g.height });
    this.box.style.maxHeight = `${SEEN}px`;
    const rows = Array.from({ length: g.gutter && g.rows > 1 ? g.rows : 0 }, (_, row) => row);
    render(this.numbers, rows, (row) => {
      const place = { x: 24, y: row * g.rowHeight + g.h - 1, "text-anchor": "end" };
      return ["text", place, g.first + row * g.columns];
    });
  }

  /** The score that is drawn: the one that colours the board, else the one that decides. */
  #name() {
    const { run, context } = this,
      { lane } = context;
    return run.lanes.has(lane) && lane !== LINE ? lane : run.deciding;
  }

  /** The values of a score in a step by position, or null. */
  #values(index, name) {
    const lane = this.run.lane(index, name);
    if (!lane) return null;
    const { values } = unpack(lane.values);
    return (position) => values[this.run.found(index, position) - lane.start] ?? NaN;
  }

  /** Whether a score is the confidence with something added: nowhere in the run it lies below, or lacks one. */
  #lifted(name) {
    const { run, sums } = this;
    if (name === BASE || run.lanes.get(name)?.unit !== "probability" || !run.lanes.has(BASE)) return false;
    for (; sums.seen < run.steps.length; sums.seen++) {
      const step = sums.seen,
        base = run.lane(step, BASE),
        bases = base && unpack(base.values).values;
      for (const other of run.lanes.keys()) {
        const lane = other === BASE ? null : run.lane(step, other);
        if (!lane || sums.below.has(other)) continue;
        const at = (v, i) => v > (bases?.[lane.start + i - base.start] ?? NaN) - STEP || Number.isNaN(v);
        if (![...unpack(lane.values).values].every(at)) sums.below.add(other);
      }
    }
    return !sums.below.has(name);
  }

  show(t, hurry) {
    this.t = t;
    const { run } = this,
      name = this.#name(),
      index = t - 1,
      lane = run.lane(index, name),
      value = this.#values(index, name),
      base = this.#lifted(name) ? this.#values(index, BASE) : null,
      lines = name === BASE ? this.#values(index, LINE) : null,
      g = this.#grid(),
      written = new Set(run.steps[index]?.commits?.positions ?? []),
      blocks = (run.steps[index]?.spans ?? []).filter(({ kind }) => kind === "block"),
      inside = (p) => !blocks.length || written.has(p) || blocks.some(({ start, end }) => p >= start && p < end);
    if (!g) return;
    this.#frame(g);
    const y = (v) => g.h - g.h * run.level(name, v),
      on = { g, start: run.prompt.length, widest: run.widest, y },
      drawn = layout({ ...on, value, base, written, inside }),
      { rest, now, lift } = drawn;
    for (const [part, bars] of Object.entries(drawn)) set(this.parts[part], { d: bars.join("") });
    set(this.parts.line, { d: lane ? lineOf({ ...on, threshold: lane.threshold, lines }) : "" });
    if (written.size) this.#follow(g, Math.min(...written));
    if (hurry) return;
    this.#tell(name, lane, { now: now.length, open: rest.length + now.length, lift: lift.length, base });
  }

  /** Bars that do not all have room show those that are written now. */
  #follow(g, position) {
    if (g.height <= SEEN) return;
    const top = Math.max(0, Math.min(cornerOf(g, position).y, g.height - SEEN));
    if (top !== this.top) this.box.scrollTop = this.top = top;
  }

  #tell(name, lane, { now, open, lift, base }) {
    const line = lane?.threshold;
    const said = lane
      ? tr`${translated(name)} at ${open} open position${open === 1 ? "" : "s"}, ${now} of them written` +
        (line == null ? "" : tr`; the threshold is ${number(line)}`)
      : this.t
        ? tr`No scores were recorded in this step.`
        : tr`Before the first step.`;
    this.words = said;
    setText(this.say, said);
    set(this.picture, { "aria-label": said });
    const known = `${name} ${Boolean(base)} ${lift > 0} ${line}`;
    if (known === this.known) return;
    this.known = known;
    const swatch = (kind, text) => el("span", {}, el("i", `dx-swatch dx-bar-${kind}`), text);
    this.key.replaceChildren(
      ...(this.run.spanKinds.includes("block") ? [swatch("out", tr`outside the block`)] : []),
      swatch("rest", base ? tr`${translated(BASE)}, not written yet` : tr`not written yet`),
      ...(base ? [swatch("lift", tr`added to it: ${translated(name)}`)] : []),
      ...(line == null ? [] : [el("span", {}, el("i", "dx-line dx-bar-line"), tr`threshold ${number(line)}`)]),
    );
  }

  #read({ clientX, clientY }) {
    const { run, t } = this,
      { left, top } = this.picture.getBoundingClientRect(),
      position = cellAt(this.#grid(), clientX - left, clientY - top, run.widest),
      found = [...run.lanes]
        .map(([name, { unit }]) => [name, run.score(t - 1, name, position), unit])
        .filter(([, v]) => !Number.isNaN(v)),
      guess = run.candidates(t - 1, position)?.[0]?.token;
    if (position < run.prompt.length) return setText(this.say, this.words);
    if (!found.length) return setText(this.say, tr`position ${position}: no score in this step`);
    const place = tr`position ${position}${guess == null ? "" : `, ‘${glyphs(run.piece(guess).text, 20)}’`}: `;
    setText(this.say, place + found.map(([name, v, unit]) => `${name} ${number(v, unit)}`).join(", "));
  }

  describe() {
    return `${this.words}.`;
  }
}

/** The board's columns, with rows that are as high as a bar may be. start: the first position; widest: of the board. */
export function gridOf(grid, start, widest) {
  const first = start - ((start - grid.first) % grid.columns), // of the row that holds it
    rows = Math.ceil(Math.max(widest - first, 1) / grid.columns),
    h = Math.min(Math.max(Math.floor(HIGH / rows), LEAST), MOST);
  return { ...grid, first, rows, h, rowHeight: h + BETWEEN, height: rows * (h + BETWEEN) };
}

/** Bars as paths: {out, rest, now, lift}. value, base: of a position, or null; y: of a value in its row; written:
 * positions; inside: whether a position is in the block. */
export function layout({ g, start, widest, value, base, y, written, inside }) {
  const bar = (p, from, to) => {
    const corner = cornerOf(g, p),
      x = corner.x + 0.14 * g.w,
      down = (v) => (corner.y + v).toFixed(1);
    return `M${x.toFixed(1)},${down(from)}V${down(to)}h${(0.72 * g.w).toFixed(1)}V${down(from)}Z`;
  };
  const out = [],
    rest = [],
    now = [],
    lift = [];
  for (let p = start; value && p < widest; p++) {
    const v = value(p),
      b = base ? base(p) : NaN;
    if (Number.isNaN(v)) continue;
    const top = Math.min(y(v), g.h - 1.5), // a bar of nothing is still there
      middle = Number.isNaN(b) || b >= v ? top : Math.min(y(b), g.h);
    (written.has(p) ? now : inside(p) ? rest : out).push(bar(p, g.h, middle));
    if (middle > top + 0.5 && inside(p)) lift.push(bar(p, middle, top));
  }
  return { out, rest, now, lift };
}

/** The line, or one at each position, row by row as far as there are positions. */
export function lineOf({ g, start, widest, y, threshold, lines }) {
  const parts = [];
  let last = ""; // where the line so far ends
  for (let p = start; p < widest; p++) {
    const v = lines ? lines(p) : (threshold ?? NaN),
      { x, y: top } = cornerOf(g, p),
      from = `${x},${(top + y(v)).toFixed(1)}`;
    if (Number.isNaN(v)) continue;
    if (from !== last) parts.push(`M${from}`);
    parts.push(`h${g.w + g.gap}`);
    last = `${x + g.w + g.gap},${(top + y(v)).toFixed(1)}`;
  }
  return parts.join("");
}
