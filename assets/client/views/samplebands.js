// Samples of one prompt as bands that stand on each other: each token in a shade for the length of the suffix that it
// was drafted after, tokens of one model call in one piece. Beside each band the calls that it took; below, what the
// store held after the suffixes of this call.

import { LETTER, MIDDLE, render, StepPicture } from "../player/drawing.js";
import { many, number, tr } from "../player/words.js";
import { heightOf, remembered } from "./remembered.js";

export const view = { title: "Samples drafted from each other", place: 52, needs: ["suffixes"] };

const NARROW = 900, // a panel without room for calls beside the bands
  WIDEST = 60, // of a token
  BAND = 28,
  TOP = 58,
  CALLS = 290, // width of what stands beside the bands
  GAP = 40; // above what the store held
/** The samples after t steps: [{cells: [{token, suffix, call}], calls}]; a place that no step of theirs wrote, such as
 * one of a person's, is empty. */
export function bands(steps, t) {
  const samples = [];
  steps.slice(0, t).forEach(({ suffixes }, call) => {
    for (const { sample, length, tokens, suffix } of suffixes?.samples ?? []) {
      while (samples.length <= sample) samples.push({ cells: [], calls: 0 });
      const { cells } = samples[sample];
      cells.length = Math.max(0, length - tokens.length);
      tokens.forEach((token, i) => cells.push({ token, suffix: suffix[i], call }));
      samples[sample].calls++;
    }
  });
  return samples;
}

export class SampleBands extends StepPicture {
  none = tr`No sample was written to in this step.`;

  layers = ["key", "plain", "bars", "cells", "squares", "shares", "cards"];

  told = ({ suffixes }) => suffixes?.samples.length && suffixes;

  /** How much of its colour a cell has: the longer the suffix, the more. */
  #share(suffix) {
    const { suffix: most } = this.extent;
    return suffix ? Math.round(most === 1 ? 100 : 22 + (78 * (suffix - 1)) / (most - 1)) : 0;
  }

  #paint(suffix) {
    const fill = `color-mix(in srgb, var(--accepted-fill) ${this.#share(suffix)}%, var(--panel))`;
    return `fill:${fill};stroke:${suffix ? "none" : "var(--muted)"}`;
  }

  draw({ samples }) {
    const { width, run } = this,
      all = run.steps.flatMap(({ suffixes }) => suffixes?.samples ?? []),
      narrow = width < NARROW,
      // what the whole run comes to: samples, tokens of the longest one, of the longest suffix
      extent = {
        samples: Math.max(...all.map(({ sample }) => sample + 1)),
        tokens: Math.max(1, ...all.map(({ length }) => length)),
        suffix: Math.max(1, ...all.flatMap(({ suffix }) => suffix)),
      },
      made = bands(run.steps, this.t),
      left = narrow ? 4 : 84,
      pitch = narrow ? 50 : 38,
      w = Math.min(WIDEST, (width - left - (narrow ? 4 : CALLS)) / extent.tokens),
      foot = TOP + extent.samples * pitch,
      labels = [];
    const shown = samples.reduce((best, one) => (one.tokens.length > best.tokens.length ? one : best)),
      y = (sample) => TOP + sample * pitch + (narrow ? 16 : 0),
      letters = Math.floor((w - 2) / LETTER);
    this.extent = extent;
    remembered(this, shown, foot + GAP, (suffix) => this.#paint(suffix), labels);
    this.#legend(narrow, labels);
    const cells = made.flatMap((band, sample) =>
      [...band.cells].flatMap((cell, i) =>
        cell ? [{ ...cell, i, sample, last: band.cells[i + 1]?.call !== cell.call }] : [],
      ),
    );
    const boxes = render(this.cells, cells, ({ token, suffix, i, sample, call, last }) => {
      const whole = this.word(token),
        text = letters > 1 ? [...whole.replace(/^␣(?=.)/, "")].slice(0, letters).join("") : "",
        from = suffix ? tr`drafted after a known suffix of ${many(suffix, "token")}` : tr`the target's own`,
        edge = call === this.t - 1 ? "stroke:var(--new-line);stroke-width:3" : "stroke-width:1",
        box = { x: left + i * w + 1, y: y(sample), width: Math.max(1, w - (last ? 4 : 0)), height: BAND },
        ink = `fill:var(--${this.#share(suffix) > 80 ? "accepted-text" : "text"})`;
      return [
        {},
        ["title", {}, `${whole}: ${from}`],
        ["rect", { ...box, style: `${this.#paint(suffix)};${edge}` }],
        ["text", { ...MIDDLE, x: left + (i + 0.5) * w, y: y(sample) + 18, style: ink }, text],
      ];
    });
    this.#calls(made, { narrow, left, y, foot, labels });
    this.frame(foot + GAP + heightOf(width), labels);
    return boxes.filter((_, k) => cells[k].call === this.t - 1);
  }

  #legend(narrow, labels) {
    const { suffix: most } = this.extent,
      kinds = [...Array.from({ length: most }, (_, i) => most - i), 0],
      head = narrow ? tr`tokens of the suffix drafted after` : tr`drafted after a suffix seen before, of`;
    labels.push([4, 16, "start", head]);
    let x = narrow ? 4 : 12 + LETTER * head.length;
    const y = narrow ? 24 : 4;
    render(this.key, kinds, (kind, i) => {
      const own = narrow ? tr`own` : tr`the target's own`,
        words = !kind ? own : i || narrow ? String(kind) : many(kind, "token"),
        box = { width: 16, height: 16, x, y, style: this.#paint(kind) };
      labels.push([x + 22, y + 12, "start", words]);
      x += 40 + LETTER * words.length;
      return ["rect", box];
    });
  }

  /** How many model calls each sample took, within what it would have been one by one. */
  #calls(made, { narrow, left, y, foot, labels }) {
    const x = this.width - CALLS + 24,
      unit = 120 / this.extent.tokens,
      counts = made.map(({ cells, calls }) => ({
        calls,
        tokens: [...cells].filter((cell) => cell && !this.run.eos.has(cell.token)).length,
      }));
    const beside = narrow ? [] : made,
      plain = { class: "dx-ghost-box", height: BAND, style: "fill:none;stroke:var(--muted);stroke-dasharray:3 3" },
      bar = { class: "dx-warm", height: BAND - 8 };
    render(this.plain, beside, ({ cells }, i) => ["rect", { ...plain, x, y: y(i), width: unit * cells.length }]);
    render(this.bars, beside, ({ calls }, i) => ["rect", { ...bar, x, y: y(i) + 4, width: unit * calls }]);
    counts.forEach(({ calls, tokens }, i) => {
      const told = many(calls, "target");
      if (narrow) labels.push([left, y(i) - 5, "start", tr`sample ${i + 1}: ${many(tokens, "token")}, ${told}`]);
      else {
        labels.push([left - 8, y(i) + 18, "end", tr`sample ${i + 1}`]);
        labels.push([x + unit * made[i].cells.length + 6, y(i) + 18, "start", told]);
      }
    });
    if (!narrow) {
      const shared = this.run.steps.some(({ suffixes }) => suffixes?.samples.length > 1);
      labels.push([x, 16, "start", shared ? tr`model calls, shared by all` : tr`model calls of each sample`]);
      labels.push([x, 34, "start", tr`dashed: one by one (derived)`]);
    }
    const tokens = counts.reduce((sum, one) => sum + one.tokens, 0),
      all = this.run.sums[this.t].forwards,
      both = `${many(tokens, "token")}, ${many(all, "target")}`,
      sum = narrow ? tr`all: ${both}` : tr`all samples: ${both}, ${(tokens / all).toFixed(1)} tokens per call`;
    labels.push([left, foot + 8, "start", sum]);
  }

  sentence({ samples }) {
    const [{ sample, drafted }] = samples,
      rows = samples.reduce((sum, one) => sum + one.drafted, 0),
      accepted = samples.reduce((sum, { suffix }) => sum + suffix.filter(Boolean).length, 0);
    if (samples.length > 1)
      return tr`One call for ${samples.length} samples: ${many(rows, "drafted")}, ${number(accepted)} accepted.`;
    return tr`Sample ${sample + 1}: ${many(drafted, "drafted")} from the distributions that the store holds after \
known suffixes, ${accepted} accepted.`;
  }
}
