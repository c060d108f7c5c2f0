// A picture of a word as it is read: where each position looks, which positions are predicted occupied, the letters and
// their counts. Beside it the calls of reading letter by letter: this run's, else derived from its word.

import { unpack } from "../player/codec.js";
import { el, set, svg } from "../player/dom.js";
import { MIDDLE, render, StepPicture } from "../player/drawing.js";
import { fill } from "../player/pixels.js";
import { glyphs, percent, tr } from "../player/words.js";

export const view = { title: "The picture and what is read", place: 16, needs: ["sight"] };

const WIDE = 900, // of a panel in which the parts stand side by side
  MOST = 620, // of the picture
  LADDER = 318, // width of the calls
  LABELS = 150, // of the rows' names
  TOP = 26, // of the picture, below its title
  STRIP = 12, // height of the strip that tells where this step looked
  FALL = 52, // of the lines
  BAR = 30, // height of a position's bar
  BOX = 42,
  ROW = 27, // of a call
  TILE = 22,
  LEFT = 58;
const BOLD = "font-weight:600";

export class Word extends StepPicture {
  early = true;
  image = svg("image", { preserveAspectRatio: "none", style: "image-rendering:pixelated" });
  canvas = el("canvas");
  layers = [this.image, "strip", "lines", "bars", "boxes", "stacks", "calls"];
  told = () => true;

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
      const piece = this.run.piece(entry.token),
        end = piece.kind === "special";
      found.push({ ...entry, end, word: end ? tr`end` : glyphs(piece.text, 3), looked: this.#looked(entry.step, at) });
    }
  }

  #looked(step, at) {
    const { sight, commits } = this.run.steps[step];
    if (!sight?.attention) return null;
    const { values, shape } = unpack(sight.attention),
      own = commits.positions.filter((_, i) => !["forced", "withdrawn"].includes(commits.causes[i])),
      row = own.indexOf(at);
    return row < 0 ? null : [...values.slice(row * shape[1], (row + 1) * shape[1])];
  }

  draw() {
    const { t } = this,
      places = this.#places(t),
      filled = this.#sight(t, "filled") ?? [],
      counts = Object.entries(this.#sight(t, "counts") ?? {}),
      atOnce = Boolean(this.#sight(Infinity, "filled")),
      wide = this.width >= WIDE,
      left = wide ? LADDER + 24 + LABELS : 0,
      w = Math.min(MOST, this.width - left - (wide && atOnce ? 240 : 2)),
      high = w / 4,
      n = Math.max(filled.length, this.#places(this.run.length).length, 1),
      x = (i) => left + ((i + 0.5) * w) / n,
      frame = { left, w, n, x, wide, side: Math.min(BOX, w / n - 4) };
    const y = { strip: TOP + high + 2, bars: TOP + high + 2 + STRIP + FALL };
    y.boxes = y.bars + (atOnce ? BAR + (w / n > 40 ? 22 : 8) + (wide ? 0 : 16) : 0);
    y.foot = y.boxes + BOX + 6;
    const title = atOnce ? tr`This run: one call reads the whole word` : tr`Each call looks where the next letter is`,
      labels = [[left, 14, "start", title, BOLD]];
    this.#picture(t, { ...frame, high });
    this.#strip(places, t, { ...frame, y });
    this.#occupied(filled, labels, { ...frame, y });
    const boxes = this.#boxes(places, filled, t, { ...frame, y });
    const wrote = this.#stacks(counts, labels, { ...frame, y });
    const all = { places: atOnce ? this.#places(this.run.length) : places, t, y: wide ? TOP : wrote + 30 },
      foot = letterCalls(this.calls, { ...all, w: wide ? LADDER : this.width }, labels);
    const calls = atOnce ? tr`Baseline: one letter per call (derived)` : tr`One letter per call`;
    if (foot) labels.push([0, all.y - 12, "start", calls, BOLD]);
    if (wide && t)
      labels.push(
        [left - 10, y.strip + 11, "end", tr`looks here`],
        ...(atOnce ? [[left - 10, y.bars + 20, "end", tr`context: occupied?`]] : []),
        [left - 10, y.boxes + 26, "end", atOnce ? tr`all letters` : tr`letters so far`],
      );
    else if (t && atOnce) labels.push([0, y.bars + BAR + 15, "start", tr`context: occupied?`]);
    this.frame(Math.max(y.foot, wrote, foot), labels);
    return boxes.slice(places.findIndex(({ step }) => step === t - 1));
  }

  #picture(t, { left, w, high }) {
    const pixels = this.#sight(Math.max(1, t), "pixels");
    set(this.image, { x: left, y: TOP, width: w, height: high });
    this.image.style.display = pixels ? "" : "none";
    if (!pixels || this.drawn === pixels) return;
    this.drawn = pixels;
    const { values, shape } = unpack(pixels);
    fill(this.canvas, shape, (i) => Array(3).fill(values[i]));
    set(this.image, { href: this.canvas.toDataURL() });
  }

  /** Where this step looked, the most that any of its letters took of each column, and a line from there to each. */
  #strip(places, t, { left, w, x, y }) {
    const some = places.flatMap(({ looked, step }, i) => (looked ? [{ looked, now: step === t - 1, i }] : [])),
      rows = some.filter(({ now }) => now).map(({ looked }) => looked),
      columns = rows[0]?.length ?? 0;
    const column = Array.from({ length: columns }, (_, i) => Math.max(...rows.map((row) => row[i])).toFixed(3)),
      cell = { height: STRIP, class: "dx-warm", y: y.strip, width: w / columns };
    render(this.strip, column, (opacity, i) => ["rect", { ...cell, x: left + (i * w) / columns, opacity }]);
    render(this.lines, some, ({ looked, now, i }) => {
      const whole = looked.reduce((a, b) => a + b, 0) || 1,
        mean = looked.reduce((sum, share, column) => sum + share * (column + 0.5), 0) / whole,
        from = left + (mean / looked.length) * w,
        d = `M${from.toFixed(1)},${y.strip + STRIP}L${x(i).toFixed(1)},${y.bars - 2}`;
      return ["path", { d, style: `stroke:var(--${now ? "accent" : "line"});stroke-width:2;opacity:1` }];
    });
  }

  /** For each position the predicted probability that something stands there. */
  #occupied(filled, labels, { x, y, side, w, n }) {
    render(this.bars, filled, (share, i) => {
      const high = share * BAR,
        box = { rx: 3, x: x(i) - side / 2, width: side };
      if (w / n > 40) labels.push([x(i), y.bars + BAR + 14, "middle", percent(share)]);
      return [
        {},
        ["rect", { ...box, class: "dx-slab", y: y.bars, height: BAR }],
        ["rect", { ...box, class: "dx-warm", y: y.bars + BAR - high, height: high }],
      ];
    });
  }

  #boxes(places, filled, t, { x, y, side, n }) {
    const all = Array.from({ length: t && n }, (_, i) => places[i]);
    return render(this.boxes, all, (place, i) => {
      const fresh = place?.step === t - 1,
        fill = place && !place.end ? "var(--fill)" : "none",
        style = `fill:${fill};stroke:var(--${place ? "edge" : "muted"});stroke-width:${fresh ? 2 : 1}`,
        dash = filled.length && !(filled[i] > 0.5) ? "3 4" : "none",
        box = { rx: 5, height: BOX, x: x(i) - side / 2, y: y.boxes, width: side, "stroke-dasharray": dash, style },
        look = `font-size:${place?.end ? 13 : 22}px${place?.end ? ";fill:var(--text)" : ""}`;
      return [
        { "data-s": fresh ? "new" : "old" },
        ["rect", box],
        ["text", { ...MIDDLE, x: x(i), y: y.boxes + 28, style: look }, place?.word ?? ""],
      ];
    });
  }

  /** How often each letter was counted; gives its foot. */
  #stacks(counts, labels, { left, w, wide, y }) {
    const x0 = wide ? left + w + 40 : 0,
      top = wide ? TOP : y.foot + 34,
      bits = counts.flatMap(([, count], i) => Array.from({ length: count }, (_, k) => [i, k]));
    const bit = { class: "dx-warm", width: 16, height: 16, rx: 3 };
    render(this.stacks, bits, ([i, k]) => ["rect", { ...bit, x: x0 + 24 + k * 20, y: top + i * 26 }]);
    if (!counts.length) return y.foot;
    labels.push([x0, top - 12, "start", tr`Context: letters counted`, BOLD]);
    counts.forEach(([sign, count], i) => {
      labels.push([x0, top + 13 + i * 26, "start", glyphs(sign, 3)]);
      labels.push([x0 + 30 + count * 20, top + 13 + i * 26, "start", `× ${count}`]);
    });
    return top + counts.length * 26 + 4;
  }

  describe(t) {
    if (!t || !this.#sight(t, "attention")) return tr`Not read yet.`;
    const text = this.#places(t)
        .filter(({ end }) => !end)
        .map(({ word }) => word)
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

/** places: what stands in the end, [{word, end}]; t: how many calls were made, those after it are dashed. y, w: top and
 * width of the drawing. Gives its foot, 0 where there is none. */
function letterCalls(parent, { places, t, y, w: room }, labels) {
  const w = Math.min(TILE + 2, (room - LEFT - 2) / Math.max(1, places.length)),
    tiles = places.flatMap((_, call) => places.slice(0, call + 1).map((place, i) => ({ ...place, i, call })));
  places.forEach((_, call) => labels.push([0, y + call * ROW + 16, "start", tr`call ${call + 1}`]));
  render(parent, tiles, ({ i, call, word, end }) => {
    const x = LEFT + i * w,
      top = y + call * ROW,
      late = call >= t,
      dash = { "stroke-dasharray": late ? "3 3" : "none", style: "fill:var(--fill);stroke:var(--edge)" };
    return [
      { "data-s": i < call ? "old" : "new", opacity: late ? 0.45 : 1 },
      ["rect", { rx: 4, height: TILE, x, y: top, width: w - 2, ...dash }],
      ["text", { ...MIDDLE, x: x + w / 2 - 1, y: top + 16 }, end ? "■" : word.slice(0, w > TILE ? 3 : 1)],
    ];
  });
  return places.length && y + places.length * ROW;
}
