// Where a row's state comes from: for the first guess layers of the target, drawn together by fc; for each further one
// the drafter's own output. Above each row its guesses; below how often the first was right, and how much of the
// target's vocabulary can be guessed.

import { CHIP, LETTER, render, StepPicture, widthOf } from "../player/drawing.js";
import { below, depthsOf, pathOf, rowsOf } from "../player/rounds.js";
import { cut, many, number, percent, tr } from "../player/words.js";
import { R, rightOf, states, tally, tower } from "./onepass.js";

export const view = { title: "Three layers of the target, then its own outputs", place: 61, needs: ["fused"] };

const LISTS = 44, // from the top
  LINE = 27,
  SHOWN = 5, // guesses of a row
  NARROW = 620;

/** Of the places of these steps that were checked, how many first guesses were the target's token: by place
 * [right, checked]. */
export const firstGuesses = (steps) =>
  rightOf(steps, ({ fused, tree }) => {
    if (!fused) return [];
    const path = tree.accepted.flatMap((kept, row) => (kept || !row ? [row] : []));
    return path.slice(0, tree.emitted.length).map((row, i) => [tree.tokens[below(tree, row)[0]], tree.emitted[i]]);
  });

export class Fused extends StepPicture {
  layers = ["floors", "ways", "bars", "boxes", "states", "beads", "cells", "shares"];
  none = tr`Nothing was drafted in this step.`;

  told({ fused, tree }) {
    return fused && tree ? fused : null;
  }

  draw(told, { tree }) {
    const { width } = this,
      roomy = width >= NARROW,
      path = pathOf(tree, [...tree.tokens.keys()]).filter((row) => below(tree, row).length),
      levels = this.most((step) => this.told(step) && Math.max(...depthsOf(step.tree.parents))),
      most = Math.min(SHOWN, this.run.header.params?.top_k ?? SHOWN),
      left = roomy ? 204 : 74,
      w = Math.min(270, (width - left - (roomy ? 84 : 34)) / levels),
      layer = LISTS + LINE * (most + 1) + 18,
      at = {
        ...{ roomy, path, levels, left, w, layer, token: layer + 48, state: layer + 106, labels: [] },
        x: (i) => left + (i + 0.5) * w,
      };
    const foot = at.state + R + 26 + (roomy ? 30 : 48);
    this.#tower(told, at);
    this.#rows(told, tree, at);
    const items = this.#guesses(told, tree, at);
    tally(firstGuesses(this.run.steps.slice(0, this.t)), tr`first guess right so far`, at.state + R + 42, at);
    this.#vocabulary(told, foot, at.labels);
    this.frame(foot + 34, at.labels);
    return items;
  }

  /** The target's layers, a bead where its stream is read, and the way of these states through fc. */
  #tower(told, { roomy, left, state, labels, x }) {
    const fc = left - (roomy ? 66 : 30);
    this.lines = tower(this, told, { roomy, roof: LISTS, state, fc, labels });
    labels.push([0, LISTS - 24, "start", roomy ? tr`the target` : ""]);
    this.lines.push(`M${fc + 30},${state}H${x(0) - R - 3}`);
    Object.assign(this, { fc, left });
  }

  /** The rows: a token and a state each, through the drafter's layer; its output is the next row's state. */
  #rows({ state: last, reads }, tree, { roomy, path, w, layer, token, state, x, labels }) {
    const { rows } = rowsOf(tree),
      half = Math.min(w / 2 - 6, 62),
      [out, under] = [layer + 14, state + R + 16],
      rise = (at) => `M${at},${state - R}V${layer + 31}m-4,6l4,-6l4,6M${at},${layer - 2}v-10m-4,5l4,-5l4,5`,
      up = path.map((_, i) => rise(x(i))),
      back = path.slice(1).map((_, i) => {
        const [from, to] = [x(i) + half, x(i + 1) - R - 3];
        return `M${from},${out}C${x(i + 1) - half - 4},${out} ${from + 4},${state} ${to},${state}m-7,-5l7,5l-7,5`;
      }),
      ways = [...this.lines.map((d) => [d, "accepted"]), ...up.map((d) => [d, ""]), ...back.map((d) => [d, "drafted"])];
    render(this.ways, ways, ([d, kind]) => [
      "path",
      { d, class: kind ? "dx-arc" : "dx-blank", "data-s": kind, style: kind && "stroke:var(--edge)" },
    ]);
    const box = { class: "dx-box", rx: 6 },
      layers = path.map((_, i) => ["rect", { ...box, x: x(i) - half, y: layer, width: 2 * half, height: 28 }]);
    render(this.boxes, [["rect", { ...box, x: this.fc, y: state - 15, width: 30, height: 30 }], ...layers]);
    labels.push([this.fc + 15, state + 5, "middle", "fc"]);
    const name = half > 50 ? tr`draft layer` : half > 20 ? tr`layer` : "";
    path.forEach((_, i) => labels.push([x(i), layer + 19, "middle", name]));
    const target = { own: true, name: "g", title: tr`fc of the target's states after ${reads.join(", ")} layers` },
      output = { own: false, name: "a", title: tr`the drafter's own output` };
    const items = path.map((_, i) => (i ? output : target));
    states(this.states, items, x, state);
    labels.push([x(0), under, "middle", cut(tr`at ‘${this.word(last)}’`, Math.floor(w / LETTER))]);
    path.slice(1).forEach((_, i) => labels.push([x(i + 1), under, "middle", w > 90 ? tr`own output` : tr`own`]));
    this.tokens = path.map((row, i) => ({
      ...{ x: x(i), y: token, state: rows[row].state, whole: this.word(tree.tokens[row]) },
      text: this.word(tree.tokens[row], Math.max(1, Math.floor((w - 16) / LETTER))),
    }));
    if (roomy) labels.push([this.left - 6, token + 17, "end", tr`tokens in`]);
  }

  /** What each row guesses, best first, with its chance; the target's own token where it is another; what was
   * written. */
  #guesses({ outside = [] }, tree, { roomy, path, levels, left, w, layer, x, labels }) {
    const { rows } = rowsOf(tree),
      own = rows.slice(tree.tokens.length),
      kept = tree.emitted.length - own.length,
      items = [...this.tokens],
      bars = [];
    path.forEach((row, i) => {
      const children = below(tree, row),
        begin = left + i * w + 4,
        room = w - 8,
        shown = children.slice(0, SHOWN),
        wrong = i === kept && own.length,
        place = (line) => layer - 18 - LINE * (shown.length + (wrong ? 1 : 0) - line);
      const add = (whole, state, line, says) => {
        const sign = state === "unreached" ? "" : `${this.context.theme.states[state].glyph} `,
          text = sign + cut(whole, Math.max(1, Math.floor((room - 12 - (room > 96 ? 46 : 0)) / LETTER) - sign.length));
        items.push({ x: begin + widthOf(text) / 2, y: place(line), state, whole, text });
        if (room > 96) labels.push([begin + widthOf(text) + 6, place(line) + 16.5, "start", says]);
      };
      shown.forEach((child, line) => {
        const chance = tree.values[child] / (tree.values[row] || 1);
        bars.push([begin, place(line), Math.max(2, room * chance)]);
        add(this.word(tree.tokens[child]), rows[child].state, line, percent(chance));
      });
      if (wrong) {
        const says = outside.includes(own[0].token) ? tr`cannot be guessed` : tr`not guessed`;
        add(this.word(own[0].token), own[0].state, shown.length, room > 150 ? says : "");
      }
    });
    render(this.bars, bars, ([left, y, width]) => [
      "rect",
      { class: "dx-lift", rx: 4, height: CHIP, x: left, y, width },
    ]);
    tree.emitted.forEach((token, i) => {
      const end = i < levels ? x(i) : left + levels * w + (roomy ? 42 : 17),
        most = Math.max(1, Math.floor(((i < levels ? w : roomy ? 80 : 32) - 14) / LETTER)),
        state = i < kept ? "accepted" : own[i - kept].state;
      items.push({ x: end, y: 4, state, whole: this.word(token), text: this.word(token, most) });
    });
    if (roomy) labels.push([left - 8, 20, "end", tr`written`]);
    return this.chips(this.cells, items, 999);
  }

  /** The share of the target's tokens that can be guessed, as a bar at height y; outside: those that cannot be and were
   * written. */
  #vocabulary({ can_say: v, of: V, outside }, y, labels) {
    const { width } = this,
      named = tr`draft vocabulary: ${number(v)} of ${number(V)} tokens`,
      long = Math.max(24, Math.min(240, width / 5, width - 12 - 7.6 * named.length));
    const bars = [
      { width: long, class: "dx-gone" },
      { width: (long * v) / V, class: "dx-warm" },
    ];
    render(this.shares, bars, (bar) => ["rect", { x: 0, rx: 3, height: 10, y: y + 4, ...bar }]);
    const lacks = outside?.length && width > 620 ? `; ${tr`‘${this.word(outside[0], 24)}’ is not one of them`}` : "";
    labels.push([long + 10, y + 14, "start", named + lacks]);
  }

  sentence({ reads, fused, fed_back, outside = [] }, step) {
    const { accepted } = rowsOf(step.tree),
      all = many(step.tree.tokens.length - 1, "drafted"),
      says = tr`${many(fused, "row")} read with g, the target's states after ${reads.join(", ")} layers, ${fed_back} \
with a, the drafter's own outputs. One call of the target checks ${all}: ${accepted} accepted. Drawn: \
the guesses on that way.`;
    return outside.length ? `${says} ${tr`‘${this.word(outside[0])}’ cannot be guessed.`}` : says;
  }
}
