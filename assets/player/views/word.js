// A picture of a word as it is read: its pixels, where each letter was looked up, the places with their letters, and,
// where the reader counts, how often each letter occurs.

import { glyphs, unpack } from "../codec.js";
import { el, pool, set, setText, svg } from "../dom.js";
import { tr } from "../words.js";

export const view = { name: "Word", title: "The picture and what is read", place: 16, needs: ["sight"] };

const WIDE = 512, // of the drawing below the picture; it shrinks with the panel
  STRIP = 10, // height of the strip that tells where this step looked
  TOP = 56, // of the boxes
  BOX = 40,
  STACK = 84; // height of the stacks of counted letters, their names below it

const LOOK = "display:block;width:100%;max-width:560px";

export class Word {
  load(run, dom) {
    this.run = run;
    this.say = el("p", "dx-readout");
    this.canvas = el("canvas", {
      role: "img",
      "aria-label": tr`The picture that is read`,
      style: `${LOOK};image-rendering:pixelated;border:1px solid var(--line);box-sizing:border-box`,
    });
    this.svg = svg("svg", { role: "img", style: LOOK });
    this.parts = ["strip", "lines", "boxes", "stacks"].map(() => svg("g"));
    this.svg.append(...this.parts);
    this.key = el("p", "dx-readout");
    dom.append(this.say, this.canvas, this.svg, this.key);
  }

  /** The latest of a kind after t steps. */
  #sight(t, part) {
    const has = ({ sight }) => sight?.[part] && Object.keys(sight[part]).length;
    return this.run.steps.slice(0, t).findLast(has)?.sight[part];
  }

  /** What stands at each place after t steps, with the attention of the step that wrote it. */
  #places(t) {
    const found = [];
    for (let at = this.run.prompt.length; ; at++) {
      const entry = this.run.written(at, t);
      if (!entry || entry.token < 0) return found;
      found.push({ ...entry, looked: this.#looked(this.run.steps[entry.step], at) });
    }
  }

  #looked({ sight, commits }, at) {
    if (!sight?.attention) return null;
    const { values, shape } = unpack(sight.attention),
      own = commits.positions.filter((_, i) => !["forced", "withdrawn"].includes(commits.causes[i])),
      row = own.indexOf(at);
    return row < 0 ? null : [...values.slice(row * shape[1], (row + 1) * shape[1])];
  }

  show(t, hurry) {
    if (hurry) return;
    const places = this.#places(t),
      fresh = places.filter(({ step }) => step === t - 1),
      counts = Object.entries(this.#sight(t, "counts") ?? {}),
      filled = this.#sight(t, "filled") ?? [];
    this.#picture(t);
    this.#strip(fresh);
    this.wide = Math.max(filled.length, places.length, 1); // boxes in the row
    this.#lines(places, t);
    this.#boxes(places, filled, t);
    this.#stacks(counts);
    const counting = this.#sight(Infinity, "counts");
    set(this.svg, { viewBox: `0 0 ${WIDE} ${TOP + BOX + 8 + (counting ? STACK + 34 : 0)}` });
    const words = this.describe(t);
    setText(this.say, words);
    set(this.svg, { "aria-label": words });
    setText(
      this.key,
      this.#sight(Infinity, "filled")
        ? tr`Lines: the centre of where a position attended. \
Dashed boxes: positions predicted empty. Stacks: letters as counted.`
        : tr`Strip and coloured line: where this step looked. Grey lines: the steps before.`,
    );
  }

  #picture(t) {
    const pixels = this.#sight(Math.max(1, t), "pixels"); // it is there before it is read
    this.canvas.hidden = !pixels;
    if (!pixels || this.drawn === pixels) return;
    this.drawn = pixels;
    const {
        values,
        shape: [rows, columns],
      } = unpack(pixels),
      pen = this.canvas.getContext("2d");
    Object.assign(this.canvas, { width: columns, height: rows });
    const image = pen.createImageData(columns, rows);
    values.forEach((grey, i) => image.data.set([grey * 255, grey * 255, grey * 255, 255], 4 * i));
    pen.putImageData(image, 0, 0);
  }

  /** Where this step looked: the most that any of its letters took of each column. */
  #strip(fresh) {
    const rows = fresh.map(({ looked }) => looked).filter(Boolean),
      columns = rows[0]?.length ?? 0;
    pool(this.parts[0], columns, () => svg("rect", { y: 0, height: STRIP })).forEach((cell, i) =>
      set(cell, {
        x: (i * WIDE) / columns,
        width: WIDE / columns,
        fill: "var(--accent)",
        "fill-opacity": Math.max(...rows.map((row) => row[i])).toFixed(3),
      }),
    );
  }

  #x(i, n) {
    const step = Math.min(BOX + 6, WIDE / Math.max(1, n));
    return (WIDE - step * n) / 2 + step * (i + 0.5);
  }

  #lines(places, t) {
    const some = places.flatMap(({ looked, step }, i) => (looked ? [{ looked, step, i }] : []));
    pool(this.parts[1], some.length, () => svg("line", { y1: STRIP, y2: TOP })).forEach((line, at) => {
      const { looked, step, i } = some[at],
        whole = looked.reduce((a, b) => a + b, 0) || 1,
        mean = looked.reduce((sum, share, column) => sum + share * (column + 0.5), 0) / whole;
      set(line, {
        x1: ((mean / looked.length) * WIDE).toFixed(1),
        x2: this.#x(i, this.wide).toFixed(1),
        stroke: step === t - 1 ? "var(--accent)" : "var(--line)",
        "stroke-width": 2,
      });
    });
  }

  #boxes(places, filled, t) {
    const n = this.wide,
      side = Math.min(BOX, WIDE / n - 4);
    const make = () => svg("g", {}, svg("rect", { rx: 5 }), svg("text", { "text-anchor": "middle" }));
    pool(this.parts[2], t && n, make).forEach((group, i) => {
      const [box, text] = group.childNodes,
        place = places[i],
        piece = place && this.run.piece(place.token),
        end = piece?.kind === "special",
        fresh = place?.step === t - 1;
      set(box, {
        x: (this.#x(i, n) - side / 2).toFixed(1),
        y: TOP,
        width: side.toFixed(1),
        height: BOX,
        fill: place && !end ? "var(--raised)" : "none",
        stroke: fresh ? "var(--accent)" : "var(--muted)",
        "stroke-width": fresh ? 2 : 1,
        "stroke-dasharray": filled.length && !(filled[i] > 0.5) ? "3 4" : "none",
      });
      set(text, { x: this.#x(i, n).toFixed(1), y: TOP + 27, fill: "var(--text)", "font-size": end ? 13 : 22 });
      setText(text, piece ? (end ? tr`end` : glyphs(piece.text, 3)) : "");
    });
  }

  /** A stack of squares for each letter that was counted. */
  #stacks(counts) {
    const foot = TOP + BOX + 8 + STACK,
      high = Math.min(14, STACK / Math.max(1, ...counts.map(([, count]) => count))),
      bits = counts.flatMap(([, count], i) => Array.from({ length: count }, (_, level) => [i, level]));
    if (!this.stacks) this.parts[3].append(...(this.stacks = [svg("g"), svg("g")]));
    pool(this.stacks[0], bits.length, () => svg("rect", { fill: "var(--accent)" })).forEach((bit, at) => {
      const [i, level] = bits[at];
      set(bit, { x: this.#x(i, counts.length) - 9, y: foot - (level + 1) * high, width: 18, height: high - 2 });
    });
    const name = () => svg("text", { "text-anchor": "middle", fill: "var(--text)", "font-size": 15 });
    pool(this.stacks[1], counts.length, name).forEach((text, i) => {
      set(text, { x: this.#x(i, counts.length), y: foot + 20 });
      setText(text, `${glyphs(counts[i][0], 3)} ${counts[i][1]}`);
    });
  }

  describe(t) {
    if (!t || !this.#sight(t, "attention")) return tr`Not read yet.`;
    const text = this.#places(t)
        .map(({ token }) => this.run.piece(token))
        .filter(({ kind }) => kind !== "special")
        .map((piece) => glyphs(piece.text, 3))
        .join(""),
      counts = Object.entries(this.#sight(t, "counts") ?? {}),
      filled = this.#sight(t, "filled") ?? [];
    if (!filled.length) return tr`Read so far: ‘${text}’ after step ${t}.`;
    const listed = counts.map(([sign, count]) => `${glyphs(sign, 3)} ${count}`).join(", "),
      full = filled.filter((p) => p > 0.5).length;
    return tr`Counted: ${listed}. Positions predicted occupied: ${full} of ${filled.length}. Read: ‘${text}’ after \
step ${t}.`;
  }
}
