// A block whose threshold dips around its anchors: confident tokens let their neighbours follow. Below, what one
// threshold would write.

import { set } from "../player/dom.js";
import { CHIP, StepPicture } from "../player/drawing.js";
import { bars, odd, plan, Sliding, short, unknown } from "../player/sliding.js";
import { against, percent, tr } from "../player/words.js";

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
  layers = ["near", "odd", "line", "bars", "arcs", "cells"];
  radius = new Sliding(this, "leaps.radius", tr`radius r`, tr`Radius r`, [0, 16, 1]);
  relaxed = new Sliding(this, "leaps.radius", tr`lower threshold`, tr`Lower threshold`);
  filled = "at";
  none = tr`No place of a block is open in this step.`;

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

  draw(recorded) {
    const { width } = this,
      told = this.#moved(recorded),
      own = this.#own(recorded),
      alone = this.#asked(told, 0), // what one threshold, the strict one, would write
      n = told.end - told.start,
      cols = plan(n, width - 6, LEFT, 40),
      board = this.run.board(this.t),
      top = (k) => cols.line(k) * LINE,
      at = { told, cols, top, y: (k, v) => top(k) + ARCS + (1 - v) * TALL },
      drawn = { near: [], odd: [], bars: [], arcs: [] },
      cells = [],
      labels = [];
    let path = "",
      last = null;
    for (let k = 0; k < n; k++) {
      const i = told.at.indexOf(told.start + k),
        token = i < 0 ? board[told.start + k]?.token : told.tokens[i],
        edge = cols.x(k) - cols.w / 2;
      [alone?.[i], own[i]].forEach((one, row) => {
        const state = i < 0 ? "old" : one?.yes ? "new" : "masked",
          place = { x: cols.x(k), y: top(k) + FOOT + 18 + row * (CHIP + 22) };
        if (token != null && (i < 0 || one)) cells.push({ ...place, state, whole: this.word(token) });
      });
      if (i < 0) {
        last = null;
        continue;
      }
      const level = at.y(k, own[i].theta);
      path += last !== null && cols.line(last) === cols.line(k) ? `V${level}` : `M${edge},${level}`;
      path += `H${edge + cols.w}`;
      last = k;
      this.#place(own[i], alone?.[i], i, k, at, drawn, labels);
    }
    const heads = [
        tr`⚓ anchors reach ${short(told.strict)}. Up to ${told.radius} places from one, the threshold dips to \
${short(told.relaxed)}: neighbours follow`,
        tr`⚓ anchors; around them a lower threshold`,
      ],
      plain = alone ? tr`one threshold of ${short(told.strict)} would write (derived)` : unknown(this.run);
    labels.push([0, 14, "start", width < 640 ? heads[1] : heads[0]]);
    for (let from = 0; from < cols.lines * LINE; from += LINE) {
      labels.push([0, from + FOOT + 13, "start", plain], [0, from + FOOT + CHIP + 35, "start", tr`this run writes`]);
      for (const v of new Set([told.strict, told.relaxed]))
        labels.push([LEFT - 6, at.y(0, v) + from + 4, "end", short(v)]);
    }
    this.chips(this.cells, cells, cols.w - 4);
    const line = [["path", { class: "dx-eta", "data-s": "rejected", d: path }]];
    return this.paint(cols.lines * LINE, labels, { ...drawn, line, bars: bars(drawn.bars, TALL) }).arcs;
  }

  /** An open place: its bar, the lower threshold around an anchor, and an arc from the one that it follows. */
  #place(one, alone, i, k, { told, cols, top, y }, { near, odd: frames, bars: marks, arcs }, labels) {
    const { w } = cols,
      x = cols.x(k),
      sure = told.confidence[i];
    if (one.near !== null)
      near.push(["rect", { class: "dx-lift", x: x - w / 2, width: w, y: top(k) + ARCS, height: TALL }]);
    marks.push({
      ...{ x, w: Math.min(26, w - 10), foot: top(k) + ARCS + TALL, value: sure },
      state: one.yes ? "new" : "old",
      look: one.yes ? "" : "dx-quiet-bar",
      words: one.anchor ? "⚓" : against(sure, one.theta).replace(w < 52 ? " %" : "", ""),
      title: tr`${this.word(told.tokens[i])}: ${percent(sure)}, threshold ${short(one.theta)}`,
    });
    if (alone && one.yes !== alone.yes) {
      frames.push(odd(x, w, top(k) + ARCS - 18, LINE - ARCS + 8));
      if (w > 52) labels.push([x, top(k) + LINE - 15, "middle", tr`follows`]);
    }
    if (!one.yes || one.anchor || one.near === null) return;
    const from = one.near - told.start,
      begin = cols.line(from) === cols.line(k) ? cols.x(from) : x + Math.sign(from - k) * w,
      d = `M${begin},${top(k) + ARCS - 14}Q${(begin + x) / 2},${top(k) + 12} ${x},${y(k, sure) - 15}`;
    arcs.push(["path", { class: "dx-leap", d }]);
  }

  sentence(told) {
    const own = this.#recorded(told),
      anchors = own.filter(({ anchor }) => anchor).length,
      follow = told.tokens.filter((_, i) => own[i].yes && !own[i].anchor && own[i].near !== null);
    if (!anchors) return tr`No anchor: only the most confident one is written.`;
    const names = follow.map((token) => this.word(token, 12)).join(" ");
    return follow.length
      ? tr`Anchors: ${anchors}. Neighbours that follow below the strict threshold: ${names}.`
      : tr`Anchors: ${anchors}. No neighbour follows.`;
  }
}
