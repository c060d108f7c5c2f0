// Which experts of a layer the tokens of a text use: as recorded, and as many for each token, but drawn by chance; and
// on which device each token and each expert is: as recorded, and in the ordinary places, experts in order and tokens
// in turn. No DOM.

import { unpack } from "../player/codec.js";

const UNITS = 256; // rows that are drawn

/** What a step's records say of one layer: position -> [[unit, weight]], and how many units there are. twin: of the
 * model beside the run's own. */
export function used(entries = [], layer, twin = false) {
  const found = new Map();
  let units = 0;
  for (const { kind, role, positions, layers, chosen, weights, units: all } of entries) {
    if ((role === "twin") !== twin) continue;
    if (kind !== "expert" && kind !== "layer") continue; // places, memories
    const row = layers.indexOf(layer),
      { values, shape } = unpack(chosen),
      k = shape[2],
      w = weights ? unpack(weights).values : null;
    if (row < 0) continue;
    units = Math.max(units, all ?? 0);
    positions.forEach((position, i) => {
      const pairs = [];
      for (let j = (i * shape[1] + row) * k, end = j + k; j < end; j++)
        if (values[j] >= 0) pairs.push([values[j], Number.isFinite(w?.[j]) ? w[j] : 1]);
      found.set(position, pairs);
      for (const [unit] of pairs) units = Math.max(units, unit + 1);
    });
  }
  return { found, units: Math.min(units, UNITS) };
}

/** unit -> the share of these columns that use it. */
export function together(columns) {
  const share = new Map();
  for (const pairs of columns) for (const [unit] of pairs) share.set(unit, (share.get(unit) ?? 0) + 1 / columns.length);
  return share;
}

/** Of the text after step t in one layer: position -> [[unit, weight]], how many units there are, the positions in
 * order, and those of the step. */
export function readOf(steps, t, layer, twin = false) {
  const columns = new Map();
  let units = 0,
    now = [];
  for (const { routing } of steps.slice(0, t)) {
    if (!routing?.some(({ role }) => (role === "twin") === twin)) continue;
    const { found, units: all } = used(routing, layer, twin);
    for (const [position, pairs] of found) columns.set(position, pairs);
    for (const position of columns.keys()) if (position > Math.max(...found.keys())) columns.delete(position);
    units = Math.max(units, all);
    now = [...found.keys()];
  }
  return { columns, units, order: [...columns.keys()].sort((a, b) => a - b), now };
}

/** How many units such columns would use together if each chose its number of them by chance: the mean, exact. */
export const expected = (columns, units) =>
  units * (1 - columns.reduce((rest, pairs) => rest * (1 - Math.min(1, pairs.length / units)), 1));

/** One such choice: for a position as many units as it uses, drawn by chance, the same at each call. */
export function drawn(pairs, position, units) {
  const order = Array.from({ length: units }, (_, i) => i);
  let seed = (position + 1) * 2654435761;
  for (let i = units - 1; i > 0; i--) {
    seed = (Math.imul(seed ^ (seed >>> 15), 2246822519) + i) >>> 0;
    const j = seed % (i + 1);
    [order[i], order[j]] = [order[j], order[i]];
  }
  return pairs.map(([, weight], i) => [order[i], weight]);
}

const column = (packed, row) => {
  const { values, shape } = unpack(packed),
    [n, depth, k] = shape;
  return Array.from({ length: n }, (_, i) =>
    [...values.slice((i * depth + row) * k, (i * depth + row + 1) * k)].filter((unit) => unit >= 0),
  );
};

/** Of one layer at a step: tokens [{position, device, experts}], and the device of each expert. None where it is not
 * said where things are. */
export function placed(steps, t, layer) {
  const at = (entry) => entry.layers.indexOf(layer),
    is = (kind, role) => (entry) => entry.kind === kind && (entry.role === "experts") === role && at(entry) >= 0,
    now = steps[t - 1]?.routing ?? [],
    homes = now.find(is("device", false)),
    routed = now.find(is("expert", false));
  const held = steps.slice(0, t).findLast(({ routing = [] }) => routing.some(is("device", true))),
    experts = held?.routing.find(is("device", true));
  if (!homes || !routed || !experts) return { tokens: [], devices: [], G: 0 };
  const where = column(homes.chosen, at(homes)),
    used = column(routed.chosen, at(routed)),
    devices = column(experts.chosen, at(experts)).map(([device]) => device);
  const tokens = routed.positions.map((position, i) => ({ position, device: where[i][0], experts: used[i] }));
  return { tokens, devices, G: 1 + Math.max(...devices, ...where.map(([device]) => device)) };
}

/** The last tokens of the text after step t, at most `most`, from when experts were placed last. */
export function gathered(steps, t, layer, most) {
  const found = placed(steps, t, layer),
    tokens = new Map(found.tokens.map((one) => [one.position, one])),
    renewed = (step) => step?.routing?.some(({ kind, role }) => kind === "device" && role === "experts");
  for (let i = t; i > 1 && tokens.size < most && !renewed(steps[i - 1]); i--)
    for (const one of placed(steps, i - 1, layer).tokens)
      if (!tokens.has(one.position) && one.position < found.tokens[0]?.position) tokens.set(one.position, one);
  const order = [...tokens.values()].sort((a, b) => a.position - b.position);
  return { ...found, tokens: order.slice(-most) };
}

/** The same tokens and experts in their ordinary places. */
export const ordinary = ({ tokens, devices, G }) => ({
  tokens: tokens.map((one) => ({ ...one, device: one.position % G })),
  devices: devices.map((_, expert) => Math.floor((expert * G) / devices.length)),
  G,
});

/** How many lines stay in their column, how many there are, how many journeys of a token to another device that makes,
 * each made once however many experts it needs there, and what each device computes. */
export function counted({ tokens, devices, G }) {
  const load = Array(G).fill(0);
  let all = 0,
    local = 0,
    visits = 0;
  for (const { device, experts } of tokens) {
    const to = experts.map((expert) => devices[expert]),
      others = new Set(to);
    others.delete(device);
    all += to.length;
    local += to.filter((one) => one === device).length;
    visits += others.size;
    for (const one of to) load[one]++;
  }
  return { all, local, visits, load };
}
