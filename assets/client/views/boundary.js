// The same text in two lanes: blocks of a fixed length, which cut through its lines, and blocks that end where the
// model already sees the end of a line.

import { CHIP, chips } from "../player/chips.js";
import { cut, glyphs } from "../player/codec.js";
import { pool, set, svg } from "../player/dom.js";
import { comeIn } from "../player/motion.js";
import { percent } from "../player/shares.js";
import { Sliding, unknown } from "../player/sliding.js";
import { StepPicture } from "../player/steppicture.js";
import { tr } from "../player/words.js";

export const view = { title: "A block ends where a line ends", place: 59, needs: ["boundary"] };

const HEAD = 26,
  TOKENS = 36, // below a lane's top: its words, the flags, then the tokens
  BRACKET = TOKENS + CHIP + 12,
  LANE = BRACKET + 18,
  LINE = 2 * LANE + 8,
  LETTER = 7.4;

export class Boundary extends StepPicture {
  load(run, dom, context) {
    this.sliding = new Sliding(this, "boundary.tau", tr`line end’s threshold τ`, tr`Threshold of a line end`);
    this.begin(run, dom, context, ["early", "blocks", "late", "cells"], this.sliding.dom);
  }

  told({ boundary }) {
    return boundary?.at.length ? boundary : null;
  }

  /** Where the block ends, the position after it, and what is written. */
  #block({ end }) {
    return this.sliding.decided([end, this.run.steps[this.t - 1].commits.positions]);
  }

  get #span() {
    return [this.run.prompt.length, this.run.widths[0]];
  }

  also(told) {
    const said = told && tr`the block would take ${this.#block(told)[0] - told.start}`;
    this.sliding.show(told?.delimiter_threshold ?? 0, Boolean(told?.seen.length), said);
  }

  /** Ends of the blocks of fixed length. */
  #fixed({ default: length }) {
    const [first, last] = this.#span,
      ends = [];
    for (let end = first + length; end < last + length; end += length) ends.push(Math.min(end, last));
    return ends;
  }

  /** Blocks of the run so far: [start, end]. */
  #blocks() {
    const all = new Map();
    for (const { boundary } of this.run.steps.slice(0, this.t - 1)) if (boundary) all.set(boundary.start, boundary.end);
    return [...all];
  }

  /** Where each token stands, as wide as its word: [{x, w, line, text}] by position from the first on. */
  #laid(words) {
    let left = 2,
      line = 0;
    return words.map((text) => {
      const w = LETTER * [...text].length + 17;
      if (left + w > this.width) [left, line] = [2, line + 1];
      left += w;
      return { x: left - w / 2, w, line, text };
    });
  }

  draw(told, _, next) {
    const { run, width, t } = this,
      { states } = this.context.theme,
      [first, last] = this.#span,
      [end, written] = this.#block(told),
      usual = Math.min(told.start + told.default, last),
      fixed = this.#fixed(told),
      board = run.board(t),
      open = new Map(told.at.map((p, i) => [p, i])),
      even = run.asked(t, "boundary", "fixed"), // what blocks of a fixed length would write
      labels = [],
      cells = [],
      late = [];
    const tokens = Array.from({ length: last - first }, (_, k) => {
      const i = open.get(first + k);
      return i === undefined ? (board[first + k]?.token ?? null) : told.tokens[i];
    });
    const name = (token) => (run.eos.has(token) ? states.eos.glyph : cut(glyphs(run.piece(token).text), 8)),
      places = this.#laid(tokens.map((token) => (token === null ? " " : name(token)))),
      place = (p) => places[p - first],
      top = (p, lane) => HEAD + place(p).line * LINE + lane * LANE,
      edge = (p) => place(p - 1).x + place(p - 1).w / 2; // right of the position before
    tokens.forEach((token, k) => {
      if (token === null) return;
      const p = first + k,
        i = open.get(p),
        { x, text } = place(p);
      [even, written].forEach((yes, lane) => {
        if (i !== undefined && !yes) return;
        const state = i === undefined ? "old" : yes.includes(p) ? "new" : "masked";
        cells.push({ x, y: top(p, lane) + TOKENS, state, text, whole: glyphs(run.piece(token).text) });
      });
      if (i !== undefined && p >= end && told.confidence[i] >= told.threshold)
        late.push([x, top(p, 1) + TOKENS + CHIP + 6]);
    });
    const lines = (places.at(-1)?.line ?? 0) + 1;
    for (let k = 0; k < lines; k++) {
      const y = HEAD + k * LINE;
      labels.push([0, y + 14, "start", even ? tr`blocks of ${told.default} would write (derived)` : unknown(run)]);
      labels.push([0, y + LANE + 14, "start", tr`this run writes`]);
    }
    const drawing = (blocks, lane, hook = 5) =>
      blocks
        .flatMap(([from, to]) =>
          Array.from({ length: lines }, (_, k) => {
            const own = places.slice(from - first, to - first).filter((one) => one.line === k);
            if (!own.length) return "";
            const y = HEAD + k * LINE + lane * LANE + BRACKET,
              right = own.at(-1).x + own.at(-1).w / 2;
            return `M${own[0].x - own[0].w / 2 + 1},${y - hook}v${hook}H${right - 1}v${-hook}`;
          }),
        )
        .join("");
    const before = this.#blocks().filter(([start]) => start < told.start),
      ghost = end < usual ? drawing([[end, usual]], 1, 0) : "",
      head = ghost && `M${edge(end) + 9},${top(end - 1, 1) + BRACKET - 4}l-7,4l7,4`,
      strokes = [
        [
          "dx-alone",
          drawing(
            fixed.map((to, i) => [i ? fixed[i - 1] : first, to]),
            0,
          ),
        ],
        ["dx-round", drawing(before, 1)],
        ["dx-exit", drawing([[told.start, end]], 1)],
        ["dx-leap", ghost + head],
        ...fixed.map((to) => ["dx-alone", `M${edge(to)},${top(to - 1, 0) + TOKENS - 8}v${CHIP + 16}`]),
        ["dx-cut", `M${edge(end)},${top(end - 1, 1) + TOKENS - 14}v${CHIP + 28}`],
      ];
    pool(this.blocks, strokes.length, () => svg("path")).forEach((path, k) =>
      set(path, { class: strokes[k][0], d: strokes[k][1] }),
    );
    told.seen.forEach((p, i) => {
      const away = place(p).line !== place(end - 1).line || Math.abs(edge(p + 1) - edge(end)) > 230;
      if (p + 1 !== end && !away) return; // it would stand on the other one's words
      const share = percent(told.seen_confidence[i]),
        said = p + 1 === end ? tr`↵ ${share}: the block ends here` : `↵ ${share}`,
        wide = edge(p + 1) > width - 220;
      labels.push([edge(p + 1) + (wide ? -5 : 5), top(p, 1) + TOKENS - 7, wide ? "end" : "start", said]);
    });
    const early = told.seen.includes(end - 1) ? (even ?? []).filter((p) => p >= end) : [];
    pool(this.early, early.length, () => svg("rect", { class: "dx-odd", rx: 6 })).forEach((box, k) => {
      const { x, w } = place(early[k]);
      set(box, { x: x - w / 2 + 0.5, width: w - 1, y: top(early[k], 0) + TOKENS - 5, height: CHIP + 10 });
    });
    if (early.length) {
      const { x, w } = place(early[0]),
        wide = x > width - 200;
      labels.push([
        x + ((wide ? 1 : -1) * w) / 2,
        top(early[0], 0) + TOKENS - 9,
        wide ? "end" : "start",
        tr`beyond the line end`,
      ]);
    }
    const drawn = chips(this.cells, cells, this.context.theme, 90);
    pool(this.late, late.length, () => svg("circle", { r: 2.5, class: "dx-waits" })).forEach((dot, k) =>
      set(dot, { cx: late[k][0], cy: late[k][1] }),
    );
    const foot = HEAD + lines * LINE,
      narrow = width < 640,
      heads = [
        tr`Where does a block end? Above, after a fixed length; below, where the model predicts a line end (↵)`,
        tr`A block ends at a line end (↵)`,
      ],
      waits = [tr`dots: ${late.length} confident tokens beyond the block must wait`, tr`dots: confident, must wait`];
    labels.push([0, 14, "start", heads[Number(narrow)]]);
    if (late.length) labels.push([0, foot + 6, "start", waits[Number(narrow)]]);
    this.frame(foot + 16);
    this.label(labels);
    if (next)
      comeIn(
        drawn.filter((_, k) => cells[k].state === "new"),
        { opacity: 0 },
      );
  }

  describe(t) {
    const told = this.run.steps[t - 1]?.boundary;
    if (!told?.at.length) return t ? tr`No block was chosen in this step.` : tr`Before the first step.`;
    const length = told.end - told.start,
      why = {
        delimiter: tr`The block ends at a predicted line end: ${length} instead of ${told.default}.`,
        none: tr`No line end in sight: the usual ${length}.`,
        low_conf: tr`The line end is too unsure: the usual ${length}.`,
        tail: tr`The rest of the answer: ${length}.`,
      };
    return tr`${why[told.why] ?? ""} Written now: ${this.run.steps[t - 1].commits.positions.length}.`;
  }
}
