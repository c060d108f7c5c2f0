// Rows of one pass that have nothing of the text: each has the mask token and the same learned state, where a row of
// text has its token and states of the target. Above the rows what was guessed, with its probability; on top what was
// written; below how often the guess so far out was right.

import { LETTER, render, StepPicture } from "../player/drawing.js";
import { rowsOf } from "../player/rounds.js";
import { many, tr } from "../player/words.js";
import { emitted, guesses, R, refused, rightOf, states, tally, tower, ways } from "./onepass.js";

export const view = { title: "One learned state for all masks", place: 63, needs: ["sharedstate"] };

const NARROW = 620,
  WIDEST = 170, // of a row, in CSS pixels
  ROOF = 46,
  BARS = 70, // height of a probability of 1
  TEXT = 3; // rows of text that are drawn, at most

export class SharedState extends StepPicture {
  layers = ["floors", "bars", "boxes", "ways", "beads", "states", "cells", "cuts"];
  none = tr`Nothing was drafted in this step.`;
  told = ({ sharedstate, tree }) => tree && sharedstate;

  draw(told, { tree }) {
    const { width } = this,
      roomy = width >= NARROW,
      k = told.tokens.length,
      n = Math.min(told.text.length, roomy ? TEXT : 1),
      left = roomy ? 196 : 74,
      w = Math.min(WIDEST, (width - left - 4) / (n + k)), // the last column is the bonus token's
      others = roomy || w > 56 ? told.tokens[0].length - 1 : 0,
      foot = ROOF + 20 + BARS,
      layer = foot + 52 + 18 * others,
      token = layer + 62,
      state = token + 24 + 22 + R,
      node = state + R + 40;
    const at = { roomy, k, n, left, w, others, foot, layer, token, state, node, labels: [], lines: [], boxes: [] };
    at.x = (i) => left + (i + 0.5) * w;
    const items = this.#rows(told, at);
    items.push(...guesses(this, told, tree, { ...at, tall: BARS, x: (i) => at.x(n - 1 + i) }));
    this.#tower(told, at);
    lent(at);
    checked(this.run.steps.slice(0, this.t), at);
    const begin = left + (n - 1) * w,
      end = begin - 8;
    items.push(...emitted(this, tree, (i) => at.x(n - 1 + i)));
    if (roomy) at.labels.push([end, 20, "end", tr`written`], [end, foot + 22, "end", tr`guesses`]);
    refused(this, tree, { ...at, left: begin, roof: ROOF, foot: foot + 32 });
    const moving = this.chips(this.cells, items, w - 4);
    ways(this.ways, at.lines);
    render(this.boxes, at.boxes, ([x, y, width, height, kind]) => [
      "rect",
      { rx: 6, x, y, width, height, class: kind },
    ]);
    this.frame(node + (roomy ? 78 : 96), at.labels);
    return moving;
  }

  /** What the rows read: tokens and states, in one pass of the layer. */
  #rows({ text }, { roomy, k, n, left, w, layer, token, state, x, labels, lines, boxes }) {
    const c = n + k - 1,
      last = text.slice(-n),
      inside = [left + 2, left + c * w - 2];
    boxes.push([inside[0], layer, inside[1] - inside[0], 34, "dx-box"]);
    labels.push([(inside[0] + inside[1]) / 2, layer + 15, "middle", roomy ? tr`the drafter, one pass` : tr`one pass`]);
    lines.push([`M${inside[0] + 12},${layer + 25}H${inside[1] - 12}m-6,-4l6,4l-6,4`, "dx-blank"]);
    for (let i = 0; i < c; i++) {
      lines.push([
        `M${x(i)},${state - R}V${token + 24}M${x(i)},${token}V${layer + 36}${up(x(i), layer + 36)}`,
        "dx-blank",
      ]);
      if (i >= n - 1) lines.push([`M${x(i)},${layer}V${layer - 10}${up(x(i), layer - 10)}`, "dx-blank"]);
    }
    const own = { own: true, name: "g", title: tr`fc of the target's states` },
      learned = { own: false, name: "s", title: tr`the learned state` },
      items = Array.from({ length: c }, (_, i) => (i < n ? own : learned));
    states(this.states, items, x, state);
    if (roomy) labels.push([left - 8, token + 17, "end", tr`tokens in`]);
    return Array.from({ length: c }, (_, i) => ({
      ...{ x: x(i), y: token, state: i < n ? "old" : "masked", whole: i < n ? this.word(last[i]) : tr`mask` },
      text: i >= n && w < 60 ? "?" : undefined,
    }));
  }

  /** The target's layers, a bead where its stream is read, and the way of these states through fc. */
  #tower(told, { roomy, n, left, state, w, x, labels, lines, boxes }) {
    const fc = left - (roomy ? 62 : 34),
      streams = tower(this, told, { roomy, roof: ROOF, state, fc, labels, inset: 1 });
    if (roomy) labels.push([0, ROOF - 8, "start", tr`the target`]);
    lines.push(...streams.map((d) => [d, "dx-exit"]));
    lines.push([`M${fc + 30},${state}H${x(n - 1)}`, "dx-exit"]);
    boxes.push([fc, state - 15, 30, 30, "dx-box"]);
    labels.push([fc + 15, state + 5, "middle", "fc"]);
    const earlier = told.text.length - n;
    if (earlier && roomy) labels.push([left - 8, state + R + 20, "end", tr`${many(earlier, "row")} before`]);
    if (w > 90) labels.push([x(n - 1), state + R + 20, "middle", tr`states of the text`]);
  }

  sentence(told, step) {
    const { accepted } = rowsOf(step.tree),
      k = told.tokens.length;
    return tr`One pass reads ${many(told.text.length, "row")} of text with the target's states and \
${many(k - 1, "row")} of masks, all with the same learned state: ${many(k, "drafted")}. One call of the target checks \
them: ${accepted} accepted, ${many(step.tree.emitted.length, "token")} written.`;
  }
}

/** The tip of an arrow that ends at (x, y). */
export const up = (x, y) => `M${x - 4},${y + 6}L${x},${y}L${x + 4},${y + 6}`;

/** Of the guesses of these steps that were checked, how many were the target's token: by place [right, checked]. */
export const rightSoFar = (steps) =>
  rightOf(steps, ({ sharedstate: told, tree }) =>
    told && tree ? tree.emitted.slice(0, told.tokens.length).map((token, i) => [told.tokens[i][0], token]) : [],
  );

/** The one state, and its ways to every mask. */
export function lent({ k, n, w, state, node, x, labels, lines, boxes }) {
  if (k < 2) return;
  const [first, last] = [x(n), x(n + k - 2)],
    middle = (first + last) / 2,
    name = w * (k - 1) > 150 ? tr`one learned state` : "s",
    half = (LETTER * name.length) / 2 + 10;
  for (let i = n; i < n + k - 1; i++) {
    const end = state + R + 3;
    lines.push([
      `M${middle},${node}C${middle},${node - 22} ${x(i)},${node - 12} ${x(i)},${end}${up(x(i), end)}`,
      "dx-exit",
    ]);
  }
  boxes.push([middle - half, node, 2 * half, 24, "dx-box"]);
  labels.push([middle, node + 16.5, "middle", name]);
}

/** How often the guess of each place was right so far. */
export function checked(steps, { roomy, k, n, left, node, x, labels }) {
  const y = node + 48,
    at = { roomy, left, labels, x: (i) => x(n - 1 + i) };
  tally(rightSoFar(steps).slice(0, k), tr`right, of those checked`, y, at);
  labels.push([roomy ? left : 0, y + (roomy ? 22 : 40), "start", tr`drafting token by token: ${k} passes (derived)`]);
}
