// The open block as one forward found it and left it: on top what stood at each position, in the middle how likely the
// token is that the forward would have there, against the threshold for a mask or for a token, below what stands now.
// Under a position that was changed stands what it held before, struck out.

import { chips } from "../chips.js";
import { glyphs } from "../codec.js";
import { pool, set, setText, svg } from "../dom.js";
import { comeIn } from "../motion.js";
import { percent } from "../shares.js";
import { StepPicture } from "../steppicture.js";
import { tr } from "../words.js";

export const view = { name: "Edits", title: "Written, then replaced", place: 153, needs: ["edits"] };

const LEAST = 50, // of a column, in CSS pixels, as far as ROWS allow
  WIDEST = 104,
  ROWS = 4,
  TOP = 6,
  BARS = 60, // height of a probability of 1
  SHARES = 42, // the probabilities, below the chips on top
  FOOT = SHARES + 8 + BARS, // where the bars stand
  NOW = FOOT + 8, // the chips below
  GONE = NOW + 42, // what was struck out
  PAST = 3, // tokens struck out, at most
  ROOM = 52; // for the names of the rows
const STATES = { written: "new", changed: "changed", kept: "old", doubted: "old", open: "masked" };
const BAR = { written: "new", changed: "changed", doubted: "rejected", open: "masked" };

/** What each position of a run's first steps held before it was changed, oldest first: position -> [token]. */
export function replaced(steps) {
  const held = new Map(),
    gone = new Map();
  for (const { commits } of steps)
    commits?.positions.forEach((position, i) => {
      if (commits.causes[i] === "changed" && held.has(position))
        gone.set(position, [...(gone.get(position) ?? []), held.get(position)]);
      held.set(position, commits.tokens[i]);
    });
  return gone;
}

export class Edits extends StepPicture {
  load(run, dom, context) {
    this.begin(run, dom, context, ["bars", "lines", "struck", "cells"]);
  }

  told({ edits }) {
    return edits?.positions.length ? edits : null;
  }

  #word(token) {
    return token === this.run.mask ? "?" : glyphs(this.run.piece(token).text);
  }

  draw(told, _, next) {
    const { run, width } = this,
      n = told.positions.length,
      rows = Math.min(ROWS, Math.max(1, Math.ceil((n * LEAST) / (width - ROOM)))),
      columns = Math.ceil(n / rows),
      w = Math.min(WIDEST, (width - ROOM) / columns),
      gone = replaced(run.steps.slice(0, this.t)),
      lost = told.positions.map((position) => (gone.get(position) ?? []).slice(-PAST)),
      high = GONE + 15 * Math.max(...lost.map(({ length }) => length)) + 12;
    const at = { w, labels: [], lines: [], struck: [], bars: [] };
    at.x = (i) => ROOM + ((i % columns) + 0.5) * w;
    at.y = (i) => Math.floor(i / columns) * high + TOP;
    this.frame(rows * high + TOP);
    const items = told.positions.flatMap((_, i) => this.#column(told, i, lost[i], at));
    for (let row = 0; row < rows; row++) this.#thresholds(told, row * columns, Math.min(n, (row + 1) * columns), at);
    pool(this.bars, at.bars.length, () => svg("g", {}, svg("title"), svg("rect", { rx: 3 }))).forEach((group, i) => {
      const { x, y, high, state, title } = at.bars[i];
      set(group, { "data-s": state });
      setText(group.firstChild, title);
      set(group.lastChild, { x: x - w * 0.3, y, width: w * 0.6, height: high });
    });
    pool(this.lines, at.lines.length, () => svg("path", { class: "dx-eta" })).forEach((line, i) => {
      set(line, { d: at.lines[i].d });
      line.style.stroke = `var(--${at.lines[i].state}-line)`;
    });
    pool(this.struck, at.struck.length, () =>
      svg("text", { "text-anchor": "middle", "text-decoration": "line-through" }),
    ).forEach((text, i) => {
      const [x, y, words] = at.struck[i];
      set(text, { x, y });
      setText(text, words);
    });
    const moving = chips(this.cells, items, this.context.theme, w - 2);
    this.label(at.labels);
    if (next)
      comeIn(
        moving.filter((_, i) => items[i].state === "changed" || items[i].state === "new"),
        { opacity: 0 },
      );
  }

  /** One position: what stood, the bar, what stands, what is gone. */
  #column({ stood, says, chances, fates, before }, i, lost, { w, x, y, labels, struck, bars }) {
    const fate = fates[i],
      [mx, top] = [x(i), y(i)],
      done = fate === "written" || fate === "changed",
      tall = Math.max(2, BARS * chances[i]),
      most = Math.max(1, Math.floor((w - 8) / 7.4)),
      short = (token) => [...this.#word(token)].slice(0, most).join("");
    if (fate === "kept") labels.push([mx, top + FOOT - 6, "middle", "="]);
    else {
      const title = tr`‘${this.#word(says[i])}’: ${percent(chances[i])}`;
      bars.push({ x: mx, y: top + FOOT - tall, high: tall, state: BAR[fate], title });
      const share = w < 48 ? percent(chances[i]).replace(" %", "") : percent(chances[i]),
        back = fate === "changed" && before[i] ? ` ↩${before[i] > 1 ? before[i] : ""}` : "";
      labels.push([mx, top + SHARES, "middle", share + back]);
      if (!done && tall > 22) labels.push([mx, top + FOOT - 8, "middle", short(says[i])]);
    }
    lost.toReversed().forEach((token, row) => struck.push([mx, top + GONE + 15 * row, short(token)]));
    const masked = fate === "written" || fate === "open";
    return [
      { x: mx, y: top, state: masked ? "masked" : "old", whole: this.#word(stood[i]) },
      { x: mx, y: top + NOW, state: STATES[fate], whole: this.#word(done ? says[i] : stood[i]) },
    ];
  }

  /** The threshold over each run of masks, and the other one over each run of tokens, of the columns [from, to). */
  #thresholds({ threshold, editing_threshold, fates }, from, to, { w, x, y, labels, lines }) {
    const masked = (i) => fates[i] === "written" || fates[i] === "open",
      level = (i) => y(i) + FOOT - BARS * Math.min(1, masked(i) ? threshold : editing_threshold);
    for (let i = from; i < to; i++) {
      const begins = i === from || masked(i) !== masked(i - 1),
        state = masked(i) ? "new" : "changed";
      if (begins) lines.push({ d: `M${x(i) - w / 2},${level(i)}`, state });
      lines.at(-1).d += `H${x(i) + w / 2}`;
    }
    labels.push(
      [ROOM - 8, y(from) + 17, "end", tr`before`],
      [ROOM - 8, level(from) + 4, "end", masked(from) ? tr`write` : tr`edit`],
      [ROOM - 8, level(from) + 20, "end", percent(masked(from) ? threshold : editing_threshold)],
      [ROOM - 8, y(from) + NOW + 17, "end", tr`after`],
    );
  }

  describe(t) {
    const step = this.run.steps[t - 1],
      told = step && this.told(step);
    if (!step) return tr`Before the first step.`;
    if (!told) return tr`Nothing is decided in this step: what is finished is stored.`;
    const count = (...kinds) => told.fates.filter((fate) => kinds.includes(fate)).length,
      masks = count("written", "open"),
      back = told.before.filter((times, i) => times && told.fates[i] === "changed").length;
    const first = masks
      ? tr`Masks: ${count("written")} of ${masks} written (threshold ${percent(told.threshold)}).`
      : tr`No mask is left in the block.`;
    const second = tr`Tokens: ${count("changed")} of ${count("changed", "kept", "doubted")} replaced (threshold \
${percent(told.editing_threshold)}).`;
    return [first, second, ...(back ? [tr`${back} of them back to what stood there before.`] : [])].join(" ");
  }
}
