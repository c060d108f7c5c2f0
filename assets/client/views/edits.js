// The open block as one forward found it and left it: on top what stood at each position, in the middle how likely the
// token is that the forward would have there, against the threshold for a mask or for a token, below what stands now.
// Under a position that was changed stands what it held before, struck out. Where positions are deleted or inserted,
// lines lead from what stays to its new place.

import { MIDDLE, StepPicture } from "../player/drawing.js";
import { moved } from "../player/rounds.js";
import { glyphs, percent, tr } from "../player/words.js";

export const view = { title: "Written, then replaced", place: 153, needs: ["edits"] };

const LEAST = 50, // of a column, in CSS pixels, as far as ROWS allow
  WIDEST = 104,
  ROWS = 4,
  TOP = 6,
  BARS = 60, // height of a probability of 1
  SHARES = 42, // the probabilities, below the chips on top
  FOOT = SHARES + 8 + BARS, // where the bars stand
  GAP = 8, // from there to the chips below
  MOVES = 30, // the same where positions come and go
  GONE = 42, // what was struck out, below the top of the chips
  PAST = 3, // tokens struck out, at most
  ROOM = 52; // for the names of the rows
const STATES = { written: "new", changed: "changed" };
const BAR = {
  written: "new",
  changed: "changed",
  doubted: "rejected",
  open: "masked",
  pushed: "rejected",
  deleted: "remasked",
  split: "drafted",
};

/** Moves what is known of positions to where a step left them. */
function follow(known, commits) {
  if (!commits.removed?.length && !commits.inserted?.length) return;
  const entries = [...known].map(([position, value]) => [moved(position, commits), value]);
  known.clear();
  for (const [position, value] of entries) if (position >= 0) known.set(position, value);
}

/** What each position of a run's first steps held before it was changed, oldest first: position -> [token]. */
export function replaced(steps) {
  const held = new Map(),
    gone = new Map();
  for (const { commits } of steps) {
    if (!commits) continue;
    follow(held, commits);
    follow(gone, commits);
    commits.positions.forEach((position, i) => {
      if (commits.causes[i] === "changed" && held.has(position))
        gone.set(position, [...(gone.get(position) ?? []), held.get(position)]);
      held.set(position, commits.tokens[i]);
    });
  }
  return gone;
}

export class Edits extends StepPicture {
  layers = ["bars", "lines", "moves", "struck", "cells"];
  filled = "positions";
  none = tr`Nothing is decided in this step: what is finished is stored.`;

  #word(token) {
    return token === this.run.mask ? "?" : glyphs(this.run.piece(token).text);
  }

  #short(token, w) {
    return [...this.#word(token)].slice(0, Math.max(1, Math.floor((w - 8) / 7.4))).join("");
  }

  draw(told, { commits }) {
    const { run, width } = this,
      n = told.positions.length,
      rows = Math.min(ROWS, Math.max(1, Math.ceil((n * LEAST) / (width - ROOM)))),
      columns = Math.ceil(n / rows),
      w = Math.min(WIDEST, (width - ROOM) / columns),
      gone = replaced(run.steps.slice(0, this.t)),
      lost = told.positions.map((position) => (gone.get(position) ?? []).slice(-PAST)),
      moves = commits?.removed?.length || commits?.inserted?.length,
      now = FOOT + (moves ? MOVES : GAP),
      high = now + GONE + 15 * Math.max(...lost.map(({ length }) => length)) + 12;
    const at = { w, now, labels: [], lines: [], struck: [], bars: [], moves: [] };
    at.x = (i) => ROOM + ((i % columns) + 0.5) * w;
    at.y = (i) => Math.floor(i / columns) * high + TOP;
    const items = told.positions.flatMap((_, i) => [this.#found(told, i, at), this.#left(told, i, lost[i], at)]);
    for (let row = 0; row < rows; row++) this.#thresholds(told, row * columns, Math.min(n, (row + 1) * columns), at);
    const { labels, bars, lines, moves: arcs, struck } = at,
      moving = this.chips(this.cells, items, w - 2);
    this.paint(rows * high + TOP, labels, { bars, lines, moves: arcs, struck });
    return moving.filter((_, i) => items[i].state === "changed" || items[i].state === "new");
  }

  /** A position that the forward found: what stood, and the bar of what it says. */
  #found({ stood, says, chances, fates, before }, i, { w, x, y, labels, bars }) {
    const fate = fates[i],
      [mx, top] = [x(i), y(i)],
      tall = Math.max(2, BARS * chances[i]),
      order = { deleted: tr`delete`, split: tr`insert`, pushed: tr`no room` }[fate];
    if (fate === "kept") labels.push([mx, top + FOOT - 6, "middle", "="]);
    else {
      const title = tr`‘${this.#word(says[i])}’: ${percent(chances[i])}`;
      bars.push([
        { "data-s": BAR[fate] },
        ["title", {}, title],
        ["rect", { rx: 3, x: mx - w * 0.3, y: top + FOOT - tall, width: w * 0.6, height: tall }],
      ]);
      const share = w < 48 ? percent(chances[i]).replace(" %", "") : percent(chances[i]),
        back = fate === "changed" && before[i] ? ` ↩${before[i] > 1 ? before[i] : ""}` : "";
      labels.push([mx, top + SHARES, "middle", share + back]);
      if (order) labels.push([mx, top + FOOT - 8, "middle", order]);
      else if (!STATES[fate] && tall > 22) labels.push([mx, top + FOOT - 8, "middle", this.#short(says[i], w)]);
    }
    if (fate === "deleted" || fate === "pushed") labels.push([mx, top + FOOT + 15, "middle", "✕"]);
    return { x: mx, y: top, state: stood[i] === this.run.mask ? "masked" : "old", whole: this.#word(stood[i]) };
  }

  /** The same position as the step left it: what stands now, where that came from, and what is gone. */
  #left({ positions, stood, says, fates }, i, lost, { w, x, y, now, struck, moves }) {
    const [mx, top] = [x(i), y(i)],
      from = this.run.found(this.t - 1, positions[i]),
      origin = positions.indexOf(from),
      state = STATES[fates[origin]];
    lost.toReversed().forEach((token, row) => {
      const place = { ...MIDDLE, "text-decoration": "line-through", x: mx, y: top + now + GONE + 15 * row };
      struck.push(["text", place, this.#short(token, w)]);
    });
    const d = `M${x(origin)},${top + FOOT + 3}L${mx},${top + now - 2}`;
    if (origin >= 0 && origin !== i && y(origin) === top) moves.push(["path", { class: "dx-arc", d }]);
    const token = origin < 0 ? this.run.written(positions[i], this.t)?.token : state ? says[origin] : stood[origin];
    const item = { x: mx, y: top + now, state: state ?? (token === this.run.mask ? "masked" : "old") };
    return { ...item, whole: this.#word(token), ...(from < 0 && { text: "+ ?" }) };
  }

  /** The threshold over each run of masks, and the other one over each run of tokens, of the columns [from, to). */
  #thresholds({ threshold, editing_threshold, stood }, from, to, { w, x, y, now, labels, lines }) {
    const masked = (i) => stood[i] === this.run.mask,
      level = (i) => y(i) + FOOT - BARS * Math.min(1, masked(i) ? threshold : editing_threshold);
    for (let begin = from; begin < to; ) {
      let end = begin + 1;
      while (end < to && masked(end) === masked(begin)) end++;
      const d = `M${x(begin) - w / 2},${level(begin)}H${x(end - 1) + w / 2}`,
        style = `stroke:var(--${masked(begin) ? "new" : "changed"}-line)`;
      lines.push(["path", { class: "dx-eta", d, style }]);
      begin = end;
    }
    const beside = Math.min(level(from), y(from) + FOOT - 16); // at 0 % above the name of the row below
    labels.push(
      [ROOM - 8, y(from) + 17, "end", tr`before`],
      [ROOM - 8, beside + 4, "end", masked(from) ? tr`write` : tr`edit`],
      [ROOM - 8, beside + 20, "end", percent(masked(from) ? threshold : editing_threshold)],
      [ROOM - 8, y(from) + now + 17, "end", tr`after`],
    );
  }

  sentence(told, step) {
    const count = (...kinds) => told.fates.filter((fate) => kinds.includes(fate)).length,
      masks = told.stood.filter((token) => token === this.run.mask).length,
      came = (cause) => step.commits?.causes.filter((why) => why === cause).length ?? 0,
      back = told.before.filter((times, i) => times && told.fates[i] === "changed").length;
    const first = masks
      ? tr`Masks: ${count("written")} of ${masks} written (threshold ${percent(told.threshold)}).`
      : tr`No mask is left in the block.`;
    const second = tr`Tokens: ${count("changed")} of ${told.stood.length - masks} replaced (threshold \
${percent(told.editing_threshold)}).`;
    const third = [
      [count("deleted"), (n) => tr`Deleted: ${n}.`],
      [came("inserted"), (n) => tr`Masks inserted: ${n}.`],
      [came("appended"), (n) => tr`Masks at the block's end: ${n}.`],
      [count("pushed"), (n) => tr`No room: ${n}.`],
    ].flatMap(([n, say]) => (n ? [say(n)] : []));
    return [first, second, ...third, ...(back ? [tr`${back} of them back to what stood there before.`] : [])].join(" ");
  }
}
