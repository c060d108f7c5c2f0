// The grid of picture tokens as it fills in: known cells full, guesses that are tested next as small squares, a frame
// round what this step wrote and a corner where a guess was refused. A switch shows instead how many tokens the step of
// each cell wrote. Without colours the shade is the code's number.

import { number, unpack } from "../codec.js";
import { el, setText, sizeCanvas } from "../dom.js";
import { ramp } from "../theme.js";
import { tr } from "../words.js";

export const view = { name: "Media", title: "Picture tokens", place: 15, needs: ["media"] };

const ROOM = 320, // pixels that a picture takes if it can
  CELLS = 65536, // of a picture, and of a side, at most: what is larger is not drawn
  SIDE = 4096,
  GUESS = 0.26; // of a cell that a guess leaves free on each side

const fits = ([rows, columns]) => rows * columns <= CELLS && Math.max(rows, columns) <= SIDE;

export class Media {
  load(run, dom, context) {
    Object.assign(this, { run, context, t: 0, effort: false });
    this.canvas = el("canvas", { role: "img", "aria-label": tr`Grid of picture tokens` });
    this.say = el("p", "dx-readout");
    this.key = el("p", "dx-readout");
    this.button = el("button", { class: "dx-toggle", "aria-pressed": "false", onclick: () => this.#turn() });
    setText(this.button, tr`Tokens per step`);
    dom.append(this.say, this.canvas, el("p", {}, this.button), this.key);
    this.grow();
  }

  grow() {
    this.top = Math.max(
      1,
      ...this.run.steps.map((step) =>
        step.media ? unpack(step.media.codes).values.reduce((a, b) => Math.max(a, b), 0) : 0,
      ),
    );
    this.most = Math.max(1, ...this.run.steps.map((step) => this.#wrote(step).length));
  }

  #turn() {
    this.effort = !this.effort;
    this.button.setAttribute("aria-pressed", String(this.effort));
    this.show(this.t);
  }

  /** Cells that a step wrote, in raster order. */
  #wrote(step) {
    const first = this.run.prompt.length;
    return step.media?.colours
      ? (step.commits?.positions ?? []).map((at) => at - first).filter((cell) => cell >= 0)
      : [];
  }

  #latest(t) {
    return this.run.steps.slice(0, t).findLast((step) => step.media && fits(step.media.codes.shape))?.media;
  }

  show(t) {
    this.t = t;
    const media = this.#latest(t);
    setText(this.say, this.describe(t));
    this.canvas.hidden = !media;
    this.button.hidden = !media?.colours;
    setText(this.key, media?.colours ? this.#legend(media) : "");
    if (!media) return;
    const {
        values,
        shape: [rows, columns],
      } = unpack(media.codes),
      size = Math.max(6, Math.min(36, Math.floor(ROOM / columns)));
    const pen = sizeCanvas(this.canvas, columns * size, rows * size),
      mode = this.context.mode(),
      shades = ramp(this.context.theme, mode),
      shade = (part) => shades[Math.round(Math.min(1, part) * (shades.length - 1))].fill,
      { line, accent, panel, warn } = this.context.theme.surface[mode],
      guesses = new Set(media.guesses ?? []),
      effort = this.effort ? this.#effort(t) : null;
    values.forEach((code, i) => {
      const x = (i % columns) * size,
        y = Math.floor(i / columns) * size,
        inset = guesses.has(i) ? Math.round(size * GUESS) : 0;
      pen.fillStyle = line;
      pen.fillRect(x, y, size - 1, size - 1);
      if (code < 0 || (effort && inset)) return;
      pen.fillStyle = effort?.has(i)
        ? shade(Math.log2(effort.get(i)) / Math.max(1, Math.log2(this.most)))
        : (media.colours?.[code] ?? shade(code / this.top));
      pen.fillRect(x + inset, y + inset, size - 1 - 2 * inset, size - 1 - 2 * inset);
    });
    this.#marks(pen, t, columns, size, accent, warn);
    this.#boxes(pen, media.boxes ?? [], size, accent, panel);
  }

  /** Cell -> tokens of the step that wrote it. */
  #effort(t) {
    const found = new Map();
    for (const step of this.run.steps.slice(0, t)) {
      const cells = this.#wrote(step);
      for (const cell of cells) found.set(cell, cells.length);
    }
    return found;
  }

  /** The outline of what the latest step wrote; a corner where it put its own token for a refused guess. */
  #marks(pen, t, columns, size, accent, warn) {
    const step = this.run.steps[t - 1],
      cells = step ? this.#wrote(step) : [],
      inside = new Set(cells);
    pen.strokeStyle = accent;
    pen.lineWidth = 3;
    pen.beginPath();
    for (const cell of cells) {
      const x = (cell % columns) * size,
        y = Math.floor(cell / columns) * size,
        edge = (open, x1, y1, x2, y2) => {
          if (!open) return;
          pen.moveTo(x1, y1);
          pen.lineTo(x2, y2);
        };
      edge(!inside.has(cell - columns), x, y, x + size, y);
      edge(!inside.has(cell + columns), x, y + size, x + size, y + size);
      edge(cell % columns === 0 || !inside.has(cell - 1), x, y, x, y + size);
      edge((cell + 1) % columns === 0 || !inside.has(cell + 1), x + size, y, x + size, y + size);
    }
    pen.stroke();
    const refused = cells[step?.commits?.causes?.indexOf("correction") ?? -1];
    if (refused === undefined) return;
    const x = (refused % columns) * size,
      y = Math.floor(refused / columns) * size;
    pen.fillStyle = warn;
    pen.beginPath();
    pen.moveTo(x + size, y);
    pen.lineTo(x + size, y + size / 2);
    pen.lineTo(x + size / 2, y);
    pen.fill();
  }

  #boxes(pen, boxes, size, accent, panel) {
    pen.strokeStyle = pen.fillStyle = accent;
    pen.lineWidth = 2;
    pen.font = "12px sans-serif";
    for (const box of boxes) {
      pen.strokeRect(box.column * size + 1, box.row * size + 1, box.width * size - 2, box.height * size - 2);
      if (!box.label) continue;
      pen.fillRect(box.column * size, box.row * size, pen.measureText(box.label.slice(0, 24)).width + 8, 16);
      pen.fillStyle = panel;
      pen.fillText(box.label.slice(0, 24), box.column * size + 4, box.row * size + 12);
      pen.fillStyle = accent;
    }
  }

  #legend(media) {
    if (this.effort) return tr`Pale: 1 token written in that step; dark: ${this.most}. Flat parts cost little.`;
    return media.guesses?.length
      ? tr`Framed: written in this step. Small squares: guesses that the next step tests. Corner: a guess was refused.`
      : tr`Framed: written in this step. Corner: a guess was refused.`;
  }

  describe(t) {
    const media = this.#latest(t);
    if (!media) return tr`No picture yet.`;
    const { values } = unpack(media.codes),
      known = values.filter((code) => code >= 0).length - (media.guesses?.length ?? 0);
    return media.colours
      ? tr`${known} of ${values.length} picture tokens known after step ${t}.`
      : tr`${known} of ${values.length} picture tokens known; shade: code number, 0 to ${number(this.top)}.`;
  }
}
