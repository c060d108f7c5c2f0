// A word in a scene: picture, mask, boxes, the caption, how every reading fits it, a gauge with
// the line, the switch to the heavy reader.

import { cut, glyphs, number, unpack } from "../codec.js";
import { el, set, setText, svg } from "../dom.js";
import { tr } from "../words.js";

export const view = { name: "Scene", title: "The scene and who reads it", place: 17, needs: ["scene"] };

const STAGES = {
  segment: tr`where words are`,
  caption: tr`what is seen`,
  read: tr`light reading`,
  score: tr`does it fit?`,
  heavy: tr`heavy reading`,
};
const WIDE = 512, // of the drawing below the picture; it shrinks with the panel
  ROW = 42,
  LEFT = 24, // of the gauge
  LONG = 464,
  TURNS = 5; // of the heavy reader
const KEYS = {
  fit: tr`Bars: how well a reading fits the caption, by meaning (S) and by spelling (L). C joins both.`,
  chance: tr`Bar: the chance p that the reader gives its reading.`,
};
const LOOK = "display:block;width:100%;max-width:560px";
const GOOD = "var(--accepted-line)",
  BAD = "var(--rejected-line)";
const text = (x, y, words, more) => ["text", { fill: "var(--text)", "font-size": 14, x, y, ...more }, words];

export class Scene {
  load(run, dom) {
    this.run = run;
    this.say = el("p", "dx-readout");
    this.canvas = el("canvas", { role: "img", style: `${LOOK};image-rendering:pixelated` });
    this.chips = el("p", { style: "display:flex;flex-wrap:wrap;gap:4px;margin:0 0 6px" });
    this.caption = el("p", { style: "margin:6px 0;min-height:1.5em" });
    this.svg = svg("svg", { role: "img", style: LOOK });
    this.key = el("p", "dx-readout");
    dom.append(this.chips, this.canvas, this.caption, this.svg, this.say, this.key);
  }

  /** The latest of a stage, or of all, after t steps. */
  #scene(t, stage) {
    return this.run.steps.slice(0, t).findLast(({ scene }) => scene && (!stage || scene.stage === stage))?.scene;
  }

  show(t, hurry) {
    if (hurry) return;
    const now = this.#scene(t),
      [score, heavy, read] = ["score", "heavy", "read"].map((stage) => this.#scene(t, stage)),
      found = heavy?.readings.filter((reading) => reading.text).slice(0, 4),
      drawn = [];
    this.#picture(t, now);
    this.#stages(t, now);
    this.#said(this.#scene(t, "caption")?.caption ?? "", score);
    let y = score ? this.#gauge(drawn, score) : 0;
    const shown = found ?? score?.readings ?? read?.readings ?? [];
    for (const reading of shown) y = this.#reading(drawn, y, reading);
    this.key.hidden = !shown.length;
    setText(this.key, shown.some(({ S }) => S != null) ? KEYS.fit : KEYS.chance);
    if (score || heavy) y = this.#tracks(drawn, y, t, score);
    this.svg.replaceChildren(...drawn.map(([tag, attributes, words]) => svg(tag, attributes, words ?? null)));
    const words = this.describe(t);
    setText(this.say, words);
    set(this.svg, { viewBox: `0 0 ${WIDE} ${Math.max(8, y)}`, "aria-label": words });
    set(this.canvas, { "aria-label": words });
  }

  /** Pixels, dimmed where the mask is low, and boxes; the one whose reading is taken is drawn thick. */
  #picture(t, now) {
    const { picture, mask, boxes = [] } = this.#scene(Infinity, "segment") ?? {},
      taken = now?.readings?.findLast(({ chosen }) => chosen)?.source;
    this.canvas.hidden = !picture;
    if (!picture || this.drawn === `${!t} ${taken}`) return;
    this.drawn = `${!t} ${taken}`;
    const { values, shape } = unpack(picture),
      lit = t && mask ? unpack(mask).values : null,
      pen = this.canvas.getContext("2d");
    Object.assign(this.canvas, { width: shape[1] / 3, height: shape[0] });
    const image = pen.createImageData(shape[1] / 3, shape[0]);
    image.data.fill(255);
    values.forEach((value, i) => {
      const cell = Math.floor(i / 3);
      image.data[i + cell] = 255 * value * (lit ? 0.45 + 0.55 * lit[cell] : 1);
    });
    pen.putImageData(image, 0, 0);
    pen.strokeStyle = getComputedStyle(this.canvas).getPropertyValue("--warn");
    for (const { row, column, height, width, label } of t ? boxes : []) {
      pen.lineWidth = label === taken ? 3 : 1;
      pen.strokeRect(column, row, width, height);
    }
  }

  #stages(t, now) {
    const there = Object.keys(STAGES).filter((stage) => this.#scene(Infinity, stage));
    this.chips.replaceChildren(
      ...there.map((stage, i) => {
        const fresh = stage === now?.stage,
          past = this.#scene(t, stage),
          style = `padding:1px 9px;border:1px solid var(--${past ? "accent" : "line"});`;
        const look = fresh
          ? "color:var(--on-accent);background:var(--accent)"
          : `color:var(--${past ? "text" : "muted"})`;
        return el("span", { style: style + look }, `${i + 1} ${STAGES[stage]}`);
      }),
    );
  }

  /** The caption; the words that the best reading was held against are underlined. */
  #said(caption, score) {
    const best = score?.readings.filter(({ chosen }) => chosen).sort((a, b) => b.C - a.C)[0],
      run = best?.L > 0.5 ? best.run : "",
      at = run && run !== caption ? ` ${caption} `.indexOf(` ${run} `) : -1,
      parts = at < 0 ? [caption] : [caption.slice(0, at), run, caption.slice(at + run.length)];
    this.caption.replaceChildren(
      ...parts.map((part, i) => el("span", { style: i === 1 && `border-bottom:3px solid ${GOOD}` }, cut(part, 400))),
    );
  }

  /** A scale with the line and a needle at the best C; these three return their foot. */
  #gauge(drawn, { readings, tau, bypass }) {
    const best = Math.max(...readings.map(({ C }) => C ?? 0)),
      at = (value) => LEFT + LONG * Math.min(1, value),
      bar = { y: 24, height: 12 },
      side = best > 0.5 ? -1 : 1;
    drawn.push(
      ["rect", { ...bar, x: LEFT, width: at(tau) - LEFT, fill: BAD, "fill-opacity": 0.35 }],
      ["rect", { ...bar, x: at(tau), width: LEFT + LONG - at(tau), fill: GOOD, "fill-opacity": 0.5 }],
      ["path", { d: `M${at(tau)},20v20`, stroke: "var(--text)" }],
      ["path", { d: `M${at(best)},36v-14l-6,-11h12l-6,11`, fill: bypass ? GOOD : BAD, stroke: "var(--text)" }],
      text(at(tau), 53, `τ ${number(tau)}`, { "text-anchor": "middle" }),
      text(at(best) + side * 36, 18, `C ${number(best)}`, { "text-anchor": "middle" }),
    );
    return 62;
  }

  #reading(drawn, y, { source, text: said, confidence, S, L, C, chosen }) {
    const bar = (value, row, fill) => ["rect", { x: 270, y: y + row, width: 150 * value, height: 10, fill }];
    drawn.push(
      text(4, y + 26, source, { fill: "var(--muted)" }),
      text(104, y + 29, glyphs(said, 10), { "font-size": 22, "font-weight": chosen ? 700 : 400 }),
      bar(S ?? confidence, 9, "var(--accent)"),
      bar(L ?? 0, 22, "var(--muted)"),
      text(432, y + 26, C == null ? `p ${number(confidence)}` : `C ${number(C)}`),
    );
    return y + ROW;
  }

  /** The short track, the long one, and a train. */
  #tracks(drawn, y, t, score) {
    const turns = this.run.steps.slice(0, t).filter(({ scene }) => scene?.stage === "heavy").length,
      fast = score?.bypass,
      path = { fill: "none", "stroke-width": 5 },
      [x, low] = fast ? [200, y + 28] : turns ? [90 + (400 * turns) / TURNS, y + 72] : [40, y + 29];
    drawn.push(
      ["path", { ...path, d: `M30,${y + 28}H200`, stroke: fast ? GOOD : "var(--line)" }],
      ["path", { ...path, d: `M30,${y + 28}q30,0 44,24t44,20H490`, stroke: fast ? "var(--line)" : BAD }],
      ["circle", { r: 9, cx: x, cy: low, fill: fast ? GOOD : BAD }],
      text(218, y + 33, fast ? tr`taken: ${glyphs(score.answer, 10)}` : tr`light reading`),
      text(150, y + 60, fast ? tr`heavy reader: left out` : tr`heavy reader: ${turns} of ${TURNS} turns`),
    );
    return y + 90;
  }

  describe(t) {
    const now = this.#scene(t);
    if (!now) return tr`Nothing was looked at yet.`;
    if (now.answer) return tr`Read: ‘${glyphs(now.answer, 10)}’, by ${now.source}, after step ${t}.`;
    if (["score", "heavy"].includes(now.stage)) return tr`No reading fits well enough; the heavy reader reads.`;
    if (now.stage === "read") return tr`Light: ${now.readings.map(({ text }) => glyphs(text, 10)).join(", ")}.`;
    if (now.stage === "caption") return tr`The caption is being written.`;
    return tr`Boxes with words: ${(now.boxes ?? []).length}.`;
  }
}
