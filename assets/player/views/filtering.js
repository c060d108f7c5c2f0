// A block before two readers: a plain threshold on each confidence, and a trained filter that reads all of them. Where
// they disagree stands out. Below, the whole answer with what an end mark cuts off.

import { CHIP, chips } from "../chips.js";
import { glyphs } from "../codec.js";
import { pool, set, svg } from "../dom.js";
import { comeIn } from "../motion.js";
import { against, percent } from "../shares.js";
import { Sliding, short } from "../sliding.js";
import { StepPicture } from "../steppicture.js";
import { bars, passing, plan } from "../strips.js";
import { tr } from "../words.js";

export const view = {
  name: "Filtering",
  title: "A trained filter says what is final",
  place: 54,
  needs: ["filtering"],
};

const TALL = 56, // a bar of 1
  HEAD = 38, // room for a line of words and the number on a bar
  ROW = HEAD + TALL + CHIP + 6, // a reader
  NET = 54, // the filter between both
  LINE = 2 * ROW + NET + 22,
  LEFT = 46,
  STRIP = 70,
  PLAIN = 0.8; // what the published filter amounts to

/** What is written where the filter decides at a threshold: what it accepts, and the most confident one; an
 * oracle writes what is the reference's. */
export function decided({ masked, confidence, filter, oracle }, threshold) {
  if (oracle?.length && !filter.length) return masked.map((open, i) => open && oracle[i]); // the oracle decides
  const accepted = filter.length ? filter.map((v, i) => masked[i] && v > threshold) : masked.map(() => false),
    best = passing(confidence, masked, 2);
  return masked.map((_, i) => accepted[i] || best[i]);
}

export class Filtering extends StepPicture {
  load(run, dom, context) {
    const again = () => this.show(this.t);
    this.tau = new Sliding(tr`filter τ`, tr`Threshold of the filter`, again);
    this.theta = new Sliding(tr`baseline θ`, tr`Threshold of the baseline`, again);
    const layers = ["odd", "net", "lines", "bars", "cells", "strip", "scissors"];
    this.begin(run, dom, context, layers, this.tau.dom, this.theta.dom);
  }

  told({ filtering }) {
    return filtering;
  }

  also(told) {
    const n = told ? decided(told, this.tau.at(told.threshold)).filter(Boolean).length : 0,
      plain = told ? this.#plain(told).filter(Boolean).length : 0;
    this.tau.show(told?.threshold ?? 0, Boolean(told?.filter.length), tr`the filter would write ${n}`);
    this.theta.show(PLAIN, Boolean(told), tr`the threshold would write ${plain}`);
  }

  #plain({ confidence, masked }) {
    return passing(confidence, masked, this.theta.at(PLAIN));
  }

  draw(told, _, next) {
    const { masked, tokens, confidence, filter, start } = told,
      { run, width } = this,
      n = masked.length,
      theta = this.theta.at(PLAIN),
      tau = this.tau.at(told.threshold),
      plain = this.#plain(told),
      own = decided(told, tau),
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
      odd = masked.map((_, i) => i).filter((i) => masked[i] && own[i] !== plain[i]),
      word = (i) => glyphs(run.piece(masked[i] ? tokens[i] : (run.board(this.t)[start + i]?.token ?? -1)).text);
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
            state: writes[i] ? "new" : "old",
            look: writes[i] ? "" : "dx-quiet-bar",
            title: tr`${whole}: confidence ${percent(confidence[i])}, filter ${percent(filter[i] ?? 0)}`,
          });
        cells.push({ x: cols.x(i), y: foot + 4, whole, state: !masked[i] ? "old" : writes[i] ? "new" : "masked" });
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
      labels.push([0, top + 14, "start", heads[0]]);
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
    const foot = cols.lines * LINE;
    this.frame(foot + STRIP);
    pool(this.odd, odd.length, () => svg("rect", { class: "dx-odd", rx: 6 })).forEach((box, k) =>
      set(box, { x: cols.x(odd[k]) - cols.w / 2 + 1, width: cols.w - 2, y: y(odd[k]) + 22, height: LINE - 26 }),
    );
    this.#network(nets, cols, n, knows, labels);
    bars(this.bars, marks, TALL);
    pool(this.lines, lines.length, () => svg("path", { class: "dx-eta", "data-s": "rejected" })).forEach((path, k) => {
      const [from, to, at] = lines[k];
      set(path, { d: `M${from},${at}H${to}` });
    });
    const drawn = chips(this.cells, cells, this.context.theme, cols.w - 4);
    this.#ending(told, foot, labels);
    this.label(labels);
    if (next)
      comeIn(
        drawn.filter((_, k) => k % 2 && own[k >> 1]),
        { opacity: 0 },
      );
  }

  /** The filter between both rows: every confidence goes in, every verdict comes out. */
  #network(nets, cols, n, knows, labels) {
    pool(this.net, nets.length, () =>
      svg("g", {}, svg("path", "dx-fan"), svg("rect", { class: "dx-box", rx: 8 })),
    ).forEach((group, k) => {
      const [from, to, top, line] = nets[k],
        wide = Math.min(230, to - from),
        middle = (from + to) / 2,
        own = Array.from({ length: n }, (_, i) => i).filter((i) => cols.line(i) === line),
        port = (i) => middle + ((cols.x(i) - middle) * wide) / (to - from);
      set(group.firstChild, {
        d: own
          .map((i) => {
            const x = cols.x(i);
            return `M${x},${top}L${port(i)},${top + 13}M${port(i)},${top + 41}L${x},${top + NET}`;
          })
          .join(""),
      });
      set(group.lastChild, { x: middle - wide / 2, width: wide, y: top + 13, height: 28 });
      const reads = wide < 225 ? tr`reads all ${n}` : tr`trained filter reads all ${n}`;
      labels.push([middle, top + 32, "middle", knows ? tr`reference` : reads]);
    });
  }

  /** The whole answer as a strip, with scissors where an end mark cut. */
  #ending({ end, length, end_confidence: sure, start, masked }, top, labels) {
    const { run, width } = this,
      first = run.prompt.length,
      all = run.widths[0] - first,
      unit = (width - 8) / Math.max(1, all),
      board = run.board(this.t),
      x = (p) => 4 + (p - first) * unit,
      y = top + 22;
    labels.push([
      4,
      top + 14,
      "start",
      width < 640 ? tr`All ${all} positions` : tr`The whole answer, ${all} positions; filled: written now`,
    ]);
    pool(this.strip, all, () => svg("rect")).forEach((box, i) => {
      const cell = board[first + i];
      set(box, { x: x(first + i), y, width: Math.max(1, unit - 1.5), height: 16, rx: 2, "data-s": "masked" });
      const now = cell?.entry?.step === this.t - 1,
        kind = cell ? (cell.token === null || now ? "" : "dx-plain") : "dx-gone";
      set(box, { "data-s": cell?.token != null && now ? "new" : "masked", class: kind });
    });
    const cut = end < length;
    pool(this.scissors, 2, () => svg("path")).forEach((path, k) => {
      set(path, { class: k ? "dx-cut" : "dx-round", d: "" });
      if (!k) set(path, { d: `M${x(start)},${y + 18}v4H${x(start + masked.length)}v-4` });
      else if (cut) set(path, { d: `M${x(end) - 1},${y - 6}v30` });
    });
    if (cut) {
      const gone = length - end,
        said =
          width < 640
            ? tr`✂ end mark: ${gone} cut off`
            : tr`✂ end mark ${percent(sure)}: the ${gone} after it are cut, never computed again`,
        right = x(end) > width / 2;
      labels.push([Math.min(width - 4, Math.max(4, x(end) - 6)), y + 40, right ? "end" : "start", said]);
    }
  }

  describe(t) {
    const told = this.run.steps[t - 1]?.filtering;
    if (!told) return t ? tr`No filter was asked in this step.` : tr`Before the first step.`;
    const count = (list) => list.filter(Boolean).length,
      own = decided(told, told.threshold),
      plain = this.#plain(told),
      differ = own.filter((yes, i) => yes !== plain[i]).length;
    return tr`Written by this run: ${count(own)}; by a plain threshold: ${count(plain)}. They differ at ${differ} \
of ${count(told.masked)} masked positions.`;
  }
}
