// A ghost: beside what a run has come to, on the same axis, what its baseline has by then. Here tokens by model calls,
// where the baseline writes one token with each call; that is known without running it, and said so.

import { set, svg } from "../player/dom.js";
import { MIDDLE, render, write } from "../player/drawing.js";
import { ticks } from "../player/layout.js";
import { many, number, tr } from "../player/words.js";

const LINE = 22; // a row
const H = 16; // a bar
const LEFT = 104; // names
const RIGHT = 130; // numbers behind the bars
const OWN = { accepted: "accepted", bonus: "bonus", correction: "correction" }; // what tokens are drawn as; else new

/** Tokens after each step, in all, as pieces {state, from, to}; end marks and what a person wrote do not count. */
function gains(run) {
  const pieces = [],
    tokens = [0];
  for (const { commits } of run.steps) {
    let n = tokens.at(-1);
    commits?.tokens.forEach((token, i) => {
      if (token < 0 || run.eos.has(token) || commits.causes[i] === "forced") return;
      const state = OWN[commits.causes[i]] ?? "new";
      pieces.push({ state, from: n, to: ++n });
    });
    tokens.push(n);
  }
  return { pieces, tokens };
}

export class Ghost {
  constructor(run, { id }) {
    Object.assign(this, { run, width: 900 });
    const shutter = (name) => svg("clipPath", { id: `dx-${name}-${id}` }, svg("rect", { x: LEFT, height: 99 }));
    const part = (name) => svg("g", { "clip-path": `url(#dx-${name}-${id})` });
    this.shutters = [shutter("run"), shutter("ghost")];
    this.bars = part("run");
    this.ghost = part("ghost");
    this.ghost.append(svg("path", "dx-ghost"));
    [this.axis, this.numbers, this.says] = [svg("g", "dx-axis"), svg("g", "dx-axis"), svg("g")];
    const how = tr`Plain decoding writes one token with each model call: computed from the calls of this run.`,
      parts = [this.axis, this.numbers, this.bars, this.ghost, this.says],
      defs = svg("defs", {}, ...this.shutters);
    this.root = svg("svg", { class: "dx-ghosts", role: "img" }, svg("title", {}, how), defs, ...parts);
  }

  /** Whether a run has this baseline: a board that grows, and model calls that were counted. */
  static fits(run) {
    return run.canvas === null && !run.missing.has("forwards");
  }

  #draw() {
    const { run, width } = this,
      { pieces, tokens } = gains(run),
      end = Math.max(1, tokens.at(-1), run.sums.at(-1).forwards),
      unit = Math.max(width - LEFT - RIGHT, 120) / end,
      x = (n) => (LEFT + n * unit).toFixed(1),
      gap = unit > 5 ? 1 : 0,
      boxes = (all, y) =>
        all
          .map(({ from, to }) => `M${x(from)},${y}h${((to - from) * unit - gap).toFixed(1)}v${H}H${x(from)}Z`)
          .join("");
    Object.assign(this, { tokens, unit, known: `${run.length} ${width}` });
    const high = 2 * LINE + 16;
    set(this.root, { viewBox: `0 0 ${width} ${high}`, width, height: high });
    const states = [...new Set(pieces.map(({ state }) => state))];
    render(this.bars, states, (state) => {
      const own = pieces.filter((piece) => piece.state === state);
      return ["path", { "data-s": state, d: boxes(own, 1) }];
    });
    const ones = Array.from({ length: run.sums.at(-1).forwards }, (_, from) => ({ from, to: from + 1 }));
    set(this.ghost.firstChild, { d: boxes(ones, LINE + 1) });
    const places = ticks(end, Math.max(2, Math.min(6, Math.floor((end * unit) / 70))), 1);
    render(this.axis, places, (n) => ["path", { d: `M${x(n)},0V${2 * LINE + 2}` }]);
    render(this.numbers, places, (n, i) => {
      const words = i === places.length - 1 ? many(n, "token") : number(n);
      return ["text", { ...MIDDLE, y: high - 3, x: x(n) }, words];
    });
  }

  resize(width) {
    this.width = Math.max(width, 340);
  }

  show(t) {
    const { run, width } = this;
    if (this.known !== `${run.length} ${width}`) this.#draw();
    const calls = run.sums[t].forwards,
      wrote = this.tokens[t],
      says = [
        [tr`this run`, wrote, tr`${number(wrote)}, ${Number((wrote / calls).toPrecision(2))} per call`],
        [tr`○ one by one`, calls, tr`${number(calls)}, derived`],
      ].flatMap(([name, n, said], i) => {
        set(this.shutters[i].firstChild, { width: Math.max(0, n * this.unit).toFixed(1) });
        return [
          [0, i * LINE + 13, "start", name],
          [(LEFT + n * this.unit + 6).toFixed(1), i * LINE + 13, "start", calls ? said : ""],
        ];
      });
    write(this.says, says);
    set(this.root, {
      "aria-label": tr`After ${calls} model calls this run has ${wrote} tokens; one by one there would be ${calls}.`,
    });
  }
}
