// A block whose threshold dips around its anchors: confident tokens let their neighbours follow. Below, what one
// threshold would write.

import { CHIP, chips } from "../player/chips.js";
import { cut, glyphs } from "../player/codec.js";
import { pool, set, svg } from "../player/dom.js";
import { comeIn } from "../player/motion.js";
import { against, percent } from "../player/shares.js";
import { Sliding, short, unknown } from "../player/sliding.js";
import { StepPicture } from "../player/steppicture.js";
import { bars, plan } from "../player/strips.js";
import { tr } from "../player/words.js";

export const view = { title: "Neighbours of a confident token follow", place: 58, needs: ["leaps"] };

const LEFT = 40,
  ARCS = 54, // room for a line of words and the arcs
  TALL = 84,
  FOOT = ARCS + TALL + 4, // of the bars
  LINE = FOOT + 2 * (CHIP + 22) + 28;

const row = (told, p, near, yes) => ({
  theta: near === null ? told.strict : told.relaxed,
  near,
  anchor: near === p,
  yes,
});

export class Leaps extends StepPicture {
  load(run, dom, context) {
    this.radius = new Sliding(this, "leaps.radius", tr`radius r`, tr`Radius r`, [0, 16, 1]);
    this.relaxed = new Sliding(this, "leaps.radius", tr`lower threshold`, tr`Lower threshold`);
    const layers = ["near", "odd", "axis", "line", "bars", "arcs", "cells"];
    this.begin(run, dom, context, layers, this.radius.dom, this.relaxed.dom);
  }

  told({ leaps }) {
    return leaps?.at.length ? leaps : null;
  }

  #moved(told) {
    const { radius, relaxed } = this;
    return { ...told, radius: radius.at(told.radius), relaxed: relaxed.at(told.relaxed) };
  }

  /** By each open position its threshold, the anchor that lowers it, and whether it is written, as the method answers
   * for a radius; null where it was not asked. */
  #asked(told, radius) {
    const [near, most] = this.run.asked(this.t, "leaps", "radius", radius) ?? [];
    return near ? told.at.map((p, i) => row(told, p, near[i], told.relaxed <= most[i])) : null;
  }

  /** The same as recorded: an anchor is as far away as its lane says, the first of two. */
  #recorded(told) {
    const { run, t } = this,
      { spans, commits } = run.steps[t - 1],
      anchors = spans.filter(({ kind }) => kind === "anchor").map(({ start }) => start);
    return told.at.map((p) => {
      const far = Math.round(run.score(t - 1, "distance", p, t)),
        near = far <= told.radius ? anchors.find((anchor) => Math.abs(anchor - p) === far) : null;
      return row(told, p, near, commits.positions.includes(p));
    });
  }

  #own(told) {
    const moved = this.#moved(told),
      any = (this.radius.moved ?? this.relaxed.moved) !== null;
    return (any && this.#asked(moved, moved.radius)) || this.#recorded(told);
  }

  also(told) {
    const n = told ? this.#own(told).filter(({ yes }) => yes).length : 0,
      said = tr`${n} would be written`;
    set(this.relaxed.slider, { max: told?.strict ?? 1 });
    this.radius.show(told?.radius ?? 0, Boolean(told), said);
    this.relaxed.show(told?.relaxed ?? 0, Boolean(told), said);
  }

  draw(recorded, _, next) {
    const { run, width, t } = this,
      told = this.#moved(recorded),
      own = this.#own(recorded),
      alone = this.#asked(told, 0), // what one threshold, the strict one, would write
      n = told.end - told.start,
      cols = plan(n, width - 6, LEFT, 40),
      board = run.board(t),
      open = new Map(told.at.map((p, i) => [p, i])),
      labels = [],
      cells = [],
      marks = [],
      odd = [],
      arcs = [],
      near = [];
    const top = (i) => cols.line(i) * LINE,
      y = (i, v) => top(i) + ARCS + (1 - v) * TALL;
    let path = "",
      last = null;
    for (let k = 0; k < n; k++) {
      const i = open.get(told.start + k),
        x = cols.x(k),
        rows = [top(k) + FOOT + 18, top(k) + FOOT + CHIP + 40];
      if (i === undefined) {
        const token = board[told.start + k]?.token;
        if (token != null) for (const at of rows) cells.push({ x, y: at, state: "old", whole: this.word(token) });
        last = null;
        continue;
      }
      const one = own[i],
        whole = this.word(told.tokens[i]),
        edge = x - cols.w / 2;
      if (one.near !== null) near.push([edge, top(k)]);
      path += last !== null && cols.line(last) === cols.line(k) ? `V${y(k, one.theta)}` : `M${edge},${y(k, one.theta)}`;
      path += `H${edge + cols.w}`;
      last = k;
      marks.push({
        x,
        w: Math.min(26, cols.w - 10),
        foot: top(k) + ARCS + TALL,
        value: told.confidence[i],
        state: one.yes ? "new" : "old",
        look: one.yes ? "" : "dx-quiet-bar",
        words: one.anchor ? "⚓" : against(told.confidence[i], one.theta).replace(cols.w < 52 ? " %" : "", ""),
        title: tr`${whole}: ${percent(told.confidence[i])}, threshold ${short(one.theta)}`,
      });
      if (alone && one.yes !== alone[i].yes) {
        odd.push([x, top(k)]);
        if (cols.w > 52) labels.push([x, top(k) + LINE - 15, "middle", tr`follows`]);
      }
      if (one.yes && !one.anchor && one.near !== null) {
        const from = one.near - told.start,
          far = cols.line(from) !== cols.line(k),
          begin = far ? x + Math.sign(from - k) * cols.w : cols.x(from);
        arcs.push(
          `M${begin},${top(k) + ARCS - 14}Q${(begin + x) / 2},${top(k) + 12} ${x},${y(k, told.confidence[i]) - 15}`,
        );
      }
      for (const [row, said] of [alone?.[i], one].entries())
        if (said) cells.push({ x, y: rows[row], state: said.yes ? "new" : "masked", whole });
    }
    for (let line = 0; line < cols.lines; line++) {
      const at = line * LINE,
        heads = [
          tr`⚓ anchors reach ${short(told.strict)}. Up to ${told.radius} places from one, the threshold dips to \
${short(told.relaxed)}: neighbours follow`,
          tr`⚓ anchors; around them a lower threshold`,
        ];
      if (!line) labels.push([0, 14, "start", width < 640 ? heads[1] : heads[0]]);
      const plain = alone ? tr`one threshold of ${short(told.strict)} would write (derived)` : unknown(run);
      labels.push([0, at + FOOT + 13, "start", plain]);
      labels.push([0, at + FOOT + CHIP + 35, "start", tr`this run writes`]);
      for (const v of new Set([told.strict, told.relaxed])) labels.push([LEFT - 6, y(0, v) + at + 4, "end", short(v)]);
    }
    this.frame(cols.lines * LINE);
    pool(this.near, near.length, () => svg("rect", "dx-lift")).forEach((box, k) =>
      set(box, { x: near[k][0], width: cols.w, y: near[k][1] + ARCS, height: TALL }),
    );
    pool(this.odd, odd.length, () => svg("rect", { class: "dx-odd", rx: 6 })).forEach((box, k) =>
      set(box, { x: odd[k][0] - cols.w / 2 + 1, width: cols.w - 2, y: odd[k][1] + ARCS - 18, height: LINE - ARCS + 8 }),
    );
    pool(this.line, 1, () => svg("path", { class: "dx-eta", "data-s": "rejected" })).forEach((line) =>
      set(line, { d: path }),
    );
    bars(this.bars, marks, TALL);
    const leaping = pool(this.arcs, arcs.length, () => svg("path", "dx-leap"));
    leaping.forEach((arc, k) => set(arc, { d: arcs[k] }));
    chips(this.cells, cells, this.context.theme, cols.w - 4);
    this.label(labels);
    if (next) comeIn(leaping, { opacity: 0 });
  }

  describe(t) {
    const told = this.run.steps[t - 1]?.leaps;
    if (!told?.at.length) return t ? tr`No place of a block is open in this step.` : tr`Before the first step.`;
    const own = this.#recorded(told),
      anchors = own.filter(({ anchor }) => anchor).length,
      follow = told.tokens.filter((_, i) => own[i].yes && !own[i].anchor && own[i].near !== null);
    if (!anchors) return tr`No anchor: only the most confident one is written.`;
    const names = follow.map((token) => cut(glyphs(this.run.piece(token).text), 12)).join(" ");
    return follow.length
      ? tr`Anchors: ${anchors}. Neighbours that follow below the strict threshold: ${names}.`
      : tr`Anchors: ${anchors}. No neighbour follows.`;
  }
}
