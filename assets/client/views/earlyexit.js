// The floors of the model: each draft leaves at the exit layer with the confidence that the adapter has in it, and
// drafting hops on while that is at least η. All rows then go through the other layers in one model call, whose
// verdict stands above.
// Beside it the same tokens one by one.

import { CHIP, comeIn, MIDDLE, StepPicture } from "../player/drawing.js";
import { rowsOf } from "../player/rounds.js";
import { limit, Sliding, short } from "../player/sliding.js";
import { many, tr } from "../player/words.js";

export const view = { title: "Two early exits", place: 41, needs: ["early_exit"] };

const ROOF = 34, // heights of the parts from top to bottom, in CSS pixels
  DEEP = 66,
  HOPS = 104,
  SHALLOW = 36,
  EXIT = ROOF + DEEP + HOPS,
  FOOT = EXIT + SHALLOW,
  HIGH = FOOT + CHIP + 30,
  WIDEST = 130, // of a column
  NARROW = 560; // a panel without room for the other tower
const VERDICT = { accepted: ["accepted", "✓"], mismatch: ["rejected", "✕"] };

/** Whether the last draft's dot is below the line. */
const below = ({ confidence, eta }) => confidence.at(-1) < eta;

export class EarlyExit extends StepPicture {
  layers = ["lift", "floors", "plain", "rises", "cells", "line", "hops"];
  sliding = new Sliding(this, "early_exit.eta", "η", tr`Threshold η`);
  none = tr`No draft was made in this step.`;

  also(exit, step) {
    const sure = exit?.confidence ?? [];
    this.sliding.show(exit?.eta ?? 0, sure.length > 0, exit ? this.#again(exit, step) : "");
  }

  /** How many tokens are drafted, and whether the last of them is below the threshold. */
  #drafted(exit) {
    const [n, why] = this.sliding.decided([exit.confidence.length, below(exit) && "threshold"]);
    return { n, ends: why === "threshold" };
  }

  #again(exit, { tree }) {
    const { n, ends } = this.#drafted(exit),
      stand = tree.why.filter((why, i) => i && i <= n && why === "accepted").length,
      on = below(exit) && !ends ? tr` It would draft on; what, is not recorded.` : "";
    return tr`${n} of ${many(exit.confidence.length, "drafted")}, ${stand} accepted.${on}`;
  }

  draw(exit, step, next) {
    const { width } = this,
      { confidence: sure, exit_layer: l, layers } = exit,
      line = this.sliding.at(exit.eta),
      { rows } = rowsOf(step.tree),
      wide = width >= NARROW,
      left = wide ? 124 : 58,
      most = this.most(({ early_exit: one }) => one?.confidence.length),
      w = Math.min(WIDEST, ((wide ? 0.66 : 1) * width - left - 12) / (most + 2)),
      right = left + (most + 2) * w,
      x = (i) => left + (i + 0.5) * w,
      y = (chance) => EXIT - chance * (HOPS - 22),
      drafted = this.#drafted(exit),
      n = sure.length,
      cells = this.#cells(rows, n, drafted.n, x),
      below = cells.filter((cell) => cell.y > FOOT);
    const floors = Array.from({ length: layers + 1 }, (_, i) => {
      const at = i > l ? ROOF + DEEP - ((i - l) * DEEP) / (layers - l) : EXIT + ((l - i) * SHALLOW) / l;
      return ["path", { d: `M${left},${at.toFixed(1)}H${right}`, class: i === l ? "dx-exit" : "" }];
    });
    const labels = [
      [left - 8, ROOF + 12, "end", wide ? tr`layer ${layers}: checked` : tr`checked`],
      [left - 8, EXIT + 4, "end", wide ? tr`exit at layer ${l}` : tr`exit ${l}`],
      [left - 8, y(line) + 4, "end", wide ? tr`confidence η ${short(line)}` : `η ${short(line)}`],
      [left - 8, FOOT + 20, "end", wide ? tr`tokens in` : tr`in`],
      [left + 0.2 * w, ROOF + 24, "start", tr`1 model call`],
      [left + 0.2 * w, ROOF + 42, "start", tr`${many(n + 1, "row")}, layers ${l + 1}–${layers}`],
    ];
    const wrote = step.commits?.tokens.filter((token) => token >= 0) ?? [],
      narrow = Math.min(w, (width - right - 70) / Math.max(1, most + 1));
    this.alone(wide ? wrote : [], right + 60, narrow, ROOF, FOOT, labels);
    this.chips(this.cells, cells, w - 6);
    const lift = { class: "dx-lift", rx: 8, x: left + 0.1 * w, y: ROOF, width: (n + 0.8) * w, height: DEEP + HOPS },
      drawn = this.paint(HIGH, labels, {
        lift: [["rect", lift]],
        floors,
        rises: below.map((at) => ["path", { class: "dx-rise", d: `M${at.x},${FOOT}V${EXIT}`, "data-s": at.state }]),
        line: [limit(left, right, y(line))],
        hops: sure.map((chance, i) => this.#hop(chance, i, drafted, x, y, w)),
      });
    if (!next) return;
    comeIn(drawn.hops, { opacity: 0 });
    comeIn(drawn.lift, { transform: `translateY(${DEEP}px)`, opacity: 0 });
  }

  /** Tokens in below, verdicts above, and the target's own token. */
  #cells(rows, n, drafted, x) {
    const own = rows[n + 1],
      refused = own?.state === "correction" ? rows.findIndex(({ why }) => why === "mismatch") : -1,
      stood = rows.filter(({ why }) => why === "accepted").length;
    const cells = rows.slice(0, n + 1).flatMap((row, i) => {
      const late = i > drafted,
        state = late ? "unreached" : !i ? "old" : row.why === "mismatch" ? "rejected" : "drafted",
        [verdict, text] = (!late && VERDICT[row.why]) || ["unreached", "·"],
        below = { row, x: x(i), y: FOOT + 4, state };
      return i && i !== refused ? [below, { row, x: x(i), y: 4, state: verdict, text }] : [below];
    });
    if (own) cells.push({ row: own, x: x(refused > 0 ? refused : stood + 1), y: 4, state: own.state });
    return cells.map((cell) => ({
      ...cell,
      whole: this.word(cell.row.token),
      sign: cell.y < FOOT || cell.state === "rejected",
    }));
  }

  #hop(sure, i, { n, ends }, x, y, w) {
    const top = y(sure),
      high = EXIT - (EXIT - top) / 0.75, // of the curve's handles: its own highest point is `top`
      below = ends && i === n - 1,
      share = Math.round(100 * sure),
      d = `M${x(i)},${EXIT}C${x(i)},${high} ${x(i + 1)},${high} ${x(i + 1)},${EXIT}V${FOOT}`;
    return [
      { "data-s": i >= n ? "unreached" : below ? "rejected" : "accepted" },
      ["title", {}, below ? tr`confidence ${share} %, below η: the last draft` : tr`confidence ${share} %: hop on`],
      ["path", { class: "dx-arc", d }],
      ["circle", { r: 4, cx: x(i + 0.5), cy: top }],
      ["text", { ...MIDDLE, x: x(i + 0.5), y: top - 8 }, w > 44 ? `${share} %` : share],
    ];
  }

  sentence(exit, { tree, commits }) {
    const { accepted } = rowsOf(tree),
      wrote = commits?.tokens.filter((token) => token >= 0).length ?? 0,
      why = below(exit) ? tr`, the last one below η = ${short(exit.eta)}` : "",
      drafted = many(exit.confidence.length, "drafted");
    return tr`${drafted}${why}. ${accepted} accepted: ${many(wrote, "token")} from one model call.`;
  }
}
