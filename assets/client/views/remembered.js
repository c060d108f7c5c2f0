// What a store of n-grams held after the suffixes of one call: for each suffix along the path that was kept the
// distribution that was remembered, and what became of the tokens that were drawn from it.

import { render } from "../player/drawing.js";
import { cut, percent, tr } from "../player/words.js";

const CARD = 214,
  APART = 236, // from one card to the next
  ROWS = 5, // of a card
  ROW = 27,
  HEAD = 62,
  BAR = 84;
const FATE = { accepted: "accepted", mismatch: "rejected", unreached: "unreached" };

/** The rows of a card: the likeliest tokens, with the one that was kept, and what became of those that were drawn. */
export function listed({ tokens, q, drawn, why }, rows = ROWS) {
  const kept = drawn[why.indexOf("accepted")],
    first = tokens.slice(0, rows);
  if (kept !== undefined && !first.includes(kept)) first.splice(-1, 1, kept);
  return first.map((token) => {
    const draw = drawn.indexOf(token);
    return { token, q: q[tokens.indexOf(token)], state: draw < 0 ? "" : (FATE[why[draw]] ?? "drafted") };
  });
}

const columnsOf = (width) => Math.max(1, Math.floor((width - CARD) / APART) + 1);

/** How high the cards stand in a drawing so wide. */
export const heightOf = (width) => 6 + (columnsOf(width) > 1 ? 1 : 2) * (HEAD + ROWS * ROW);

/** One card for each key of a step of a sample, as many as have room from `y` on; view: whose picture it is, shade: the
 * style of a box for a suffix, labels: gets the words. */
export function remembered(view, { sample, tokens, suffix, keys }, y, shade, labels) {
  const { width } = view,
    whole = (token) => view.word(token),
    columns = columnsOf(width),
    narrow = columns === 1, // two cards stand on each other
    shown = keys.slice(0, Math.max(2, columns)),
    boxes = [],
    bars = [],
    at = (i) => ({ x: 4 + (i % columns) * APART, top: y + 22 + Math.floor(i / columns) * (HEAD + ROWS * ROW) });
  const none = tr`sample ${sample + 1}: no known suffix`,
    short = tr`sample ${sample + 1}: boxes were drawn`,
    long = tr`this call, sample ${sample + 1}: boxes were drawn`;
  labels.push([4, y + 8, "start", keys.length ? (narrow ? short : long) : none]);
  shown.forEach((key, i) => {
    const { x, top } = at(i);
    labels.push([x + 20, top + 16, "start", tr`after ${key.key.map((token) => cut(whole(token), 7)).join(" ")}`]);
    labels.push([x, top + 36, "start", tr`what the model said, seen ${key.count}×`]);
    listed(key).forEach(({ token, q, state }, j) => {
      const line = top + 44 + j * ROW,
        text = cut(whole(token), 8);
      if (state) boxes.push({ x: x + 38, y: line, state, whole: whole(token), text });
      else labels.push([x + 38, line + 16, "middle", text]);
      bars.push({ x: x + 80, y: line + 4, width: Math.max(1, BAR * q), height: 16 });
      labels.push([x + 86 + BAR * q, line + 16, "start", percent(q)]);
    });
  });
  const own = suffix.at(-1) === 0 ? tokens.at(-1) : undefined,
    x = 4 + shown.length * APART,
    { top } = at(0);
  if (keys.length > shown.length) labels.push([width - 4, y + 8, "end", tr`and ${keys.length - shown.length} more`]);
  else if (own !== undefined && !narrow && x + 120 < width) {
    const state = keys.length > tokens.length - 1 ? "correction" : keys.length ? "bonus" : "new";
    labels.push([x, top + 36, "start", tr`the target's own`]);
    boxes.push({ x: x + 38, y: top + 44, state, whole: whole(own), text: cut(whole(own), 8) });
  }
  render(view.squares, shown, ({ key }, i) => {
    const { x, top } = at(i);
    return ["rect", { width: 14, height: 14, x, y: top + 5, style: shade(key.length) }];
  });
  render(view.shares, bars, (bar) => [{ "data-s": "q" }, ["rect", { rx: 2, ...bar }]]);
  view.chips(view.cards, boxes, 99);
}
