// What each exit would have said behind every row of a round, against the whole model; and what follows from it: the
// tokens that each exit and draft length promise per layer, with the next choice.

import { MIDDLE, StepPicture } from "../player/drawing.js";
import { short, unknown } from "../player/sliding.js";
import { cut, many, tr } from "../player/words.js";

export const view = { title: "Which exit would have drafted right", place: 44, needs: ["shadow_tokens"] };

const ROOF = 44,
  FLOOR = 34, // of an exit
  LEFT = 66,
  CELL = 74,
  GAP = 60,
  NARROW = 900;

const rate = (share) => (share == null ? "–" : `${Math.round(100 * share)} %`);

export class ExitMap extends StepPicture {
  layers = ["grid", "roof", "heat", "trail"];
  none = tr`No exit was looked at in this step.`;

  draw(told) {
    const { width } = this,
      narrow = width < NARROW,
      high = ROOF + told.exits.length * FLOOR + 40,
      space = narrow ? width - LEFT : 0.58 * (width - LEFT),
      fits = Math.max(3, Math.floor(space / CELL)),
      shown = Math.min(fits, told.target.length),
      first = Math.max(0, Math.min(told.target.length - shown, told.context - 3)),
      labels = [],
      grid = this.#tokens(told, first, shown, labels),
      x = narrow ? LEFT : LEFT + shown * CELL + GAP + LEFT,
      map = this.#promise(told, { x, y: narrow ? high : 0, w: width - x - 8 }, labels);
    return this.paint(narrow ? 2 * high : high, labels, { grid, ...map }).grid;
  }

  /** Exits upward, rows to the right: what each exit says, filled where the whole model says the same. */
  #tokens(told, first, shown, labels) {
    const columns = Array.from({ length: shown }, (_, i) => first + i),
      y = (row) => ROOF + (told.exits.length - 1 - row) * FLOOR,
      foot = y(0) + FLOOR + 18,
      now = told.context - first;
    const items = columns.map((at, i) => ({
      x: LEFT + (i + 0.5) * CELL,
      y: 12,
      state: at >= told.counted ? "unreached" : at >= told.context ? "new" : "old",
      whole: this.word(told.target[at]),
    }));
    this.chips(this.roof, items, CELL - 4);
    labels.push([LEFT - 8, 28, "end", tr`layer ${told.layers}`]);
    if (now > 0) labels.push([LEFT + now * CELL - 6, foot, "end", tr`text before`]);
    if (now < shown) labels.push([LEFT + now * CELL + 4, foot, "start", tr`this round`]);
    return told.exits.flatMap((exit, row) => {
      const mine = exit === told.exit_layer;
      labels.push([LEFT - 8, y(row) + 20, "end", `${mine ? "▸ " : ""}${tr`exit ${exit}`}`]);
      return columns.map((at, i) => {
        const token = told.shadow[row][at],
          right = token === told.target[at],
          out = at >= told.counted,
          said = right ? tr`as the whole model` : tr`the whole model says ${this.word(told.target[at])}`,
          box = { rx: 4, x: LEFT + i * CELL + 1, y: y(row) + 2, width: CELL - 2, height: FLOOR - 4 },
          word = `${out ? "" : right ? "✓ " : "✕ "}${cut(this.word(token), out ? 8 : 6)}`;
        return [
          { "data-s": out ? "unreached" : right ? "accepted" : "masked" },
          ["title", {}, tr`exit ${exit}: ${this.word(token)}; ${said}`],
          ["rect", { ...box, style: `stroke-width:${mine ? 3 : 1}` }],
          ["text", { ...MIDDLE, x: LEFT + (i + 0.5) * CELL, y: y(row) + 21 }, word],
        ];
      });
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
      top = Math.max(...known);
    const heat = (values ?? []).flatMap((row, i) =>
      Array.from({ length: lengths }, (_, d) => {
        const [cx, cy] = at(told.exits[i], d),
          value = row?.[d] ?? null,
          opacity = value === null ? 0 : 0.08 + (0.92 * (value - low)) / (top - low || 1),
          box = { x: cx - size / 2 + 1, y: cy - FLOOR / 2 + 1, width: Math.max(1, size - 2), height: FLOOR - 2 };
        return ["rect", { class: "dx-warm", ...box, style: `opacity:${opacity}` }];
      }),
    );
    const past = this.run.steps
        .slice(0, this.t)
        .flatMap(({ shadow_tokens: one }) => (one ? [at(one.next_exit, one.next_d)] : [])),
      d = past.map(([a, b], i) => `${i ? "L" : "M"}${a.toFixed(1)},${b.toFixed(1)}`).join(""),
      [cx, cy] = past.at(-1),
      foot = y + ROOF + told.exits.length * FLOOR + 18,
      best = values?.[told.exits.indexOf(told.next_exit)]?.[told.next_d],
      value = best == null ? "–" : short(best),
      next = tr`● exit ${told.next_exit}, ${many(told.next_d, "drafted")}: ${value}`,
      scale = values ? tr`tokens per layer: ${short(low)}–${short(top)}` : unknown(this.run);
    labels.push([x, y + 12, "start", scale], [x, y + 32, "start", next], [x - 8, foot, "end", tr`drafts`]);
    for (let d = 0; d < lengths; d += size > 18 ? 1 : 2) labels.push([x + (d + 0.5) * size, foot, "middle", d]);
    told.exits.forEach((exit, i) => labels.push([x - 8, at(exit, 0)[1] + 4, "end", rate(told.alpha[i])]));
    const trail = [
      ["path", { class: "dx-trail", d }],
      ["circle", { r: 8, class: "dx-dot", cx, cy }],
    ];
    return { heat, trail };
  }

  sentence({ exits, alpha }) {
    const right = exits.map((exit, i) => tr`exit ${exit} ${rate(alpha[i])}`);
    return tr`How often each exit says what the whole model says, recent rows counting most: ${right.join(", ")}. \
On the map, with the line of the rounds before, where the next round drafts.`;
  }
}
