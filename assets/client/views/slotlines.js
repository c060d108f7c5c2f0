// How many bytes are read as more tokens are taken together: a line for each design, with its name at its end.

import { bytes } from "../player/codec.js";
import { render } from "../player/render.js";
import { tr } from "../player/words.js";
import { MOST } from "./slotsread.js";

const LEFT = 58;
export const BOLD = "font-weight:600";

/** lines: bytes of each design for 1, 2, ... tokens; n: the number that is chosen; names: of the designs. words gets
 * the texts: [x, y, anchor, text, style]. */
export function growthLines(parent, lines, { n, names, w, top, tall }, words) {
  const most = Math.max(1, ...lines.flat()),
    wide = w > 420,
    right = w - (wide ? 170 : 130),
    foot = top + tall,
    x = (count) => LEFT + ((count - 1) / (MOST - 1)) * (right - LEFT),
    y = (size) => foot - (size / most) * (tall - 12),
    ends = (lines.at(-1) ?? []).map((size, i) => ({ i, size, y: y(size) + 4 })).sort((a, b) => a.y - b.y);
  ends.forEach((end, k) => (end.y = Math.max(end.y, k ? ends[k - 1].y + 16 : 0)));
  const along = (i) =>
      lines.map((sizes, c) => `${c ? "L" : "M"}${x(c + 1).toFixed(1)},${y(sizes[i]).toFixed(1)}`).join(""),
    paths = [
      { d: `M${LEFT},${top}V${foot}H${right}`, style: "stroke:var(--line)" },
      { d: `M${x(n)},${top}V${foot}`, style: "stroke:var(--muted);stroke-dasharray:3 3" },
      ...ends.map(({ i }) => ({
        d: `${along(i)}h.1`,
        style: `stroke:var(--span-${["fed", "block", "cache"][i]});stroke-width:3;stroke-linecap:round`,
      })),
    ];
  render(parent, paths, ({ d, style }) => ["path", { d, style: `${style};fill:none;opacity:1` }]);
  const title = wide ? tr`Bytes read in all layers by that many tokens together` : tr`Bytes read in all layers`;
  words.push(
    [0, top - 12, "start", title, BOLD],
    [LEFT - 6, top + 10, "end", bytes(most)],
    [LEFT - 6, foot, "end", "0"],
    [LEFT, foot + 18, "start", "1"],
    [right, foot + 18, "end", wide ? tr`${MOST} tokens together` : String(MOST)],
    ...ends.map(({ i, size, y }) => [x(lines.length) + 8, y, "start", `${names[i]} ${bytes(size)}`]),
  );
}
