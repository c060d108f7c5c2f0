// Each place of a block with its first choices so far, one below the other: the same one again earns credit, which
// lifts its probability over the threshold. Below, what the threshold alone would write.

import { CHIP, chips } from "../player/chips.js";
import { cut, glyphs } from "../player/codec.js";
import { pool, set, svg } from "../player/dom.js";
import { comeIn } from "../player/motion.js";
import { against, percent } from "../player/shares.js";
import { Sliding, short, unknown } from "../player/sliding.js";
import { StepPicture } from "../player/steppicture.js";
import { bars, plan } from "../player/strips.js";
import { tr } from "../player/words.js";

export const view = { title: "The same guess again earns credit", place: 57, needs: ["credits"] };

const LEFT = 58,
  HEAD = 22,
  STEP = CHIP + 7, // a forward of the past
  MOST = 5, // of them
  TALL = 66,
  WORDS = 38; // above bars: a line of words and the number on a bar

export class Credits extends StepPicture {
  load(run, dom, context) {
    this.alpha = new Sliding(this, "credits.token", tr`credit strength α`, tr`Credit strength α`, [0, 2, 0.1]);
    this.begin(run, dom, context, ["odd", "streaks", "line", "bars", "trail", "cells"], this.alpha.dom);
  }

  told({ credits }) {
    return credits?.rows.length ? credits : null;
  }

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

  draw(told, _, next) {
    const { run, width } = this,
      own = this.#own(told),
      alone = this.#asked(0), // what the threshold alone would write
      n = told.rows.length,
      cols = plan(n, width - 6, LEFT, 42, 240),
      past = this.#trail(told),
      shown = past.slice(-MOST),
      depth = Math.min(
        MOST,
        this.most(({ index }) => this.#deep(index)),
      ),
      plot = HEAD + depth * STEP + WORDS,
      first = plot + TALL + CHIP + 30,
      line = first + 2 * (CHIP + 24) - 12,
      labels = [],
      cells = [],
      trail = [],
      streaks = [],
      marks = [],
      odd = [];
    for (let i = 0; i < n; i++) {
      const x = cols.x(i),
        top = cols.line(i) * line,
        place = { row: told.rows[i], own: own[i], alone: alone?.[i] },
        y = (k) => top + HEAD + k * STEP;
      const { row } = place,
        same = (k) => shown[k]?.get(row.at) === row.top,
        credit = row.credit[row.tokens.indexOf(row.top)] ?? 0;
      shown.forEach((tops, k) => {
        const token = tops.get(row.at);
        if (token == null) return;
        trail.push({
          x,
          y: y(k),
          state: same(k) ? "drafted" : "unreached",
          whole: this.word(token),
          now: k === shown.length - 1,
        });
        if (k && same(k) && same(k - 1))
          streaks.push({ x, from: y(k - 1) + CHIP - 2, to: y(k) + 2, wide: 5 + 5 * credit });
      });
      const raw = row.p[row.tokens.indexOf(row.top)] ?? 0,
        foot = top + plot + TALL,
        w = Math.min(30, cols.w - 12),
        { value } = place.own,
        lifted = against(value ?? 0, told.threshold),
        words = cols.w < 120 ? lifted : `${percent(raw).replace(" %", "")} → ${lifted}`,
        whole = value === null ? "–" : percent(value),
        title = tr`${this.word(row.top)}: ${percent(raw)} alone, ${whole} with credit`;
      if (value !== null) marks.push({ x, w, foot, value, state: "new", title, words });
      marks.push({ x, w, foot, value: Math.min(raw, value ?? 1), state: "old", look: "dx-base", title });
      if (alone && place.own.yes !== place.alone.yes) {
        odd.push([x, top]);
        labels.push([x, top + line - 12, "middle", cols.w < 120 ? tr`by credit` : tr`only with credit`]);
      }
      for (const [verdict, foot_] of [
        [place.alone, first - CHIP - 8],
        [place.own, first + CHIP - 2],
      ])
        if (verdict)
          cells.push({ x, y: top + foot_, state: verdict.yes ? "new" : "masked", whole: this.word(verdict.token) });
    }
    for (let k = 0; k < cols.lines; k++) {
      const top = k * line,
        [from, to] = cols.ends(k);
      labels.push([
        0,
        top + 14,
        "start",
        width < 640
          ? tr`First choice, call by call`
          : tr`First choice of each place, model call by model call: the same again earns credit`,
      ]);
      shown.forEach((_, j) => {
        const call = past.length - shown.length + j + 1;
        labels.push([0, top + HEAD + j * STEP + 17, "start", tr`call ${call}`]);
      });
      labels.push([
        0,
        top + plot - 18,
        "start",
        width < 640
          ? tr`Probability, credit on top`
          : tr`Probability of the first choice (grey) and what the credit adds on top`,
      ]);
      labels.push([from - 8, top + plot + TALL * (1 - told.threshold) + 4, "end", short(told.threshold)]);
      const plain = alone ? tr`the threshold alone would write (derived)` : unknown(run);
      labels.push([0, top + first - CHIP - 12, "start", plain]);
      labels.push([0, top + first + CHIP - 6, "start", tr`this run writes, with credit`]);
      streaks.push({ line: [from, to, top + plot + TALL * (1 - told.threshold)] });
    }
    this.frame(cols.lines * line + 4);
    const lines = streaks.filter((one) => one.line),
      ties = streaks.filter((one) => !one.line);
    pool(this.odd, odd.length, () => svg("rect", { class: "dx-odd", rx: 6 })).forEach((box, k) => {
      const [x, top] = odd[k];
      set(box, { x: x - cols.w / 2 + 1, width: cols.w - 2, y: top + HEAD - 4, height: line - HEAD - 2 });
    });
    pool(this.streaks, ties.length, () => svg("path", "dx-streak")).forEach((path, k) => {
      const { x, from, to, wide } = ties[k];
      set(path, { d: `M${x},${from}V${to}`, "stroke-width": Math.min(wide, 26).toFixed(1) });
    });
    pool(this.line, lines.length, () => svg("path", { class: "dx-eta", "data-s": "rejected" })).forEach((path, k) => {
      const [from, to, y] = lines[k].line;
      set(path, { d: `M${from},${y}H${to}` });
    });
    bars(this.bars, marks, TALL);
    const grown = chips(this.trail, trail, this.context.theme, cols.w - 4);
    chips(this.cells, cells, this.context.theme, cols.w - 4);
    this.label(labels);
    if (next)
      comeIn(
        grown.filter((_, k) => trail[k].now),
        { opacity: 0 },
      );
  }

  /** How many forwards its block had taken by a step. */
  #deep(index) {
    const now = this.run.steps[index].credits;
    let n = 0;
    for (let i = index; i >= 0 && now && this.run.steps[i].credits?.start === now.start; i--) n++;
    return n;
  }

  describe(t) {
    const told = this.run.steps[t - 1]?.credits;
    if (!told?.rows.length) return t ? tr`No place is open in this step.` : tr`Before the first step.`;
    const own = this.#own(told),
      alone = this.#asked(0),
      lifted = told.rows
        .filter((_, i) => alone && own[i].yes && !alone[i].yes)
        .map(({ top }) => cut(glyphs(this.run.piece(top).text), 12)),
      count = (all) => all?.filter(({ yes }) => yes).length ?? "–";
    const [a, b] = [count(own), count(alone)],
      said = tr`With credit ${a} written, without it ${b}: the most confident in any case (derived).`;
    return lifted.length ? tr`${said} Only with credit: ${lifted.join(", ")}.` : said;
  }
}
