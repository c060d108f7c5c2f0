// What pictures of drafts that one pass makes have in common: the guesses with their probabilities, what was written,
// and where the rest was refused; the target as a tower of layers, with a bead where its states are read, and the
// states that a drafter's rows begin with: those of the target, or others in their place.

import { LETTER, MIDDLE, render } from "../player/drawing.js";
import { rowsOf } from "../player/rounds.js";
import { percent, tr } from "../player/words.js";

export const R = 14; // of a state
const ALONE = 264; // least room for tokens one by one
const FLOORS = 9; // that have names, at most
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

/** The tokens that a round wrote, one by one, right of `left` where there is room; from `roof` to `foot`. */
export function oneByOne(view, tree, left, roof, foot, labels) {
  const room = view.width - left,
    wrote = room < ALONE ? [] : tree.emitted.filter((token) => !view.run.eos.has(token));
  view.alone(wrote, left, Math.min(72, room / Math.max(1, wrote.length)), roof, foot, labels);
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
