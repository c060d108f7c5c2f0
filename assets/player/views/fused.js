// Where a row's state comes from: for the first guess layers of the target, drawn together by fc; for each further one
// the drafter's own output. Above each row its guesses; below how often the first was right, and how much of the
// target's vocabulary can be guessed.

import { CHIP, chips } from "../chips.js";
import { cut } from "../codec.js";
import { many } from "../counted.js";
import { pool, set, setText, svg } from "../dom.js";
import { comeIn } from "../motion.js";
import { pathOf, rowsOf } from "../rounds.js";
import { percent } from "../shares.js";
import { StepPicture } from "../steppicture.js";
import { tr } from "../words.js";
import { below, deepest, firstGuesses, tally, vocabulary } from "./guessable.js";

export const view = {
  name: "Fused",
  title: "Three layers of the target, then its own outputs",
  place: 61,
  needs: ["fused"],
};

const LISTS = 44, // from the top
  LINE = 27,
  SHOWN = 5, // guesses of a row
  FLOORS = 9, // of the tower, at most
  R = 14,
  NARROW = 620,
  LETTER = 7.4;

const wide = (text) => LETTER * [...text].length + 12; // of a chip

export class Fused extends StepPicture {
  load(run, dom, context) {
    this.begin(run, dom, context, ["floors", "ways", "bars", "boxes", "states", "beads", "cells", "shares"]);
  }

  told({ fused, tree }) {
    return fused && tree ? fused : null;
  }

  draw(told, { tree }, next) {
    const { width } = this,
      roomy = width >= NARROW,
      path = pathOf(
        tree,
        tree.tokens.map((_, row) => row),
      ).filter((row) => below(tree, row).length),
      levels = this.most((step) => this.told(step) && deepest(step.tree)),
      most = Math.min(SHOWN, this.run.header.params?.top_k ?? SHOWN),
      left = roomy ? 204 : 74,
      w = Math.min(270, (width - left - (roomy ? 84 : 34)) / levels),
      layer = LISTS + LINE * (most + 1) + 18,
      at = {
        ...{ roomy, path, levels, left, w, layer, token: layer + 48, state: layer + 106, labels: [] },
        x: (i) => left + (i + 0.5) * w,
      };
    const foot = at.state + R + 26 + (roomy ? 30 : 48);
    this.frame(foot + 34);
    this.#tower(told, at);
    this.#rows(told, tree, at);
    const items = this.#guesses(told, tree, at);
    const guesses = firstGuesses(this.run.steps.slice(0, this.t));
    tally(guesses, tr`first guess right so far`, at.state + R + 42, at);
    vocabulary(this.shares, told, foot, width, at.labels, told.outside?.map((token) => this.word(token))?.[0]);
    this.label(at.labels);
    if (next) comeIn(items, { opacity: 0 });
  }

  /** The target's layers, a bead where its stream is read, and the way of these states through fc. */
  #tower({ layers, reads }, { roomy, left, state, labels, x }) {
    const foot = state + R,
      high = (foot - LISTS) / layers,
      [from, to] = roomy ? [0, 96] : [0, 30],
      gap = layers > FLOORS ? 1 : 3,
      fc = left - (roomy ? 66 : 30),
      boundary = (i) => foot - i * high;
    pool(this.floors, layers, () => svg("rect", { class: "dx-lift", rx: 4 })).forEach((floor, i) =>
      set(floor, { x: from, y: boundary(i + 1) + gap / 2, width: to - from, height: high - gap }),
    );
    if (layers <= FLOORS && roomy)
      for (let i = 0; i < layers; i++) labels.push([from + 8, boundary(i + 0.5) + 4, "start", tr`layer ${i + 1}`]);
    else labels.push([from + 4, foot - 6, "start", 1], [from + 4, LISTS + 14, "start", layers]);
    labels.push([from, LISTS - 24, "start", roomy ? tr`the target` : ""]);
    pool(this.beads, reads.length, () => svg("circle", { r: 6 })).forEach((bead, i) =>
      set(bead, { cx: to - 2, cy: boundary(reads[i]), "data-s": "accepted" }),
    );
    const bend = 0.7 * (fc - to);
    this.lines = reads.map((i) => {
      const y = boundary(i);
      return `M${to},${y}C${to + bend},${y} ${fc - bend},${state} ${fc - 2},${state}`;
    });
    this.lines.push(`M${fc + 30},${state}H${x(0) - R - 3}`);
    Object.assign(this, { fc, left });
  }

  /** The rows: a token and a state each, through the drafter's layer; its output is the next row's state. */
  #rows({ state: last, reads }, tree, { roomy, path, w, layer, token, state, x, labels }) {
    const { rows } = rowsOf(tree),
      half = Math.min(w / 2 - 6, 62),
      [out, under] = [layer + 14, state + R + 16],
      up = path.map(
        (_, i) => `M${x(i)},${state - R}V${layer + 31}m-4,6l4,-6l4,6M${x(i)},${layer - 2}v-10m-4,5l4,-5l4,5`,
      ),
      back = path.slice(1).map((_, i) => {
        const [from, to] = [x(i) + half, x(i + 1) - R - 3];
        return `M${from},${out}C${x(i + 1) - half - 4},${out} ${from + 4},${state} ${to},${state}m-7,-5l7,5l-7,5`;
      }),
      ways = [...this.lines.map((d) => [d, "accepted"]), ...up.map((d) => [d, ""]), ...back.map((d) => [d, "drafted"])];
    pool(this.ways, ways.length, () => svg("path")).forEach((way, i) => {
      const [d, kind] = ways[i];
      set(way, { d, class: kind ? "dx-arc" : "dx-blank", "data-s": kind });
      way.style.stroke = kind && "var(--edge)";
    });
    const boxes = [[this.fc, state - 15, 30, 30], ...path.map((_, i) => [x(i) - half, layer, 2 * half, 28])];
    pool(this.boxes, boxes.length, () => svg("rect", { class: "dx-box", rx: 6 })).forEach((box, i) => {
      const [left, top, width, height] = boxes[i];
      set(box, { x: left, y: top, width, height });
    });
    labels.push([this.fc + 15, state + 5, "middle", "fc"]);
    path.forEach((_, i) =>
      labels.push([x(i), layer + 19, "middle", half > 50 ? tr`draft layer` : half > 20 ? tr`layer` : ""]),
    );
    pool(this.states, path.length, () =>
      svg("g", {}, svg("title"), svg("circle", { r: R }), svg("text", { "text-anchor": "middle", y: 5 })),
    ).forEach((group, i) => {
      const [title, circle, name] = group.childNodes;
      set(group, { transform: `translate(${x(i).toFixed(1)},${state})`, "data-s": i ? "drafted" : "accepted" });
      circle.style.cssText = `fill:var(--fill);stroke:var(--edge);stroke-width:2;${i ? "stroke-dasharray:4 3" : ""}`;
      setText(name, i ? "a" : "g");
      name.style.fill = "var(--ink)";
      setText(title, i ? tr`the drafter's own output` : tr`fc of the target's states after ${reads.join(", ")} layers`);
    });
    labels.push([x(0), under, "middle", cut(tr`at ‘${this.word(last)}’`, Math.floor(w / LETTER))]);
    path.slice(1).forEach((_, i) => labels.push([x(i + 1), under, "middle", w > 90 ? tr`own output` : tr`own`]));
    this.tokens = path.map((row, i) => ({
      ...{ x: x(i), y: token, state: rows[row].state, whole: this.word(tree.tokens[row]) },
      text: cut(this.word(tree.tokens[row]), Math.max(1, Math.floor((w - 16) / LETTER))),
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
        items.push({ x: begin + wide(text) / 2, y: place(line), state, whole, text });
        if (room > 96) labels.push([begin + wide(text) + 6, place(line) + 16.5, "start", says]);
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
    pool(this.bars, bars.length, () => svg("rect", { class: "dx-lift", rx: 4, height: CHIP })).forEach((bar, i) => {
      const [x, y, width] = bars[i];
      set(bar, { x, y, width });
    });
    tree.emitted.forEach((token, i) => {
      const end = i < levels ? x(i) : left + levels * w + (roomy ? 42 : 17);
      items.push({
        ...{ x: end, y: 4, state: i < kept ? "accepted" : own[i - kept].state, whole: this.word(token) },
        text: cut(this.word(token), Math.max(1, Math.floor(((i < levels ? w : roomy ? 80 : 32) - 14) / LETTER))),
      });
    });
    if (roomy) labels.push([left - 8, 20, "end", tr`written`]);
    return chips(this.cells, items, this.context.theme, 999);
  }

  describe(t) {
    const step = this.run.steps[t - 1],
      told = step && this.told(step);
    if (!told) return t ? tr`Nothing was drafted in this step.` : tr`Before the first step.`;
    const { reads, fused, fed_back, outside = [] } = told,
      { accepted } = rowsOf(step.tree),
      all = many(step.tree.tokens.length - 1, "drafted"),
      says = tr`${many(fused, "row")} read with g, the target's states after ${reads.join(", ")} layers, ${fed_back} \
with a, the drafter's own outputs. One call of the target checks ${all}: ${accepted} accepted. Drawn: \
the guesses on that way.`;
    return outside.length ? `${says} ${tr`‘${this.word(outside[0])}’ cannot be guessed.`}` : says;
  }
}
