// The successors of a pair of tokens with their weights in a table: what it held before, and what a text has taught.

import { render } from "../player/render.js";
import { tr } from "../player/words.js";

const LETTER = 7.4;
const two = (value) => String(Number(value.toPrecision(2)));
export const LINE = 22; // of bars that stand above what they lead to

/** A bar for each of some nodes below the root of a search, [{node, tokens, y}], each at its y, or above all of them
 * where the panel is narrow; a node is told where its line may begin. Returns the labels. */
export function successors(parent, { weights, loaded, pair }, heads, word, { narrow, width, top }) {
  const [a, b] = pair.map((token) => word(token, 10)),
    largest = Math.max(...heads.map(({ node }) => weights[node])),
    x = narrow ? 76 : 8,
    names = {
      text: narrow ? tr`learned` : tr`learned from this text`,
      store: narrow ? tr`before` : tr`in the table before`,
    },
    unit = (width - x - (narrow ? 172 : 250)) / (largest || 1),
    labels = [
      [8, top - 14, "start", heads.length ? tr`weight of what follows ${a} ${b}` : tr`no entry for ${a} ${b} yet`],
    ];
  const bars = heads.flatMap((item, i) => {
    const y = narrow ? top + i * LINE : item.y - 8,
      old = Math.min(loaded[item.node], weights[item.node]),
      gained = weights[item.node] - old,
      name = gained > 0 ? "text" : "store",
      figures = gained > 0 ? `${old ? `${two(old)} + ` : "+"}${two(gained)}` : two(old),
      told = names[name] ? `${figures} ${names[name]}` : figures;
    names[name] = ""; // only the first of a kind says what it is
    labels.push([x + unit * weights[item.node] + 6, y + 12, "start", told]);
    if (narrow) labels.push([x - 6, y + 12, "end", word(item.tokens[0], 8)]);
    else item.from = x + unit * weights[item.node] + 12 + LETTER * [...told].length;
    return [
      { x, y, width: unit * old, "data-source": "store" },
      { x: x + unit * old, y, width: unit * gained, "data-source": "text" },
    ];
  });
  render(parent, bars, (bar) => ["rect", { class: "dx-stripe", height: 16, ...bar }]);
  return labels;
}
