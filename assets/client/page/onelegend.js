// One legend above the boards of a scene, in place of the same one below each of them.

import { el } from "../player/dom.js";

const MARK = "i"; // what a legend explains; the words stand beside it
const RAMP = ".dx-ramp";

/** The entries of several legends, each once, in the order of the first that has it: [{mark, words, ramp, node}]. Null
 * where one mark would have two meanings, or two scores their ranges. */
export function merged(legends) {
  const found = new Map();
  for (const entry of legends.flat()) {
    const known = found.get(entry.mark);
    if (known && known.words !== entry.words) return null;
    found.set(entry.mark, known ?? entry);
  }
  const all = [...found.values()];
  return new Set(all.filter(({ ramp }) => ramp).map(({ words }) => words)).size > 1 ? null : all;
}

const entriesOf = (legend) =>
  [...legend.children].map((node) => ({
    mark: node.querySelector(MARK)?.outerHTML ?? node.textContent,
    words: node.textContent,
    ramp: Boolean(node.querySelector(RAMP)),
    node,
  }));

/** Draws it in front of the players: {look(group, on)}. on: whether a scene is shown. Where the legends cannot be one,
 * each board keeps its own. */
export function oneLegend() {
  const root = el("div", { class: "dx dx-legend scene-legend", hidden: true }),
    changed = new MutationObserver(() => draw()); // other colours, or a state that was not there before
  let legends = [],
    drawn = "";
  function draw() {
    const players = document.querySelector("#players"),
      entries = legends.length > 1 ? (merged(legends.map(entriesOf)) ?? []) : [],
      said = entries.map(({ node }) => node.outerHTML).join("");
    if (said === drawn || !players) return;
    drawn = said;
    if (!root.isConnected) players.before(root);
    root.replaceChildren(...entries.map(({ node }) => node.cloneNode(true)));
    root.hidden = !said;
    players.toggleAttribute("data-one-legend", Boolean(said));
    document.dispatchEvent(new Event("dx-moved")); // what stands below it has moved
  }
  return {
    look(group, on) {
      const found = on
        ? group.runners.flatMap(({ root: panel }) => panel.querySelector(".dx-under > .dx-legend") ?? [])
        : [];
      if (found.length === legends.length && found.every((node, n) => node === legends[n])) return;
      legends = found;
      changed.disconnect();
      for (const node of legends) changed.observe(node, { childList: true });
      draw();
    },
  };
}
