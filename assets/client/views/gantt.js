// Work on devices and workers over time, or memory by address where none has seconds, the rounds around the cursor;
// modelled intervals are outlined, measured ones are solid.

import { el, frame, setText, svg } from "../player/dom.js";
import { Parts, render } from "../player/drawing.js";
import { bytes, seconds, tr, translated } from "../player/words.js";

export const view = { title: "Devices and workers", place: 130, needs: ["intervals"] };

const ROW = 26,
  LETTER = 7, // pixels of one, on average
  LEAST = 560,
  BEFORE = 5,
  AFTER = 2;

const LOOK = { class: "dx-gantt", role: "img", "aria-label": tr`Work over time` };

export class Gantt extends Parts {
  wide = 720;
  t = 0;
  names = svg("g");
  bars = svg("g");
  picture = svg("svg", LOOK, this.names, this.bars);
  scroll = this.below(el("div", "dx-scroll", this.picture));
  foot = this.below(el("p", "dx-readout"));

  /** The intervals of a step in the unit that is drawn. */
  #of(step) {
    return (step?.intervals ?? []).filter((interval) => (interval.unit ?? "seconds") === this.unit);
  }

  grow() {
    const all = this.run.steps.flatMap((step) => step.intervals ?? []);
    this.unit = all.length && all.every((interval) => interval.unit === "bytes") ? "bytes" : "seconds";
    this.tell = this.unit === "bytes" ? bytes : seconds;
    this.tracks = [...new Set(this.run.steps.flatMap((step) => this.#of(step).map((w) => w.track)))];
    this.left = 12 + LETTER * Math.max(6, ...this.tracks.map((track) => translated(track).length));
    frame(this.picture, this.wide, this.tracks.length * ROW);
    render(this.names, this.tracks, (track, i) => ["text", { x: 0, y: i * ROW + 17 }, translated(track)]);
  }

  resize(width) {
    this.wide = Math.max(width - 8, LEAST);
    this.grow();
    this.show(this.t);
  }

  show(t) {
    this.t = t;
    const work = this.run.steps
      .slice(Math.max(0, t - BEFORE), Math.max(t, 1) + AFTER)
      .flatMap((step) => this.#of(step).map((w) => ({ ...w, step: step.index })));
    const start = Math.min(...work.map((w) => w.start)),
      end = Math.max(...work.map((w) => w.end)),
      x = (s) => this.left + ((s - start) / (end - start || 1)) * (this.wide - this.left);
    render(this.bars, work, (w) => {
      const kind = w.measured === false ? "modelled" : "measured",
        y = this.tracks.indexOf(w.track) * ROW + 4,
        box = { height: ROW - 8, rx: 3, x: x(w.start), y, width: Math.max(1, x(w.end) - x(w.start)) },
        style = `opacity:${w.step < t - 1 ? 0.55 : w.step < t ? 1 : 0.12}`,
        track = translated(w.track),
        title = tr`${track}: ${w.label ?? ""}, ${this.tell(w.end - w.start)} from ${this.tell(w.start)} on, ${kind}`;
      return ["rect", { ...box, class: `dx-${kind}`, style }, ["title", {}, title]];
    });
    const key = tr`${this.tell(start)} to ${this.tell(end)}; bright: this step; solid: measured, outlined: modelled`;
    setText(this.foot, work.length ? key : tr`No work at these steps.`);
  }

  describe(t) {
    const work = this.#of(this.run.steps[t - 1]);
    return work.length ? tr`Work on ${[...new Set(work.map((w) => translated(w.track)))].join(", ")}.` : "";
  }
}
