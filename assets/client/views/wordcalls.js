// The calls of a reader that writes one letter in each: a row of letters for each call, the new one marked.

import { MIDDLE, render } from "../player/drawing.js";
import { tr } from "../player/words.js";

const ROW = 27,
  TILE = 22,
  LEFT = 58;

/** places: what stands in the end, [{word, end}]; t: how many calls were made, those after it are dashed. y, w: top and
 * width of the drawing. Gives its foot, 0 where there is none. */
export function letterCalls(parent, { places, t, y, w: room }, labels) {
  const w = Math.min(TILE + 2, (room - LEFT - 2) / Math.max(1, places.length)),
    tiles = places.flatMap((_, call) => places.slice(0, call + 1).map((place, i) => ({ ...place, i, call })));
  places.forEach((_, call) => labels.push([0, y + call * ROW + 16, "start", tr`call ${call + 1}`]));
  render(parent, tiles, ({ i, call, word, end }) => {
    const x = LEFT + i * w,
      top = y + call * ROW,
      late = call >= t,
      dash = { "stroke-dasharray": late ? "3 3" : "none", style: "fill:var(--fill);stroke:var(--edge)" };
    return [
      { "data-s": i < call ? "old" : "new", opacity: late ? 0.45 : 1 },
      ["rect", { rx: 4, height: TILE, x, y: top, width: w - 2, ...dash }],
      ["text", { ...MIDDLE, x: x + w / 2 - 1, y: top + 16 }, end ? "■" : word.slice(0, w > TILE ? 3 : 1)],
    ];
  });
  return places.length && y + places.length * ROW;
}
