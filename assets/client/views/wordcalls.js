// The calls of a reader that writes one letter in each: a row of letters for each call, the new one marked.

import { pool, set, setText, svg } from "../player/dom.js";
import { tr } from "../player/words.js";

const ROW = 27,
  TILE = 22,
  LEFT = 58;

/** places: what stands in the end, [{word, end}]; t: how many calls were made, those after it are dashed. y, w: top and
 * width of the drawing. Gives its foot, 0 where there is none. */
export function letterCalls(parent, { places, t, y, w: room }, labels) {
  const w = Math.min(TILE + 2, (room - LEFT - 2) / Math.max(1, places.length)),
    tiles = places.flatMap((_, call) => places.slice(0, call + 1).map((place, i) => ({ ...place, i, call }))),
    make = () => svg("g", {}, svg("rect", { rx: 4, height: TILE }), svg("text", { "text-anchor": "middle" }));
  places.forEach((_, call) => labels.push([0, y + call * ROW + 16, "start", tr`call ${call + 1}`]));
  pool(parent, tiles.length, make).forEach((group, k) => {
    const { i, call, word, end } = tiles[k],
      [box, text] = group.childNodes,
      x = LEFT + i * w,
      late = call >= t;
    set(group, { "data-s": i < call ? "old" : "new", opacity: late ? 0.45 : 1 });
    set(box, { x, y: y + call * ROW, width: w - 2, style: "fill:var(--fill);stroke:var(--edge)" });
    set(box, { "stroke-dasharray": late ? "3 3" : "none" });
    set(text, { x: x + w / 2 - 1, y: y + call * ROW + 16 });
    setText(text, end ? "■" : word.slice(0, w > TILE ? 3 : 1));
  });
  return places.length && y + places.length * ROW;
}
