// An MTP layer as a loop that is unrolled: the model's stack says the newest token; beside it one layer, drawn once for
// each run. State and token go in, a state and a draft come out, and both go into the next run.

import { CHIP, LETTER, MIDDLE, render, StepPicture } from "../player/drawing.js";
import { rowsOf } from "../player/rounds.js";
import { cut, many, percent, tr } from "../player/words.js";
import { emitted, oneByOne } from "./onepass.js";

export const view = { title: "One layer, run k times", place: 60, needs: ["unrolled"] };

const SAYS = 46, // heights of the parts from top to bottom, in CSS pixels
  HEAD = 102,
  STATE = 142,
  BOX = 160,
  TALL = 58,
  EMBED = 236,
  READ = 274,
  HIGH = 334,
  PART = 20, // of a head or an embedding
  LEFT = 84,
  WIDEST = 150,
  NARROW = 560;

/** Of k drafts, how many were accepted, and which run's draft was refused: 0 for none. */
export function broke({ tokens, accepted }) {
  const kept = accepted.filter(Boolean).length - 1;
  return { kept, at: kept < tokens.length - 1 ? kept + 1 : 0 };
}

/** Who is at work in a column: the model in the first, then the layer. */
const who = (i) => (i ? "layer" : "model");

/** Of the column where the chain broke and those before it all is drawn in full, of those behind it faintly. */
const faint = ({ at }, i) => (at && i > at ? 0.4 : 1);

export class Unrolled extends StepPicture {
  layers = ["plain", "paths", "parts", "beads", "cells", "crack"];
  none = tr`The model read; the layer drafted nothing.`;
  told = ({ unrolled, tree }) => tree && unrolled?.drafts.length && unrolled;

  draw(told, { tree }) {
    const { width } = this,
      k = told.drafts.length,
      wide = width >= NARROW,
      left = wide ? LEFT : 0,
      columns = k + 2, // the model, the runs, and a place for the bonus token
      w = Math.min(WIDEST, (width - left) / columns),
      half = w / 2 - (w > 100 ? 22 : w > 60 ? 12 : 7),
      at = { k, wide, w, left, x: (i) => left + (i + 0.5) * w, half, labels: [], ...broke(tree) };
    const moving = [...this.#paths(at), ...this.#parts(told, at), ...this.#beads(at)];
    const cells = this.#cells(told, tree, at);
    this.#names(told, at);
    oneByOne(this, tree, left + columns * w + 16, BOX, READ + CHIP, at.labels);
    this.frame(HIGH, at.labels);
    return [...moving, ...cells];
  }

  /** Ways of states and tokens: up to the head, and over into the next run. */
  #paths({ k, w, x, half, ...at }) {
    const ways = [];
    for (let i = 0; i <= k; i++) {
      const middle = x(i),
        gap = middle + w / 2,
        to = x(i + 1),
        by = who(i);
      ways.push([i, by, `M${middle},${BOX}V${HEAD + PART}M${middle},${HEAD}V${SAYS + CHIP + 24}`]);
      if (i) ways.push([i, "model", `M${middle},${READ}V${EMBED + PART}M${middle},${EMBED}V${BOX + TALL}`]);
      if (i === k) continue;
      ways.push([i + 1, by, `M${middle},${STATE}H${gap - 4}V${BOX + TALL / 2}H${to - half - 2}`, true]);
      ways.push([i + 1, "", `M${middle},${SAYS + CHIP / 2}H${gap}q5,0 5,6V${READ + CHIP / 2 - 6}q0,6 5,6H${to}`]);
    }
    return render(this.paths, ways, ([i, by, d, state]) => {
      const look = { class: by ? "dx-source dx-exit" : "dx-eta", "data-source": by || null },
        opacity = faint(at, i),
        stroke = `stroke:var(--${by ? "edge" : "muted"});stroke-width:${state ? 3.5 : 1.8}`;
      return ["path", { d, ...look, opacity, style: `fill:none;${stroke};opacity:${opacity}` }];
    });
  }

  /** The stack and the layer's runs; the model's head above each and its embeddings below each run. */
  #parts({ layers }, { k, w, x, half, wide, ...at }) {
    const boxes = [[0, "model", BOX, READ + CHIP - BOX, ""]],
      roomy = w > 60;
    for (let i = 0; i <= k; i++) {
      boxes.push([i, "model", HEAD, PART, roomy ? tr`head` : ""]);
      if (i) boxes.push([i, "layer", BOX, TALL, ""], [i, "model", EMBED, PART, roomy ? tr`embed` : ""]);
    }
    boxes.push([0, "model", BOX, PART, w > 100 ? tr`final norm` : roomy ? tr`norm` : ""]);
    for (let line = 0; line < Math.min(layers, 6); line++) boxes.push([0, "line", BOX + PART + 12 + line * 17, 1, ""]);
    return render(this.parts, boxes, ([i, by, y, height, text]) => {
      const inset = by === "line" ? Math.min(12, half / 2) : 0,
        box = { class: "dx-source", rx: 6, x: x(i) - half + inset, y, width: 2 * (half - inset), height };
      return [
        { "data-source": by === "line" ? "model" : by, style: `opacity:${faint(at, i)}` },
        ["rect", box],
        ["text", { ...MIDDLE, x: x(i), y: y + 14.5 }, text],
      ];
    });
  }

  #beads({ k, x, ...at }) {
    const places = Array.from({ length: k + 1 }, (_, i) => i);
    return render(this.beads, places, (i) => [
      { class: "dx-source", "data-source": who(i), style: `opacity:${faint(at, i)}` },
      ["circle", { r: 6, cx: x(i), cy: STATE }],
    ]);
  }

  /** Tokens: what each column says, what went into it, and what was written. */
  #cells({ read, drafts, chances }, tree, { k, w, x, wide, labels }) {
    const { rows } = rowsOf(tree),
      items = [{ x: x(0), y: SAYS, state: "old", whole: this.word(read[0]) }];
    for (let i = 1; i <= k; i++) {
      const share = w > 48 ? percent(chances[i - 1]) : Math.round(100 * chances[i - 1]);
      items.push({ x: x(i), y: SAYS, state: rows[i].state, whole: this.word(drafts[i - 1]), sign: true });
      items.push({ x: x(i), y: READ, state: i > 1 ? rows[i - 1].state : "old", whole: this.word(read[i - 1]) });
      labels.push([x(i), SAYS + CHIP + 18, "middle", share]);
    }
    const ends = emitted(this, tree, (i) => x(i + 1)).map((item) => ({ ...item, sign: wide }));
    return this.chips(this.cells, [...items, ...ends], w - 4);
  }

  /** Where the chain broke, and the names of the parts. */
  #names({ layers, rows }, { k, w, x, half, wide, left, at, labels }) {
    const most = Math.floor((2 * half) / LETTER),
      middle = Math.max(72, Math.min(x(at), this.width - 72));
    render(this.crack, at ? [["path", { class: "dx-cut", d: `M${left + at * w},0V${SAYS + 5}` }]] : []);
    if (at) labels.push([middle, HIGH - 4, "middle", tr`✕ chain broke here`]);
    for (let i = 1; i <= k; i++) {
      const run = w > 60 ? tr`run ${i}` : String(i);
      labels.push([x(i), BOX + (w > 100 ? 26 : 34), "middle", w > 100 ? cut(tr`draft layer`, most) : run]);
      if (w > 100) labels.push([x(i), BOX + 44, "middle", run]);
      labels.push([x(i) - 10, STATE + 4, "end", w > 60 ? "h′" : ""]);
      labels.push([x(i), READ + CHIP + 14, "middle", w > 60 ? many(i > 1 ? 1 : rows, "row") : ""]);
    }
    labels.push([x(0) - 10, STATE + 4, "end", w > 60 ? "h" : ""]);
    labels.push([x(0), READ + CHIP - 8, "middle", w > 100 ? tr`${layers} layers` : String(layers)]);
    labels.push([x(0), READ + CHIP + 14, "middle", w > 60 ? tr`model` : ""]);
    const name = (y, words) => wide && labels.push([left - 10, y, "end", words]);
    name(20, tr`written`);
    name(SAYS + 17, tr`says`);
    name(READ + 17, tr`reads`);
    name(READ + CHIP + 14, tr`rows read`);
  }

  sentence(told, step) {
    const k = told.drafts.length,
      { kept, at } = broke(step.tree),
      ran = tr`One layer, run ${k} times: first on the model's state h, then on its own h′.`,
      all = many(k, "drafted"),
      end = at ? tr`${kept} of ${all} accepted; run ${at} was wrong.` : tr`${k} of ${all} accepted.`;
    return `${ran} ${tr`One call of the model checks them all:`} ${end}`;
  }
}
