// When each microbatch is where: as a step was measured, and by the event model of Step-3's report (arXiv:2507.19427):
// a server a side and a link each way, each taking one microbatch after the other. Here it is in closed form, since its
// durations follow what a person moves; the events are in the study (engines/studies/decoding_cost.py, `Pipeline`). And
// what attention of one token costs: published models and accelerators, as the study gave them to the page
// (`published`), and what of it a run has counted. No DOM.

const { layers: LAYERS } = globalThis.dxCosts;
export const MODELS = globalThis.dxCosts.models;
export const DEVICES = globalThis.dxCosts.devices;
export const SIDES = ["attention", "feed-forward"];

/** How long each part of the feed-forward side began after its microbatch had left the other one. */
function waits(parts) {
  const key = ({ microbatch, layer }) => `${microbatch} ${layer}`,
    left = new Map(parts.flatMap((part) => (part.side ? [] : [[key(part), part.end]])));
  return parts.filter(({ side }) => side).map((part) => part.start - left.get(key(part)));
}

/** The parts of a step; how long it took from its first to its last, the share of that in which each side worked, and
 * in which both did; how long a microbatch waited for the feed-forward side, in the middle. Null without any. */
export function turn(step) {
  const parts = (step?.intervals ?? [])
    .filter(({ kind, track }) => kind === "microbatch" && SIDES.includes(track))
    .map(({ about, track, start, end }) => ({ side: SIDES.indexOf(track), start, end, ...about }));
  if (!parts.length) return null;
  const start = Math.min(...parts.map((one) => one.start)),
    long = Math.max(...parts.map(({ end }) => end)) - start,
    of = (side) => parts.filter((one) => one.side === side),
    busy = SIDES.map((_, side) => of(side).reduce((sum, one) => sum + one.end - one.start, 0)),
    both = of(0).reduce(
      (sum, a) => sum + of(1).reduce((s, b) => s + Math.max(0, Math.min(a.end, b.end) - Math.max(a.start, b.start)), 0),
      0,
    );
  const waited = median(waits(parts)) ?? 0;
  return { parts, start, long, busy: busy.map((time) => time / long), both: both / long, waited };
}

/** What a model is fed with from measured turns: the middle length of a part on each side, and the fastest way to the
 * experts of a step, in the middle, taken for the way back too: what comes back may wait. layers, microbatches. */
export function durations(turns) {
  const parts = turns.flatMap((one) => one.parts),
    most = (key) => Math.max(0, ...parts.map((one) => one[key])),
    middle = (side) => median(parts.filter((one) => one.side === side).map(({ start, end }) => end - start)) ?? 0,
    ways = turns.map(({ parts: all }) => Math.max(0, Math.min(...waits(all)))),
    way = median(ways.filter(Number.isFinite)) ?? 0;
  return { layers: most("layer"), m: most("microbatch"), a: middle(0), f: middle(1), out: way, back: way };
}

/** Turns of the event model, as `turn` gives them: a part begins when the longest chain of parts before it is over. A
 * chain goes some rounds through all four places and else stays, part by part, at the slowest place that it passes; the
 * longest has no round, one or all. turns: taking turns, on one machine without links. */
export function flow({ layers, m, a, f, out, back }, alone = false) {
  const lasts = alone ? [a + f] : [a, out, f, back],
    before = lasts.map((_, i) => lasts.slice(0, i).reduce((sum, time) => sum + time, 0)),
    slowest = lasts.map((_, i) => Math.max(...lasts.slice(0, i + 1))),
    round = before.at(-1) + lasts.at(-1),
    chain = (rounds, j, layer, i) =>
      rounds * round + ((layer - rounds) * m + j) * (rounds ? slowest.at(-1) : slowest[i]),
    begins = (j, layer, i) => before[i] + Math.max(...[0, 1, layer].map((n) => chain(Math.min(n, layer), j, layer, i))),
    part = (j, layer, side) => {
      const start = alone ? begins(j, layer, 0) + side * a : begins(j, layer, 2 * side);
      return { side, start, end: start + (side ? f : a), microbatch: j + 1, layer: layer + 1 };
    },
    count = Array.from({ length: layers * m }, (_, n) => n),
    parts = count.flatMap((n) => SIDES.map((_, side) => part(n % m, Math.floor(n / m), side))),
    long = layers * m ? begins(m - 1, layers - 1, lasts.length - 1) + lasts.at(-1) : 0;
  return { parts, start: 0, long, busy: [a, f].map((time) => (layers * m * time) / (long || 1)) };
}

/** Seconds of a microbatch of b sequences with n tokens of context in a layer of Step-3 on a device. */
export const step3 = ({ reads, projects, experts, least, sends }, n, b) => ({
  layers: LAYERS,
  a: b * (n * reads + projects),
  f: Math.max(b * experts, least),
  out: b * sends,
  back: 2 * b * sends,
});

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
