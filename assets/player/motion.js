// What is new in a step comes in with a short movement, which nothing depends on. No movement where a person asked for
// none.

const LONGEST = 400; // milliseconds of a step's whole movement

const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** Lets nodes come in one after the other, within 400 ms for all. from: the look that each begins with, such as
 * {opacity: 0}; it ends with the one that it has. */
export function comeIn(nodes, from) {
  if (!nodes.length || still()) return;
  const each = LONGEST / (nodes.length + 1);
  nodes.forEach((node, i) =>
    node.animate?.([from, {}], { duration: 2 * each, delay: i * each, fill: "backwards", easing: "ease-out" }),
  );
}
