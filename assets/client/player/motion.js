// What is new in a step comes in with a short movement, which nothing depends on. No movement where a person asked for
// none.

const LONGEST = 400; // milliseconds of a step's whole movement

const going = new Map(); // node -> its movements; asked for them (getAnimations), a browser lays the page out first

const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** Lets nodes come in one after the other, within 400 ms for all. from: the look that each begins with, such as
 * {opacity: 0}; it ends with the one that it has, and a transform is added to its own. */
export function comeIn(nodes, from) {
  if (!nodes.length || still()) return;
  const each = LONGEST / (nodes.length + 1),
    { transform, ...look } = from;
  nodes.forEach((node, i) => {
    end(node); // or both would add up
    const timing = { duration: 2 * each, delay: i * each, fill: "backwards", easing: "ease-out" },
      moves = Object.keys(look).length ? [node.animate?.([look, {}], timing)] : [];
    if (transform) moves.push(node.animate?.([{ transform }, {}], { ...timing, composite: "add" }));
    going.set(node, moves);
  });
}

function end(node) {
  for (const one of going.get(node) ?? []) one?.cancel(); // none where a page is drawn without a browser
  going.delete(node);
}

/** Ends the movements in `root`, which were of another step. */
export function endIn(root) {
  for (const node of going.keys()) if (root.contains(node) || !node.isConnected) end(node);
}
