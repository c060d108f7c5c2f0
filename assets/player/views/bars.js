// The scores of one step against the line that decides: a bar for each position that is still open, those that are
// written now in their colour. Where the deciding score is the confidence with something added, the addition is a part
// of its own.

import { glyphs, number, unpack } from "../codec.js";
import { along, el, legend, set, setText, svg } from "../dom.js";
import { tr } from "../words.js";

export const view = { name: "Bars", title: "Scores vs. threshold", place: 160, needs: ["scores+masked"] };

const H = 100; // units of the drawing; x runs over positions
const BASE = "confidence";
const STEP = 1 / 100; // scores are kept in steps of about 1/254
const LINE = "threshold"; // a score of this name is a line of its own at each position

/** A path of bars: [position, from, to] in units of the drawing. */
const bars = (spans) =>
  spans.map(([x, from, to]) => `M${x + 0.12},${from.toFixed(2)}V${to.toFixed(2)}h0.76V${from.toFixed(2)}Z`).join("");

export class Bars {
  load(run, dom, context) {
    Object.assign(this, { run, context, t: 0, sums: { seen: 0, below: new Set() } });
    const part = (name) => svg("path", { class: `dx-bar-${name}` });
    this.parts = { out: part("out"), rest: part("rest"), now: part("now"), lift: part("lift"), line: part("line") };
    this.picture = svg(
      "svg",
      { class: "dx-bars-now", preserveAspectRatio: "none", role: "img" },
      ...Object.values(this.parts),
    );
    this.box = el(
      "div",
      {
        class: "dx-bars-box",
        onpointermove: (event) => this.#read(event),
        onpointerleave: () => setText(this.say, this.words),
      },
      this.picture,
    );
    this.say = el("p", "dx-readout");
    this.key = el("div", "dx-legend");
    dom.append(this.say, this.box, this.key);
  }

  relook() {
    this.show(this.t);
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
    return (position) => values[position - lane.start] ?? NaN;
  }

  /** Whether a score is the confidence with something added: nowhere in the run it lies below, or lacks one. */
  #lifted(name) {
    const { run, sums } = this;
    if (name === BASE || run.lanes.get(name)?.unit !== "probability" || !run.lanes.has(BASE)) return false;
    for (; sums.seen < run.steps.length; sums.seen++) {
      const step = sums.seen,
        base = this.#values(step, BASE);
      for (const other of run.lanes.keys()) {
        const lane = other === BASE ? null : run.lane(step, other);
        if (!lane || sums.below.has(other)) continue;
        const at = (v, i) => v > (base?.(lane.start + i) ?? NaN) - STEP || Number.isNaN(v);
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
      first = run.prompt.length,
      n = Math.max(run.widest - first, 1),
      y = (v) => H - H * run.level(name, v),
      written = new Set(run.steps[index]?.commits?.positions ?? []),
      blocks = (run.steps[index]?.spans ?? []).filter(({ kind }) => kind === "block"),
      inside = (p) => !blocks.length || written.has(p) || blocks.some(({ start, end }) => p >= start && p < end);
    const out = [],
      rest = [],
      now = [],
      lift = [];
    for (let x = 0; value && x < n; x++) {
      const v = value(first + x),
        b = base ? base(first + x) : NaN;
      if (Number.isNaN(v)) continue;
      const top = Math.min(y(v), H - 1.5), // a bar of nothing is still there
        middle = Number.isNaN(b) || b >= v ? top : Math.min(y(b), H);
      (written.has(first + x) ? now : inside(first + x) ? rest : out).push([x, H, middle]);
      if (middle > top + 0.5 && inside(first + x)) lift.push([x, middle, top]);
    }
    set(this.picture, { viewBox: `0 0 ${n} ${H}` });
    set(this.parts.out, { d: bars(out) });
    set(this.parts.rest, { d: bars(rest) });
    set(this.parts.now, { d: bars(now) });
    set(this.parts.lift, { d: bars(lift) });
    set(this.parts.line, { d: lane ? this.#line(lane.threshold, lines, first, n, y) : "" });
    if (hurry) return;
    this.#tell(name, lane, { now: now.length, open: rest.length + now.length, lift: lift.length, base });
  }

  #line(threshold, lines, first, n, y) {
    if (lines)
      return Array.from({ length: n }, (_, x) => [x, lines(first + x)])
        .filter(([, v]) => !Number.isNaN(v))
        .map(([x, v]) => `M${x},${y(v).toFixed(2)}h1`)
        .join("");
    return threshold == null ? "" : `M0,${y(threshold).toFixed(2)}H${n}`;
  }

  #tell(name, lane, { now, open, lift, base }) {
    const line = lane?.threshold;
    const said = lane
      ? tr`${name} at ${open} open position${open === 1 ? "" : "s"}, ${now} of them written` +
        (line == null ? "" : tr`; the threshold is ${number(line)}`)
      : this.t
        ? tr`No scores were recorded in this step.`
        : tr`Before the first step.`;
    this.words = said;
    setText(this.say, said);
    set(this.picture, { "aria-label": said });
    const known = `${name} ${Boolean(base)} ${lift > 0} ${line != null}`;
    if (known === this.known) return;
    this.known = known;
    const swatch = (kind, text) => el("span", {}, el("i", `dx-swatch dx-bar-${kind}`), text);
    this.key.replaceChildren(
      legend(this.context.theme, "new"),
      ...(this.run.spanKinds.includes("block") ? [swatch("out", tr`outside the block`)] : []),
      swatch("rest", base ? tr`${BASE}, not written yet` : tr`not written yet`),
      ...(base ? [swatch("lift", tr`added to it: ${name}`)] : []),
      ...(line == null ? [] : [el("span", {}, el("i", "dx-line dx-bar-line"), tr`threshold`)]),
    );
  }

  #read(event) {
    const { run, t } = this,
      first = run.prompt.length,
      position = first + Math.min(Math.floor(along(this.box, event) * (run.widest - first)), run.widest - first - 1),
      found = [...run.lanes]
        .map(([name, { unit }]) => [name, run.score(t - 1, name, position), unit])
        .filter(([, v]) => !Number.isNaN(v)),
      guess = run.candidates(t - 1, position)?.[0]?.token;
    setText(
      this.say,
      found.length
        ? tr`position ${position}${guess == null ? "" : `, ‘${glyphs(run.piece(guess).text, 20)}’`}: ` +
            found.map(([name, v, unit]) => `${name} ${number(v, unit)}`).join(", ")
        : tr`position ${position}: no score in this step`,
    );
  }

  describe() {
    return `${this.words}.`;
  }
}
