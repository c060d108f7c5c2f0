// What each exit would have said behind every row of a round, against the whole model; and what follows from it: the
// tokens that each exit and draft length promise per layer, with the next choice.

import { chips } from "../player/chips.js";
import { cut } from "../player/codec.js";
import { many } from "../player/counted.js";
import { pool, set, setText, svg } from "../player/dom.js";
import { comeIn } from "../player/motion.js";
import { short, unknown } from "../player/sliding.js";
import { StepPicture } from "../player/steppicture.js";
import { tr } from "../player/words.js";

export const view = { title: "Which exit would have drafted right", place: 44, needs: ["shadow_tokens"] };

const ROOF = 44,
  FLOOR = 34, // of an exit
  LEFT = 66,
  CELL = 74,
  GAP = 60,
  NARROW = 900;

export class ExitMap extends StepPicture {
  load(run, dom, context) {
    this.begin(run, dom, context, ["grid", "roof", "heat", "trail"]);
  }

  draw(told, _, next) {
    const { width } = this,
      narrow = width < NARROW,
      high = ROOF + told.exits.length * FLOOR + 40,
      space = narrow ? width - LEFT : 0.58 * (width - LEFT),
      fits = Math.max(3, Math.floor(space / CELL)),
      shown = Math.min(fits, told.target.length),
      first = Math.max(0, Math.min(told.target.length - shown, told.context - 3)),
      labels = [];
    this.frame(narrow ? 2 * high : high);
    const cells = this.#tokens(told, first, shown, labels);
    const map = { x: narrow ? LEFT : LEFT + shown * CELL + GAP + LEFT, y: narrow ? high : 0 };
    this.#promise(told, { ...map, w: width - map.x - 8 }, labels);
    this.label(labels);
    if (next) comeIn(cells, { opacity: 0 });
  }

  /** Exits upward, rows to the right: what each exit says, filled where the whole model says the same. */
  #tokens(told, first, shown, labels) {
    const columns = Array.from({ length: shown }, (_, i) => first + i),
      y = (row) => ROOF + (told.exits.length - 1 - row) * FLOOR;
    const items = columns.map((at, i) => ({
      x: LEFT + (i + 0.5) * CELL,
      y: 12,
      state: at >= told.counted ? "unreached" : at >= told.context ? "new" : "old",
      whole: this.word(told.target[at]),
    }));
    chips(this.roof, items, this.context.theme, CELL - 4);
    labels.push([LEFT - 8, 28, "end", tr`layer ${told.layers}`]);
    const boxes = told.exits.flatMap((exit, row) => columns.map((at, i) => ({ exit, row, at, i })));
    told.exits.forEach((exit, row) => {
      const mine = exit === told.exit_layer;
      labels.push([LEFT - 8, y(row) + 20, "end", `${mine ? "▸ " : ""}${tr`exit ${exit}`}`]);
    });
    const foot = y(0) + FLOOR + 18;
    if (first < told.context)
      labels.push([LEFT + Math.max(0, told.context - first) * CELL - 6, foot, "end", tr`text before`]);
    if (told.context - first < shown)
      labels.push([LEFT + (told.context - first) * CELL + 4, foot, "start", tr`this round`]);
    return pool(this.grid, boxes.length, () =>
      svg("g", {}, svg("title"), svg("rect", { rx: 4 }), svg("text", { "text-anchor": "middle" })),
    ).map((group, k) => {
      const { exit, row, at, i } = boxes[k],
        [title, box, word] = group.childNodes,
        token = told.shadow[row][at],
        right = token === told.target[at],
        out = at >= told.counted,
        state = out ? "unreached" : right ? "accepted" : "masked";
      set(group, { "data-s": state });
      set(box, { x: LEFT + i * CELL + 1, y: y(row) + 2, width: CELL - 2, height: FLOOR - 4 });
      box.style.strokeWidth = exit === told.exit_layer ? 3 : 1;
      set(word, { x: LEFT + (i + 0.5) * CELL, y: y(row) + 21 });
      setText(word, `${out ? "" : right ? "✓ " : "✕ "}${cut(this.word(token), out ? 8 : 6)}`);
      const said = right ? tr`as the whole model` : tr`the whole model says ${this.word(told.target[at])}`;
      setText(title, tr`exit ${exit}: ${this.word(token)}; ${said}`);
      return group;
    });
  }

  /** Expected tokens per layer by exit and draft length, the best one marked, and where it was in the rounds before. */
  #promise(told, { x, y, w }, labels) {
    const values = this.run.asked(this.t, "shadow_tokens", "promised"),
      lengths = Math.min(told.most, Math.max(8, told.next_d + 2)),
      size = w / lengths,
      at = (exit, d) => [x + (d + 0.5) * size, y + ROOF + (told.exits.length - 0.5 - told.exits.indexOf(exit)) * FLOOR],
      known = (values ?? []).flatMap((row) => row ?? []),
      low = Math.min(...known),
      top = Math.max(...known),
      boxes = told.exits.flatMap((exit, row) => Array.from({ length: lengths }, (_, d) => ({ exit, row, d })));
    pool(this.heat, values ? boxes.length : 0, () => svg("rect", "dx-warm")).forEach((box, k) => {
      const { exit, row, d } = boxes[k],
        [cx, cy] = at(exit, d),
        value = values[row]?.[d] ?? null;
      set(box, { x: cx - size / 2 + 1, y: cy - FLOOR / 2 + 1, width: Math.max(1, size - 2), height: FLOOR - 2 });
      box.style.opacity = value === null ? 0 : 0.08 + (0.92 * (value - low)) / (top - low || 1);
    });
    const past = this.run.steps
      .slice(0, this.t)
      .flatMap(({ shadow_tokens: one }) => (one ? [at(one.next_exit, one.next_d)] : []));
    const path = past.map(([a, b], i) => `${i ? "L" : "M"}${a.toFixed(1)},${b.toFixed(1)}`).join("");
    const [cx, cy] = past.at(-1);
    pool(this.trail, 1, () => svg("g", {}, svg("path", "dx-trail"), svg("circle", { r: 8, class: "dx-dot" }))).forEach(
      (g) => {
        set(g.firstChild, { d: path });
        set(g.lastChild, { cx, cy });
      },
    );
    const foot = y + ROOF + told.exits.length * FLOOR + 18,
      best = values?.[told.exits.indexOf(told.next_exit)]?.[told.next_d];
    const drafts = many(told.next_d, "drafted"),
      value = best == null ? "–" : short(best),
      next = tr`● exit ${told.next_exit}, ${drafts}: ${value}`;
    const scale = values ? tr`tokens per layer: ${short(low)}–${short(top)}` : unknown(this.run);
    labels.push([x, y + 12, "start", scale], [x, y + 32, "start", next]);
    for (let d = 0; d < lengths; d++)
      if (size > 18 || d % 2 === 0) labels.push([x + (d + 0.5) * size, foot, "middle", d]);
    labels.push([x - 8, foot, "end", tr`drafts`]);
    told.exits.forEach((exit, i) => {
      const share = told.alpha[i] == null ? "–" : `${Math.round(100 * told.alpha[i])} %`;
      labels.push([x - 8, at(exit, 0)[1] + 4, "end", share]);
    });
  }

  describe(t) {
    const told = this.run.steps[t - 1]?.shadow_tokens;
    if (!told) return t ? tr`No exit was looked at in this step.` : tr`Before the first step.`;
    const right = told.exits.map(
      (exit, i) => tr`exit ${exit} ${told.alpha[i] == null ? "–" : `${Math.round(100 * told.alpha[i])} %`}`,
    );
    return tr`How often each exit says what the whole model says, recent rows counting most: ${right.join(", ")}. \
On the map, with the line of the rounds before, where the next round drafts.`;
  }
}
