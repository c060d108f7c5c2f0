// A word in a scene: picture, mask, boxes and the caption; beside them how every light reading fits the caption, a
// gauge with the threshold, the switch to the heavy reader, and what that reads.
import { unpack } from "../player/codec.js";
import { el, set, setText, svg } from "../player/dom.js";
import { Parts } from "../player/drawing.js";
import { fill } from "../player/pixels.js";
import { short } from "../player/sliding.js";
import { cut, glyphs, tr } from "../player/words.js";

export const view = { title: "The scene and who reads it", place: 17, needs: ["scene"] };

const STAGES = {
  segment: tr`where words are`,
  caption: tr`what is seen`,
  read: tr`light reading`,
  score: tr`does it fit?`,
  heavy: tr`heavy reading`,
};
const BESIDE = 900, // of a panel in which the picture stands beside what is made of it
  MOST = 560, // of the picture, and of the drawing
  TURNS = 5, // of the heavy reader
  ROW = 42; // of a reading
const LOOK = "display:block;width:100%;image-rendering:pixelated";
const GOOD = "var(--accepted-line)",
  BAD = "var(--rejected-line)";

const BOLD = { "font-weight": 600 },
  END = { "text-anchor": "end" },
  MUTED = { fill: "var(--muted)" };

const text = (x, y, words, more) => svg("text", { fill: "var(--text)", "font-size": 14, x, y, ...more }, words);

const little = (value) => (value > 0 && value < 0.005 ? "< 0.01" : short(value));

/** What one region was read as, as wide as w: how it fits by meaning (S) and by spelling (L), or the chance p. Adds to
 * what is drawn; gives its foot. */
function readingOf(drawn, w, y, { source, text: said, confidence, S, L, C, chosen }) {
  const narrow = w < 420,
    words = narrow ? 64 : 84,
    left = words + (narrow ? 84 : 112),
    name = (key) => (narrow && key !== "p" ? key : { S: tr`meaning S`, L: tr`spelling L`, p: "" }[key]),
    from = left + (narrow ? 16 : 84),
    long = w - from - 100,
    bars = Object.entries(S == null ? { p: confidence } : { S, L: L ?? 0 });
  drawn.push(
    text(0, y + 27, source, MUTED),
    text(words, y + 29, glyphs(said, narrow ? 6 : 7), { "font-size": 22, "font-weight": chosen ? 700 : 400 }),
    text(w, y + 26, `${C == null ? "p" : "C"} ${little(C ?? confidence)}`, { ...BOLD, ...END }),
  );
  bars.forEach(([key, value], i) => {
    const top = y + (bars.length > 1 ? 6 + 17 * i : 14),
      look = { x: from, y: top, width: Math.max(1, long * value), height: 12, fill: "var(--accent)" };
    drawn.push(text(left, top + 11, name(key), { "font-size": 13 }), svg("rect", look));
    if (key !== "p") drawn.push(text(from + 5 + long * value, top + 11, short(value), { "font-size": 13 }));
  });
  return y + ROW;
}

export class Scene extends Parts {
  chips = this.below(el("p", { style: "display:flex;flex-wrap:wrap;gap:4px;margin:0 0 6px" }));
  canvas = el("canvas", { role: "img", style: LOOK });
  caption = el("p", { style: "margin:6px 0;min-height:1.5em" });
  seen = el("div", { style: `flex:1 1 300px;max-width:${MOST}px;min-width:0` }, this.canvas, this.caption);
  svg = svg("svg", { role: "img", style: "display:block;max-width:100%" });
  both = this.below(el("div", { style: "display:flex;flex-wrap:wrap;gap:6px 32px" }, this.seen, this.svg));
  say = this.below(el("p", "dx-readout"));

  /** The latest of a stage, or of all, after t steps. */
  #scene(t, stage) {
    return this.run.steps.slice(0, t).findLast(({ scene }) => scene && (!stage || scene.stage === stage))?.scene;
  }

  show(t, hurry) {
    this.t = t;
    if (hurry) return;
    const now = this.#scene(t),
      [score, heavy, read] = ["score", "heavy", "read"].map((stage) => this.#scene(t, stage)),
      light = score?.readings ?? read?.readings ?? [],
      drawn = [];
    this.w = Math.min(MOST, this.width > BESIDE ? this.width - MOST - 40 : this.width);
    this.#picture(t, now);
    this.#stages(t, now);
    this.#said(this.#scene(t, "caption")?.caption ?? "", score);
    let y = 0;
    const fits = score ? tr`Light reading: does it fit the caption?` : tr`Light reading, with its chance p`;
    if (light.length) y = this.#readings(drawn, y, fits, light);
    if (score) y = this.#gauge(drawn, y, score);
    if (score || heavy) y = this.#tracks(drawn, y, t, score);
    if (heavy) {
      const shown = heavy.readings.filter((reading) => reading.text).slice(0, 4);
      y = this.#readings(drawn, y, tr`Heavy reading: p, the mean over all views`, shown); // no measure of fit
    }
    this.svg.replaceChildren(...drawn);
    const words = this.describe(t),
      high = Math.max(8, y);
    setText(this.say, words);
    set(this.svg, { viewBox: `0 0 ${this.w} ${high}`, width: this.w, height: high, "aria-label": words });
    set(this.canvas, { "aria-label": words });
  }

  /** Pixels, dimmed where the mask is low, and boxes; the one whose reading is taken is drawn thick. */
  #picture(t, now) {
    const { picture, mask, boxes = [] } = this.#scene(Infinity, "segment") ?? {},
      taken = now?.readings?.findLast(({ chosen }) => chosen)?.source;
    const look = `${!t} ${taken}`;
    this.canvas.hidden = !picture;
    if (!picture || this.drawn === look) return;
    this.drawn = look;
    const { values, shape } = unpack(picture),
      lit = t && mask ? unpack(mask).values : null,
      light = (i) => (lit ? 0.45 + 0.55 * lit[i] : 1);
    fill(this.canvas, [shape[0], shape[1] / 3], (i) => [0, 1, 2].map((part) => values[3 * i + part] * light(i)));
    const pen = this.canvas.getContext("2d");
    pen.strokeStyle = getComputedStyle(this.canvas).getPropertyValue("--warn");
    for (const { row, column, height, width, label } of t ? boxes : []) {
      pen.lineWidth = label === taken ? 3 : 1;
      pen.strokeRect(column, row, width, height);
    }
  }

  #stages(t, now) {
    const there = Object.keys(STAGES).filter((stage) => this.#scene(Infinity, stage)),
      chip = (stage, i) => {
        const past = this.#scene(t, stage),
          quiet = `color:var(--${past ? "text" : "muted"})`,
          look = stage === now?.stage ? "color:var(--on-accent);background:var(--accent)" : quiet,
          style = `padding:1px 9px;border:1px solid var(--${past ? "accent" : "line"});${look}`;
        return el("span", { style }, `${i + 1} ${STAGES[stage]}`);
      };
    this.chips.replaceChildren(...there.map(chip));
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

  /** A scale with the threshold and a needle at the best C; these three return their foot. */
  #gauge(drawn, y, { readings, tau, bypass }) {
    const best = Math.max(...readings.map(({ C }) => C ?? 0)),
      long = this.w - 8,
      at = (value) => 4 + long * Math.min(1, value),
      bar = { y: y + 30, height: 14 },
      [side, anchor] = best > 0.5 ? [-10, "end"] : [10, "start"],
      needle = `M${at(best)},${y + 44}v-16l-6,-11h12l-6,11`;
    drawn.push(
      svg("rect", { ...bar, x: 4, width: at(tau) - 4, fill: BAD, "fill-opacity": 0.35 }),
      svg("rect", { ...bar, x: at(tau), width: 4 + long - at(tau), fill: GOOD, "fill-opacity": 0.5 }),
      svg("path", { d: `M${at(tau)},${y + 26}v22`, stroke: "var(--text)" }),
      svg("path", { d: needle, fill: bypass ? GOOD : BAD, stroke: "var(--text)" }),
      text(at(best) + side, y + 22, tr`best C ${short(best)}`, { ...BOLD, "text-anchor": anchor }),
      text(at(tau), y + 62, tr`threshold τ ${short(tau)}`, END),
      text(4, y + 62, tr`doubtful`, MUTED),
      text(4 + long, y + 62, tr`fits`, { ...MUTED, ...END }),
    );
    return y + 74;
  }

  /** The short track, the long one, and a train; without a gate only the long one. */
  #tracks(drawn, y, t, score) {
    const turns = this.run.steps.slice(0, t).filter(({ scene }) => scene?.stage === "heavy").length,
      fast = score?.bypass,
      path = { fill: "none", "stroke-width": 5 },
      end = this.w - 14,
      near = this.w < 420 ? 112 : 190, // of the short track
      [x, low] = fast ? [near, y + 28] : turns ? [90 + ((end - 90) * turns) / TURNS, y + 82] : [40, y + 29];
    if (score)
      drawn.push(
        svg("path", { ...path, d: `M10,${y + 28}H${near}`, stroke: fast ? GOOD : "var(--line)" }),
        text(near + 16, y + 33, fast ? tr`taken: ${glyphs(score.answer, 10)}` : tr`light reading: not taken`, BOLD),
      );
    const long = score ? `M10,${y + 28}q30,0 44,29t44,25H${end}` : `M10,${y + 82}H${end}`;
    drawn.push(
      svg("path", { ...path, d: long, stroke: fast ? "var(--line)" : BAD }),
      svg("circle", { r: 9, cx: x, cy: low, fill: fast ? GOOD : BAD }),
      text(110, y + 70, fast ? tr`heavy reader: left out` : tr`heavy reader: ${turns} of ${TURNS} turns`, BOLD),
    );
    return y + 100;
  }

  /** What each region was read as, below a title. */
  #readings(drawn, y, title, readings) {
    drawn.push(text(0, y + 16, title, BOLD));
    return readings.reduce((foot, reading) => readingOf(drawn, this.w, foot, reading), y + 20);
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
