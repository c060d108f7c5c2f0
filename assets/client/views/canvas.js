// A canvas of noise as one step found it and left it: on top what the model read, in the middle what decides at each
// position against its threshold, below what the next step reads. Above all of it the mean entropy of the steps so far:
// the canvas may end once it is low and the likeliest tokens stay the same.

import { StepPicture } from "../player/drawing.js";
import { plan } from "../player/sliding.js";
import { percent, tr } from "../player/words.js";

export const view = { title: "Noise that settles", place: 149, needs: ["canvas"] };

const ROOM = 58, // for the names of the rows
  WIDEST = 96,
  LARGE = 64, // positions; beyond, what was read is left out and columns are narrow
  CURVE = 46, // height of the mean entropies
  TOP = 22, // of a row of columns
  LOWEST = 1e-3, // nats, where the axis of entropies begins
  MOVED = ["accepted", "new", "changed", "settled", "renoised"];

// What a record leaves out where there is none, or where a watched loop did not tell it.
const LISTS = ["sampled", "accepted", "edited", "kept", "renoised", "routes", "entropies", "joint", "chances"],
  EMPTY = Object.fromEntries(LISTS.map((name) => [name, []]));

/** Nats as figures that keep their order of magnitude. */
const nats = (h) =>
  h >= 9.95 ? h.toFixed(0) : h >= 0.0995 ? h.toFixed(1) : h >= LOWEST || h === 0 ? h.toPrecision(1) : "<0.001";
/** The same, told apart from the threshold that it is close to. */
const beside = (h, line) => (nats(h) === nats(line) && h !== line ? h.toPrecision(3) : nats(h));

const stroke = (d, state, more = "") => {
  return ["path", { class: "dx-eta", fill: "none", d, style: `stroke:var(--${state}-line)${more}` }];
};

export class Canvas extends StepPicture {
  layers = ["bars", "lines", "dots", "cells"];
  none = tr`No canvas is open in this step.`;

  told({ canvas }) {
    return canvas?.after?.length ? { ...EMPTY, before: canvas.after, ...canvas } : null;
  }

  draw(told) {
    const { run, width, t } = this,
      n = told.after.length,
      large = n > LARGE,
      cols = plan(n, width, ROOM, large ? 30 : 50, WIDEST),
      { x, w, lines: rows } = cols,
      decided = told.entropies.length > 0 || told.chances.length > 0,
      tall = decided ? (large ? 22 : 54) : 0,
      foot = (large ? 4 : 32) + tall + (decided ? 14 : 0),
      high = foot + (large ? 44 : 56),
      first = told.kind === "denoise" ? CURVE + TOP + 14 : 4,
      y = (i) => first + cols.line(i) * high,
      at = { w, large, tall, foot, x, y, labels: [], lines: [], bars: [] };
    const now = run.board(t),
      items = told.after.map((id, i) => {
        const { state = "noise", token, entry } = now[told.start + i] ?? {};
        return { x: x(i), y: y(i) + foot + 8, state, whole: this.word(token ?? entry?.drawn ?? id) };
      });
    at.states = items.map(({ state }) => state);
    if (!large && told.kind !== "drawn") {
      const then = [...run.board(t - 1)].slice(told.start);
      run.board(t); // the one that others ask for stays the latest
      told.before.forEach((id, i) => {
        items.push({ x: x(i), y: y(i), state: then[i].state, whole: this.word(id) });
      });
    }
    if (decided) this.#bars(told, n, at);
    for (let row = 0; row < rows; row++) this.#names(told, first + row * high, cols.ends(row), at);
    const dots = told.kind === "denoise" ? this.#curve(told, at) : [],
      moving = this.chips(this.cells, items, w - 2);
    this.paint(first + rows * high, at.labels, { bars: at.bars, lines: at.lines, dots });
    return moving.filter((_, i) => i < n && MOVED.includes(at.states[i]));
  }

  /** What decides at each position. */
  #bars({ entropies, joint: before, chances, sampled, line }, n, { w, x, y, foot, tall, large, ...at }) {
    const sum = entropies.reduce((all, one) => all + one, 0),
      rank = (i) => before.filter((one) => one < before[i]).length,
      joint = before.length > 0,
      most = Math.log(Math.max(2, sum, line) / LOWEST);
    this.level = (value) => tall * (joint ? Math.max(0, Math.log(value / LOWEST) / most) : Math.min(1, value));
    for (let i = 0; i < n; i++) {
      const height = Math.max(2, this.level(joint ? before[i] : chances[i])),
        word = this.word(sampled[i]),
        title = joint
          ? tr`‘${word}’: the entropies of ${rank(i)} more certain positions add up to ${nats(before[i])}`
          : tr`‘${word}’: ${percent(chances[i])}`,
        box = { rx: 3, x: x(i) - w * 0.3, y: y(i) + foot - height, width: w * 0.6, height };
      at.bars.push([{ "data-s": at.states[i] }, ["title", {}, title], ["rect", box]]);
      const says = joint ? beside(before[i], line) : percent(chances[i]).replace(" %", "");
      if (!large) at.labels.push([x(i), y(i) + foot - tall - 6, "middle", says]);
    }
  }

  /** The names of a row at height `top`, and the threshold through it. */
  #names({ kind, line, entropies }, top, [from, to], { foot, tall, large, labels, lines }) {
    if (!large && kind !== "drawn") labels.push([ROOM - 8, top + 17, "end", tr`before`]);
    labels.push([ROOM - 8, top + foot + 25, "end", kind === "drawn" ? tr`drawn` : tr`after`]);
    if (!tall) return;
    if (line !== undefined && line !== null) {
      const level = top + foot - this.level(line);
      lines.push(stroke(`M${from},${level}H${to}`, "accepted"));
      labels.push([ROOM - 8, level + 4, "end", entropies.length ? tr`γ ${nats(line)}` : percent(line)]);
    }
    if (!large) labels.push([ROOM - 8, top + foot - tall - 6, "end", entropies.length ? "Σ H" : "%"]);
  }

  /** The mean entropy of this canvas after each of its steps, and the line below which it may end. */
  #curve({ number, steps = 0, quiet = 0 }, { labels, lines }) {
    const seen = this.run.steps.slice(0, this.t).flatMap(({ canvas }) => (canvas?.number === number ? canvas : [])),
      told = seen.filter(({ kind }) => kind === "denoise"),
      least = Math.log(Math.min(quiet || 0.01, 0.01)) - 0.7,
      most = Math.log(8),
      room = this.width - ROOM - 8,
      x = (i) => ROOM + (room * (i + 0.5)) / Math.max(steps, told.length),
      y = (h) => TOP + CURVE * (1 - (Math.log(Math.min(8, Math.max(h, Math.exp(least)))) - least) / (most - least)),
      d = told.map(({ mean_entropy = 0 }, i) => `${i ? "L" : "M"}${x(i)},${y(mean_entropy)}`).join("");
    if (told.length > 1) lines.push(stroke(d, "old", ";stroke-dasharray:none"));
    if (quiet > 0) {
      lines.push(stroke(`M${ROOM},${y(quiet)}H${ROOM + room}`, "settled"));
      labels.push([ROOM - 8, y(quiet) + 4, "end", nats(quiet)]);
    }
    const last = told.at(-1);
    labels.push([0, 12, "start", tr`mean entropy ${nats(last.mean_entropy ?? 0)}, may end below ${nats(quiet)}`]);
    return told.map(({ mean_entropy = 0, stop, stable }, i) => {
      const fill = `var(--${stop ? "settled-fill" : stable ? "old-line" : "noise-line"})`,
        style = `fill:${fill};stroke:var(--${stop ? "settled" : "old"}-line)`;
      return ["circle", { r: 5, cx: x(i), cy: y(mean_entropy), style }];
    });
  }

  sentence(told) {
    const { kind, after, accepted, edited, kept, renoised, entropies, routes, line = 0, last, stop, quiet = 0 } = told,
      n = after.length;
    if (kind === "drawn") return tr`The canvas: ${n} tokens drawn at random from the whole vocabulary.`;
    if (kind === "correct")
      return tr`The corrector draws ${accepted.length} of ${n} tokens anew, given all the others.`;
    const noise = n - accepted.length - kept.length - (entropies.length || routes.length ? 0 : edited.length),
      which = entropies.length
        ? tr`${accepted.length} of ${n} accepted: Σ H, the entropies of all more certain positions together, is at \
most γ = ${nats(line)} nats.`
        : routes.length
          ? tr`${accepted.length} of ${n} take the model’s token, ${kept.length} stay as they were.`
          : tr`${accepted.length} of ${n} are written, ${edited.length} replaced, ${kept.length} stay.`,
      rest = renoised.length
        ? tr`Noise: ${noise}, where ${renoised.length} held a token of the model’s.`
        : tr`Noise: ${noise}.`;
    const end = stop
      ? [tr`The canvas ends early: the likeliest tokens stayed the same, and the mean entropy is below ${nats(quiet)}.`]
      : last
        ? [tr`The canvas ends: its steps are used up.`]
        : [];
    return [which, rest, ...end].join(" ");
  }
}
