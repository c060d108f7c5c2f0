// The floors of the model: each draft leaves at the exit layer with the confidence that the adapter has in it, and
// drafting hops on while that is at least η. All rows then go through the other layers in one model call, whose
// verdict stands above.
// Beside it the same tokens one by one.

import { CHIP, chips } from "../player/chips.js";
import { glyphs } from "../player/codec.js";
import { many } from "../player/counted.js";
import { pool, set, setText, svg } from "../player/dom.js";
import { comeIn } from "../player/motion.js";
import { rowsOf } from "../player/rounds.js";
import { Sliding, short } from "../player/sliding.js";
import { StepPicture } from "../player/steppicture.js";
import { tr } from "../player/words.js";

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

const middle = { "text-anchor": "middle" };

/** Whether the last draft's dot is below the line. */
const below = ({ confidence, eta }) => confidence.at(-1) < eta;

export class EarlyExit extends StepPicture {
  load(run, dom, context) {
    this.sliding = new Sliding(this, "early_exit.eta", "η", tr`Threshold η`);
    this.lift = svg("rect", { class: "dx-lift", rx: 8 });
    this.line = svg("path", { class: "dx-eta", "data-s": "rejected" });
    const layers = [this.lift, "floors", "plain", "rises", "cells", this.line, "hops"];
    this.begin(run, dom, context, layers, this.sliding.dom);
  }

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
    const sure = exit.confidence,
      line = this.sliding.at(exit.eta),
      { rows } = rowsOf(step.tree);
    const { width } = this,
      wide = width >= NARROW,
      left = wide ? 124 : 58,
      most = this.most(({ early_exit: one }) => one?.confidence.length),
      w = Math.min(WIDEST, ((wide ? 0.66 : 1) * width - left - 12) / (most + 2)),
      right = left + (most + 2) * w,
      x = (i) => left + (i + 0.5) * w,
      y = (chance) => EXIT - chance * (HOPS - 22),
      { n: drafted, ends } = this.#drafted(exit),
      n = sure.length,
      own = rows.slice(n + 1)[0],
      refused = own?.state === "correction" ? rows.findIndex(({ why }) => why === "mismatch") : -1,
      stood = rows.filter(({ why }) => why === "accepted").length;
    this.frame(HIGH);
    set(this.line, { d: `M${left},${y(line)}H${right}` });
    set(this.lift, { x: left + 0.1 * w, y: ROOF, width: (n + 0.8) * w, height: DEEP + HOPS });
    const cells = [];
    rows.slice(0, n + 1).forEach((row, i) => {
      const late = i > drafted,
        [state, text] = (!late && VERDICT[row.why]) || ["unreached", "·"];
      cells.push({
        row,
        x: x(i),
        y: FOOT + 4,
        state: late ? "unreached" : !i ? "old" : row.why === "mismatch" ? "rejected" : "drafted",
      });
      if (i && i !== refused) cells.push({ row, x: x(i), y: 4, state, text });
    });
    if (own) cells.push({ row: own, x: x(refused > 0 ? refused : stood + 1), y: 4, state: own.state });
    this.#floors(exit, left, right);
    this.#cells(cells, w - 6);
    this.#hop(sure, drafted, ends, x, y, w);
    const labels = [
      [left - 8, ROOF + 12, "end", wide ? tr`layer ${exit.layers}: checked` : tr`checked`],
      [left - 8, EXIT + 4, "end", wide ? tr`exit at layer ${exit.exit_layer}` : tr`exit ${exit.exit_layer}`],
      [left - 8, y(line) + 4, "end", wide ? tr`confidence η ${short(line)}` : `η ${short(line)}`],
      [left - 8, FOOT + 20, "end", wide ? tr`tokens in` : tr`in`],
      [left + 0.2 * w, ROOF + 24, "start", tr`1 model call`],
      [left + 0.2 * w, ROOF + 42, "start", tr`${many(n + 1, "row")}, layers ${exit.exit_layer + 1}–${exit.layers}`],
    ];
    const wrote = step.commits?.tokens.filter((token) => token >= 0) ?? [];
    const narrow = Math.min(w, (width - right - 70) / Math.max(1, most + 1));
    this.alone(wide ? wrote : [], right + 60, narrow, ROOF, FOOT, labels);
    this.label(labels);
    if (!next) return;
    comeIn([...this.hops.childNodes].slice(0, n), { opacity: 0 });
    comeIn([this.lift], { transform: `translateY(${DEEP}px)`, opacity: 0 });
  }

  #floors({ exit_layer: l, layers }, left, right) {
    const deep = (i) => ROOF + DEEP - ((i - l) * DEEP) / (layers - l),
      at = (i) => (i > l ? deep(i) : EXIT + ((l - i) * SHALLOW) / l);
    pool(this.floors, layers + 1, () => svg("path")).forEach((path, i) =>
      set(path, { d: `M${left},${at(i).toFixed(1)}H${right}`, class: i === l ? "dx-exit" : "" }),
    );
  }

  #cells(cells, w) {
    const items = cells.map((cell) => ({
      ...cell,
      whole: glyphs(this.run.piece(cell.row.token).text),
      sign: cell.y < FOOT || cell.state === "rejected",
    }));
    chips(this.cells, items, this.context.theme, w);
    const below = items.filter(({ y }) => y > FOOT);
    pool(this.rises, below.length, () => svg("path", "dx-rise")).forEach((rise, i) =>
      set(rise, { d: `M${below[i].x},${FOOT}V${EXIT}`, "data-s": below[i].state }),
    );
  }

  #hop(sure, drafted, ends, x, y, w) {
    pool(this.hops, sure.length, () =>
      svg("g", {}, svg("title"), svg("path", "dx-arc"), svg("circle", { r: 4 }), svg("text", middle)),
    ).forEach((group, i) => {
      const [title, arc, dot, text] = group.childNodes,
        top = y(sure[i]),
        high = EXIT - (EXIT - top) / 0.75, // of the curve's handles: its own highest point is `top`
        below = ends && i === drafted - 1,
        share = Math.round(100 * sure[i]);
      set(group, { "data-s": i >= drafted ? "unreached" : below ? "rejected" : "accepted" });
      set(arc, { d: `M${x(i)},${EXIT}C${x(i)},${high} ${x(i + 1)},${high} ${x(i + 1)},${EXIT}V${FOOT}` });
      set(dot, { cx: x(i + 0.5), cy: top });
      set(text, { x: x(i + 0.5), y: top - 8 });
      setText(text, w > 44 ? `${share} %` : share);
      setText(title, below ? tr`confidence ${share} %, below η: the last draft` : tr`confidence ${share} %: hop on`);
    });
  }

  describe(t) {
    const step = this.run.steps[t - 1],
      exit = step?.early_exit;
    if (!exit) return t ? tr`No draft was made in this step.` : tr`Before the first step.`;
    const { accepted } = rowsOf(step.tree),
      n = exit.confidence.length,
      wrote = step.commits?.tokens.filter((token) => token >= 0).length ?? 0,
      why = below(exit) ? tr`, the last one below η = ${short(exit.eta)}` : "";
    return tr`${many(n, "drafted")}${why}. ${accepted} accepted: ${many(wrote, "token")} from one model call.`;
  }
}
