// Each place of a block with its first choices so far, one below the other: the same one again earns credit, which
// lifts its probability over the threshold. Below, what the threshold alone would write.

import { CHIP, StepPicture } from "../player/drawing.js";
import { bars, limit, odd, plan, Sliding, short, unknown } from "../player/sliding.js";
import { against, percent, tr } from "../player/words.js";

export const view = { title: "The same guess again earns credit", place: 57, needs: ["credits"] };

const LEFT = 58,
  HEAD = 22,
  STEP = CHIP + 7, // a forward of the past
  MOST = 5, // of them
  TALL = 66,
  WORDS = 38; // above bars: a line of words and the number on a bar

export class Credits extends StepPicture {
  layers = ["odd", "streaks", "line", "bars", "trail", "cells"];
  alpha = new Sliding(this, "credits.token", tr`credit strength α`, tr`Credit strength α`, [0, 2, 0.1]);
  filled = "rows";
  none = tr`No place is open in this step.`;

  /** Of each row its token and probability with credit of a strength, and whether it is written, as the method answers;
   * null where it was not asked. */
  #asked(alpha) {
    const of = (name) => this.run.asked(this.t, "credits", name, alpha);
    return of("token")?.map((token, i) => ({ token, value: of("value")[i], yes: of("written").includes(i) })) ?? null;
  }

  /** The same as recorded, without the probability of what was not written unless the method answers. */
  #own({ rows, alpha }) {
    const asked = this.#asked(this.alpha.at(alpha)),
      { positions, tokens, probabilities } = this.run.steps[this.t - 1].commits;
    if (asked && this.alpha.moved !== null) return asked;
    return rows.map(({ at, top }, i) => {
      const k = positions.indexOf(at);
      if (k < 0) return { token: top, value: null, ...asked?.[i], yes: false };
      return { token: tokens[k], value: probabilities[k], yes: true };
    });
  }

  also(told) {
    const n = told ? this.#own(told).filter(({ yes }) => yes).length : 0;
    this.alpha.show(told?.alpha ?? 0, Boolean(told), tr`${n} would be written`);
  }

  /** First choices of a place in the forwards of this block so far, the newest last. */
  #trail(told) {
    const past = [];
    for (let i = this.t - 1; i >= 0; i--) {
      const { credits } = this.run.steps[i];
      if (!credits || credits.start !== told.start || credits.end !== told.end) break;
      past.unshift(new Map(credits.rows.map((row) => [row.at, row.top])));
    }
    return past;
  }

  draw(told) {
    const { run, width } = this,
      own = this.#own(told),
      alone = this.#asked(0), // what the threshold alone would write
      cols = plan(told.rows.length, width - 6, LEFT, 42, 240),
      past = this.#trail(told),
      shown = past.slice(-MOST),
      deepest = this.most(({ index }) => this.#deep(index)),
      plot = HEAD + Math.min(MOST, deepest) * STEP + WORDS,
      first = plot + TALL + CHIP + 30,
      line = first + 2 * (CHIP + 24) - 12,
      at = { cols, plot, first, line, labels: [], cells: [], trail: [], streaks: [], marks: [], odd: [] };
    told.rows.forEach((row, i) => this.#place(row, own[i], alone?.[i], shown, told.threshold, i, at));
    const lines = Array.from({ length: cols.lines }, (_, k) => {
      const top = k * line,
        [from, to] = cols.ends(k),
        level = top + plot + TALL * (1 - told.threshold),
        [choice, chance] =
          width < 640
            ? [tr`First choice, call by call`, tr`Probability, credit on top`]
            : [
                tr`First choice of each place, model call by model call: the same again earns credit`,
                tr`Probability of the first choice (grey) and what the credit adds on top`,
              ];
      at.labels.push([0, top + 14, "start", choice]);
      shown.forEach((_, j) => {
        const call = past.length - shown.length + j + 1;
        at.labels.push([0, top + HEAD + j * STEP + 17, "start", tr`call ${call}`]);
      });
      const plain = alone ? tr`the threshold alone would write (derived)` : unknown(run);
      at.labels.push(
        [0, top + plot - 18, "start", chance],
        [from - 8, level + 4, "end", short(told.threshold)],
        [0, top + first - CHIP - 12, "start", plain],
        [0, top + first + CHIP - 6, "start", tr`this run writes, with credit`],
      );
      return limit(from, to, level);
    });
    const grown = this.chips(this.trail, at.trail, cols.w - 4),
      drawn = { odd: at.odd, streaks: at.streaks, line: lines, bars: bars(at.marks, TALL) };
    this.chips(this.cells, at.cells, cols.w - 4);
    this.paint(cols.lines * line + 4, at.labels, drawn);
    return grown.filter((_, k) => at.trail[k].now);
  }

  /** A place of the block: its first choices in the forwards that are shown, its bars, and what both write there. */
  #place(row, own, alone, shown, threshold, i, { cols, plot, first, line, ...at }) {
    const x = cols.x(i),
      top = cols.line(i) * line,
      y = (k) => top + HEAD + k * STEP,
      same = (k) => shown[k]?.get(row.at) === row.top,
      choice = row.tokens.indexOf(row.top),
      wide = Math.min(5 + 5 * (row.credit[choice] ?? 0), 26).toFixed(1);
    shown.forEach((tops, k) => {
      const token = tops.get(row.at);
      if (token == null) return;
      const state = same(k) ? "drafted" : "unreached";
      at.trail.push({ x, y: y(k), state, whole: this.word(token), now: k === shown.length - 1 });
      const d = `M${x},${y(k - 1) + CHIP - 2}V${y(k) + 2}`;
      if (k && same(k) && same(k - 1)) at.streaks.push(["path", { class: "dx-streak", d, "stroke-width": wide }]);
    });
    const raw = row.p[choice] ?? 0,
      { value } = own,
      narrow = cols.w < 120,
      lifted = against(value ?? 0, threshold),
      words = narrow ? lifted : `${percent(raw).replace(" %", "")} → ${lifted}`,
      whole = value === null ? "–" : percent(value),
      title = tr`${this.word(row.top)}: ${percent(raw)} alone, ${whole} with credit`,
      bar = { x, w: Math.min(30, cols.w - 12), foot: top + plot + TALL, title };
    if (value !== null) at.marks.push({ ...bar, value, state: "new", words });
    at.marks.push({ ...bar, value: Math.min(raw, value ?? 1), state: "old", look: "dx-base" });
    if (alone && own.yes !== alone.yes) {
      at.odd.push(odd(x, cols.w, top + HEAD - 4, line - HEAD - 2));
      at.labels.push([x, top + line - 12, "middle", narrow ? tr`by credit` : tr`only with credit`]);
    }
    [alone, own].forEach((verdict, k) => {
      const place = { x, y: top + first + (k ? CHIP - 2 : -CHIP - 8) };
      if (verdict) at.cells.push({ ...place, state: verdict.yes ? "new" : "masked", whole: this.word(verdict.token) });
    });
  }

  /** How many forwards its block had taken by a step. */
  #deep(index) {
    const now = this.run.steps[index].credits;
    let n = 0;
    for (let i = index; i >= 0 && now && this.run.steps[i].credits?.start === now.start; i--) n++;
    return n;
  }

  sentence(told) {
    const own = this.#own(told),
      alone = this.#asked(0),
      lifted = told.rows.filter((_, i) => alone && own[i].yes && !alone[i].yes).map(({ top }) => this.word(top, 12)),
      count = (all) => all?.filter(({ yes }) => yes).length ?? "–",
      [a, b] = [own, alone].map(count),
      said = tr`With credit ${a} written, without it ${b}: the most confident in any case (derived).`;
    return lifted.length ? tr`${said} Only with credit: ${lifted.join(", ")}.` : said;
  }
}
