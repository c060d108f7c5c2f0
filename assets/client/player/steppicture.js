// What pictures of one step have in common: a sentence, a drawing as wide as its panel, and a movement where the step
// is the next one.

import { chips } from "./chips.js";
import { cut, glyphs } from "./codec.js";
import { many } from "./counted.js";
import { el, pool, set, setText, svg } from "./dom.js";
import { comeIn, endIn } from "./motion.js";
import { render, write } from "./render.js";
import { tr } from "./words.js";

/** A view names its `layers`, its words where a step has `none`, and how what is new comes in (`entrance`); its sliders
 * (sliding.js) and what else it puts `below` stand below the drawing. */
export class StepPicture {
  layers = [];
  entrance = { opacity: 0 };
  early = false; // whether something is shown before the first step
  controls = [];

  /** An element that stands below the drawing. */
  below(node) {
    this.controls.push(node);
    return node;
  }

  load(run, dom, context) {
    this.begin(run, dom, context, this.layers, ...this.controls);
    this.grow?.();
  }

  /** layers: groups of the drawing from back to front; each may be an element, else a name that it gets here. under:
   * what stands below the drawing. */
  begin(run, dom, context, layers, ...under) {
    Object.assign(this, { run, context, width: 640 });
    this.say = el("p", "dx-readout");
    const groups = layers.map((layer) => (typeof layer === "string" ? (this[layer] = svg("g")) : layer));
    this.words = svg("g");
    this.picture = svg("svg", { class: "dx-tree dx-tower", role: "img" }, ...groups, this.words);
    dom.append(this.say, this.picture, ...under);
  }

  resize(width) {
    this.width = width;
    if (this.t !== undefined) this.show(this.t);
  }

  /** What is shown of a step, if it has that: the record that a view needs first, with something in its list
   * `filled`. */
  told(step) {
    const told = step[this.record];
    return this.filled && !told?.[this.filled]?.length ? null : told;
  }

  #shown(step) {
    return ((step || this.early) && this.told(step ?? {})) || null;
  }

  /** A view draws what is `told` of a step (`draw`) and puts it into words (`sentence`); where the step is the `next`
   * one, the nodes that `draw` returns come in. `also` is for what stands beside the drawing. */
  show(t, hurry) {
    const next = t === this.t + 1;
    if (t !== this.t) this.picked = null; // what a person picked in another step
    this.t = t;
    if (hurry) return;
    const step = this.run.steps[t - 1],
      told = this.#shown(step);
    setText(this.say, this.describe(t));
    this.picture.style.display = told ? "" : "none";
    this.also?.(told, step);
    endIn(this.picture); // what moves is of another step
    const fresh = told && this.draw(told, step, next);
    if (next && fresh) comeIn(fresh, this.entrance);
  }

  describe(t) {
    const step = this.run.steps[t - 1],
      told = this.#shown(step);
    if (told) return this.sentence(told, step, t);
    return t ? this.none : tr`Before the first step.`;
  }

  /** The largest of a number over all steps, sought anew only where the run has grown. */
  most(of) {
    if (this.sought !== this.run.length)
      Object.assign(this, {
        sought: this.run.length,
        largest: Math.max(...this.run.steps.map((step) => of(step) ?? 0)),
      });
    return this.largest;
  }

  /** The size of the drawing, whose sentence is its name; and its words, if they are all known. */
  frame(height, labels) {
    const { width } = this;
    set(this.picture, { viewBox: `0 0 ${width} ${height}`, width, height, "aria-label": this.describe(this.t) });
    if (labels) this.label(labels);
  }

  /** Fills layers with what is described in them (render.js), and frames the drawing. Returns the nodes by layer. */
  paint(height, labels, layers) {
    const drawn = Object.entries(layers).map(([name, items]) => [name, render(this[name], items)]);
    this.frame(height, labels);
    return Object.fromEntries(drawn);
  }

  /** A token as text, cut where it has more than `most` letters. */
  word(token, most = Infinity) {
    return cut(glyphs(this.run.piece(token).text), most);
  }

  /** Tokens as boxes at most `w` wide. */
  chips(layer, items, w) {
    return chips(layer, items, this.context.theme, w);
  }

  /** The baseline, into the layer `plain`: each token that was written as a column of its own through all layers, from
   * `roof` to `foot`; w: of a column. */
  alone(wrote, left, w, roof, foot, labels) {
    render(this.plain, wrote, (token, i) => {
      const middle = left + (i + 0.5) * w,
        box = { x: left + i * w + 2, y: roof, width: Math.max(w - 4, 2), height: foot - roof, rx: 6 };
      labels.push([middle, roof + 24, "middle", i + 1], [middle, 20, "middle", this.word(token, Math.floor(w / 8))]);
      return ["rect", { class: "dx-lift dx-plain", ...box }];
    });
    if (wrote.length)
      labels.push([left, foot + 20, "start", tr`one by one: ${many(wrote.length, "target")} (derived)`]);
  }

  /** Buttons of which one is pressed: [words, whether it is, what it does]; then the step is drawn again. */
  buttons(parent, items, look = {}) {
    pool(parent, items.length, () => el("button", look)).forEach((button, i) => {
      const [words, pressed, act] = items[i];
      set(button, { "aria-pressed": String(pressed) });
      setText(button, words);
      button.onclick = () => {
        act();
        this.show(this.t);
      };
    });
  }

  /** Words of the drawing: [[x, y, anchor, text, style]]. */
  label(labels) {
    write(this.words, labels);
  }
}
