// Layers by tokens of an encoder-decoder and its twin, lit as they run, with the tokens of the input between them and
// each answer below its grid; dashed: cross-attention of the token that is written. Phases: encode, cross_kv, prefill,
// decode, each of a layer; and the token that was written.

import { unpack } from "../player/codec.js";
import { LETTER, render, StepPicture } from "../player/drawing.js";
import { bytes, cut, glyphs, percent, prose, seconds, tr, translated } from "../player/words.js";

export const view = { title: "Layers by tokens", place: 125, needs: ["intervals.encode"] };

const NARROW = 700, // a panel without room for the names of the rows
  NAMED = 142, // of these names
  ROW = 11, // of a layer
  NAMES = 22, // below it: what was written
  INPUT = 66, // the input's tokens, between the grids
  ARC = 62, // below the lower one
  GAP = 22, // between input and answer
  LEAST = 0.03; // share with a line
const PHASES = new Set(["encode", "cross_kv", "prefill", "decode", "token"]);

const spent = (steps, n) => steps.slice(0, n).reduce((sum, { start, end }) => sum + end - start, 0);

/** By model: each step's layers, times and token; how many layers. */
function sides(steps) {
  const found = new Map();
  steps.forEach(({ intervals = [] }, at) => {
    for (const { track, start, end, kind: phase, about } of intervals) {
      if (!PHASES.has(phase)) continue;
      if (!found.has(track)) found.set(track, { name: track, steps: [], low: 0, high: 0 });
      const side = found.get(track);
      side.steps[at] ??= { cells: [], start, end, token: "" };
      const step = side.steps[at],
        { layer, mark, cache_bytes: size } = about;
      if (phase === "token") Object.assign(step, { token: mark, size });
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

export class Phases extends StepPicture {
  layers = ["grids", "arcs", "bars", "input"];
  early = true;
  told = () => this.sides.length > 0;

  grow() {
    this.sides = sides(this.run.steps);
    this.n = this.run.prompt.length;
    this.answers = Math.max(1, ...this.sides.map(({ steps }) => steps.length));
    this.whole = Math.max(1e-9, ...this.sides.map(({ steps }) => spent(steps)));
  }

  draw() {
    const { t } = this,
      narrow = this.width < NARROW,
      LEFT = narrow ? 0 : NAMED,
      HEAD = narrow ? 42 : 24, // above a grid
      inner = this.width - LEFT - GAP,
      out = Math.min(56, (0.45 * inner) / this.answers), // of a token of the answer
      c = (inner - out * this.answers) / Math.max(1, this.n),
      right = LEFT + inner - out * this.answers + GAP;
    const x = (column) => (column < this.n ? LEFT + column * c : right + (column - this.n) * out);
    Object.assign(this, { narrow, LEFT, HEAD, out, c, x, bar: narrow ? 58 : 24 });
    const words = [],
      looked = t ? this.#looked(t) : [];
    let y = 0;
    render(this.grids, this.sides, (side, i) => {
      const top = y;
      this.#names(side, t, y, words);
      y += HEAD + (side.low + side.high) * ROW + NAMES;
      if (!i) {
        this.#input(y - NAMES + 6, looked);
        y += INPUT;
      }
      return [{ transform: `translate(0,${top})` }, ...this.#grid(side, t)];
    });
    this.#arcs(t, y - NAMES, looked, words);
    this.#times(t, y + ARC);
    this.frame(y + ARC + this.bar * this.sides.length + 4, words);
  }

  #grid({ name, steps, low, high }, t) {
    const rows = low + high,
      top = (row) => this.HEAD + (rows - 1 - row) * ROW,
      box = (column, row) => {
        const w = (0.84 * (column < this.n ? this.c : this.out)).toFixed(1);
        return `M${this.x(column).toFixed(1)},${top(row)}h${w}v${ROW - 2}h-${w}z`;
      },
      across = (row) => Array.from({ length: this.n }, (_, column) => box(column, row)).join("");
    const drawn = { kept: [], old: [], fresh: [] };
    steps.slice(0, t).forEach((step, at) => {
      for (const { phase, layer } of step.cells) {
        const path = phase === "cross_kv" ? "kept" : at === t - 1 ? "fresh" : "old";
        drawn[path].push(
          phase === "decode" ? box(this.n + at, layer) : across(phase === "encode" ? low + layer : layer),
        );
      }
    });
    const named = translated(name),
      from = this.x(this.n) - GAP / 2,
      beside = this.narrow ? { x: 0, y: 33 } : { x: this.LEFT + (named.length + 2) * 1.05 * LETTER, y: 15 },
      does = high ? tr`${high} layers read the input once, ${low} write a token` : tr`${low} layers for every token`,
      ground = `M${from},${this.HEAD - 2}V${this.HEAD + rows * ROW}`,
      path = (boxes, look) => ["path", { d: boxes.join(""), style: `stroke:none;opacity:1;fill:var(--${look}` }];
    return [
      ["text", { x: this.LEFT, y: 15, "font-weight": 600 }, named],
      ["text", beside, does],
      ["path", { d: ground, style: "stroke:var(--muted);stroke-dasharray:3 3;opacity:1" }],
      path(drawn.kept, "accent);fill-opacity:.3"),
      path(drawn.old, "muted);fill-opacity:.5"),
      path(drawn.fresh, "accent)"),
    ];
  }

  /** The rows' names, and what was written below. */
  #names({ low, high, steps }, t, y, words) {
    const middle = (from, n) => y + this.HEAD + from * ROW + (n * ROW) / 2 + 4;
    const add = (x, from, n, anchor, name) => words.push([x, middle(from, n), anchor, name]),
      kept = tr`keys and values for the decoder, kept`;
    if (!this.narrow && high) add(this.LEFT - 10, 0, high, "end", tr`encoder, ${high} layers`);
    if (!this.narrow) add(this.LEFT - 10, high, low, "end", high ? tr`decoder, ${low} layers` : tr`${low} layers`);
    if (t && high && LETTER * kept.length < this.c * this.n)
      add(this.LEFT + (this.c * this.n) / 2, high, low, "middle", kept);
    const letters = Math.floor(this.out / LETTER),
      foot = y + this.HEAD + (low + high) * ROW + 16,
      shown = letters > 2 ? steps.slice(0, t) : [];
    shown.forEach(({ token }, at) => {
      const said = cut(glyphs(token.trim(), 12), letters);
      words.push([this.x(this.n + at) + 0.42 * this.out, foot, "middle", said]);
    });
  }

  /** The input's tokens, upright where there is room; those that are looked at stand out. */
  #input(y, looked) {
    let last = -Infinity;
    const shares = new Map(looked),
      some = this.run.prompt
        .map((token, i) => ({ token, i, share: shares.get(i) }))
        .filter(({ i, share }) => this.c > 13 || (share && (i - last) * this.c > 13 && (last = i) >= 0));
    render(this.input, some, ({ token, i, share }) => {
      const x = this.x(i) + this.c / 2 + 4,
        look = { transform: `translate(${x.toFixed(1)},${y}) rotate(-90)`, "font-weight": share ? 700 : 400 },
        style = `fill:var(--${share ? "accent" : "muted"})`;
      const text = cut(glyphs(this.run.piece(token).text.trim() || "␣", 12), 9);
      return ["text", { "text-anchor": "end", ...look, style }, text];
    });
  }

  #looked(t) {
    const lane = this.run.lane(t - 1, "looked at"),
      shares = lane ? [...unpack(lane.values).values] : [];
    return shares.map((share, i) => [lane.start + i, share]).filter(([, share]) => share >= LEAST);
  }

  #arcs(t, y, looked, words) {
    const from = this.x(this.n + t - 1) + 0.42 * this.out,
      shares = looked.map(([, share]) => share).sort((a, b) => b - a),
      said = [];
    render(this.arcs, looked, ([place, share]) => {
      const to = this.x(place) + this.c / 2,
        style = "fill:none;stroke:var(--accent);opacity:1;stroke-dasharray:5 3";
      if (share >= shares[2] && said.every((x) => Math.abs(x - to) > 44)) {
        said.push(to);
        words.push([to - 4, y + 22, "end", percent(share)]);
      }
      const d = `M${from},${y + 20}Q${(from + to) / 2},${y + 2 * ARC - 24} ${to},${y + 2}`;
      return ["path", { d, style: `${style};stroke-width:${0.8 + 3 * share}` }];
    });
    if (looked.length && !this.narrow) words.push([this.LEFT - 10, y + 22, "end", tr`cross-attention`]);
  }

  /** What each side took for t tokens, from y on: the first token, and the later ones. */
  #times(t, y) {
    const { narrow, LEFT } = this,
      scale = (this.width - LEFT - (narrow ? 0 : 420)) / this.whole;
    render(this.bars, this.sides, ({ name, steps }, i) => {
      const first = spent(steps, Math.min(1, t)),
        all = spent(steps, t),
        size = steps.slice(0, t).findLast((step) => step?.size)?.size ?? 0,
        took = tr`${seconds(all)}, first token ${seconds(first)}; cache ${bytes(size)}`,
        later = { x: LEFT + first * scale, width: (all - first) * scale };
      return [
        { transform: `translate(0,${y + i * this.bar})` },
        ["rect", { height: 16, x: LEFT, width: first * scale, style: "fill:var(--muted);stroke:none" }],
        ["rect", { height: 16, ...later, style: "fill:var(--accent);stroke:none" }],
        ["text", narrow ? { x: 0, y: 47 } : { x: LEFT + all * scale + 8, y: 13 }, took],
        ["text", narrow ? { x: 0, y: 31 } : { x: LEFT - 10, y: 13, "text-anchor": "end" }, translated(name)],
      ];
    });
  }

  describe(t) {
    if (!t) return tr`Before the first step.`;
    const texts = this.sides.map(({ name, steps }) => {
        const text = steps.slice(0, t).reduce((all, { token }) => all + token, "");
        return `${translated(name)}: ‘${prose(text.trim())}’`;
      }),
      most = this.#looked(t).sort((a, b) => b[1] - a[1]),
      word = (place) => glyphs(this.run.piece(this.run.prompt[place]).text.trim(), 20),
      listed = most.slice(0, 3).map(([place, share]) => `${word(place)} ${percent(share)}`);
    return texts.join(" · ") + (listed.length ? ` ${tr`Looked at: ${listed.join(", ")}.`}` : "");
  }
}
