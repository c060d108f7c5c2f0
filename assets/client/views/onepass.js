// What pictures of drafts that one pass makes have in common: the guesses with their probabilities, what was written,
// and where the rest was refused.

import { LETTER, render } from "../player/drawing.js";
import { rowsOf } from "../player/rounds.js";
import { percent, tr } from "../player/words.js";

/** A probability in a column of width w. */
export const shareIn = (share, w) => (w < 48 ? percent(share).replace(" %", "") : percent(share));

/** The first guess of each row as a bar, `tall` at 1, and below it the next best ones: tokens and chances by row. Gives
 * the first guesses as boxes. */
export function guesses(view, { tokens, chances }, tree, { w, foot, others, tall, x, labels }) {
  const { rows } = rowsOf(tree),
    states = tokens.map((_, i) => rows[i + 1]?.state ?? "unreached");
  render(view.bars, tokens, (_, i) => {
    const height = Math.max(2, tall * chances[i][0]);
    labels.push([x(i), foot - height - 6, "middle", shareIn(chances[i][0], w)]);
    return [
      { "data-s": states[i] },
      ["rect", { rx: 3, x: x(i) - w * 0.27, y: foot - height, width: w * 0.54, height }],
    ];
  });
  for (let r = 1; r <= others; r++)
    tokens.forEach((row, i) => {
      const share = w > 84 ? ` ${percent(chances[i][r])}` : "",
        most = Math.max(1, Math.floor((w - 10) / LETTER) - share.length);
      labels.push([x(i), foot + 30 + 18 * r, "middle", view.word(row[r], most) + share]);
    });
  return tokens.map(([token], i) => ({ x: x(i), y: foot + 6, state: states[i], whole: view.word(token), sign: true }));
}

/** Of the guesses of these steps that were checked, [guess, the target's token] by place, how many were right: by place
 * [right, checked]. */
export function rightOf(steps, pairs) {
  const counts = [];
  for (const step of steps)
    for (const [i, [guess, token]] of pairs(step).entries()) {
      if (guess === undefined) continue;
      counts[i] ??= [0, 0];
      counts[i][0] += guess === token;
      counts[i][1]++;
    }
  return counts;
}

/** These counts as words at height y, and what they are. */
export function tally(counts, words, y, { roomy, left, x, labels }) {
  counts.forEach(([right, checked], i) =>
    labels.push([x(i), y, "middle", roomy ? tr`${right} of ${checked}` : `${right}/${checked}`]),
  );
  labels.push(roomy ? [left - 8, y, "end", words] : [0, y + 20, "start", words]);
}

/** Ways of a drawing: [path, class]. */
export const ways = (layer, lines) => render(layer, lines, ([d, kind]) => ["path", { fill: "none", d, class: kind }]);

/** What a round wrote, as boxes. */
export function emitted(view, tree, x, y = 4) {
  const { rows, accepted } = rowsOf(tree),
    own = rows.slice(tree.tokens.length),
    state = (i) => (i < accepted ? "accepted" : (own[i - accepted]?.state ?? "old"));
  return tree.emitted.map((token, i) => ({ x: x(i), y, whole: view.word(token), state: state(i), sign: true }));
}

/** Where a draft was refused: a line from roof to foot, with words where there is room. left: of the place before the
 * first guess, w: of a place. */
export function refused(view, tree, { left, w, roof, foot, roomy, labels }) {
  const broke = tree.why.includes("mismatch"),
    line = left + (rowsOf(tree).accepted + 1) * w,
    inside = line + 240 < view.width, // the words
    words = tr`✕ refused: the rest is dropped`;
  render(view.cuts, broke ? [`M${line},${roof - 10}V${foot}`] : [], (d) => ["path", { class: "dx-cut", d }]);
  if (broke && roomy)
    labels.push(inside ? [line + 7, roof - 3, "start", words] : [view.width - 4, roof - 3, "end", words]);
}
