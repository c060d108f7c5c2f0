// What a person moves beside a picture. A slider over a recorded value, with what the method itself would have decided
// at other values (`Run.asked`), said as derived; dials of a modelled picture; the layer or the score that is shown;
// cells of a block side by side with bars above them and the threshold across.

import { el, select, set, setText } from "./dom.js";
import { MIDDLE } from "./drawing.js";
import { number, tr, translated } from "./words.js";

export const short = (value) => String(Number(value.toFixed(2)));

/** The bar and knob of a slider; oninput gets its value. */
export const track = (label, [min, max, step], oninput) =>
  el("input", { type: "range", min, max, step, "aria-label": label, oninput: ({ target }) => oninput(+target.value) });

/** Of what a method was not asked about, which it is once its run is over. */
export const unknown = ({ end }) =>
  end ? tr`what it would have been is not known` : tr`what it would be is known after the run`;

export class Sliding {
  /** view: drawn again when a person moves it, or puts it back. asks: of which record what it moves, where its method
   * answers (`Run.asked`), else null. range: [least, most, step]. before: what stands in front of it. */
  constructor(view, asks, symbol, label, range = [0, 1, 0.01], ...before) {
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
    this.dom = el("p", "dx-sliding", ...before, named, this.back, this.derived);
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

/** label: words before it; range: [least, most, step] of the exponent; base: of the powers, 0 for plain numbers; from:
 * where it stands first; text: of a value; change: called when a person moves it. */
export class Dial {
  constructor(label, range, base, from, text, change) {
    Object.assign(this, { base, text });
    this.slider = track(label, range, () => this.#moved(change));
    this.output = el("output");
    this.dom = el("label", {}, `${label} `, this.slider, " ", this.output);
    this.set(from);
  }

  /** Moves over these values from now on. */
  over(values) {
    this.values = values;
    this.slider.disabled = !values.length;
    set(this.slider, { min: 0, max: Math.max(0, values.length - 1) });
  }

  #moved(change) {
    const at = Number(this.slider.value);
    this.value = this.values?.[at] ?? (this.base ? this.base ** at : at);
    setText(this.output, this.text(this.value));
    set(this.slider, { "aria-valuetext": this.text(this.value) });
    change?.();
  }

  set(value) {
    const at = this.values?.findLastIndex((one) => one <= value);
    this.slider.value = at ?? (this.base ? Math.log(value) / Math.log(this.base) : value);
    this.#moved();
    this.value = value; // beyond the ends, too
    setText(this.output, this.text(value));
  }
}

/** The formula of a modelled picture, one click away. */
export const formula = (text) => el("details", {}, el("summary", {}, tr`modelled: the formula`), el("p", {}, text));

/** A number of tokens as people say it: 8k, 1M. */
export const size = (n) =>
  n >= 2 ** 20
    ? `${+(n / 2 ** 20).toPrecision(3)}M`
    : n >= 1024
      ? `${+(n / 1024).toPrecision(3)}k`
      : String(Math.round(n));

/** The layer that is shown, of those that a run's routing names. */
export class LayerChoice {
  constructor(change) {
    Object.assign(this, { change, layer: null, dom: el("span") });
  }

  /** first: gives the one to begin with. */
  offer(entries, first) {
    const numbers = [...new Set(entries.flatMap(({ layers }) => layers))].sort((a, b) => a - b);
    if (numbers.join() === this.numbers?.join()) return;
    this.numbers = numbers;
    if (!numbers.includes(this.layer)) this.layer = first(numbers);
    const choose = (value) => {
      this.layer = Number(value);
      this.change();
    };
    const options = numbers.map((n) => [String(n), String(n)]);
    this.dom.replaceChildren(select(tr`Layer`, options, String(this.layer), choose));
  }
}

/** The choice of a score that colours a picture, and its scale: from, to and its unit. */
export function scoreControls(run, context, { label, name, scale }) {
  const options = [...run.lanes.keys()].map((lane) => [lane, translated(lane)]),
    { threshold } = run.lanes.get(name),
    part = (...inside) => el("span", "dx-scale", ...inside);
  return [
    select(label, options, name, (lane) => context.setLane(lane)),
    part(...scale),
    part(el("i", { class: "dx-swatch", "data-s": "new" }), tr`written`),
    ...(threshold === null ? [] : [part(tr`threshold ${number(threshold)}`)]),
  ];
}
