// The bet of a round: what each size of draft promises against what its rows cost, what was taken and what came; and
// the run's account so far, on the same axes. One plain row a token is the diagonal of both.

import { render, StepPicture } from "../player/drawing.js";
import { ticks } from "../player/layout.js";
import { short } from "../player/sliding.js";
import { many, tr } from "../player/words.js";

export const view = { title: "The bet of this round", place: 67, needs: ["bets"] };

const ROOF = 48,
  TALL = 250, // of a chart
  FOOT = 44,
  LEFT = 44,
  GAP = 70,
  PLAIN = 170, // width of the words on the diagonal
  ROOM = 110, // for the words at the run's last point
  NARROW = 760;

export class Bets extends StepPicture {
  layers = ["grid", "lines", "dots"];
  none = tr`Nothing was bet in this step.`;

  draw(told) {
    const narrow = this.width < NARROW,
      w = narrow ? this.width - LEFT - 12 : (this.width - 2 * LEFT - GAP) / 2,
      high = ROOF + TALL + FOOT,
      round = { x: LEFT, y: ROOF, w },
      whole = { x: narrow ? LEFT : 2 * LEFT + GAP + w - 12, y: narrow ? high + ROOF : ROOF, w };
    Object.assign(this, { paths: [], marks: [], labels: [] });
    this.#round(told, round);
    this.#account(whole);
    render(this.lines, this.paths, ([d, style]) => ["path", { d, style: `fill:none;${style}` }]);
    const dots = render(this.dots, this.marks, ([x, y, d, style, title]) => [
      {},
      ["title", {}, title],
      ["path", { d, transform: `translate(${x.toFixed(1)},${y.toFixed(1)})`, style }],
    ]);
    this.frame(narrow ? 2 * high : high, this.labels);
    return dots.slice(-2);
  }

  /** Axes of a chart, time to the right and tokens upward, with the diagonal of plain decoding. Returns where a point
   * lies. */
  #axes({ x, y, w }, across, up, title) {
    const at = (cost, tokens) => [x + (w * cost) / across, y + TALL * (1 - tokens / up)],
      line = "stroke:var(--line);stroke-width:1",
      foot = y + TALL;
    this.labels.push([x - LEFT + 4, y - 30, "start", title]);
    for (const n of ticks(up, 5)) {
      this.paths.push([`M${x},${at(0, n)[1]}h${w}`, line]);
      this.labels.push([x - 6, at(0, n)[1] + 4, "end", short(n)]);
    }
    for (const n of ticks(across, 5)) this.labels.push([at(n, 0)[0], foot + 16, "middle", short(n)]);
    this.labels.push([x - LEFT + 4, y - 12, "start", tr`tokens`]);
    this.labels.push([x + w, foot + 34, "end", tr`time, in forwards of one row →`]);
    const end = Math.min(across, up),
      [ex, ey] = at(end, end);
    this.paths.push([`M${x},${foot}L${ex},${ey}`, "stroke:var(--text);stroke-width:1.5;stroke-dasharray:5 4"]);
    const left = Math.max(0, end - (across * PLAIN) / w); // where the words begin, below the line
    this.labels.push([ex - 4, Math.min(at(0, left)[1] + 18, foot - 6), "end", tr`plain: one row a token`]);
    return at;
  }

  /** The round: a curve over the sizes of a draft; the steepest ray that touches it is the best bet. */
  #round(told, box) {
    const { expected, cost, taken, came } = told,
      across = 1.1 * cost.at(-1),
      up = 1.15 * Math.max(came, ...expected, cost[0]),
      at = this.#axes(box, across, up, tr`This round: what a draft promises`),
      points = expected.map((value, n) => at(cost[n], value)),
      [px, py] = points[taken],
      [cx, cy] = at(cost[taken], came),
      slope = expected[taken] / cost[taken],
      far = Math.min(across, up / slope);
    const [rx, ry] = at(far, far * slope);
    this.paths.push(
      [`M${at(0, 0).join()}L${rx},${ry}`, "stroke:var(--accent);stroke-width:2.5"],
      [`M${points.map((p) => p.map((n) => n.toFixed(1)).join()).join("L")}`, "stroke:var(--muted);stroke-width:1.5"],
      [`M${px},${py}L${cx},${cy}`, `stroke:var(--${came < expected[taken] ? "warn" : "accent"});stroke-width:3`],
    );
    points.forEach(([x, y], n) => {
      const title = tr`${many(n, "drafted")}: ${short(expected[n])} tokens expected for ${short(cost[n])}`;
      if (n !== taken) this.marks.push([x, y, "M-3,0a3,3 0 1 0 6,0a3,3 0 1 0 -6,0", "fill:var(--muted)", title]);
    });
    const shown = tr`taken: ${many(taken, "drafted")}`;
    this.marks.push(
      [px, py, "M-7,0a7,7 0 1 0 14,0a7,7 0 1 0 -14,0", "fill:var(--panel);stroke:var(--accent);stroke-width:3", shown],
      [cx, cy, "M-8,0L0,-8L8,0L0,8Z", "fill:var(--text)", tr`came: ${came}`],
    );
    const side = px > box.x + box.w / 2 ? -14 : 14,
      anchor = side < 0 ? "end" : "start",
      near = Math.abs(cy - py) < 22;
    this.labels.push(
      [px + side, py - 10, anchor, tr`○ promised ${short(expected[taken])}`],
      [cx + side, cy + (near ? 20 : 4), anchor, tr`◆ came ${came}`],
    );
  }

  /** The run: tokens over the time of all rounds so far, above the diagonal where it is ahead of plain decoding. */
  #account(box) {
    const seen = this.run.steps.slice(0, this.t).flatMap(({ bets }) => (bets ? [bets] : [])),
      last = seen.at(-1),
      largest = this.most(({ bets }) => Math.max(bets?.gained ?? 0, bets?.spent ?? 0)),
      most = 1.08 * Math.max(1, largest),
      at = this.#axes(box, most, most, tr`The run behind the prompt: tokens over time`),
      trail = [at(0, 0), ...seen.map(({ spent, gained }) => at(spent, gained))],
      [x, y] = trail.at(-1),
      ahead = last.gained >= last.spent;
    this.paths.push([
      `M${trail.map((p) => p.map((n) => n.toFixed(1)).join()).join("L")}`,
      `stroke:var(--${ahead ? "accent" : "warn"});stroke-width:3`,
    ]);
    const ratio = last.spent ? tr`${short(last.gained / last.spent)}× plain` : tr`the prompt was read`,
      side = x > box.x + (ahead ? ROOM : box.w / 2) ? -12 : 12,
      near = ahead && side > 0; // above the point: the words on the diagonal are to its right
    this.marks.push([x, y, "M-6,0a6,6 0 1 0 12,0a6,6 0 1 0 -12,0", "fill:var(--text)", ratio]);
    this.labels.push([near ? box.x + 6 : x + side, y - (near ? 14 : 8), side < 0 ? "end" : "start", ratio]);
  }

  sentence(told) {
    const named = { text: tr`copies of the text`, store: tr`the store`, table: tr`the table of earlier ranks` },
      odds = told.odds.map(
        ({ source, right, places }) => tr`${named[source] ?? tr`the draft model`} at ${right} of ${places} places`,
      );
    return tr`Each dot is a number of drafted rows, all verified in one forward; the steepest line from zero is \
the best bet. Seen afterwards, the next token was guessed by ${odds.join(", ") || tr`nobody`}.`;
  }
}
