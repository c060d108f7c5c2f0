// The scores of one step against the line that decides: a bar for each position that is still open, under its cell of
// the board and wrapping with it, those that are written now in their colour. Where the deciding score is the
// confidence with something added, the addition is a part of its own.

import { glyphs, number, unpack } from "../player/codec.js";
import { el, pool, set, setText, svg } from "../player/dom.js";
import { cellAt, cornerOf } from "../player/layout.js";
import { tr, translated } from "../player/words.js";
import { gridOf, layout, lineOf } from "./barslayout.js";

export const view = { title: "Scores vs. threshold", place: 160, needs: ["scores+masked"] };

const SEEN = 176; // pixels; more rows scroll
const BASE = "confidence";
const STEP = 1 / 100; // scores are kept in steps of about 1/254
const LINE = "threshold"; // a score of this name is a line of its own at each position

export class Bars {
  load(run, dom, context) {
    Object.assign(this, { run, context, t: 0, sums: { seen: 0, below: new Set() } });
    const part = (name) => svg("path", { class: `dx-bar-${name}` });
    this.parts = { out: part("out"), rest: part("rest"), now: part("now"), lift: part("lift"), line: part("line") };
    this.numbers = svg("g", { "aria-hidden": "true" });
    this.picture = svg("svg", { class: "dx-bars-now", role: "img" }, ...Object.values(this.parts), this.numbers);
    const look = { class: "dx-bars-box", role: "group", "aria-label": tr`Bars under the cells of the board` };
    this.box = el("div", { ...look, tabindex: 0 }, this.picture);
    set(this.box, {
      onpointermove: (event) => this.#read(event),
      onpointerleave: () => setText(this.say, this.words),
    });
    this.say = el("p", "dx-readout");
    this.key = el("div", "dx-legend");
    dom.append(this.say, this.box, this.key);
  }

  relook() {
    this.show(this.t);
  }

  resize() {
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
    pool(this.numbers, g.gutter && g.rows > 1 ? g.rows : 0, () => svg("text", { x: 24, "text-anchor": "end" })).forEach(
      (text, row) => {
        set(text, { y: row * g.rowHeight + g.h - 1 });
        setText(text, String(g.first + row * g.columns));
      },
    );
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
