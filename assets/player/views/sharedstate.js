// Rows of one pass that have nothing of the text: each has the mask token and the same learned state, where a row of
// text has its token and states of the target. Above the rows what was guessed, with its probability; on top what was
// written; below how often the guess so far out was right.

import { chips } from "../chips.js";
import { cut } from "../codec.js";
import { many } from "../counted.js";
import { pool, set, setText, svg } from "../dom.js";
import { comeIn } from "../motion.js";
import { rowsOf } from "../rounds.js";
import { percent } from "../shares.js";
import { StepPicture } from "../steppicture.js";
import { tr } from "../words.js";
import { below, lent, R, up } from "./lentstate.js";

export const view = {
  name: "SharedState",
  title: "One learned state for all masks",
  place: 63,
  needs: ["sharedstate"],
};

const NARROW = 620,
  WIDEST = 170, // of a row, in CSS pixels
  ROOF = 46,
  BARS = 70, // height of a probability of 1
  TEXT = 3, // rows of text that are drawn, at most
  FLOORS = 9, // of the tower that have names, at most
  LETTER = 7.4;

export class SharedState extends StepPicture {
  load(run, dom, context) {
    this.begin(run, dom, context, ["floors", "bars", "boxes", "ways", "beads", "states", "cells", "cuts"]);
  }

  told({ sharedstate, tree }) {
    return sharedstate && tree ? sharedstate : null;
  }

  draw(told, { tree }, next) {
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
    this.frame(node + (roomy ? 78 : 96));
    const items = this.#rows(told, tree, at);
    items.push(...this.#guesses(told, tree, at));
    this.#tower(told, at);
    lent(at);
    below(this.run.steps.slice(0, this.t), at);
    this.#ends(tree, at, items);
    const moving = chips(this.cells, items, this.context.theme, w - 4);
    pool(this.ways, at.lines.length, () => svg("path", { fill: "none" })).forEach((way, i) => {
      set(way, { d: at.lines[i][0], class: at.lines[i][1] });
    });
    pool(this.boxes, at.boxes.length, () => svg("rect", { rx: 6 })).forEach((box, i) => {
      const [x, y, wide, high, kind] = at.boxes[i];
      set(box, { x, y, width: wide, height: high, class: kind });
    });
    this.label(at.labels);
    if (next) comeIn(moving, { opacity: 0 });
  }

  /** What the rows read: tokens and states, in one pass of the layer. */
  #rows({ text }, _tree, { roomy, k, n, left, w, layer, token, state, x, labels, lines, boxes }) {
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
    pool(this.states, c, () =>
      svg("g", {}, svg("title"), svg("circle", { r: R }), svg("text", { "text-anchor": "middle", y: 5 })),
    ).forEach((group, i) => {
      const [title, circle, name] = group.childNodes,
        own = i < n;
      set(group, { transform: `translate(${x(i).toFixed(1)},${state})`, "data-s": own ? "accepted" : "drafted" });
      circle.style.cssText = `fill:var(--fill);stroke:var(--edge);stroke-width:2;${own ? "" : "stroke-dasharray:4 3"}`;
      setText(name, own ? "g" : "s");
      name.style.fill = "var(--ink)";
      setText(title, own ? tr`fc of the target's states` : tr`the learned state`);
    });
    if (roomy) labels.push([left - 8, token + 17, "end", tr`tokens in`]);
    return Array.from({ length: c }, (_, i) => ({
      ...{ x: x(i), y: token, state: i < n ? "old" : "masked", whole: i < n ? this.word(last[i]) : tr`mask` },
      text: i >= n && w < 60 ? "?" : undefined,
    }));
  }

  /** A bar, the drafted token, and those that were next. */
  #guesses({ tokens, chances }, tree, { n, w, others, foot, x, labels }) {
    const { rows } = rowsOf(tree);
    const states = tokens.map((_, i) => rows[i + 1]?.state ?? "unreached");
    pool(this.bars, tokens.length, () => svg("g", {}, svg("rect", { rx: 3 }))).forEach((group, i) => {
      const high = Math.max(2, BARS * chances[i][0]),
        at = x(n - 1 + i);
      set(group, { "data-s": states[i] });
      set(group.firstChild, { x: at - w * 0.27, y: foot - high, width: w * 0.54, height: high });
      const share = percent(chances[i][0]);
      labels.push([at, foot - high - 6, "middle", w < 48 ? share.replace(" %", "") : share]);
    });
    for (let r = 1; r <= others; r++)
      tokens.forEach((row, i) => {
        const share = w > 84 ? ` ${percent(chances[i][r])}` : "",
          most = Math.max(1, Math.floor((w - 10) / LETTER) - share.length);
        labels.push([x(n - 1 + i), foot + 30 + 18 * r, "middle", cut(this.word(row[r]), most) + share]);
      });
    return tokens.map(([token], i) => {
      const [y, state, whole] = [foot + 6, states[i], this.word(token)];
      return { x: x(n - 1 + i), y, state, whole, sign: true };
    });
  }

  /** The target's layers, a bead where its stream is read, and the way of these states through fc. */
  #tower({ layers, reads, text }, { roomy, n, left, state, w, x, labels, lines, boxes }) {
    const foot = state + R,
      high = (foot - ROOF) / layers,
      to = roomy ? 96 : 30,
      fc = left - (roomy ? 62 : 34),
      y = (i) => foot - i * high;
    pool(this.floors, layers, () => svg("rect", { class: "dx-lift", rx: 4 })).forEach((floor, i) =>
      set(floor, { x: 0, y: y(i + 1) + 1, width: to, height: Math.max(1, high - (layers > FLOORS ? 1 : 3)) }),
    );
    if (layers <= FLOORS && roomy)
      for (let i = 0; i < layers; i++) labels.push([8, y(i + 0.5) + 4, "start", tr`layer ${i + 1}`]);
    else labels.push([4, foot - 6, "start", 1], [4, ROOF + 14, "start", layers]);
    if (roomy) labels.push([0, ROOF - 8, "start", tr`the target`]);
    pool(this.beads, reads.length, () => svg("circle", { r: 6 })).forEach((bead, i) =>
      set(bead, { cx: to - 2, cy: y(reads[i]), "data-s": "accepted" }),
    );
    const bend = 0.7 * (fc - to);
    for (const i of reads)
      lines.push([`M${to},${y(i)}C${to + bend},${y(i)} ${fc - bend},${state} ${fc - 2},${state}`, "dx-exit"]);
    lines.push([`M${fc + 30},${state}H${x(n - 1)}`, "dx-exit"]);
    boxes.push([fc, state - 15, 30, 30, "dx-box"]);
    labels.push([fc + 15, state + 5, "middle", "fc"]);
    const earlier = text.length - n;
    if (earlier && roomy) labels.push([left - 8, state + R + 20, "end", tr`${many(earlier, "row")} before`]);
    if (w > 90) labels.push([x(n - 1), state + R + 20, "middle", tr`states of the text`]);
  }

  /** What was written, over the guesses for its places, and where the chain broke. */
  #ends(tree, { roomy, n, left, w, foot, x, labels }, items) {
    const { rows, accepted } = rowsOf(tree),
      own = rows.slice(tree.tokens.length);
    tree.emitted.forEach((token, i) =>
      items.push({
        ...{ x: x(n - 1 + i), y: 4, whole: this.word(token), sign: true },
        state: i < accepted ? "accepted" : (own[i - accepted]?.state ?? "old"),
      }),
    );
    if (roomy) {
      const end = left + (n - 1) * w - 8;
      for (const [y, name] of [
        [20, tr`written`],
        [foot + 22, tr`guesses`],
      ])
        labels.push([end, y, "end", name]);
    }
    this.refused(tree, left + (n + accepted) * w, ROOF, foot + 32, roomy && labels);
  }

  describe(t) {
    const step = this.run.steps[t - 1],
      told = step && this.told(step);
    if (!told) return t ? tr`Nothing was drafted in this step.` : tr`Before the first step.`;
    const { accepted } = rowsOf(step.tree),
      k = told.tokens.length;
    return tr`One pass reads ${many(told.text.length, "row")} of text with the target's states and \
${many(k - 1, "row")} of masks, all with the same learned state: ${many(k, "drafted")}. One call of the target checks \
them: ${accepted} accepted, ${many(step.tree.emitted.length, "token")} written.`;
  }
}
