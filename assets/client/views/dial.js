// What a person sets beside a picture: the size that a modelled one is drawn for, on a slider, by powers of two or of
// ten where it spans many; the layer or the score that is shown.

import { el, select, set, setText } from "../player/dom.js";
import { track } from "../player/sliding.js";
import { number, tr, translated } from "../player/words.js";

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
