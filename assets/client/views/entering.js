// Two ways into a draft's layer: patches of the picture as they are, words through fc with the model's state before
// them. A switch takes another draft, whose patches may go through fc as well; below, what it says first of each word
// of the same text, filled where it is the word.

import { el, set, svg } from "../player/dom.js";
import { CHIP, StepPicture } from "../player/drawing.js";
import { CLASSES, LEARNT, shares, words } from "../player/firstguesses.js";
import { means, pictureOf } from "../player/pixels.js";
import { cut, glyphs, tr } from "../player/words.js";

export const view = { title: "How the picture enters the draft", place: 14, needs: ["inputs"] };

const WIDE = {
    side: 150,
    tiles: 176,
    pitch: 18,
    rows: 2,
    begin: 176,
    fc: [510, 108, 64, 42],
    layer: [640, 130],
    most: 4,
  },
  SMALL = { side: 96, tiles: 106, pitch: 9, rows: 4, begin: 6, fc: [178, 118, 48, 34], layer: [262, 76], most: 2 },
  HIGH = 178, // of the ways
  LANE = 36, // the patches' way
  CELL = 80,
  LINE = CHIP + 24, // a line of words
  LINES = 5,
  ROW = 46, // a class of words
  MOST = 36, // patches
  NARROW = 790,
  BESIDE = 1090; // room for bars beside the ways
export class Entering extends StepPicture {
  filled = "first";
  none = tr`What the drafts say was not recorded in this step.`;

  scene = svg("image", { style: "image-rendering:pixelated" });
  layers = ["ways", this.scene, "tiles", "boxes", "read", "bars", "strip"];
  drafts = el("span", { class: "dx-sliding", role: "group", "aria-label": tr`Drafts` });
  switch = el("p", "dx-sliding", tr`Patches enter`, this.drafts);
  above = [this.switch];

  /** The number of the draft that is shown: a person's choice, else the one that drafts. */
  #at({ names, drafting }) {
    return Math.max(0, names.indexOf(names.includes(this.chosen) ? this.chosen : drafting));
  }

  also(told) {
    const names = told?.names ?? [];
    this.switch.hidden = names.length < 2;
    const items = names.map((name, i) => {
      const way = told.ways[i] === "fused" ? tr`through fc` : tr`as they are`,
        words = tr`${way}, trained on ${LEARNT[told.learnt_from[i]]}`;
      return [words, i === this.#at(told), () => (this.chosen = name)];
    });
    this.buttons(this.drafts, items, "dx-toggle");
  }

  draw(told) {
    const { width } = this,
      wide = width >= NARROW,
      size = wide ? WIDE : SMALL,
      beside = width >= BESIDE,
      at = this.#at(told),
      done = this.run.steps.slice(0, this.t),
      top = (beside ? HIGH : HIGH + 3 * ROW + 34) + 26,
      labels = [],
      cells = this.#strip(done, at, top, labels);
    this.#scene(told.patches, size, labels);
    this.#read(done, size);
    this.paint(top + 6 + Math.ceil(cells.length / this.columns) * LINE, labels, {
      ...this.#ways(told, told.ways[at] === "fused", size, labels),
      bars: this.#bars(told, at, done, beside ? 830 : 0, beside ? 0 : HIGH, labels),
    });
    return cells.slice(-words(done.at(-1), at).length);
  }

  #scene(patches, { side }, labels) {
    const vision = patches && this.run.steps.find((step) => step.vision?.pixels)?.vision;
    this.scene.style.display = vision ? "" : "none";
    if (patches) labels.push([0, side + 22, "start", tr`${patches} patches`]);
    if (!vision || this.drawn === vision.pixels) return;
    Object.assign(this, { drawn: vision.pixels, colours: means(vision.pixels, vision.grid) });
    set(this.scene, { x: 0, y: 4, width: side, height: side, href: pictureOf(vision.pixels) });
  }

  #ways({ patches }, fused, { side, tiles, pitch, rows, begin, fc, layer }, labels) {
    const [x, y, w, h] = fc,
      [left, wide] = layer,
      middle = y + h / 2,
      shown = Math.min(patches, MOST),
      per = Math.ceil(shown / rows),
      right = "m-8,-6l8,6l-8,6",
      bend = Math.max(x - 30, tiles + per * pitch),
      end = fused
        ? `H${Math.min(bend, x + w / 2 - 6)}Q${x + w / 2},${LANE} ${x + w / 2},${y - 3}m-6,-8l6,8l6,-8`
        : `H${left - 3}${right}`,
      ways = [
        patches ? `M${side + 4},${LANE}${end}` : "",
        `M${begin},${middle}H${x - 3}${right}`,
        `M${x + w / 2},${HIGH - 16}V${y + h + 3}m-6,8l6,-8l6,8`,
        `M${x + w},${middle}H${left - 3}${right}`,
        `M${left + wide / 2},${HIGH - 22}v18m-6,-8l6,8l6,-8`,
      ];
    if (patches && !fused && rows < 4) labels.push([left - 14, LANE - 12, "end", tr`as they are`]);
    labels.push(
      [x + w / 2, middle + 4, "middle", "fc"],
      [left + wide / 2, HIGH / 2 - 2, "middle", side > 100 ? tr`draft's layer` : tr`layer`],
      [x + w / 2, HIGH - 2, "middle", tr`the model's state`],
    );
    const box = { class: "dx-slab", rx: 8 },
      look = (i) => (i ? { class: "", style: "stroke:var(--muted)" } : { class: "dx-exit", style: "" });
    return {
      ways: ways.map((d, i) => ["path", { "stroke-width": 3, d, ...look(i) }]),
      boxes: [
        ["rect", { ...box, x, y, width: w, height: h }],
        ["rect", { ...box, x: left, y: 8, width: wide, height: HIGH - 30 }],
      ],
      tiles: Array.from({ length: shown }, (_, i) => {
        const across = tiles + (i % per) * pitch,
          down = LANE + (Math.floor(i / per) - rows / 2) * pitch,
          style = `fill:${this.colours?.[i] ?? "var(--accent)"};stroke:var(--accent)`;
        return ["rect", { x: across, y: down, width: pitch - 2, height: pitch - 2, style }];
      }),
    };
  }

  /** The last words before this step. */
  #read(done, { begin, fc, most }) {
    const wrote = done.slice(0, -1).flatMap((step) => words(step, 0).map(({ token }) => token)),
      room = (fc[0] - begin - 16) / most,
      tokens = [...this.run.prompt.slice(-most), ...wrote].slice(-most);
    const items = tokens.map((token, i) => ({
      x: begin + (i + 0.5) * room,
      y: fc[1] + fc[3] / 2 - CHIP / 2,
      state: "old",
      whole: this.#word(token),
    }));
    this.chips(this.read, items, room - 4);
  }

  /** By class of word how often the draft says it first, against another draft. */
  #bars({ names, drafting, learnt_from: learnt }, at, done, left, top, labels) {
    const text = learnt.indexOf("text"),
      other = [text, names.indexOf(drafting)].find((one) => one >= 0 && one !== at) ?? -1,
      drafts = other < 0 ? [at] : [at, other],
      counts = drafts.map((draft) => shares(done, draft)),
      long = Math.min(260, this.width - left - 60),
      grey = other < 0 ? "" : other === text ? tr`; grey: text only` : tr`; grey: this run's draft`;
    labels.push([left, top + 16, "start", tr`first guess right${grey}`]);
    return Object.entries(CLASSES).flatMap(([kind, name], row) => {
      labels.push([left, top + 38 + row * ROW, "start", name]);
      return counts.map((share, k) => {
        const [right, all] = share[kind],
          y = top + 42 + row * ROW + k * 13,
          width = all ? (long * right) / all : 0,
          style = k ? "fill:var(--muted)" : "";
        labels.push([left + width + 6, y + 10, "start", all ? `${right} / ${all}` : "–"]);
        return [{ "data-s": k ? "masked" : "accepted" }, ["rect", { rx: 3, x: left, y, width, height: 11, style }]];
      });
    });
  }

  #word(token) {
    const { kind, text } = this.run.piece(token);
    return kind === "special" ? (this.run.eos.has(token) ? tr`end` : glyphs(text)) : glyphs(text.trim());
  }

  /** The words that were written, and below those that the draft does not say first what it says. */
  #strip(done, at, top, labels) {
    this.columns = Math.max(1, Math.floor(this.width / CELL));
    const all = done.flatMap((step) => words(step, at)),
      shown = all.slice(Math.max(0, Math.ceil(all.length / this.columns) - LINES) * this.columns);
    labels.push([0, top - 8, "start", tr`this draft's first guess at each word`]);
    const items = shown.map(({ token, first }, i) => {
      const right = token === first,
        whole = this.#word(token),
        x = (i % this.columns) * CELL + CELL / 2,
        y = top + Math.floor(i / this.columns) * LINE;
      if (!right) labels.push([x, y + CHIP + 14, "middle", `✕ ${cut(this.#word(first), 7)}`]);
      return { x, y, whole, state: right ? "accepted" : "masked", text: `${right ? "✓ " : ""}${cut(whole, 7)}` };
    });
    return this.chips(this.strip, items, CELL - 4);
  }

  sentence(told, _, t) {
    const at = this.#at(told),
      all = Object.values(shares(this.run.steps.slice(0, t), at)),
      [right, of] = [0, 1].map((k) => all.reduce((sum, pair) => sum + pair[k], 0)),
      fused = told.ways[at] === "fused";
    let way = tr`There is no picture: words go through fc, with the model's state before them.`;
    if (told.patches && fused) way = tr`Patches go through fc like words, with the model's state before them.`;
    else if (told.patches)
      way = tr`Patches enter the draft's layer as they are; words go through fc, with the model's state before them.`;
    const whose = told.names[at] === told.drafting ? "" : tr` Another draft wrote this text.`;
    return tr`${way} Right at ${right} of ${of} words.${whose}`;
  }
}
