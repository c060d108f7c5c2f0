// What attention of one token costs: published models, and accelerators, as the page was given them by the study of
// decoding cost (engines/studies/_decode_costs.py, `published`), and what of it a run has counted.

const { layers, models, devices } = globalThis.dxCosts;

export const LAYERS = layers;
export const MODELS = models;
export const DEVICES = devices;

/** Of a model for a token behind n others, or of a device for n dollars a million tokens. */
export const times = ({ bytes, operations }, n) => ({ bytes: n * bytes, operations: n * operations });

export const fits = (cost, box) => cost.bytes <= box.bytes && cost.operations <= box.operations;

export const median = (list) => [...list].sort((a, b) => a - b)[list.length >> 1] ?? null;

/** By attention, the largest reader first: bytes of the cache at step t and at the end, operations for a byte, seconds
 * of attention in the middle step so far. */
export function readers(steps, t) {
  const told = (i) => steps[i]?.readers?.readers ?? [],
    took = ({ intervals = [] }, name) =>
      intervals
        .filter(({ track, kind }) => track === name && kind === "attention")
        .reduce((sum, { start, end }) => sum + end - start, 0);
  return told(t - 1)
    .map(({ name, bytes, operations }, i) => ({
      name,
      bytes,
      most: told(steps.length - 1)[i]?.bytes ?? bytes,
      intensity: operations / bytes,
      middle: median(steps.slice(0, t).map((step) => took(step, name))),
    }))
    .sort((a, b) => b.most - a.most);
}
