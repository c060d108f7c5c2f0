// A block before two readers: a plain threshold on each confidence, and a trained filter that reads all of them. Where
// they disagree stands out. Below, the whole answer with what an end mark cuts off.

import { CHIP, StepPicture } from "../player/drawing.js";
import { bars, limit, odd, plan, Sliding, short, unknown } from "../player/sliding.js";
import { against, percent, tr } from "../player/words.js";

export const view = { title: "A trained filter says what is final", place: 54, needs: ["filtering"] };

const PLAIN = 0.8; // what the published filter amounts to
const TALL = 56, // a bar of 1
  HEAD = 38, // room for a line of words and the number on a bar
  ROW = HEAD + TALL + CHIP + 6, // a reader
  NET = 54, // the filter between both
  LINE = 2 * ROW + NET + 22,
  LEFT = 46,
  STRIP = 70;

export class Filtering extends StepPicture {
  layers = ["odd", "net", "lines", "bars", "cells", "strip", "scissors"];
  tau = new Sliding(this, "filtering.tau", tr`filter τ`, tr`Threshold of the filter`);
  theta = new Sliding(this, "filtering.theta", tr`baseline θ`, tr`Threshold of the baseline`);
  none = tr`No filter was asked in this step.`;

  also(told) {
    const n = told ? this.tau.decided(this.#recorded(told)).length : 0,
      plain = this.#plain()?.length;
    this.tau.show(told?.threshold ?? 0, Boolean(told?.filter.length), tr`the filter would write ${n}`);
    this.theta.show(PLAIN, Boolean(told), tr`the threshold would write ${plain}`);
  }

  /** Which positions of the block were written. */
  #recorded({ start }) {
    const { positions, causes } = this.run.steps[this.t - 1].commits;
    return positions.filter((_, k) => causes[k] !== "cut").map((at) => at - start);
  }

  /** Which a threshold on the confidence would write; null where the method was not asked. */
  #plain() {
    return this.run.asked(this.t, "filtering", "theta", this.theta.at(PLAIN));
  }

  draw(told) {
    const { run, t, width } = this,
      { masked, tokens, start } = told,
      board = run.board(t),
      plain = this.#plain(),
      own = this.tau.decided(this.#recorded(told)),
      first = run.prompt.length,
      { height, labels, cells, marks, room, ...layers } = layout(told, {
        width,
        theta: this.theta.at(PLAIN),
        tau: this.tau.at(told.threshold),
        plain: plain && masked.map((_, i) => plain.includes(i)),
        own: masked.map((_, i) => own.includes(i)),
        unasked: unknown(run),
        word: (i) => this.word(masked[i] ? tokens[i] : (board[start + i]?.token ?? -1)),
        answer: { board, t, first, all: run.widths[0] - first },
      }),
      drawn = this.chips(this.cells, cells, room);
    this.paint(height, labels, { ...layers, bars: bars(marks, TALL) });
    return drawn.filter((_, k) => cells[k].fresh);
  }

  sentence(told) {
    const own = this.#recorded(told),
      plain = this.#plain(),
      differ = plain ? plain.length + own.length - 2 * own.filter((i) => plain.includes(i)).length : "–";
    return tr`Written by this run: ${own.length}; by a plain threshold: ${plain?.length ?? "–"}. They differ at \
${differ} of ${told.masked.filter(Boolean).length} masked positions.`;
  }
}

/** Where everything of a decision at the thresholds tau and theta stands: {height, labels, cells, marks, room}, and as
 * they are drawn {odd, net, lines, strip, scissors}; room: of a cell. plain, own: what each reader writes, null and
 * what is said then where that is not known (`unasked`); word(i): the token of a cell; answer: of ending. */
export function layout(told, { width, theta, tau, plain, own, unasked, word, answer }) {
  const { masked, confidence, filter, oracle = [] } = told,
    n = masked.length,
    knows = !filter.length && oracle.length > 0, // the oracle decides
    cols = plan(n, width - 6, LEFT),
    narrow = cols.w < 62,
    y = (i) => cols.line(i) * LINE,
    differ = [...masked.keys()].filter((i) => plain && masked[i] && own[i] !== plain[i]),
    labels = [],
    marks = [],
    cells = [],
    lines = [],
    net = [];
  for (let i = 0; i < n; i++) {
    const whole = word(i),
      title = tr`${whole}: confidence ${percent(confidence[i])}, filter ${percent(filter[i] ?? 0)}`,
      bar = { x: cols.x(i), w: Math.min(30, cols.w - 12), title };
    for (const [top, values, writes] of [
      [0, confidence, plain],
      [ROW + NET, knows ? oracle.map(Number) : filter, own],
    ]) {
      const foot = y(i) + top + HEAD + TALL,
        sign = top && oracle.length ? (oracle[i] ? "✓" : "✕") : "",
        share = knows && top ? "" : against(values[i] ?? 0, top ? tau : theta).replace(narrow ? " %" : "", ""),
        words = narrow ? sign || share : `${share} ${sign}`,
        look = writes?.[i] ? "" : "dx-quiet-bar",
        state = !masked[i] ? "old" : writes?.[i] ? "new" : "masked";
      if (masked[i] && values.length)
        marks.push({
          ...bar,
          foot,
          value: values[i],
          words,
          state: writes?.[i] ? "new" : writes ? "old" : "unreached",
          look,
        });
      if (writes) cells.push({ x: cols.x(i), y: foot + 4, whole, state, fresh: writes === own && own[i] });
    }
  }
  const heads = narrow
      ? [tr`Baseline: confidence ≥ ${short(theta)} (derived)`, tr`This run: filter > ${short(tau)}`]
      : [
          tr`Baseline: each confidence against one fixed threshold (derived)`,
          tr`This run: the filter’s probability that the token is final`,
        ],
    none = knows ? tr`This run: an oracle that knows the reference` : tr`No filter: the most confident one`;
  for (let line = 0; line < cols.lines; line++) {
    const [from, to] = cols.ends(line),
      top = line * LINE,
      below = top + ROW + NET;
    labels.push([0, top + 14, "start", plain ? heads[0] : unasked]);
    labels.push([0, below + 14, "start", filter.length ? heads[1] : none]);
    for (const [y0, v] of [[top, theta], ...(knows ? [] : [[below, tau]])]) {
      const level = y0 + HEAD + (1 - v) * TALL;
      lines.push(limit(from - 4, to, level));
      labels.push([from - 8, level + 4, "end", short(v)]);
    }
    net.push(network(from, to, top + ROW, line, cols, n, knows, labels));
  }
  for (const i of differ) {
    labels.push([cols.x(i), y(i) + LINE - 9, "middle", own[i] ? tr`writes` : tr`waits`]);
    labels.push([cols.x(i), y(i) + ROW + NET - 1, "middle", "≠"]);
  }
  own.forEach((yes, i) => {
    if (yes && filter[i] <= tau && !differ.includes(i))
      labels.push([cols.x(i), y(i) + LINE - 9, "middle", narrow ? tr`best` : tr`best: always`]);
  });
  const foot = cols.lines * LINE;
  return {
    height: foot + STRIP,
    odd: differ.map((i) => odd(cols.x(i), cols.w, y(i) + 22, LINE - 26)),
    ...ending(told, { ...answer, width, top: foot }, labels),
    ...{ net, lines, marks, cells, labels, room: cols.w - 4 },
  };
}

/** The filter between both rows: every confidence goes in, every verdict comes out. */
function network(from, to, top, line, cols, n, knows, labels) {
  const wide = Math.min(230, to - from),
    middle = (from + to) / 2,
    reads = wide < 225 ? tr`reads all ${n}` : tr`trained filter reads all ${n}`;
  let d = "";
  for (let i = 0; i < n; i++) {
    const x = cols.x(i),
      port = middle + ((x - middle) * wide) / (to - from);
    if (cols.line(i) === line) d += `M${x},${top}L${port},${top + 13}M${port},${top + 41}L${x},${top + NET}`;
  }
  labels.push([middle, top + 32, "middle", knows ? tr`reference` : reads]);
  const box = { class: "dx-box", rx: 8, x: middle - wide / 2, width: wide, y: top + 13, height: 28 };
  return [{}, ["path", { class: "dx-fan", d }], ["rect", box]];
}

/** The whole answer as a strip, with scissors where an end mark cut. board: of step t, the answer from `first` on, of
 * `all` positions. */
function ending(told, { board, t, first, all, width, top }, labels) {
  const { end, length, end_confidence: sure, start, masked } = told,
    unit = (width - 8) / Math.max(1, all),
    x = (p) => 4 + (p - first) * unit,
    y = top + 22;
  const head = width < 640 ? tr`All ${all} positions` : tr`The whole answer, ${all} positions; filled: written now`;
  labels.push([4, top + 14, "start", head]);
  const strip = Array.from({ length: all }, (_, i) => {
    const cell = board[first + i],
      now = cell?.entry?.step === t - 1,
      kind = cell ? (cell.token === null || now ? "" : "dx-plain") : "dx-gone",
      box = { x: x(first + i), y, width: Math.max(1, unit - 1.5), height: 16, rx: 2 };
    return ["rect", { ...box, "data-s": cell?.token != null && now ? "new" : "masked", class: kind }];
  });
  const cut = end < length,
    block = `M${x(start)},${y + 18}v4H${x(start + masked.length)}v-4`,
    scissors = [
      ["path", { class: "dx-round", d: block }],
      ["path", { class: "dx-cut", d: cut ? `M${x(end) - 1},${y - 6}v30` : "" }],
    ];
  if (cut) {
    const gone = length - end,
      said =
        width < 640
          ? tr`✂ end mark: ${gone} cut off`
          : tr`✂ end mark ${percent(sure)}: the ${gone} after it are cut, never computed again`,
      right = x(end) > width / 2;
    labels.push([Math.min(width - 4, Math.max(4, x(end) - 6)), y + 40, right ? "end" : "start", said]);
  }
  return { strip, scissors };
}
