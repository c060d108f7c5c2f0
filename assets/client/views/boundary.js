// The same text in two lanes: blocks of a fixed length, which cut through its lines, and blocks that end where the
// model already sees the end of a line.

import { CHIP, LETTER, StepPicture } from "../player/drawing.js";
import { odd, Sliding, unknown } from "../player/sliding.js";
import { percent, tr } from "../player/words.js";

export const view = { title: "A block ends where a line ends", place: 59, needs: ["boundary"] };

const HEAD = 26,
  TOKENS = 36, // below a lane's top: its words, the flags, then the tokens
  BRACKET = TOKENS + CHIP + 12,
  LANE = BRACKET + 18,
  LINE = 2 * LANE + 8;

export class Boundary extends StepPicture {
  layers = ["early", "blocks", "late", "cells"];
  sliding = new Sliding(this, "boundary.tau", tr`line end’s threshold τ`, tr`Threshold of a line end`);
  filled = "at";
  none = tr`No block was chosen in this step.`;

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

  draw(told) {
    const { run, width, t } = this,
      { states } = this.context.theme,
      [first, last] = this.#span,
      [end, written] = this.#block(told),
      board = run.board(t),
      even = run.asked(t, "boundary", "fixed"), // what blocks of a fixed length would write
      tokens = Array.from({ length: last - first }, (_, k) => {
        const i = told.at.indexOf(first + k);
        return i < 0 ? (board[first + k]?.token ?? null) : told.tokens[i];
      }),
      name = (token) => (token === null ? " " : run.eos.has(token) ? states.eos.glyph : this.word(token, 8)),
      places = this.#laid(tokens.map(name)),
      lines = (places.at(-1)?.line ?? 0) + 1,
      place = (p) => places[p - first],
      top = (p, lane) => HEAD + place(p).line * LINE + lane * LANE,
      edge = (p) => place(p - 1).x + place(p - 1).w / 2, // right of the position before
      at = { end, even, first, places, lines, place, top, edge, labels: [] },
      cells = [],
      late = [];
    tokens.forEach((token, k) => {
      if (token === null) return;
      const p = first + k,
        i = told.at.indexOf(p),
        { x, text } = place(p);
      [even, written].forEach((yes, lane) => {
        if (i >= 0 && !yes) return;
        const state = i < 0 ? "old" : yes.includes(p) ? "new" : "masked";
        cells.push({ x, y: top(p, lane) + TOKENS, state, text, whole: this.word(token) });
      });
      if (p >= end && told.confidence[i] >= told.threshold)
        late.push(["circle", { r: 2.5, class: "dx-waits", cx: x, cy: top(p, 1) + TOKENS + CHIP + 6 }]);
    });
    this.#ends(told, at);
    const early = this.#early(told, at),
      drawn = this.chips(this.cells, cells, 90),
      foot = HEAD + lines * LINE,
      [head, waits] =
        width < 640
          ? [tr`A block ends at a line end (↵)`, tr`dots: confident, must wait`]
          : [
              tr`Where does a block end? Above, after a fixed length; below, where the model predicts a line end (↵)`,
              tr`dots: ${late.length} confident tokens beyond the block must wait`,
            ];
    for (let y = HEAD; y < foot; y += LINE) {
      at.labels.push([0, y + 14, "start", even ? tr`blocks of ${told.default} would write (derived)` : unknown(run)]);
      at.labels.push([0, y + LANE + 14, "start", tr`this run writes`]);
    }
    at.labels.push([0, 14, "start", head]);
    if (late.length) at.labels.push([0, foot + 6, "start", waits]);
    this.paint(foot + 16, at.labels, { early, blocks: this.#brackets(told, at), late });
    return drawn.filter((_, k) => cells[k].state === "new");
  }

  /** Brackets below the blocks of both lanes, and strokes where they end. */
  #brackets(told, { end, first, places, lines, top, edge }) {
    const fixed = this.#fixed(told),
      usual = Math.min(told.start + told.default, this.#span[1]);
    const drawing = (blocks, lane, hook = 5) =>
      blocks
        .flatMap(([from, to]) =>
          Array.from({ length: lines }, (_, k) => {
            const own = places.slice(from - first, to - first).filter(({ line }) => line === k);
            if (!own.length) return "";
            const y = HEAD + k * LINE + lane * LANE + BRACKET,
              right = own.at(-1).x + own.at(-1).w / 2;
            return `M${own[0].x - own[0].w / 2 + 1},${y - hook}v${hook}H${right - 1}v${-hook}`;
          }),
        )
        .join("");
    const plain = fixed.map((to, i) => [i ? fixed[i - 1] : first, to]),
      past = this.run.steps.slice(0, this.t - 1).filter(({ boundary }) => boundary?.start < told.start),
      before = new Map(past.map(({ boundary: { start, end } }) => [start, end])),
      ghost = end < usual ? drawing([[end, usual]], 1, 0) : "",
      head = ghost && `M${edge(end) + 9},${top(end - 1, 1) + BRACKET - 4}l-7,4l7,4`,
      strokes = [
        ["dx-alone", drawing(plain, 0)],
        ["dx-round", drawing([...before], 1)],
        ["dx-exit", drawing([[told.start, end]], 1)],
        ["dx-leap", ghost + head],
        ...fixed.map((to) => ["dx-alone", `M${edge(to)},${top(to - 1, 0) + TOKENS - 8}v${CHIP + 16}`]),
        ["dx-cut", `M${edge(end)},${top(end - 1, 1) + TOKENS - 14}v${CHIP + 28}`],
      ];
    return strokes.map(([look, d]) => ["path", { class: look, d }]);
  }

  /** How sure the model is of each line end that it sees. */
  #ends({ seen, seen_confidence: sure }, { end, place, top, edge, labels }) {
    seen.forEach((p, i) => {
      const away = place(p).line !== place(end - 1).line || Math.abs(edge(p + 1) - edge(end)) > 230;
      if (p + 1 !== end && !away) return; // it would stand on the other one's words
      const share = percent(sure[i]),
        said = p + 1 === end ? tr`↵ ${share}: the block ends here` : `↵ ${share}`,
        wide = edge(p + 1) > this.width - 220;
      labels.push([edge(p + 1) + (wide ? -5 : 5), top(p, 1) + TOKENS - 7, wide ? "end" : "start", said]);
    });
  }

  /** Frames around what blocks of a fixed length would write beyond the line end. */
  #early({ seen }, { end, even, place, top, labels }) {
    const early = seen.includes(end - 1) ? (even ?? []).filter((p) => p >= end) : [];
    if (early.length) {
      const { x, w } = place(early[0]),
        [side, anchor] = x > this.width - 200 ? [1, "end"] : [-1, "start"];
      labels.push([x + (side * w) / 2, top(early[0], 0) + TOKENS - 9, anchor, tr`beyond the line end`]);
    }
    return early.map((p) => odd(place(p).x, place(p).w + 1, top(p, 0) + TOKENS - 5, CHIP + 10));
  }

  sentence(told, { commits }) {
    const length = told.end - told.start,
      why = {
        delimiter: tr`The block ends at a predicted line end: ${length} instead of ${told.default}.`,
        none: tr`No line end in sight: the usual ${length}.`,
        low_conf: tr`The line end is too unsure: the usual ${length}.`,
        tail: tr`The rest of the answer: ${length}.`,
      };
    return tr`${why[told.why] ?? ""} Written now: ${commits.positions.length}.`;
  }
}
