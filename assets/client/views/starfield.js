// The slots of a memory: the latest token's rows and columns of keys, the slots at their best crossings, and those of
// the last tokens; beside it what these read of a mixture of experts and of a dense layer, and the bytes of it.

import { el, pool, set, setText, svg } from "../player/dom.js";
import { comeIn, Parts, render, write } from "../player/drawing.js";
import { track } from "../player/sliding.js";
import { bytes, fine, glyphs, number, tr } from "../player/words.js";
import { alike, BOLD, gathered, growth, growthLines, MOST, sky, strips } from "./slotsky.js";

export const view = { title: "Slots of a memory that light up", place: 122, needs: ["routing.memory"] };

const SKY = 330,
  LEFT = 74, // of the sky: the name of its rows
  TOP = 62,
  THUMB = 104,
  TALL = 150, // of the chart
  WIDE = 1000; // of a panel in which three parts stand side by side

const BOX = { style: "display:flex;flex-wrap:wrap;gap:14px 28px;margin:6px 0" },
  SIDE = { style: "flex:1 1 320px;min-width:0" };
const drawing = (...layers) =>
  svg("svg", { class: "dx-tree dx-tower", role: "img", style: "max-width:100%" }, ...layers);
const size = (w, h) => ({ width: w, height: h, viewBox: `0 0 ${w} ${h}` });

export class Starfield extends Parts {
  layer = 0;
  say = this.below(el("p", "dx-readout"));
  stars = svg("g");
  words = svg("g");
  big = drawing(this.stars, this.words);
  key = el("p", { class: "dx-readout", style: "display:flex;flex-wrap:wrap;gap:0 14px" });
  sky = el("div", { style: "max-width:100%" }, this.big, this.key);
  thumbs = el("div", { style: "display:grid;grid-template-columns:repeat(2,auto);gap:8px;align-content:start" });
  many = el("strong");
  slider = track(tr`Tokens read together`, [1, MOST, null], () => this.show(this.t));
  told = el("p", "dx-readout");
  bars = svg("g");
  lines = svg("g");
  names = svg("g");
  blocks = drawing(this.bars, this.lines, this.names);
  side = el("div", SIDE, el("label", {}, this.many, " ", this.slider), this.told, this.blocks);
  box = this.below(el("div", BOX, this.sky, this.thumbs, this.side));

  load(run, dom, context) {
    super.load(run, dom, context);
    set(this.slider, { value: run.header.params?.chunk ?? 8 });
  }

  show(t, hurry) {
    const next = t === this.t + 1;
    this.t = t;
    if (hurry) return;
    const read = gathered(this.run.steps, t),
      { found, K, layers } = read;
    this.layer = Math.min(this.layer, Math.max(0, layers.length - 1));
    setText(this.say, this.describe(t));
    for (const part of [this.big, this.key, this.side]) part.toggleAttribute("hidden", !found.length);
    this.#thumbs(found, K, layers);
    if (!found.length) return;
    const dots = this.#sky(found, K, layers);
    this.#side(found, K, this.run.steps[t - 1]?.facts ?? {});
    if (next) comeIn([...dots.childNodes], { opacity: 0 });
  }

  /** What of a layer is drawn: slots of earlier tokens, of the last ones, and of the latest. */
  #slots(found, l) {
    const of = (some) => [...new Set(some.flatMap(([, one]) => one.layers[l].map(([slot]) => slot)))],
      last = found.slice(-this.slider.value);
    return { earlier: of(found), recent: of(last), now: found.at(-1)?.[1].layers[l] ?? [] };
  }

  #name(position) {
    return glyphs(this.run.piece(this.run.board(this.t)[position]?.token ?? 0).text, 12);
  }

  #sky(found, K, layers) {
    const l = this.layer,
      [position, last] = found.at(-1),
      rows = last.rows?.[l] ?? [],
      columns = last.columns?.[l] ?? [],
      narrow = this.width < SKY + LEFT + 4,
      left = narrow ? 0 : LEFT,
      side = Math.min(SKY, this.width - left - 4),
      slots = this.#slots(found, l),
      title = tr`${this.#name(position)} reads ${slots.now.length} of ${number(K * K)} slots in layer ${layers[l]}`,
      words = [
        [left, 16, "start", title, BOLD],
        [left, 36, "start", tr`best rows × best columns: ${rows.length * columns.length} candidates`],
        [left, TOP - 6, "start", tr`${columns.length} columns of ${K}`],
      ];
    if (!narrow) words.push([0, TOP + 14, "start", tr`${rows.length} rows`], [0, TOP + 30, "start", tr`of ${K}`]);
    set(this.big, { ...size(left + side + 4, TOP + side + 4), "aria-label": title });
    const dots = sky(this.stars, { x: left, y: TOP, side, K, rows, columns, ...slots });
    write(this.words, words);
    const key = [
      ["●", "var(--span-fed)", tr`read by this token`],
      ["○", "var(--span-fed)", tr`with a negative weight`],
      ["■", "var(--accent)", tr`by the last ${this.slider.value} tokens`],
      ["■", "color-mix(in srgb, var(--accent) 30%, var(--panel))", tr`earlier in the text`],
    ];
    render(this.key, key, ([sign, colour, meaning]) => [
      "span",
      {},
      ["b", { style: `color:${colour}` }, `${sign} `],
      ["span", {}, meaning],
    ]);
    this.key.style.maxWidth = `${left + side}px`;
    return dots;
  }

  /** The other layers; one that is pressed is drawn large. */
  #thumbs(found, K, layers) {
    const make = () => el("button", { style: "padding:4px" }, drawing(), el("figcaption"));
    pool(this.thumbs, layers.length, make).forEach((button, l) => {
      const [picture, name] = button.childNodes,
        slots = this.#slots(found, l);
      set(button, { "aria-pressed": String(l === this.layer) });
      button.onclick = () => {
        this.layer = l;
        this.show(this.t);
      };
      set(picture, size(THUMB, THUMB));
      sky(picture, { x: 2, y: 2, side: THUMB - 4, K, rows: [], columns: [], ...slots });
      setText(name, tr`layer ${layers[l]}: ${slots.earlier.length} read`);
    });
  }

  /** What the last tokens read of the layer in each design, and the bytes of all layers. */
  #side(found, K, facts) {
    const last = found.slice(-this.slider.value),
      l = this.layer,
      experts = [...new Set(last.flatMap(([, one]) => one.experts?.[l] ?? []))],
      slots = this.#slots(found, l).recent,
      routings = this.run.steps.flatMap(({ routing = [] }) => routing),
      E = routings.find(({ role }) => role === "mixture")?.units ?? 0,
      w = Math.max(200, Math.min(560, this.width > WIDE ? this.width - SKY - LEFT - 2 * THUMB - 110 : this.width - 4)),
      memory = tr`memory: ${slots.length} of ${number(K * K)} slots, ${fine(slots.length / K / K)}`,
      mixture = tr`mixture of experts: ${experts.length} of ${E} experts, ${fine(experts.length / E)}`,
      parts = [
        { n: K * K, read: slots, name: memory },
        { n: E, read: experts, name: mixture },
        { n: 1, read: [0], name: tr`dense FFN: all of it` },
      ].slice(0, E && "dense_bytes" in facts ? 3 : 1),
      ys = parts.map((_, i) => 22 + i * 48),
      words = parts.map(({ name }, i) => [0, ys[i] - 6, "start", name]),
      lines = growth(found, facts),
      top = ys.at(-1) + 62,
      names = [tr`memory`, tr`mixture`, tr`dense FFN`],
      n = Math.min(last.length, lines.length),
      always = bytes(facts.always_bytes ?? 0);
    setText(this.many, tr`Read in this layer by the last ${last.length} tokens`);
    strips(this.bars, parts, w, ys);
    setText(this.told, tr`Of the memory's bytes ${always} are always read: its own FFN and keys.`);
    growthLines(this.lines, lines, { n, names, w, top, tall: TALL }, words);
    set(this.blocks, size(w + 2, top + TALL + 26));
    write(this.names, words);
  }

  describe(t) {
    const { found } = gathered(this.run.steps, t);
    if (!found.length) return tr`Before the first step.`;
    const [position, one] = found.at(-1),
      all = one.layers.flat().length,
      [same, i] = alike(found);
    return i < 0 || !same
      ? tr`Position ${position} ${this.#name(position)} reads ${all} slots, all of them its own.`
      : tr`Position ${position} ${this.#name(position)} reads ${all} slots, ${same} of them as position ${found[i][0]} \
${this.#name(found[i][0])} did.`;
  }
}
