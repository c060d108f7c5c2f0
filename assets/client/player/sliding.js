// A slider over a recorded value: a step decides again on the numbers that it recorded, and what would have come of it
// is said beside it as derived.

import { el, setText } from "./dom.js";
import { tr } from "./words.js";

export const short = (value) => String(Number(value.toFixed(2)));

/** The bar and knob of a slider; oninput gets its value. */
export const track = (label, [min, max, step], oninput) =>
  el("input", { type: "range", min, max, step, "aria-label": label, oninput: ({ target }) => oninput(+target.value) });

export class Sliding {
  /** change: called when a person moves it, or puts it back. */
  constructor(symbol, label, change, { min = 0, max = 1, step = 0.01 } = {}) {
    this.moved = null; // where a person left it
    const move = (value) => {
      this.moved = value;
      change();
    };
    this.slider = track(label, [min, max, step], move);
    this.value = el("output");
    this.back = el("button", { onclick: () => move(null) }, tr`as recorded`);
    this.derived = el("span", { "aria-live": "polite" });
    this.dom = el(
      "p",
      "dx-sliding",
      el("label", {}, `${symbol} `, this.slider, " ", this.value),
      this.back,
      this.derived,
    );
  }

  /** The value that a step decides by: where a person left the slider, else the recorded one. */
  at(recorded) {
    return this.moved ?? recorded;
  }

  /** any: whether there is something to decide again; said: what comes of it. */
  show(recorded, any, said) {
    this.slider.value = this.at(recorded);
    this.slider.disabled = !any;
    this.back.disabled = this.moved === null;
    setText(this.value, short(this.at(recorded)));
    setText(this.derived, this.moved === null || !any ? "" : tr`derived: ${said}`);
  }
}
