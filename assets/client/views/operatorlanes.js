// For each token whether the network that makes G ran, and the G that it used; what is kept goes along a line.

import { MIDDLE, render } from "../player/render.js";
import { tr } from "../player/words.js";

export const MAP = 44; // sides of a map and of a network's box
export const NET = 24;
const RUNS = { "stroke-dasharray": "none", style: "fill:var(--span-fed);stroke:none" },
  SKIPPED = { "stroke-dasharray": "3 3", style: "fill:none;stroke:var(--muted)" };
const label = (ran) => (ran ? tr`runs` : tr`skipped`);
const ARROW = "stroke:var(--span-fed);stroke-width:2;fill:none;opacity:1";

/** view: whose layers nets, keeps and maps are drawn into. nets: [{x, y, ran}], keeps: lines, maps: [{x, y, href}]. */
export function lanesOf(view, { nets, keeps, maps }) {
  render(view.nets, nets, ({ x, y, ran }) => [
    {},
    ["rect", { ...(ran ? RUNS : SKIPPED), rx: 5, height: NET, width: 58, x: x - 29, y }],
    ["text", { ...MIDDLE, x, y: y + 16, style: `fill:var(--${ran ? "panel" : "muted"})` }, label(ran)],
    ["path", { d: ran ? `M${x},${y + NET}v9m-4,-5l4,5l4,-5` : "", style: ARROW }],
  ]);
  render(view.keeps, keeps, (d) => ["path", { d, style: "stroke:var(--accent);stroke-width:4;opacity:1" }]);
  const map = { width: MAP, height: MAP, style: "image-rendering:pixelated" };
  render(view.maps, maps, (one) => ["image", { ...map, ...one }]);
}
