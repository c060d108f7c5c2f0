// What stands below the rows of a pass that share a state: the state and its ways to them, and how often the guess of
// each place was right.

import { LETTER } from "../player/drawing.js";
import { tr } from "../player/words.js";
import { rightOf, tally } from "./onepass.js";
import { R } from "./targetstates.js";

/** The tip of an arrow that ends at (x, y). */
export const up = (x, y) => `M${x - 4},${y + 6}L${x},${y}L${x + 4},${y + 6}`;

/** Of the guesses of these steps that were checked, how many were the target's token: by place [right, checked]. */
export const rightSoFar = (steps) =>
  rightOf(steps, ({ sharedstate: told, tree }) =>
    told && tree ? tree.emitted.slice(0, told.tokens.length).map((token, i) => [told.tokens[i][0], token]) : [],
  );

/** The one state, and its ways to every mask. */
export function lent({ k, n, w, state, node, x, labels, lines, boxes }) {
  if (k < 2) return;
  const [first, last] = [x(n), x(n + k - 2)],
    middle = (first + last) / 2,
    name = w * (k - 1) > 150 ? tr`one learned state` : "s",
    half = (LETTER * name.length) / 2 + 10;
  for (let i = n; i < n + k - 1; i++) {
    const end = state + R + 3;
    lines.push([
      `M${middle},${node}C${middle},${node - 22} ${x(i)},${node - 12} ${x(i)},${end}${up(x(i), end)}`,
      "dx-exit",
    ]);
  }
  boxes.push([middle - half, node, 2 * half, 24, "dx-box"]);
  labels.push([middle, node + 16.5, "middle", name]);
}

/** How often the guess of each place was right so far. */
export function checked(steps, { roomy, k, n, left, node, x, labels }) {
  const y = node + 48,
    at = { roomy, left, labels, x: (i) => x(n - 1 + i) };
  tally(rightSoFar(steps).slice(0, k), tr`right, of those checked`, y, at);
  labels.push([roomy ? left : 0, y + (roomy ? 22 : 40), "start", tr`drafting token by token: ${k} passes (derived)`]);
}
