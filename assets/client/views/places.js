// On which device each token and each expert of a layer is: as recorded, and in the ordinary places, experts in order
// and tokens in turn. No DOM.

import { unpack } from "../player/codec.js";

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
