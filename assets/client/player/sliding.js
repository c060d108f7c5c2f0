// What a threshold decides: a slider over a recorded value, where a step decides again on the numbers that it recorded,
// and what would have come of it is said beside it as derived; cells of a block side by side, on as many lines as a
// panel needs, with bars above them and the threshold across.

import { el, setText } from "./dom.js";
import { MIDDLE } from "./drawing.js";
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

/** n cells from x = left on, at least and at most so wide: {lines, w, line(i), x(i): its middle, ends(line): [from, to]
 * in pixels}. */
export function plan(n, width, left, least = 44, most = 88) {
  const room = Math.max(1, Math.floor((width - left) / least)),
    lines = Math.max(1, Math.ceil(n / room)),
    per = Math.max(1, Math.ceil(n / lines)),
    w = Math.min(most, (width - left) / per);
  return {
    lines,
    w,
    line: (i) => Math.floor(i / per),
    x: (i) => left + ((i % per) + 0.5) * w,
    ends: (line) => [left, left + Math.min(per, n - line * per) * w],
  };
}

/** Bars from 0 to 1, `tall` at 1, as `render` takes them: [{x, w, foot, value, state, look, title, words}]; words stand
 * on top. */
export const bars = (items, tall) =>
  items.map(({ x, w, foot, value, state, look = "", title = "", words = "" }) => {
    const height = Math.max(1.5, tall * value),
      y = foot - height;
    return [
      { "data-s": state },
      ["title", {}, title],
      ["rect", { rx: 2, class: look, x: x - w / 2, width: w, y, height }],
      ["text", { ...MIDDLE, class: "dx-over", x, y: y - 4 }, words],
    ];
  });

/** A threshold, as a dashed line. */
export const limit = (from, to, y) => ["path", { class: "dx-eta", "data-s": "rejected", d: `M${from},${y}H${to}` }];

/** A frame around a cell that two rules decide in different ways; w: of a cell. */
export const odd = (x, w, y, height) => ["rect", { class: "dx-odd", rx: 6, x: x - w / 2 + 1, width: w - 2, y, height }];
