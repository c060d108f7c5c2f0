// A grid of picture tokens that fills in, three times: one token per call (derived from the same picture), as this run
// filled it, and with the number of the call that accepted each token. Below, the window of the call: what was guessed
// one call ago, the test of each guess, and the guesses for the next call. Without colours the shade is the code's
// number, and the grid stands alone.

import { unpack } from "../player/codec.js";
import { el, pool, set, setText, sizeCanvas } from "../player/dom.js";
import { ramp } from "../player/theme.js";
import { number, tr } from "../player/words.js";
import { GuessWindow } from "./mediawindow.js";

export const view = { title: "Guesses of one call, tested by the next", place: 15, needs: ["media"] };

const ROOM = 336, // pixels that a picture takes if it can
  GAP = 36, // between pictures
  CELLS = 65536, // of a picture, and of a side, at most: what is larger is not drawn
  SIDE = 4096,
  GUESS = 0.24, // of a cell that a guess leaves free on each side
  LETTER = 7.4,
  BESIDE = 672; // of a panel: three pictures fit

const fits = ([rows, columns]) => rows * columns <= CELLS && Math.max(rows, columns) <= SIDE;

export class Media extends GuessWindow {
  panels = el("div", { style: "display:flex;flex-wrap:wrap;margin:2px 0 6px" });
  above = [this.panels];

  grow() {
    const codes = this.run.steps.flatMap(({ media }) => (media ? [unpack(media.codes).values] : []));
    this.top = codes.reduce((most, values) => values.reduce((a, b) => Math.max(a, b), most), 1);
    this.whole = this.#latest(this.run.length);
  }

  #latest(t) {
    return this.run.steps.slice(0, t).findLast(({ media }) => media && fits(media.codes.shape))?.media;
  }

  show(t, hurry) {
    this.#pictures(t);
    super.show(t, hurry);
  }

  #pictures(t) {
    const media = this.#latest(t) ?? this.whole,
      [rows, columns] = media?.codes.shape ?? [1, 1],
      three = Boolean(media?.colours),
      mode = this.context.mode(),
      beside = this.width > BESIDE,
      gap = beside ? GAP : 12,
      room = Math.min(ROOM, beside ? this.width / 3 - GAP : this.width - gap),
      kinds = media ? (three ? ["baseline", "filled", "effort"] : ["filled"]) : [],
      make = () =>
        el("figure", { style: "margin:0" }, el("figcaption"), el("canvas", { role: "img" }), el("p", "dx-readout"));
    this.panels.style.gap = `8px ${gap}px`;
    pool(this.panels, kinds.length, make).forEach((figure, i) => {
      const [title, canvas, said] = figure.childNodes,
        wide = beside || i === 2 || !three ? room : room / 2,
        size = Math.max(3, Math.min(40, Math.floor(wide / columns), Math.floor(1.4 * (wide / rows)))),
        pen = sizeCanvas(canvas, columns * size, rows * size);
      title.style.cssText = `font-weight:600;width:${columns * size}px;min-width:${beside ? 290 : 0}px`;
      figure.style.width = beside || !three ? "" : `${columns * size}px`;
      const frame = { t, size, columns, rows, mode, surface: this.context.theme.surface[mode] },
        words = this[kinds[i]](t ? media : null, pen, frame);
      setText(title, words[0]);
      setText(said, words[1]);
      set(canvas, { "aria-label": words.join(": ") });
    });
  }

  /** The baseline: the same picture, one token in each call. */
  baseline(_, pen, frame) {
    const { values } = unpack(this.whole.codes),
      n = Math.min(frame.t, values.length);
    cells(pen, frame, (i) => i < n && this.whole.colours[values[i]]);
    return [tr`Baseline: one token per call (derived)`, this.#reached(frame.t, n, values.length)];
  }

  #reached(t, n, all) {
    return t ? tr`after call ${t}: ${n} of ${all} tokens` : tr`before the first call`;
  }

  /** The picture of this run, and what its latest call did. */
  filled(media, pen, frame) {
    const values = media ? unpack(media.codes).values : [],
      guesses = new Set(media?.guesses ?? []),
      shades = ramp(this.context.theme, this.context.mode()),
      shade = (code) => shades[Math.round((code / this.top) * (shades.length - 1))].fill;
    const fill = (i) => values[i] >= 0 && (media.colours?.[values[i]] ?? shade(values[i]));
    cells(pen, frame, fill, (i) => (guesses.has(i) ? GUESS : 0));
    const title = tr`This run: many guesses tested per call`;
    if (!media) return [title, this.#reached(0)];
    if (media.colours) this.#marks(pen, frame);
    boxes(pen, media.boxes ?? [], frame);
    const known = values.filter((code) => code >= 0).length - guesses.size;
    if (media.colours) return [title, this.#reached(frame.t, known, values.length)];
    return [tr`Grid of picture tokens`, tr`shade: code number, 0 to ${number(this.top)}`];
  }

  /** The outline of what the latest step wrote; a corner where it put its own token for a refused guess. */
  #marks(pen, frame) {
    const { positions = [], causes = [] } = this.run.steps[frame.t - 1]?.commits ?? {},
      wrote = positions.map((at) => at - this.run.prompt.length).filter((cell) => cell >= 0),
      refused = wrote[causes.indexOf("correction")];
    outline(pen, frame, wrote);
    if (refused !== undefined) corner(pen, frame, refused, this.context.theme.states.correction[frame.mode].fill);
  }

  /** The map of effort: the call that wrote each token, darker where it wrote few. */
  effort(media, pen, frame) {
    const { t, columns, rows, size } = frame,
      shades = ramp(this.context.theme, this.context.mode()),
      groups = new Map();
    for (let i = 0; media && i < rows * columns; i++) {
      const entry = this.run.written(this.run.prompt.length + i, t);
      if (entry?.token >= 0) groups.set(entry.step, [...(groups.get(entry.step) ?? []), i]);
    }
    const most = Math.max(2, ...[...groups.values()].map((cells) => cells.length)),
      look = new Map();
    for (const [step, cells] of groups)
      for (const cell of cells)
        look.set(cell, { call: step + 1, ...shades[Math.round(24 * (1 - Math.log(cells.length) / Math.log(most)))] });
    cells(pen, frame, (i) => look.get(i)?.fill);
    Object.assign(pen, { font: "12px sans-serif", textAlign: "center", textBaseline: "middle" });
    for (const [cell, { call, text }] of look) {
      if (size < LETTER * String(call).length + 3) continue;
      pen.fillStyle = text;
      pen.fillText(call, ((cell % columns) + 0.5) * size - 0.5, (Math.floor(cell / columns) + 0.5) * size);
    }
    return [
      tr`The call that accepted each token`,
      tr`full colour: 1 token in that call; faint: up to ${groups.size ? most : (this.run.header.params?.window ?? 1)}`,
    ];
  }

  describe(t) {
    const media = this.#latest(t);
    if (!media) return tr`No picture yet.`;
    const { values } = unpack(media.codes),
      all = values.length,
      known = values.filter((code) => code >= 0).length - (media.guesses?.length ?? 0);
    return media.colours
      ? tr`${known} of ${all} picture tokens after ${t} calls; one token per call: ${Math.min(t, all)}.`
      : tr`${known} of ${all} picture tokens known; shade: code number, 0 to ${number(this.top)}.`;
  }
}

/** The cells of a grid. A frame says how: {size: of a cell, columns, rows, surface: its colours}; fill: the colour of a
 * cell, if it has one; inset: how much of it stays free on each side. */
function cells(pen, { size, columns, rows, surface }, fill, inset = () => 0) {
  for (let i = 0; i < rows * columns; i++) {
    const x = (i % columns) * size,
      y = Math.floor(i / columns) * size,
      free = Math.round(inset(i) * size),
      colour = fill(i);
    pen.fillStyle = surface.line;
    pen.fillRect(x, y, size - 1, size - 1);
    if (!colour) continue;
    pen.fillStyle = colour;
    pen.fillRect(x + free, y + free, size - 1 - 2 * free, size - 1 - 2 * free);
  }
}

/** One line round all of some cells. */
function outline(pen, { size, columns, surface }, some) {
  const inside = new Set(some),
    edge = (open, x1, y1, x2, y2) => {
      if (!open) return;
      pen.moveTo(x1, y1);
      pen.lineTo(x2, y2);
    };
  Object.assign(pen, { strokeStyle: surface.accent, lineWidth: 3 });
  pen.beginPath();
  for (const cell of some) {
    const x = (cell % columns) * size,
      y = Math.floor(cell / columns) * size;
    edge(!inside.has(cell - columns), x, y, x + size, y);
    edge(!inside.has(cell + columns), x, y + size, x + size, y + size);
    edge(cell % columns === 0 || !inside.has(cell - 1), x, y, x, y + size);
    edge((cell + 1) % columns === 0 || !inside.has(cell + 1), x + size, y, x + size, y + size);
  }
  pen.stroke();
}

function corner(pen, { size, columns }, cell, colour) {
  const x = (cell % columns) * size,
    y = Math.floor(cell / columns) * size;
  pen.fillStyle = colour;
  pen.beginPath();
  pen.moveTo(x + size, y);
  pen.lineTo(x + size, y + 0.6 * size);
  pen.lineTo(x + 0.4 * size, y);
  pen.fill();
}

function boxes(pen, some, { size, surface: { accent, panel } }) {
  Object.assign(pen, { lineWidth: 2, font: "12px sans-serif" });
  for (const { row, column, width, height, label } of some) {
    pen.strokeStyle = pen.fillStyle = accent;
    pen.strokeRect(column * size + 1, row * size + 1, width * size - 2, height * size - 2);
    if (!label) continue;
    pen.fillRect(column * size, row * size, pen.measureText(label.slice(0, 24)).width + 8, 16);
    pen.fillStyle = panel;
    pen.fillText(label.slice(0, 24), column * size + 4, row * size + 12);
  }
}
