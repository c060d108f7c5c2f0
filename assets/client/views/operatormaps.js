// What a run says of its operators G: the maps after a step, both texts, both times; and the maps as pictures.

import { unpack } from "../player/codec.js";
import { rgbOf } from "../player/theme.js";

export const ROLES = ["target", "reference"]; // the run's decoder, and the one without a cache beside it

const GAP = 2; // pixels between two maps, and once more between two layers

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
