// An answer as a form: words printed in it before the first forward, fields that fill in any order, each with the
// forward that wrote it. Below, how far one by one would have come.

import { CHIP, chips } from "../player/chips.js";
import { cut, glyphs } from "../player/codec.js";
import { many } from "../player/counted.js";
import { pool, set, setText, svg } from "../player/dom.js";
import { comeIn } from "../player/motion.js";
import { paint } from "../player/pixels.js";
import { percent } from "../player/shares.js";
import { Sliding } from "../player/sliding.js";
import { StepPicture } from "../player/steppicture.js";
import { tr } from "../player/words.js";

export const view = { title: "A form that fills", place: 55, needs: ["form"] };

const HEAD = 48,
  LINE = CHIP + 22, // of the form: the forward's number, the word
  GAP = 5,
  SIDE = 220, // of a picture
  RACE = 88,
  LETTER = 7.4;

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
  load(run, dom, context) {
    this.canvas = document.createElement("canvas");
    this.theta = new Sliding(this, "form.threshold", "θ", tr`Threshold θ`);
    this.begin(run, dom, context, ["photo", "cells", "fields", "ghost"], this.theta.dom);
  }

  also(form) {
    const above = this.theta.decided(0),
      plain = tr`no field is above it: the fallback’s fixed rate`,
      said = above ? tr`this forward would fill ${above}` : plain,
      any = form && form.mode !== "final" && Math.min(...form.scores) >= 0; // of an order that a threshold is for
    this.theta.show(form?.threshold ?? 0, any, said);
  }

  #photo() {
    const pixels = this.run.steps[0]?.vision?.pixels;
    if (pixels && this.drawn !== pixels) {
      paint(this.canvas, pixels);
      Object.assign(this, { drawn: pixels, url: this.canvas.toDataURL() });
    }
    return pixels ? SIDE : 0;
  }

  draw(form, _, next) {
    const { run, width, t } = this,
      printed = new Set(form.printed),
      board = run.board(t),
      first = run.prompt.length,
      list = items(board, first, printed, run.eos),
      wide = width >= 640,
      side = this.#photo(),
      left = side && wide ? side + 24 : 0,
      labels = [],
      cells = [];
    pool(this.photo, side ? 1 : 0, () => svg("image", { x: 0, width: SIDE, height: SIDE })).forEach((image) => {
      set(image, { href: this.url, y: HEAD });
      image.style.imageRendering = "pixelated";
    });
    const top = HEAD + (side && !wide ? SIDE + 8 : 0);
    let x = left,
      row = 0;
    const heads = printed.size
      ? [
          tr`A form printed first; each model call fills every field it is confident of`,
          tr`Printed first; each call fills`,
        ]
      : [tr`Each model call writes every word it is confident of, in any order`, tr`Each call writes what it can`];
    labels.push([0, 14, "start", wide ? heads[0] : heads[1]]);
    const sign = printed.size
      ? tr`number: the call that wrote it; no number: printed`
      : tr`number: the call that wrote it`;
    labels.push([0, 32, "start", wide || !printed.size ? sign : tr`number: by which call`]);
    for (const item of list) {
      const text = glyphs(run.piece(item.token).text.trim() || run.piece(item.token).text),
        line = item.token !== null && /[\n;]/.test(run.piece(item.token).text),
        said = item.token === null ? "" : cut(item.end ? tr`end × ${item.n}` : text, 16),
        w = Math.max(26, LETTER * [...said].length + 12);
      if (x + w > width && x > left) [x, row] = [left, row + 1];
      cells.push({ ...item, x: x + w / 2, y: top + row * LINE + 16, w, text: said, whole: text });
      x += w + GAP;
      if (line) [x, row] = [left, row + 1];
    }
    const foot = Math.max(top + (row + 1) * LINE + 18, side && wide ? HEAD + SIDE + 14 : 0),
      open = board.length - first - printed.size,
      filled = board.slice(first).filter((cell) => cell.token !== null && !printed.has(cell.position)).length;
    this.frame(foot + RACE);
    const blanks = cells.filter(({ token }) => token === null);
    pool(this.fields, blanks.length, () => svg("path", "dx-blank")).forEach((path, i) => {
      const { x: middle, y, w } = blanks[i];
      set(path, { d: `M${middle - w / 2},${y + CHIP - 3}h${w}` });
    });
    const words = cells.filter(({ token }) => token !== null);
    const drawn = chips(
      this.cells,
      words.map((cell) => ({ ...cell, state: cell.printed ? "forced" : cell.step === t - 1 ? "new" : "old" })),
      this.context.theme,
      200,
    );
    words.forEach((cell, i) => {
      const said = cell.printed ? tr`printed before the first call` : tr`written by call ${cell.step + 1}`;
      setText(drawn[i].firstChild, `${cell.whole}: ${said}`);
      if (!cell.printed && cell.step !== null) labels.push([cell.x, cell.y - 4, "middle", cell.step + 1]);
    });
    this.#race(board, first, printed, open, filled, foot, labels);
    this.label(labels);
    if (next)
      comeIn(
        drawn.filter((_, i) => words[i].step === t - 1),
        { opacity: 0 },
      );
  }

  /** The fields as squares: filled by this run, and by a model that writes one with each call, from the left. */
  #race(board, first, printed, open, filled, top, labels) {
    const { width, run, t } = this,
      fields = board.slice(first).filter(({ position }) => !printed.has(position)),
      unit = Math.min(24, (width - 8) / Math.max(1, fields.length)),
      calls = run.sums[t].forwards,
      rows = [fields.map(({ token, entry }) => (token === null ? "masked" : entry?.step === t - 1 ? "new" : "plain"))];
    rows.push(fields.map((_, i) => (i < calls ? "plain" : "masked")));
    labels.push([0, top + 12, "start", tr`this run: ${filled} of ${open} after ${many(calls, "alone")}`]);
    labels.push([0, top + 52, "start", tr`one by one, from the left: ${Math.min(calls, open)} (derived)`]);
    pool(this.ghost, 2 * fields.length, () => svg("rect", { rx: 2 })).forEach((box, k) => {
      const row = k >= fields.length ? 1 : 0,
        i = k - row * fields.length,
        state = rows[row][i];
      set(box, { x: i * unit, y: top + 18 + 40 * row, width: Math.max(1, unit - 2), height: 14 });
      set(box, { "data-s": state === "plain" ? "old" : state, class: state === "plain" ? "dx-plain" : "" });
    });
  }

  describe(t) {
    const form = this.run.steps[t - 1]?.form;
    if (!form) return t ? tr`No form was recorded in this step.` : tr`Before the first step.`;
    const now = this.run.steps[t - 1].commits?.causes.filter((cause) => cause !== "forced").length ?? 0,
      best = Math.max(...form.scores, 0),
      line = form.threshold;
    if (form.mode === "fallback" && line > 0)
      return tr`None of ${form.fields.length} open fields is above ${percent(line)} (best ${percent(best)}): \
the fallback writes ${now}.`;
    if (form.mode === "fallback") return tr`The schedule writes ${now} of ${form.fields.length} open fields.`;
    if (form.mode === "final") return tr`The last call of the schedule writes all ${now} that are left.`;
    return tr`${now} of ${form.fields.length} open fields are above ${percent(line)} and written at once.`;
  }
}
