// Experts of one layer over the tokens, lit by weight, with a box around what is read together and beside it all that
// any token of the box uses; next to it the twin on the same text, or as
// many experts for each token, chosen by chance.

import { render, StepPicture } from "../player/drawing.js";
import { LayerChoice, Sliding } from "../player/sliding.js";
import { ramp } from "../player/theme.js";
import { bytes, cut, percent, tr } from "../player/words.js";
import { drawn, expected, readOf, together } from "./routed.js";

export const view = { title: "Experts of each token", place: 117, needs: ["routing.expert"] };

const WORDS = 84, // height of heading and tokens
  TALL = 8, // of an expert's row
  WIDEST = 24, // of a token
  LEAST = 18,
  APART = 600, // width from which both stand side by side
  LONG = 900, // and from which there is room for the longer words
  SHADES = 6;

export class Experts extends StepPicture {
  layers = ["ground", "cells", "boxes", "hover"];
  choice = new LayerChoice(() => this.show(this.t));
  sliding = new Sliding(this, null, "n", tr`Tokens read together`, [1, 32, 1], this.choice.dom);
  none = tr`No routing at this step.`;

  grow() {
    const entries = this.run.steps.flatMap((step) => step.routing ?? []);
    this.choice.offer(entries, (numbers) => numbers[numbers.length >> 1]);
  }

  /** The text behind step t; box: the positions that are read together. */
  #read(t) {
    const read = readOf(this.run.steps, t, this.choice.layer),
      { moved } = this.sliding;
    return { ...read, box: moved === null ? read.now : read.order.slice(-moved) };
  }

  told(step) {
    return this.#read(step.index + 1).box.length || null;
  }

  also(told) {
    const { columns, units, box, now } = this.#read(this.t),
      pairs = box.map((position) => columns.get(position) ?? []),
      said = tr`${together(pairs).size} of ${units} experts, ${Math.round(expected(pairs, units))} by chance.`;
    this.sliding.show(Math.min(32, now.length) || 1, Boolean(told), said);
  }

  draw() {
    const { columns, units, order, box } = this.#read(this.t),
      apart = this.width >= APART,
      wide = apart ? this.width / 2 - 16 : this.width,
      room = wide - 64, // beside it the union
      shown = order.slice(-Math.min(order.length, Math.floor(room / LEAST))),
      w = Math.min(WIDEST, room / Math.max(shown.length, 12)),
      pairs = box.map((position) => columns.get(position) ?? []),
      high = WORDS + units * TALL + 30,
      all = together(pairs).size,
      twin = readOf(this.run.steps, this.t, this.choice.layer, true),
      beside = twin.order.length
        ? (position) => twin.columns.get(position) ?? []
        : (position) => drawn(columns.get(position) ?? [], position, units),
      mean = twin.order.length ? together(box.map(beside)).size : Math.round(expected(pairs, units)),
      n = box.length,
      tokens = n === 1 ? tr`1 token reads` : tr`${n} tokens together read`,
      experts = tr`${tokens} ${all} of ${units} experts`,
      by = { columns, shown, box, units, w, labels: [], paths: Array.from({ length: SHADES }, () => []), boxes: [] };
    this.#grid({ ...by, x: 0, y: 0, of: (position) => columns.get(position) ?? [] });
    const long = this.width >= LONG,
      [x, y] = apart ? [wide + 32, 0] : [0, high + 10];
    this.#grid({ ...by, x, y, of: beside });
    const k = Math.max(0, ...[...twin.columns.values()].map((used) => used.length)),
      ours = long ? tr`This model: ${tokens} ${all} of ${units} experts` : experts;
    by.labels.push([0, 14, "start", ours, true], [x, y + 14, "start", this.#other(k, long, mean, units), true]);
    const colours = ramp(this.context.theme, this.context.mode()),
      cells = by.paths.map((paths, i) => {
        const { fill } = colours[Math.round(((i + 2) / (SHADES + 1)) * (colours.length - 1))];
        return ["path", { d: paths.join(""), style: `stroke:none;opacity:1;fill:${fill}` }];
      }),
      frame = "fill:none;opacity:1;stroke:var(--text);stroke-width:2",
      ground = { height: units * TALL, style: "fill:var(--muted);fill-opacity:.09;stroke:none" },
      grounds = [0, x].flatMap((left, i) => {
        const place = { y: WORDS + i * y, ...ground };
        return [
          ["rect", { x: left, width: shown.length * w, ...place }],
          ["rect", { x: left + shown.length * w + 22, width: 24, ...place }],
        ];
      });
    this.#names(by);
    const boxes = [["path", { d: by.boxes.join(""), style: frame }]];
    this.paint(apart ? high : 2 * high + 10, by.labels, { ground: grounds, cells, boxes });
    return [this.boxes];
  }

  /** What stands at the right, in words. k: experts of each token of the twin; 0 where there is none. */
  #other(k, long, count, units) {
    if (k && long) return tr`A twin whose tokens each take their best ${k}: ${count} of ${units}`;
    if (k) return tr`A top-k twin, same text: ${count} of ${units}`;
    if (long) return tr`If each token chose by itself: ${count} of ${units} (derived)`;
    return tr`Each by itself: ${count} of ${units} (derived)`;
  }

  #grid({ shown, box, units, w, labels, paths, boxes, x, y, of }) {
    const top = y + WORDS,
      most = Math.max(1e-9, ...shown.flatMap((position) => of(position).map(([, weight]) => weight))),
      shade = (part) => Math.min(SHADES - 1, Math.floor(part * SHADES)),
      right = x + shown.length * w + 22,
      share = together(box.map(of)),
      cell = (at, unit, wide) => `M${at.toFixed(1)},${top + unit * TALL}h${wide}v${TALL - 1}h-${wide}z`;
    shown.forEach((position, i) => {
      for (const [unit, weight] of of(position)) paths[shade(weight / most)].push(cell(x + i * w, unit, w - 1));
    });
    for (const [unit, part] of share) paths[shade(part)].push(cell(right, unit, 24));
    const first = shown.findIndex((position) => position >= Math.min(...box)),
      frame = (at, wide) => `M${at},${top - 2}h${wide}v${units * TALL + 3}h-${wide}z`;
    if (first < 0) return;
    boxes.push(frame(x + first * w - 1, (shown.length - first) * w + 1), frame(right - 2, 28));
    const mid = top + (units * TALL) / 2;
    boxes.push(`M${right - 16},${mid}h9m-5,-5l5,5l-5,5`);
    labels.push([right + 26, top + units * TALL + 20, "end", tr`read: ${percent(share.size / Math.max(1, units))}`]);
    labels.push([x, top + units * TALL + 20, "start", tr`row: expert, column: token`]);
  }

  /** The tokens above the first grid; each column says what it uses. */
  #names({ columns, shown, box, units, w }) {
    const board = this.run.board(this.t),
      inside = new Set(box),
      { tree } = this.run.steps[this.t - 1],
      drafted = tree?.tokens.length ? shown.length - tree.tokens.length : Infinity; // the last columns are its rows
    render(this.hover, shown, (position, i) => {
      const refused = i >= drafted && !tree.accepted[i - drafted],
        token = i >= drafted ? tree.tokens[i - drafted] : board[position]?.token,
        name = token == null ? "" : this.word(token),
        style = `font-weight:${inside.has(position) ? 700 : 400}${refused ? ";fill:var(--muted)" : ""}`,
        transform = `translate(${i * w + w / 2 + 4},${WORDS - 6}) rotate(-55)`,
        box = { x: i * w, y: WORDS, width: w, height: units * TALL, style: "fill:transparent;stroke:none" },
        title = tr`position ${position} ${name}: ${columns.get(position).length} of ${units}`;
      return [{}, ["text", { transform, style }, cut(name, 8)], ["rect", box, ["title", {}, title]]];
    });
  }

  sentence(_told, _step, t) {
    const { columns, units, box } = this.#read(t),
      pairs = box.map((position) => columns.get(position) ?? []),
      all = together(pairs).size,
      each = Number((pairs.reduce((sum, one) => sum + one.length, 0) / pairs.length).toPrecision(2)),
      held = (this.run.steps[t - 1]?.intervals ?? []).filter(({ about }) => about?.group === "experts"),
      read = held.find(({ about }) => about.name === "read")?.end,
      dense = Math.max(0, ...held.map(({ end }) => end)),
      weights =
        this.sliding.moved === null && read && dense
          ? tr` Over all layers ${bytes(read)} of ${bytes(dense)} of experts were read.`
          : "",
      share = percent(all / Math.max(1, units));
    return tr`Layer ${this.choice.layer}: ${box.length} tokens together use ${all} of ${units} experts (${share}), ${each} \
each.${weights}`;
  }
}
