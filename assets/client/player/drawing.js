// Drawings. A layer is described as data. What is new in a step comes in with a short movement that nothing needs.
// Pictures of one step have a sentence, a drawing as wide as its panel, tokens as boxes, and words.

import { el, pool, set, setText, svg } from "./dom.js";
import { OPTIONS } from "./theme.js";
import { cut, glyphs, many, tr, translated } from "./words.js";

export const MIDDLE = { "text-anchor": "middle" };

/** Makes the nodes of a layer what its items are described as: [tag, attributes, ...parts inside it or its text], where
 * a group of a drawing goes without its tag. What is there is changed, spare nodes are hidden; returns those that are
 * seen. */
export function render(layer, items, describe = (item) => item) {
  const nodes = items.map((item, i) => {
    const part = describe(item, i),
      [tag, attributes, ...inside] = typeof part[0] === "string" ? part : ["g", ...part],
      there = layer.childNodes[i],
      node = there?.localName === tag ? there : document.createElementNS(layer.namespaceURI, tag);
    if (!there) layer.append(node);
    else if (node !== there) there.replaceWith(node);
    node.style.display = "";
    set(node, attributes);
    if (inside.length && !Array.isArray(inside[0])) setText(node, inside[0]);
    else render(node, inside);
    return node;
  });
  for (const spare of [...layer.childNodes].slice(nodes.length)) spare.style.display = "none";
  return nodes;
}

/** Words of a drawing: [x, y, anchor, text, style]; as a style `true` is bold. */
export const write = (layer, labels) =>
  render(layer, labels, ([x, y, anchor, words, look = null]) => {
    const style = look === true ? "font-weight:700" : look || "";
    return ["text", { x, y, "text-anchor": anchor, style }, words];
  });

/** One of the colours that stand side by side, or of its texts. */
export const option = (i, part = "fill") => `var(--option${i % OPTIONS}-${part})`;

/** The style of a line. */
export const stroked = (colour, width, dash = "none") =>
  `fill:none;opacity:1;stroke:${colour};stroke-width:${width};stroke-dasharray:${dash}`;

const LONGEST = 400; // milliseconds of a step's whole movement

const going = new Map(); // node -> its movements; asked for them (getAnimations), a browser lays the page out first

const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** Lets nodes come in one after the other, within 400 ms for all. from: the look that each begins with, such as
 * {opacity: 0}; it ends with the one that it has, and a transform is added to its own. */
export function comeIn(nodes, from) {
  if (!nodes.length || still()) return;
  const each = LONGEST / (nodes.length + 1),
    { transform, ...look } = from;
  nodes.forEach((node, i) => {
    end(node); // or both would add up
    const timing = { duration: 2 * each, delay: i * each, fill: "backwards", easing: "ease-out" },
      moves = Object.keys(look).length ? [node.animate?.([look, {}], timing)] : [];
    if (transform) moves.push(node.animate?.([{ transform }, {}], { ...timing, composite: "add" }));
    going.set(node, moves);
  });
}

function end(node) {
  for (const one of going.get(node) ?? []) one?.cancel(); // none where a page is drawn without a browser
  going.delete(node);
}

/** Ends the movements in `root`, which were of another step. */
export function endIn(root) {
  for (const node of going.keys()) if (root.contains(node) || !node.isConnected) end(node);
}

export const LETTER = 7.4; // width of one
export const CHIP = 24; // height of a box

/** How wide the box of a text is. */
export const widthOf = (text) => LETTER * [...text].length + 12;

/** Boxes around their x, at most `w` wide: [{x, y, state, whole, text, title}]; text stands in place of the token
 * `whole`, sign lets the state's sign stand before it. */
export const chips = (parent, items, theme, w) =>
  render(parent, items, ({ x, y, state, text, whole = text, sign, title }) => {
    const { glyph, label } = theme.states[state],
      most = Math.floor((w - 12) / LETTER),
      before = sign && most > 4 ? `${glyph} ` : "",
      shown = text ?? before + cut(whole, Math.max(1, most - before.length)),
      width = widthOf(shown);
    return [
      { transform: `translate(${x.toFixed(1)},${y})`, "data-s": state },
      ["title", {}, title ?? `${whole}: ${translated(label)}`],
      ["rect", { height: CHIP, rx: 6, x: -width / 2, width }],
      ["text", { ...MIDDLE, y: 16.5 }, shown],
    ];
  });

/** A view of what it puts `below` each other, from top to bottom. A `legend` has the `keys` that a view gives it. */
export class Parts {
  width = 640;
  controls = [];

  /** An element that stands below those before it. */
  below(node) {
    this.controls.push(node);
    return node;
  }

  load(run, dom, context) {
    Object.assign(this, { run, dom, context });
    this.legend?.append(...this.keys(context.theme));
    dom.append(...this.controls);
    this.grow?.();
  }

  resize(width) {
    this.width = width;
    if (this.t !== undefined) this.show(this.t);
  }
}

/** A view names its `layers`, its words where a step has `none`, and how what is new comes in (`entrance`); its sliders
 * (sliding.js) and what else it puts `below` stand below the drawing. */
export class StepPicture extends Parts {
  layers = [];
  entrance = { opacity: 0 };
  early = false; // whether something is shown before the first step
  above = []; // elements between the sentence and the drawing

  /** layers: groups of the drawing from back to front; each may be an element, else a name that it gets here. */
  load(run, dom, context) {
    this.say = el("p", "dx-readout");
    const groups = this.layers.map((layer) => (typeof layer === "string" ? (this[layer] = svg("g")) : layer));
    this.words = svg("g");
    this.picture = svg("svg", { class: "dx-tree dx-tower", role: "img" }, ...groups, this.words);
    this.controls.unshift(this.say, ...this.above, this.picture);
    super.load(run, dom, context);
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

  /** What is made of all steps, one thing in a view; sought anew only where the run has grown. */
  whole(make) {
    const { length } = this.run;
    if (this.sought !== length) Object.assign(this, { sought: length, made: make(this.run) });
    return this.made;
  }

  /** The largest of a number over all steps. */
  most(of) {
    return this.whole(({ steps }) => Math.max(...steps.map((step) => of(step) ?? 0)));
  }

  /** The size of the drawing, whose sentence is its name; and its words, if they are all known. */
  frame(height, labels) {
    const { width } = this;
    set(this.picture, { viewBox: `0 0 ${width} ${height}`, width, height, "aria-label": this.describe(this.t) });
    if (labels) write(this.words, labels);
  }

  /** Fills layers with what is described in them (render), and frames the drawing. Returns the nodes by layer. */
  paint(height, labels, layers) {
    const drawn = Object.entries(layers).map(([name, items]) => [name, render(this[name], items)]);
    this.frame(height, labels);
    return Object.fromEntries(drawn);
  }

  /** A token as text, cut where it has more than `most` letters. */
  word(token, most = Infinity) {
    return cut(glyphs(this.run.piece(token).text), most);
  }

  /** The text of tokens, without end marks. */
  spelled(tokens) {
    return tokens.map((token) => (this.run.eos.has(token) ? "" : this.run.piece(token).text)).join("");
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
}
