// The clock goes as slowly as what is said of each step is read.

import { saying } from "./voice.js";

const [SHORT, LETTER, LONG] = [600, 45, 6500]; // milliseconds: a step of which nothing new is said, a letter, the most

export class Pace {
  /** first: milliseconds of the first step. */
  constructor(group, first) {
    Object.assign(this, { group, first });
    this.restart();
  }

  restart() {
    Object.assign(this, { step: -1, said: "" });
  }

  /** Milliseconds for what is said of this step. */
  time() {
    const text = saying(),
      fresh = text !== this.said;
    this.said = text;
    return fresh ? Math.min(LONG, Math.max(SHORT, LETTER * text.length)) : SHORT;
  }

  /** To be called whenever the clock has moved. */
  turn() {
    const step = Math.floor(this.group.x);
    if (step === this.step) return;
    this.step = step;
    queueMicrotask(() => (this.group.pace = 1000 / (step ? this.time() : this.first))); // once it is said
  }
}
