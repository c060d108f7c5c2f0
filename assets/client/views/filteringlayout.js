// Where the bars, the cells and the words of a filter's decision stand, as plain data.

import { CHIP } from "../player/chips.js";
import { against, percent } from "../player/shares.js";
import { short } from "../player/sliding.js";
import { plan } from "../player/strips.js";
import { tr } from "../player/words.js";

export const TALL = 56, // a bar of 1
  HEAD = 38, // room for a line of words and the number on a bar
  ROW = HEAD + TALL + CHIP + 6, // a reader
  NET = 54, // the filter between both
  LINE = 2 * ROW + NET + 22,
  LEFT = 46,
  STRIP = 70;

/** A decision at the thresholds tau and theta: {height, odd, nets, lines, marks, cells, strip, ends, labels, own,
 * room}; room: of a cell. plain, own: what each reader writes, null and what is said then where that is not known
 * (`unasked`); word(i): the token of a cell; answer: of ending. */
export function layout(told, { width, theta, tau, plain, own, unasked, word, answer }) {
  const { masked, confidence, filter } = told,
    n = masked.length,
    oracle = told.oracle ?? [],
    knows = !filter.length && oracle.length > 0, // the oracle decides
    cols = plan(n, width - 6, LEFT),
    narrow = cols.w < 62,
    labels = [],
    marks = [],
    cells = [],
    lines = [],
    nets = [];
  const y = (i) => cols.line(i) * LINE,
    odd = masked.map((_, i) => i).filter((i) => plain && masked[i] && own[i] !== plain[i]);
  for (let i = 0; i < n; i++) {
    const whole = word(i),
      bar = { x: cols.x(i), w: Math.min(30, cols.w - 12), words: "" };
    for (const [top, values, writes] of [
      [0, confidence, plain],
      [ROW + NET, knows ? oracle.map(Number) : filter, own],
    ]) {
      const foot = y(i) + top + HEAD + TALL,
        sign = top && oracle.length ? (oracle[i] ? "✓" : "✕") : "",
        share = knows && top ? "" : against(values[i] ?? 0, top ? tau : theta).replace(narrow ? " %" : "", "");
      if (masked[i] && values.length)
        marks.push({
          ...bar,
          foot,
          value: values[i],
          words: narrow ? sign || share : `${share} ${sign}`,
          state: !writes ? "unreached" : writes[i] ? "new" : "old",
          look: writes?.[i] ? "" : "dx-quiet-bar",
          title: tr`${whole}: confidence ${percent(confidence[i])}, filter ${percent(filter[i] ?? 0)}`,
        });
      const state = !masked[i] ? "old" : writes?.[i] ? "new" : "masked";
      if (writes) cells.push({ x: cols.x(i), y: foot + 4, whole, state, fresh: writes === own && own[i] });
    }
  }
  for (let line = 0; line < cols.lines; line++) {
    const [from, to] = cols.ends(line),
      top = line * LINE,
      below = top + ROW + NET;
    const at = (y0, v) => [from - 4, to, y0 + HEAD + (1 - v) * TALL, v];
    lines.push(at(top, theta), ...(knows ? [] : [at(below, tau)]));
    const heads = narrow
      ? [tr`Baseline: confidence ≥ ${short(theta)} (derived)`, tr`This run: filter > ${short(tau)}`]
      : [
          tr`Baseline: each confidence against one fixed threshold (derived)`,
          tr`This run: the filter’s probability that the token is final`,
        ];
    labels.push([0, top + 14, "start", plain ? heads[0] : unasked]);
    const none = knows ? tr`This run: an oracle that knows the reference` : tr`No filter: the most confident one`;
    labels.push([0, below + 14, "start", filter.length ? heads[1] : none]);
    nets.push([from, to, top + ROW, line]);
  }
  labels.push(...lines.map(([x, , at, v]) => [x - 4, at + 4, "end", short(v)]));
  odd.forEach((i) => {
    labels.push([cols.x(i), y(i) + LINE - 9, "middle", own[i] ? tr`writes` : tr`waits`]);
    labels.push([cols.x(i), y(i) + ROW + NET - 1, "middle", "≠"]);
  });
  own.forEach((yes, i) => {
    if (yes && filter[i] <= tau && !odd.includes(i))
      labels.push([cols.x(i), y(i) + LINE - 9, "middle", narrow ? tr`best` : tr`best: always`]);
  });
  const foot = cols.lines * LINE,
    made = network(nets, cols, n, knows, labels);
  return {
    height: foot + STRIP,
    odd: odd.map((i) => ({ x: cols.x(i) - cols.w / 2 + 1, width: cols.w - 2, y: y(i) + 22, height: LINE - 26 })),
    nets: made,
    lines: lines.map(([from, to, at]) => `M${from},${at}H${to}`),
    ...ending(told, { ...answer, width, top: foot }, labels),
    marks,
    cells,
    labels,
    own,
    room: cols.w - 4,
  };
}

/** The filter between both rows: every confidence goes in, every verdict comes out. */
function network(nets, cols, n, knows, labels) {
  return nets.map(([from, to, top, line]) => {
    const wide = Math.min(230, to - from),
      middle = (from + to) / 2,
      own = Array.from({ length: n }, (_, i) => i).filter((i) => cols.line(i) === line),
      port = (i) => middle + ((cols.x(i) - middle) * wide) / (to - from),
      d = own.map((i) => {
        const x = cols.x(i);
        return `M${x},${top}L${port(i)},${top + 13}M${port(i)},${top + 41}L${x},${top + NET}`;
      });
    const reads = wide < 225 ? tr`reads all ${n}` : tr`trained filter reads all ${n}`;
    labels.push([middle, top + 32, "middle", knows ? tr`reference` : reads]);
    return { d: d.join(""), box: { x: middle - wide / 2, width: wide, y: top + 13, height: 28 } };
  });
}

/** The whole answer as a strip, with scissors where an end mark cut. board: of step t, the answer from `first` on, of
 * `all` positions. */
function ending(told, { board, t, first, all, width, top }, labels) {
  const { end, length, end_confidence: sure, start, masked } = told,
    unit = (width - 8) / Math.max(1, all),
    x = (p) => 4 + (p - first) * unit,
    y = top + 22;
  labels.push([
    4,
    top + 14,
    "start",
    width < 640 ? tr`All ${all} positions` : tr`The whole answer, ${all} positions; filled: written now`,
  ]);
  const strip = Array.from({ length: all }, (_, i) => {
    const cell = board[first + i],
      now = cell?.entry?.step === t - 1,
      kind = cell ? (cell.token === null || now ? "" : "dx-plain") : "dx-gone",
      look = { "data-s": cell?.token != null && now ? "new" : "masked", class: kind };
    return { x: x(first + i), y, width: Math.max(1, unit - 1.5), height: 16, rx: 2, ...look };
  });
  const cut = end < length,
    ends = [
      `M${x(start)},${y + 18}v4H${x(start + masked.length)}v-4`, // the block
      cut ? `M${x(end) - 1},${y - 6}v30` : "",
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
  return { strip, ends };
}
