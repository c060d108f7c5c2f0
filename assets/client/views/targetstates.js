// The target as a tower of layers, with a bead where its states are read, and the states that a drafter's rows begin
// with: those of the target, or others in their place.

import { MIDDLE, render } from "../player/drawing.js";
import { tr } from "../player/words.js";

export const R = 14; // of a state
const FLOORS = 9; // that have names, at most

/** Draws the layers `floors` and `beads` of a view. roof: height at which the tower ends; state: that of the states;
 * fc: where their ways end, which are returned; inset: of a floor, half of the gap between two. */
export function tower(
  view,
  { layers, reads },
  { roomy, roof, state, fc, labels, inset = layers > FLOORS ? 0.5 : 1.5 },
) {
  const foot = state + R,
    high = (foot - roof) / layers,
    wide = roomy ? 96 : 30,
    height = Math.max(1, high - (layers > FLOORS ? 1 : 3)),
    y = (i) => foot - i * high,
    bend = 0.7 * (fc - wide),
    numbers = Array.from({ length: layers }, (_, i) => i + 1);
  render(view.floors, numbers, (i) => [
    "rect",
    { class: "dx-lift", rx: 4, x: 0, y: y(i) + inset, width: wide, height },
  ]);
  if (layers > FLOORS || !roomy) labels.push([4, foot - 6, "start", 1], [4, roof + 14, "start", layers]);
  else for (const i of numbers) labels.push([8, y(i - 0.5) + 4, "start", tr`layer ${i}`]);
  render(view.beads, reads, (i) => ["circle", { r: 6, cx: wide - 2, cy: y(i), "data-s": "accepted" }]);
  return reads.map((i) => `M${wide},${y(i)}C${wide + bend},${y(i)} ${fc - bend},${state} ${fc - 2},${state}`);
}

/** States side by side: [{own: whether it is the target's, name, title}]; x: of the i-th. */
export const states = (layer, items, x, y) =>
  render(layer, items, ({ own, name, title }, i) => {
    const style = `fill:var(--fill);stroke:var(--edge);stroke-width:2;${own ? "" : "stroke-dasharray:4 3"}`;
    return [
      { transform: `translate(${x(i).toFixed(1)},${y})`, "data-s": own ? "accepted" : "drafted" },
      ["title", {}, title],
      ["circle", { r: R, style }],
      ["text", { ...MIDDLE, y: 5, style: "fill:var(--ink)" }, name],
    ];
  });
