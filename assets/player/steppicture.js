// What pictures of one step have in common: a sentence, a drawing as wide as its panel, and a movement where the step
// is the next one.

import { cut, glyphs } from "./codec.js";
import { many } from "./counted.js";
import { el, pool, set, setText, svg } from "./dom.js";
import { endIn } from "./motion.js";
import { tr } from "./words.js";

export class StepPicture {
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

  /** What of a step a view shows: the record that it needs first. */
  told(step) {
    return step[this.record];
  }

  /** A view says what of a step it shows (`told`) and draws that (`draw`), moving where the step is the `next` one;
   * `also` is for what stands beside the drawing. */
  show(t, hurry) {
    const next = t === this.t + 1;
    this.t = t;
    if (hurry) return;
    const step = this.run.steps[t - 1],
      told = step && this.told(step);
    setText(this.say, this.describe(t));
    this.picture.style.display = told ? "" : "none";
    this.also?.(told, step);
    endIn(this.picture); // what moves is of another step
    if (told) this.draw(told, step, next);
  }

  /** A token as it is drawn, in at most so many letters. */
  word(token, most = Infinity) {
    return cut(glyphs(this.run.piece(token).text), most);
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

  /** The size of the drawing; its sentence is its name. */
  frame(height) {
    const { width } = this;
    set(this.picture, { viewBox: `0 0 ${width} ${height}`, width, height, "aria-label": this.describe(this.t) });
  }

  /** The baseline, into the layer `plain`: each token that was written as a column of its own through all layers, from
   * `roof` to `foot`; w: of a column. */
  alone(wrote, left, w, roof, foot, labels) {
    pool(this.plain, wrote.length, () => svg("rect", { class: "dx-lift dx-plain", rx: 6 })).forEach((column, i) => {
      const middle = left + (i + 0.5) * w;
      set(column, { x: left + i * w + 2, y: roof, width: Math.max(w - 4, 2), height: foot - roof });
      labels.push([middle, roof + 24, "middle", i + 1]);
      labels.push([middle, 20, "middle", cut(glyphs(this.run.piece(wrote[i]).text), Math.floor(w / 8))]);
    });
    if (wrote.length)
      labels.push([left, foot + 20, "start", tr`one by one: ${many(wrote.length, "target")} (derived)`]);
  }

  /** Where a draft was refused, into the layer `cuts`: a line at x, and words among the labels if they are given. */
  refused({ why }, x, roof, foot, labels) {
    const broke = why.includes("mismatch"),
      [at, anchor] = x + 240 < this.width ? [x + 7, "start"] : [this.width - 4, "end"];
    if (broke && labels) labels.push([at, roof - 3, anchor, tr`✕ refused: the rest is dropped`]);
    pool(this.cuts, broke ? 1 : 0, () => svg("path", { class: "dx-cut" })).forEach((path) =>
      set(path, { d: `M${x},${roof - 10}V${foot}` }),
    );
  }

  /** Words of the drawing: [[x, y, anchor, text]]. */
  label(labels) {
    pool(this.words, labels.length, () => svg("text")).forEach((text, i) => {
      const [x, y, anchor, words] = labels[i];
      set(text, { x, y, "text-anchor": anchor });
      setText(text, words);
    });
  }
}
