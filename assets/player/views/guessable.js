// What a drafter's places guessed first, and how much of the target's vocabulary it can guess at all.

import { cut, number } from "../codec.js";
import { pool, set, svg } from "../dom.js";
import { tr } from "../words.js";

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
export function firstGuesses(steps) {
  const found = [];
  for (const { fused, tree } of steps) {
    if (!fused) continue;
    const path = tree.accepted.flatMap((kept, row) => (kept || !row ? [row] : []));
    path.slice(0, tree.emitted.length).forEach((row, i) => {
      const [first] = below(tree, row);
      if (first === undefined) return;
      found[i] ??= [0, 0];
      found[i][0] += tree.tokens[first] === tree.emitted[i];
      found[i][1]++;
    });
  }
  return found;
}

/** How often guesses of each place were right, [[right, checked]], as words at height y; says: what that is. */
export function tally(guesses, says, y, { roomy, left, x, labels }) {
  guesses.forEach(([right, checked], i) =>
    labels.push([x(i), y, "middle", roomy ? tr`${right} of ${checked}` : `${right}/${checked}`]),
  );
  labels.push(roomy ? [left - 8, y, "end", says] : [0, y + 20, "start", says]);
}

/** The share of the target's tokens that can be guessed, as a bar at height y of the layer `parent`; outside: the word
 * of one that cannot be and was written. */
export function vocabulary(parent, { can_say: v, of: V }, y, width, labels, outside) {
  const named = tr`draft vocabulary: ${number(v)} of ${number(V)} tokens`,
    long = Math.max(24, Math.min(240, width / 5, width - 12 - 7.6 * named.length));
  pool(parent, 2, () => svg("rect", { x: 0, rx: 3, height: 10 })).forEach((bar, i) =>
    set(bar, { y: y + 4, width: i ? (long * v) / V : long, class: i ? "dx-warm" : "dx-gone" }),
  );
  const lacks = outside && width > 620 ? `; ${tr`‘${cut(outside, 24)}’ is not one of them`}` : "";
  labels.push([long + 10, y + 14, "start", named + lacks]);
}
