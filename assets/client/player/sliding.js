// A slider over a recorded value: a step decides again on the numbers that it recorded, and what would have come of it
// is said beside it as derived.

import { el, setText } from "./dom.js";
import { tr } from "./words.js";

export const short = (value) => String(Number(value.toFixed(2)));

/** The bar and knob of a slider; oninput gets its value. */
export const track = (label, [min, max, step], oninput) =>
  el("input", { type: "range", min, max, step, "aria-label": label, oninput: ({ target }) => oninput(+target.value) });

/** Of what a method was not asked about, which it is once its run is over. */
export const unknown = ({ end }) =>
  end ? tr`what it would have been is not known` : tr`what it would be is known after the run`;

export class Sliding {
  /** view: drawn again when a person moves it, or puts it back. asks: of which record what it moves, where its method
   * answers (`Run.asked`), else null. range: [least, most, step]. */
  constructor(view, asks, symbol, label, range = [0, 1, 0.01]) {
    Object.assign(this, { view, asks: asks?.split("."), moved: null }); // where a person left it
    const move = (value) => {
      this.moved = value;
      view.show(view.t);
    };
    this.slider = track(label, range, move);
    this.value = el("output");
    this.back = el("button", { onclick: () => move(null) }, tr`as recorded`);
    this.derived = el("span", { "aria-live": "polite" });
    const named = el("label", {}, `${symbol} `, this.slider, " ", this.value);
    this.dom = el("p", "dx-sliding", named, this.back, this.derived);
    view.below?.(this.dom);
  }

  get #known() {
    return !this.asks || this.view.run.asked(this.view.t, ...this.asks) !== null;
  }

  /** The value that a step is drawn at: where a person left the slider, unless its method was not asked; else the
   * recorded one. */
  at(recorded) {
    return this.moved === null || !this.#known ? recorded : this.moved;
  }

  /** What step t decides there: as recorded, or as its method answered. */
  decided(recorded, t = this.view.t) {
    return (this.moved === null ? null : this.view.run.asked(t, ...this.asks, this.moved)) ?? recorded;
  }

  /** any: whether there is something to decide again; said: what comes of it. */
  show(recorded, any, said) {
    const { run } = this.view,
      known = this.#known,
      moved = this.moved !== null,
      derived = known ? moved && tr`derived: ${said}` : (moved || !run.end) && unknown(run);
    this.slider.value = this.moved ?? recorded;
    this.slider.disabled = !any || !(known || run.end);
    this.back.disabled = !moved;
    setText(this.value, short(this.moved ?? recorded));
    setText(this.derived, (any && derived) || "");
  }
}
