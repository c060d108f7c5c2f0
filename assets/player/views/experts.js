// Units of one layer (experts) over the tokens, lit by weight. What one forward read is in a box, which
// can be made wider; beside the grid stands what any token of the box used.

import { bytes, glyphs, number, unpack } from "../codec.js";
import { el, frame, pool, select, set, setText, svg } from "../dom.js";
import { ramp } from "../theme.js";
import { tr } from "../words.js";

export const view = { name: "Experts", title: "Experts of each token", place: 117, needs: ["routing"] };

const CELL = 8,
  MOST = 72, // tokens that are drawn, the last ones that fit
  UNITS = 256, // rows that are drawn
  TOP = 6,
  GAP = 14, // before the column of the union
  WIDE = 14,
  SHADES = 6;

/** What a step's records say of one layer: position -> [[unit, weight]], and how many units there are. */
export function used(entries = [], layer) {
  const found = new Map();
  let units = 0;
  for (const { kind, positions, layers, chosen, weights, units: all } of entries) {
    if (kind !== "expert" && kind !== "layer") continue; // places, memories
    const row = layers.indexOf(layer),
      { values, shape } = unpack(chosen),
      k = shape[2],
      w = weights ? unpack(weights).values : null;
    if (row < 0) continue;
    units = Math.max(units, all ?? 0);
    positions.forEach((position, i) => {
      const pairs = [];
      for (let j = (i * shape[1] + row) * k, end = j + k; j < end; j++)
        if (values[j] >= 0) pairs.push([values[j], w && Number.isFinite(w[j]) ? w[j] : 1]);
      found.set(position, pairs);
      for (const [unit] of pairs) units = Math.max(units, unit + 1);
    });
  }
  return { found, units: Math.min(units, UNITS) };
}

/** unit -> the share of these columns that use it. */
export function together(columns) {
  const share = new Map();
  for (const pairs of columns) for (const [unit] of pairs) share.set(unit, (share.get(unit) ?? 0) + 1 / columns.length);
  return share;
}

export class Experts {
  load(run, dom, context) {
    Object.assign(this, { run, dom, context, width: null, layer: null });
    this.say = el("p", "dx-readout");
    this.bar = el("span", { style: "margin-right:12px" });
    this.slider = el("input", {
      type: "range",
      min: 1,
      max: 32,
      "aria-label": tr`Tokens read together`,
      oninput: () => this.#widen(Number(this.slider.value)),
    });
    this.back = el("button", { onclick: () => this.#widen(null) }, tr`as recorded`);
    this.cells = svg("g");
    this.box = svg("path", { style: "fill:none;stroke:var(--text);stroke-width:1.5" });
    this.hover = svg("g");
    this.picture = svg("svg", { class: "dx-tree", role: "img" }, this.cells, this.box, this.hover);
    dom.append(
      this.say,
      this.bar,
      el("label", {}, tr`Tokens read together`, " ", this.slider),
      this.back,
      el("div", { class: "dx-scroll", tabindex: 0, "aria-label": tr`Experts of each token` }, this.picture),
      el(
        "p",
        "dx-readout",
        tr`A row is an expert, a column a token, the shade its weight. Box: read together. Right: all that it uses.`,
      ),
    );
    this.grow();
  }

  grow() {
    const layers = [...new Set(this.run.steps.flatMap((s) => (s.routing ?? []).flatMap((r) => r.layers)))];
    layers.sort((a, b) => a - b);
    if (this.dom.parentElement) this.dom.parentElement.hidden = this.run.length > 0 && !layers.length;
    if (layers.join() === this.layers?.join()) return;
    this.layers = layers;
    this.layer = layers.includes(this.layer) ? this.layer : layers[layers.length >> 1];
    const options = layers.map((layer) => [String(layer), String(layer)]);
    this.bar.replaceChildren(
      select(tr`Layer`, options, String(this.layer), (value) => {
        this.layer = Number(value);
        this.show(this.t);
      }),
    );
  }

  #widen(width) {
    this.width = width;
    this.show(this.t);
  }

  /** Columns of the text behind step t, and those in the box. */
  #read(t) {
    const columns = new Map();
    let units = 0,
      now = [];
    for (const { routing } of this.run.steps.slice(0, t)) {
      if (!routing?.length) continue;
      const { found, units: all } = used(routing, this.layer);
      for (const [position, pairs] of found) columns.set(position, pairs);
      for (const position of columns.keys()) if (position > Math.max(...found.keys())) columns.delete(position);
      units = Math.max(units, all);
      now = [...found.keys()];
    }
    const order = [...columns.keys()].sort((a, b) => a - b),
      box = this.width === null ? now : order.slice(-this.width);
    return { columns, units, order, box };
  }

  show(t, hurry) {
    this.t = t;
    if (hurry) return;
    const { columns, units, order, box } = this.#read(t),
      drawn = order.slice(-Math.max(20, Math.min(MOST, (this.dom.clientWidth >> 3) - 5))),
      share = together(box.map((position) => columns.get(position) ?? [])),
      top = Math.max(1e-9, ...drawn.flatMap((position) => columns.get(position).map(([, weight]) => weight))),
      paths = Array.from({ length: SHADES }, () => []),
      board = this.run.board(t),
      shade = (part) => Math.min(SHADES - 1, Math.floor(part * SHADES));
    drawn.forEach((position, x) => {
      for (const [unit, weight] of columns.get(position))
        paths[shade(weight / top)].push(`M${x * CELL},${TOP + unit * CELL}h${CELL - 1}v${CELL - 1}h-${CELL - 1}z`);
    });
    const right = drawn.length * CELL + GAP;
    for (const [unit, part] of share)
      paths[shade(part)].push(`M${right},${TOP + unit * CELL}h${WIDE}v${CELL - 1}h-${WIDE}z`);
    const colours = ramp(this.context.theme, this.context.mode());
    pool(this.cells, SHADES, () => svg("path")).forEach((path, i) => {
      set(path, { d: paths[i].join("") });
      const c = Math.round(((i + 2) / (SHADES + 1)) * (colours.length - 1));
      path.style.cssText = `stroke:none;fill:${colours[c].fill}`;
    });
    const first = drawn.findIndex((position) => position >= Math.min(...box)),
      high = units * CELL + 3,
      frameOf = (x, w) => `M${x},${TOP - 3}h${w}v${high + 2}h-${w}z`;
    set(this.box, {
      d:
        box.length && drawn.length
          ? frameOf(first * CELL - 1, (drawn.length - first) * CELL + 1) + frameOf(right - 2, WIDE + 4)
          : "",
    });
    pool(this.hover, drawn.length, () =>
      svg("rect", { y: TOP, width: CELL, style: "fill:transparent;stroke:none" }, svg("title")),
    ).forEach((rect, x) => {
      const position = drawn[x],
        token = board[position]?.token;
      set(rect, { x: x * CELL, height: units * CELL });
      const name = token == null ? "" : glyphs(this.run.piece(token).text);
      setText(rect.firstChild, tr`position ${position} ${name}: ${columns.get(position).length} of ${units}`);
    });
    frame(this.picture, Math.max(1, drawn.length) * CELL + GAP + WIDE + 4, units * CELL + TOP + 6);
    this.slider.value = this.width ?? Math.min(32, box.length);
    this.back.disabled = this.width === null;
    setText(this.say, this.describe(t));
    set(this.picture, { "aria-label": this.describe(t) });
  }

  describe(t) {
    const { columns, units, box } = this.#read(t);
    if (!box.length) return t ? tr`No routing at this step.` : tr`Before the first step.`;
    const pairs = box.map((position) => columns.get(position) ?? []),
      all = together(pairs).size,
      each = pairs.reduce((sum, one) => sum + one.length, 0) / pairs.length,
      held = (this.run.steps[t - 1]?.intervals ?? []).filter(({ about }) => about?.group === "experts"),
      read = held.find(({ about }) => about.name === "read")?.end,
      dense = Math.max(0, ...held.map(({ end }) => end)),
      weights =
        this.width === null && read && dense
          ? tr` Over all layers ${bytes(read)} of ${bytes(dense)} of experts were read.`
          : "";
    return tr`Layer ${this.layer}: ${box.length} tokens together use ${all} of ${units} experts (${number(
      (100 * all) / Math.max(1, units),
    )} %), ${number(each)} each.${weights}`;
  }
}
