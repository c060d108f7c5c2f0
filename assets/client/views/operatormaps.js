// What a run says of its operators G: the maps after a step, both texts, both times; the maps as pictures; and where
// networks, maps, tokens and times stand, as plain data.

import { unpack } from "../player/codec.js";
import { CHIP } from "../player/drawing.js";
import { rgbOf } from "../player/theme.js";
import { number, tr } from "../player/words.js";

export const ROLES = ["target", "reference"]; // the run's decoder, and the one without a cache beside it

const GAP = 2; // pixels between two maps, and once more between two layers
export const MAP = 44; // sides of a map and of a network's box
export const NET = 24;
const NAMES = 176, // room for the names of the rows
  PITCH = 92,
  LANE = NET + MAP + CHIP + 28, // height of a decoder's row
  BARS = 66;

const rms = (values) => Math.sqrt(values.reduce((sum, v) => sum + v * v, 0) / values.length);

/** What a decoder's maps are after t steps: the whole ones with what moved, and how far each of them moved, as a share
 * of its size; null before the first. */
export function mapsOf(run, t, role) {
  const decoders = run.steps.slice(0, t).flatMap(({ operators }) => operators?.decoders ?? []),
    own = decoders.filter((decoder) => decoder.role === role),
    begun = own.findLastIndex(({ maps }) => maps),
    last = own.at(-1);
  if (begun < 0) return null;
  const moved = own.slice(begun).findLast((decoder) => decoder.moved)?.moved,
    { values: base, shape } = unpack(own[begun].maps),
    more = moved ? unpack(moved).values : null,
    [layers, heads, d] = shape,
    part = (values, i) => values.slice(i * d * d, (i + 1) * d * d),
    far = Array.from({ length: layers * heads }, (_, i) => (more ? rms(part(more, i)) / (rms(part(base, i)) || 1) : 0));
  return { values: more ? base.map((v, i) => v + more[i]) : base, base, layers, heads, d, far, last };
}

/** Both texts after t steps: the tokens behind the prompt. */
export function textsOf(run, t) {
  const first = run.prompt.length,
    cells = run.board(t).slice(first),
    other = [];
  for (const step of run.steps.slice(0, t))
    for (const { role, tokens, at } of step.operators?.decoders ?? [])
      if (role === "reference" && tokens?.length) other.splice((at ?? 0) - first, Infinity, ...tokens);
  return [cells.map(({ token }) => token), other];
}

/** The first place in which both have a token and not the same; -1 where there is none. */
export const differ = ([own, other]) => own.findIndex((token, at) => at < other.length && other[at] !== token);

/** Milliseconds of both decoders in each of the first t steps; null where one made no forward. */
export function timesOf(run, t) {
  const spans = (role) =>
      run.steps.slice(0, t).map(({ intervals = [] }) => intervals.find(({ track }) => track === role)),
    milliseconds = (span) => (span ? 1000 * (span.end - span.start) : null);
  return ROLES.map((role) => spans(role).map(milliseconds));
}

/** Where the map of a head stands, in pixels from the left; layers have a second gap between them. */
export const left = ({ heads, d }, i) => i * (d + GAP) + Math.floor(i / heads) * 2 * GAP;

/** Pixels from the first to the last map. */
export const width = (maps) => left(maps, maps.layers * maps.heads - 1) + maps.d;

/** The map of one head, one pixel an entry: `above` 0, `below` 0, nothing at 0; onto a canvas at x. */
function head(pen, { d, values }, i, x, colours, top) {
  const [none, up, down] = colours,
    image = pen.createImageData(d, d);
  for (let at = 0; at < d * d; at++) {
    const v = values[i * d * d + at],
      share = Math.min(1, Math.abs(v) / top) ** 0.6; // small entries are seen too
    for (let c = 0; c < 3; c++) image.data[4 * at + c] = none[c] + share * ((v > 0 ? up : down)[c] - none[c]);
    image.data[4 * at + 3] = 255;
  }
  pen.putImageData(image, x, 0);
}

const largest = ({ base }) => base.reduce((most, v) => Math.max(most, Math.abs(v)), 1e-9);
const three = ({ nothing, above, below }) => [nothing, above, below].map(rgbOf);

export function paint(canvas, maps, colours) {
  const top = largest(maps),
    pen = canvas.getContext("2d");
  Object.assign(canvas, { width: width(maps), height: maps.d });
  for (let i = 0; i < maps.layers * maps.heads; i++) head(pen, maps, i, left(maps, i), three(colours), top);
}

/** The address of a picture of the map of one head. */
export function pictured(maps, i, colours) {
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width: maps.d, height: maps.d });
  head(canvas.getContext("2d"), maps, i, 0, three(colours), largest(maps));
  return canvas.toDataURL();
}

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
