// An answer as a form: words printed in it before the first forward, fields that fill in any order, each with the
// forward that wrote it. Below, how far one by one would have come.

import { CHIP, StepPicture, widthOf } from "../player/drawing.js";
import { pictureOf } from "../player/pixels.js";
import { Sliding } from "../player/sliding.js";
import { cut, glyphs, many, percent, tr } from "../player/words.js";

export const view = { title: "A form that fills", place: 55, needs: ["form"] };

const HEAD = 48,
  LINE = CHIP + 22, // of the form: the forward's number, the word
  GAP = 5,
  SIDE = 220, // of a picture
  RACE = 88;

/** What a form shows: each position with its state, and after an end mark the rest of the marks as one.
 * board: cells; printed, eos: sets. */
export function items(board, first, printed, eos) {
  const list = [];
  for (const { position, token, state, entry } of board.slice(first)) {
    const end = token !== null && eos.has(token) && !printed.has(position),
      last = list.at(-1);
    if (end && last?.end && last.step === entry?.step) last.n++;
    else list.push({ position, token, state, end, n: 1, step: entry?.step ?? null, printed: printed.has(position) });
  }
  return list;
}

export class Form extends StepPicture {
  layers = ["photo", "cells", "fields", "ghost"];
  theta = new Sliding(this, "form.threshold", "θ", tr`Threshold θ`);
  none = tr`No form was recorded in this step.`;

  also(form) {
    const above = this.theta.decided(0),
      plain = tr`no field is above it: the fallback’s fixed rate`,
      said = above ? tr`this forward would fill ${above}` : plain,
      any = form && form.mode !== "final" && Math.min(...form.scores) >= 0; // of an order that a threshold is for
    this.theta.show(form?.threshold ?? 0, any, said);
  }

  draw(form) {
    const { run, width, t } = this,
      printed = new Set(form.printed),
      board = run.board(t),
      wide = width >= 640,
      pixels = run.steps[0]?.vision?.pixels,
      side = pixels ? SIDE : 0,
      left = side && wide ? side + 24 : 0,
      top = HEAD + (side && !wide ? SIDE + 8 : 0),
      cells = items(board, run.prompt.length, printed, run.eos),
      rows = this.#lay(cells, left, top),
      foot = Math.max(top + rows * LINE + 18, side && wide ? HEAD + SIDE + 14 : 0),
      words = cells.filter(({ token }) => token !== null),
      blanks = cells.filter(({ token }) => token === null),
      fields = board.slice(run.prompt.length).filter(({ position }) => !printed.has(position)),
      labels = this.#heads(printed.size, wide);
    for (const cell of words) {
      const said = cell.printed ? tr`printed before the first call` : tr`written by call ${cell.step + 1}`;
      cell.title = `${cell.whole}: ${said}`;
      cell.state = cell.printed ? "forced" : cell.step === t - 1 ? "new" : "old";
      if (!cell.printed && cell.step !== null) labels.push([cell.x, cell.y - 4, "middle", cell.step + 1]);
    }
    const drawn = this.chips(this.cells, words, 200),
      photo = { x: 0, y: HEAD, width: SIDE, height: SIDE, style: "image-rendering:pixelated" };
    this.paint(foot + RACE, labels, {
      photo: pixels ? [["image", { ...photo, href: pictureOf(pixels) }]] : [],
      fields: blanks.map(({ x, y, w }) => ["path", { class: "dx-blank", d: `M${x - w / 2},${y + CHIP - 3}h${w}` }]),
      ghost: this.#race(fields, foot, labels),
    });
    return drawn.filter((_, i) => words[i].step === t - 1);
  }

  /** Puts the words on lines; returns how many. */
  #lay(cells, left, top) {
    let x = left,
      row = 0;
    for (const cell of cells) {
      const { text } = this.run.piece(cell.token),
        whole = glyphs(text.trim() || text),
        said = cell.token === null ? "" : cut(cell.end ? tr`end × ${cell.n}` : whole, 16),
        w = Math.max(26, widthOf(said));
      if (x + w > this.width && x > left) [x, row] = [left, row + 1];
      Object.assign(cell, { x: x + w / 2, y: top + row * LINE + 16, w, text: said, whole });
      x += w + GAP;
      if (cell.token !== null && /[\n;]/.test(text)) [x, row] = [left, row + 1];
    }
    return row + 1;
  }

  #heads(printed, wide) {
    const heads = printed
        ? [
            tr`Printed first; each call fills`,
            tr`A form printed first; each model call fills every field it is confident of`,
          ]
        : [tr`Each call writes what it can`, tr`Each model call writes every word it is confident of, in any order`],
      sign = printed ? tr`number: the call that wrote it; no number: printed` : tr`number: the call that wrote it`;
    return [
      [0, 14, "start", heads[Number(wide)]],
      [0, 32, "start", wide || !printed ? sign : tr`number: by which call`],
    ];
  }

  /** The fields as squares: filled by this run, and by a model that writes one with each call, from the left. */
  #race(fields, top, labels) {
    const { width, run, t } = this,
      unit = Math.min(24, (width - 8) / Math.max(1, fields.length)),
      calls = run.sums[t].forwards,
      n = fields.length,
      filled = fields.filter(({ token }) => token !== null).length,
      own = fields.map(({ token, entry }) => (token === null ? "masked" : entry?.step === t - 1 ? "new" : "old")),
      ghost = fields.map((_, i) => (i < calls ? "old" : "masked"));
    labels.push([0, top + 12, "start", tr`this run: ${filled} of ${n} after ${many(calls, "target")}`]);
    labels.push([0, top + 52, "start", tr`one by one, from the left: ${Math.min(calls, n)} (derived)`]);
    return [own, ghost].flatMap((states, row) =>
      states.map((state, i) => {
        const box = { rx: 2, x: i * unit, y: top + 18 + 40 * row, width: Math.max(1, unit - 2), height: 14 };
        return ["rect", { ...box, "data-s": state, class: state === "old" ? "dx-plain" : "" }];
      }),
    );
  }

  sentence({ mode, fields: { length: open }, scores, threshold }, { commits }) {
    const now = commits?.causes.filter((cause) => cause !== "forced").length ?? 0,
      best = Math.max(...scores, 0);
    if (mode === "fallback" && threshold > 0)
      return tr`None of ${open} open fields is above ${percent(threshold)} (best ${percent(best)}): \
the fallback writes ${now}.`;
    if (mode === "fallback") return tr`The schedule writes ${now} of ${open} open fields.`;
    if (mode === "final") return tr`The last call of the schedule writes all ${now} that are left.`;
    return tr`${now} of ${open} open fields are above ${percent(threshold)} and written at once.`;
  }
}
