// Where the networks, the maps, the tokens and the times of attention operators stand, as plain data.

import { CHIP } from "../player/drawing.js";
import { number, tr } from "../player/words.js";

export const MAP = 44; // sides of a map and of a network's box
export const NET = 24;
const NAMES = 176, // room for the names of the rows
  PITCH = 92,
  LANE = NET + MAP + CHIP + 28, // height of a decoder's row
  BARS = 66;

/** The steps that are shown at step t: the prompt's stays in sight; of the others the last ones. */
export function columnsOf(t, width) {
  const narrow = width < 700,
    room = narrow ? 0 : NAMES,
    n = Math.max(2, Math.floor((width - room) / (narrow ? 66 : PITCH))),
    pitch = (width - room) / n,
    steps =
      t <= n
        ? Array.from({ length: t }, (_, i) => i + 1)
        : [1, ...Array.from({ length: n - 1 }, (_, i) => t - n + 2 + i)];
  return { narrow, pitch, steps, x: (i) => room + (i + 0.5) * pitch };
}

/** Rows of decoders, the baseline first: {own, title, where, at: by step {held, href, token} or undefined}; series:
 * milliseconds of all steps, this run's first. {height, labels, nets, keeps, maps, tokens, times}. */
export function layout(columns, lanes, series) {
  const { narrow, steps, x } = columns,
    labels = [],
    items = { nets: [], keeps: [], maps: [], tokens: [] };
  lanes.forEach(({ own, title, where, at }, lane) => {
    const top = 26 + lane * (LANE + 30);
    labels.push([0, top - 10, "start", title, "font-weight:600"]);
    at.forEach((one, i) => {
      if (!one) return;
      items.nets.push({ x: x(i), y: top, ran: !one.held });
      items.maps.push({ x: x(i) - MAP / 2, y: top + NET + 12, href: one.href });
      items.tokens.push({ x: x(i), y: top + NET + MAP + 20, ...one.token });
      if (one.held && i) items.keeps.push(`M${x(i - 1) + MAP / 2},${top + NET + 12 + MAP / 2}H${x(i) - MAP / 2}`);
    });
    if (narrow) return;
    labels.push(
      [0, top + 16, "start", tr`network that makes G`],
      [0, top + NET + 26, "start", tr`score = q G k: G of`],
      [0, top + NET + 44, "start", where],
      [0, top + NET + MAP + 36, "start", own ? tr`token written` : tr`token it writes`],
    );
  });
  const { height, bars } = timesAt(series, steps, columns, 12 + lanes.length * (LANE + 30), labels);
  return { height, labels, ...items, times: bars };
}

/** Milliseconds of each token, both decoders side by side. */
function timesAt(series, steps, { x, pitch, narrow }, top, labels) {
  const bars = [];
  if (!series[0].some((ms) => ms !== null)) return { height: top, bars };
  const most = Math.max(...series.flatMap((one) => steps.map((step) => one[step - 1] ?? 0)), 1e-6),
    wide = Math.min(26, pitch / 2 - 4),
    foot = top + BARS + 18;
  series.forEach((one, k) =>
    steps.forEach((step, i) => {
      const ms = one[step - 1];
      if (ms == null) return;
      const high = Math.max(1, (BARS * ms) / most);
      bars.push({ x: x(i) + (k ? -wide - 1 : 1), y: foot - high, width: wide, height: high, k });
      if (!narrow)
        labels.push([x(i) + (k ? -1 - wide / 2 : 1 + wide / 2), foot - high - 4, "middle", String(Math.round(ms))]);
    }),
  );
  if (narrow) labels.push([0, foot + 16, "start", tr`time of each token, up to ${number(most)} ms`]);
  else labels.push([0, foot - 8, "start", tr`milliseconds per token`]);
  return { height: foot + (narrow ? 24 : 6), bars };
}
