// What a drafter's places guessed first, and how much of the target's vocabulary it can guess at all.

import { cut, number } from "../player/codec.js";
import { render } from "../player/render.js";
import { tr } from "../player/words.js";
import { rightOf } from "./onepass.js";

/** The rows of a tree that hang below one of them. */
export const below = ({ parents }, row) => parents.flatMap((parent, child) => (parent === row && child ? [child] : []));

/** How deep a tree is. */
export function deepest({ parents }) {
  const depths = [];
  for (const parent of parents) depths.push(parent < 0 ? 0 : depths[parent] + 1);
  return Math.max(...depths);
}

/** Of the places of these steps that were checked, how many first guesses were the target's token: by place
 * [right, checked]. */
export const firstGuesses = (steps) =>
  rightOf(steps, ({ fused, tree }) => {
    if (!fused) return [];
    const path = tree.accepted.flatMap((kept, row) => (kept || !row ? [row] : []));
    return path.slice(0, tree.emitted.length).map((row, i) => [tree.tokens[below(tree, row)[0]], tree.emitted[i]]);
  });

/** The share of the target's tokens that can be guessed, as a bar at height y of the layer `parent`; outside: the word
 * of one that cannot be and was written. */
export function vocabulary(parent, { can_say: v, of: V }, y, width, labels, outside) {
  const named = tr`draft vocabulary: ${number(v)} of ${number(V)} tokens`,
    long = Math.max(24, Math.min(240, width / 5, width - 12 - 7.6 * named.length));
  const bars = [
    { width: long, class: "dx-gone" },
    { width: (long * v) / V, class: "dx-warm" },
  ];
  render(parent, bars, (bar) => ["rect", { x: 0, rx: 3, height: 10, y: y + 4, ...bar }]);
  const lacks = outside && width > 620 ? `; ${tr`‘${cut(outside, 24)}’ is not one of them`}` : "";
  labels.push([long + 10, y + 14, "start", named + lacks]);
}
