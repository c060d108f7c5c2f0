// Layers by tokens of an encoder-decoder and its twin, lit as they run; dashed: cross-attention of the token
// that is written. Phases: encode, cross_kv, prefill, decode, each of a layer; and the token that was written.

import { bytes, glyphs, number, prose, seconds, unpack } from "../codec.js";
import { el, frame, pool, set, setText, svg } from "../dom.js";
import { tr, translated } from "../words.js";

export const view = { name: "Phases", title: "Layers by tokens", place: 125, needs: ["intervals.phase"] };

const WIDE = 720,
  ROW = 8, // of a layer
  HEAD = 20, // above a grid
  ARC = 46, // below
  BAR = 22,
  INK = "--ink:var(--text);font-weight:700",
  LEAST = 0.03; // share with a line

/** By model: each step's layers, times and token; how many layers. */
export function sides(steps) {
  const found = new Map();
  steps.forEach(({ intervals = [] }, at) => {
    for (const { track, start, end, about } of intervals) {
      if (!about?.phase) continue;
      if (!found.has(track)) found.set(track, { name: track, steps: [], low: 0, high: 0 });
      const side = found.get(track);
      side.steps[at] ??= { cells: [], start, end, token: "" };
      const step = side.steps[at];
      const { phase, layer } = about;
      if (phase === "token") step.token = about.token;
      else {
        const part = phase === "encode" ? "high" : "low";
        step.cells.push({ phase, layer });
        step.end = Math.max(step.end, end);
        side[part] = Math.max(side[part], layer + 1);
      }
    }
  });
  return [...found.values()].reverse(); // the twin above
}

export class Phases {
  load(run, dom) {
    Object.assign(this, { run, dom });
    this.table = el("div", {
      style: "display:grid;grid-template-columns:repeat(4,auto);justify-content:start;gap:2px 14px",
    });
    for (const part of ["grids", "arcs", "bars"]) this[part] = svg("g");
    this.picture = svg("svg", { class: "dx-tree", role: "img" }, this.grids, this.arcs, this.bars);
    this.say = el("p", "dx-readout");
    const scroll = { class: "dx-scroll", tabindex: 0, "aria-label": tr`Layers by tokens` };
    dom.append(this.table, el("div", scroll, this.picture), this.say);
    this.grow();
  }

  grow() {
    this.sides = sides(this.run.steps);
    if (this.dom.parentElement) this.dom.parentElement.hidden = this.run.length > 0 && !this.sides.length;
    this.input = this.run.prompt.length;
    this.columns = this.input + Math.max(1, ...this.sides.map(({ steps }) => steps.length));
    this.cell = WIDE / this.columns;
    this.whole = Math.max(1e-9, ...this.sides.map(({ steps }) => steps.reduce((sum, s) => sum + s.end - s.start, 0)));
  }

  show(t, hurry) {
    if (hurry || !this.sides.length) return;
    let y = 0;
    const make = () =>
      svg("g", {}, svg("text", { class: "dx-small", x: 0, y: 14 }), ...[0, 1, 2, 3].map(() => svg("path")));
    pool(this.grids, this.sides.length, make).forEach((grid, i) => {
      const side = this.sides[i];
      set(grid, { transform: `translate(0,${y})` });
      this.#grid(grid, side, t);
      y += HEAD + (side.low + side.high) * ROW + 8;
    });
    this.#arcs(t, y - 8);
    this.#bars(t, y + ARC);
    frame(this.picture, WIDE, y + ARC + BAR * this.sides.length + 4);
    this.#counters(t);
    setText(this.say, this.describe(t));
    set(this.picture, { "aria-label": this.describe(t) });
  }

  #grid(grid, { name, steps, low, high }, t) {
    const [title, ground, kept, old, fresh] = grid.childNodes,
      rows = low + high,
      top = (row) => HEAD + (rows - 1 - row) * ROW,
      c = this.cell,
      box = (column, row) =>
        `M${(column * c).toFixed(1)},${top(row)}h${(c * 0.82).toFixed(1)}v${ROW - 1.5}h-${(c * 0.82).toFixed(1)}z`,
      across = (row) => Array.from({ length: this.input }, (_, column) => box(column, row)).join("");
    const drawn = { kept: [], old: [], fresh: [] };
    steps.slice(0, t).forEach((step, at) => {
      for (const { phase, layer } of step.cells) {
        const path = phase === "cross_kv" ? "kept" : at === t - 1 ? "fresh" : "old";
        drawn[path].push(
          phase === "decode" ? box(this.input + at, layer) : across(phase === "encode" ? low + layer : layer),
        );
      }
    });
    set(title, { style: INK });
    setText(
      title,
      high ? tr`${translated(name)}: ${high} layers read, ${low} write` : tr`${translated(name)}: ${low} layers`,
    );
    const edge = this.input * c - 1;
    set(ground, {
      style: "fill:none;stroke:var(--line)",
      d: `M0,${HEAD - 2}H${WIDE}V${HEAD + rows * ROW}H0zM${edge},${HEAD - 2}V${HEAD + rows * ROW}`,
    });
    const paint = (path, boxes, look) => set(path, { d: boxes.join(""), style: `stroke:none;${look}` });
    paint(kept, drawn.kept, "fill:var(--accent);fill-opacity:.3");
    paint(old, drawn.old, "fill:var(--muted);fill-opacity:.55");
    paint(fresh, drawn.fresh, "fill:var(--accent)");
  }

  #looked(t) {
    const lane = this.run.lane(t - 1, "looked at");
    const shares = lane ? [...unpack(lane.values).values] : [];
    return shares.map((share, i) => [lane.start + i, share]).filter(([, share]) => share >= LEAST);
  }

  #arcs(t, y) {
    const found = t ? this.#looked(t) : [],
      from = (this.input + t - 0.6) * this.cell;
    pool(this.arcs, found.length, () => svg("path")).forEach((path, i) => {
      const [place, share] = found[i],
        to = (place + 0.4) * this.cell;
      set(path, {
        d: `M${from},${y}Q${(from + to) / 2},${y + 2 * ARC - 8} ${to},${y}`,
        style: `fill:none;stroke:var(--accent);stroke-dasharray:5 3;stroke-width:${0.6 + 2.4 * share}`,
      });
    });
  }

  #bars(t, y) {
    const make = () => svg("g", {}, svg("rect", { height: 14 }), svg("rect", { height: 14 }), svg("text", "dx-small"));
    pool(this.bars, this.sides.length, make).forEach((bar, i) => {
      const { name, steps } = this.sides[i],
        spent = (n) => steps.slice(0, n).reduce((sum, { start, end }) => sum + end - start, 0),
        [first, later] = [Math.min(1, t), t].map((n) => (spent(n) / this.whole) * (WIDE - 210));
      set(bar, { transform: `translate(0,${y + i * BAR})` });
      set(bar.childNodes[0], { width: first, style: "fill:var(--muted);stroke:none" });
      set(bar.childNodes[1], { x: first, width: later - first, style: "fill:var(--accent);stroke:none" });
      set(bar.childNodes[2], { x: later + 6, y: 12, style: INK });
      setText(bar.childNodes[2], `${translated(name)}: ${seconds(spent(t))}`);
    });
  }

  #counters(t) {
    const rows = this.sides.map(({ name, steps }) => {
      const key = name === "decoder-only" ? "twin cache bytes" : "cache bytes",
        size = this.run.steps.slice(0, t).findLast(({ facts }) => facts?.[key])?.facts[key] ?? 0,
        [first = 0, ...later] = steps.slice(0, t).map(({ start, end }) => end - start);
      return [
        translated(name),
        tr`first token ${number(1e3 * first)} ms`,
        tr`${Math.round(later.length / later.reduce((a, b) => a + b, 0) || 0)} tokens/s`,
        tr`cache ${bytes(size)}`,
      ];
    });
    pool(this.table, 4 * rows.length, () => el("span")).forEach((cell, i) => {
      cell.style.cssText = i % 4 ? "font-variant-numeric:tabular-nums" : "font-weight:700";
      setText(cell, rows[i >> 2][i % 4]);
    });
  }

  describe(t) {
    if (!t) return tr`Before the first step.`;
    const texts = this.sides.map(({ name, steps }) => {
        const text = steps.slice(0, t).reduce((all, { token }) => all + token, "");
        return `${translated(name)}: ‘${prose(text.trim())}’`;
      }),
      top = this.#looked(t)
        .sort((a, b) => b[1] - a[1])
        .slice(0, 3),
      said = top.map(
        ([place, share]) =>
          `${glyphs(this.run.piece(this.run.prompt[place]).text.trim(), 20)} ${number(100 * share)} %`,
      );
    return texts.join(" · ") + (said.length ? ` ${tr`Looked at: ${said.join(", ")}.`}` : "");
  }
}
