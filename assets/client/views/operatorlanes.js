// For each token whether the network that makes G ran, and the G that it used; what is kept goes along a line.

import { pool, set, setText, svg } from "../player/dom.js";
import { tr } from "../player/words.js";

export const MAP = 44; // sides of a map and of a network's box
export const NET = 24;

/** view: whose layers nets, keeps and maps are drawn into. nets: [{x, y, ran}], keeps: lines, maps: [{x, y, href}]. */
export function lanesOf(view, { nets, keeps, maps }) {
  const make = () =>
    svg("g", {}, svg("rect", { rx: 5, height: NET, width: 58 }), svg("text", { "text-anchor": "middle" }), svg("path"));
  pool(view.nets, nets.length, make).forEach((group, i) => {
    const { x, y, ran } = nets[i],
      [box, word, arrow] = group.childNodes;
    set(box, { x: x - 29, y, "stroke-dasharray": ran ? "none" : "3 3" });
    box.style.cssText = ran ? "fill:var(--span-fed);stroke:none" : "fill:none;stroke:var(--muted)";
    set(word, { x, y: y + 16 });
    word.style.fill = ran ? "var(--panel)" : "var(--muted)";
    setText(word, ran ? tr`runs` : tr`skipped`);
    set(arrow, { d: ran ? `M${x},${y + NET}v9m-4,-5l4,5l4,-5` : "" });
    arrow.style.cssText = "stroke:var(--span-fed);stroke-width:2;fill:none;opacity:1";
  });
  pool(view.keeps, keeps.length, () => svg("path")).forEach((line, i) => {
    set(line, { d: keeps[i] });
    line.style.cssText = "stroke:var(--accent);stroke-width:4;opacity:1";
  });
  pool(view.maps, maps.length, () => svg("image", { width: MAP, height: MAP })).forEach((map, i) => {
    set(map, maps[i]);
    map.style.imageRendering = "pixelated";
  });
}
