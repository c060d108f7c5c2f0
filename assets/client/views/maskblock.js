// A block of masks that is filled in one pass. Left: the layers of the model whose states become the context. Right of
// it the block, its anchor and the masks, joined by a line that reads both ways; above each mask its guess, as high as
// its probability, with the next best ones; on top what was written. What stands behind the first refused guess was
// never looked at.

import { render, StepPicture } from "../player/drawing.js";
import { rowsOf } from "../player/rounds.js";
import { many, tr } from "../player/words.js";
import { emitted, guesses, refused, ways } from "./onepass.js";

export const view = { title: "A block filled in one pass", place: 62, needs: ["maskblock"] };

const NARROW = 620,
  WIDEST = 128, // of a slot, in CSS pixels
  SOURCE = 246, // what stands left of the block
  BARS = 84, // height of a probability of 1
  ROOF = 46;

const arrow = (x, y, dx, dy) =>
  `M${x - 6 * dx - 5 * dy},${y - 6 * dy - 5 * dx}L${x},${y}L${x - 6 * dx + 5 * dy},${y - 6 * dy + 5 * dx}`;

export class MaskBlock extends StepPicture {
  layers = ["pass", "floors", "squares", "lines", "bars", "boxes", "guesses", "ends", "cuts"];
  none = tr`No block was filled in this step.`;
  told = ({ maskblock, tree }) => tree && maskblock?.tokens?.length && maskblock;

  draw(told, { tree }) {
    const { width } = this,
      b = told.tokens.length + 1,
      wide = width >= NARROW,
      left = wide ? SOURCE : 0,
      w = Math.min(WIDEST, (width - left - 4) / (b + 1)), // the last column is the bonus token's
      others = wide || w > 56 ? told.tokens[0].length - 1 : 0,
      foot = ROOF + 20 + BARS, // of the bars
      bus = foot + 44 + 18 * others + 30, // the line that joins the slots
      row = bus + 22, // of the block
      end = row + 36;
    const at = { b, wide, left, w, others, foot, bus, row, end, labels: [], x: (i) => left + (i + 0.5) * w };
    const shifted = { ...at, tall: BARS, x: (i) => at.x(i + 1) },
      filled = this.chips(this.guesses, guesses(this, told, tree, shifted), w - 4);
    this.#block(told, tree, at);
    this.#source(told, at);
    const items = emitted(this, tree, (i) => at.x(i + 1)),
      name = left + w * 0.9;
    this.chips(this.ends, items, w - 4);
    if (wide)
      at.labels.push(
        [name, 20, "end", tr`written`],
        [name, foot + 22, "end", tr`guesses`],
        [name, foot + 48, "end", tr`next best`],
      );
    refused(this, tree, { ...at, roomy: wide, roof: ROOF, foot: foot + 32 });
    this.frame(end + (wide ? 44 : 138), at.labels);
    return filled;
  }

  /** The pass: anchor and masks, the line between them, and what rises from each mask. */
  #block({ tokens }, tree, { b, wide, left, w, foot, others, bus, row, end, labels, x }) {
    const top = foot + 40 + 18 * others;
    const box = { class: "dx-lift", rx: 10, x: left + 2, y: bus - 20, width: b * w - 4, height: end - bus + 24 };
    render(this.pass, [["rect", box]]);
    const stubs = Array.from({ length: b }, (_, i) => `M${x(i)},${bus}V${row - 2}`),
      rise = tokens.map((_, i) => `M${x(i + 1)},${bus}V${top + 6}${arrow(x(i + 1), top + 4, 0, -1)}`),
      both = `M${x(0)},${bus}H${x(b - 1)}${arrow(x(0) - 2, bus, -1, 0)}${arrow(x(b - 1) + 2, bus, 1, 0)}`;
    this.paths = [[both, "dx-exit"], ...stubs.map((d) => [d, "dx-blank"]), ...rise.map((d) => [d, "dx-blank"])];
    const items = Array.from({ length: b }, (_, i) => ({
      ...{ x: x(i), y: row, state: i ? "masked" : "old", whole: i ? tr`mask` : this.word(tree.tokens[0]) },
      text: i && w < 60 ? "?" : undefined,
    }));
    this.chips(this.boxes, items, w - 4);
    if (!wide) return;
    labels.push([left + 4, end + 20, "start", tr`the drafter: newest token and masks, each sees all, in one pass`]);
    labels.push([left + 4, end + 38, "start", tr`drafting token by token: ${tokens.length} passes (derived)`]);
  }

  /** Where the context comes from: the layers that are read, and a row of it for each token. */
  #source({ layers, depth, context, joined }, { wide, left, bus, end, labels }) {
    const high = wide ? end + 4 - ROOF : 84,
      floor = Math.min(34, high / (depth + 1.5)),
      base = wide ? end + 4 : end + 96,
      tower = wide ? 84 : 74,
      y = (i) => base - floor * (i + 1) - 1,
      from = 2,
      rows = Math.min(context, 24),
      [cx, cy] = [tower + (wide ? 74 : 60), base - 6],
      size = 11;
    const box = { rx: 3, x: from, width: tower - 20, height: floor - 3 };
    render(this.floors, Array.from({ length: depth }), (_, i) => {
      const look = layers.includes(i + 1) ? "dx-warm" : "dx-lift dx-plain";
      return ["rect", { ...box, class: look, y: y(i) }];
    });
    const place = (k) => [cx + (k % 6) * size, cy - size * (1 + Math.floor(k / 6))],
      into = (cy + place(rows - 1)[1]) / 2;
    render(this.squares, Array.from({ length: rows }), (_, k) => {
      const [x, y] = place(k);
      return [
        "rect",
        { rx: 2, class: k >= rows - joined ? "dx-warm" : "dx-base", x, y, width: size - 2, height: size - 2 },
      ];
    });
    for (const i of layers.filter((layer) => layer > 0 && layer <= depth)) {
      const middle = y(i - 1) + floor / 2 - 1,
        way = `M${tower - 16},${middle}C${tower + 20},${middle} ${cx - 44},${into} ${cx - 8},${into}`;
      this.paths.push([way, "dx-blank"]);
    }
    this.paths.push([arrow(cx - 5, into, 1, 0), "dx-blank"]);
    const edge = cx + 6 * size + 4,
      way = wide
        ? `M${edge},${into}C${edge + 16},${into} ${left - 26},${bus} ${left},${bus}${arrow(left + 2, bus, 1, 0)}`
        : `M${edge},${into}H${edge + 14}V${end + 6}${arrow(edge + 14, end + 4, 0, -1)}`;
    this.paths.push([way, "dx-exit"]);
    const states = tr`states after layers`,
      read = tr`${layers.join(", ")} of ${depth}`,
      rowsRead = many(context, "row");
    if (wide)
      labels.push(
        [from, y(depth - 1) - 22, "start", states],
        [from, y(depth - 1) - 6, "start", read],
        [from, base + 16, "start", tr`layer ${1}`], // the lowest
        [left - 12, base + 16, "end", tr`context: ${rowsRead}`],
      );
    else
      labels.push(
        [from, base + 18, "start", `${states} ${read}`],
        [from, base + 36, "start", tr`context: ${rowsRead}`],
      );
    ways(this.lines, this.paths);
  }

  sentence(told, step) {
    const { accepted } = rowsOf(step.tree),
      anchor = this.word(step.tree.tokens[0]),
      k = told.tokens.length;
    return tr`One pass of the drafter fills ${k} masks after ‘${anchor}’, reading ${many(told.context, "row")} of \
context, ${told.joined} of them new. One call of the model checks them all: ${accepted} accepted, \
${many(step.tree.emitted.length, "token")} written.`;
  }
}
