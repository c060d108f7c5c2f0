// A layer of a drawing, described as data.

import { el, set, setText } from "./dom.js";

export const MIDDLE = { "text-anchor": "middle" };

/** Makes the nodes of a layer what its items are described as: [tag, attributes, ...parts inside it or its text], where
 * a group of a drawing goes without its tag. What is there is changed, spare nodes are hidden; returns those that are
 * seen. */
export function render(layer, items, describe = (item) => item) {
  const nodes = items.map((item, i) => {
    const part = describe(item, i),
      [tag, attributes, ...inside] = typeof part[0] === "string" ? part : ["g", ...part],
      there = layer.childNodes[i],
      node = there?.localName === tag ? there : document.createElementNS(layer.namespaceURI, tag);
    if (!there) layer.append(node);
    else if (node !== there) there.replaceWith(node);
    node.style.display = "";
    set(node, attributes);
    if (inside.length && !Array.isArray(inside[0])) setText(node, inside[0]);
    else render(node, inside);
    return node;
  });
  for (const spare of [...layer.childNodes].slice(nodes.length)) spare.style.display = "none";
  return nodes;
}

/** Words of a drawing: [x, y, anchor, text, style]; as a style `true` is bold. */
export const write = (layer, labels) =>
  render(layer, labels, ([x, y, anchor, words, look = null]) => {
    const style = look === true ? "font-weight:700" : look || "";
    return ["text", { x, y, "text-anchor": anchor, style }, words];
  });

/** A row of a table: its head and its cells. */
export const rowOf = (head, ...cells) =>
  el("tr", {}, el("th", { scope: "row" }, head), ...cells.map((cell) => el("td", {}, cell)));

/** A colour of a legend, with what it stands for. */
export const swatch = (style, ...words) => el("span", {}, el("i", { class: "dx-swatch", style }), ...words);
