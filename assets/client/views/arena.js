// Bytes of a step by purpose: an arena with its parts over the steps, and a limit; below it, at this step and
// without the first part, what the arena and all that has such a part take, on one scale.

import { byteList } from "../player/bytelist.js";
import { el, set, setText, svg } from "../player/dom.js";
import { Parts, render, write } from "../player/drawing.js";
import { bytes, tr, translated } from "../player/words.js";

export const view = { title: "Bytes by purpose", place: 129, needs: ["intervals.bytes"] };

const HALF = 0.5; // a first part larger than this share of its column is cut off below
export const HIGH = 170;
export const FOOT = HIGH + 18; // of the areas, with their axis
export const ROW = 34;
const LEFT = 122,
  RIGHT = 190, // words beside the areas
  NARROW = 640,
  FILLS = ["option3", "option0", "option1", "unreached", "option2", "option4", "option5", "option6"];
export const fill = (i) => `var(--${FILLS[i % FILLS.length]}-fill)`;

export const leftOf = ({ width }) => (width < NARROW ? 90 : LEFT);
export const wideOf = (one) => one.width - leftOf(one) - (one.width < NARROW ? 8 : RIGHT);
const yOf = ({ base, top }, value) => HIGH - ((Math.max(value, base) - base) / (top - base)) * (HIGH - 8);

/** Columns of a step's intervals in bytes: group -> its parts {name, start, end, measured}; and the limits. */
export function columns(intervals = []) {
  const groups = new Map(),
    limits = [];
  for (const { kind, about, start, end, measured = true } of intervals) {
    if (kind !== "bytes") continue;
    const { group, name, limit } = about;
    if (limit) limits.push(end);
    else groups.set(group, [...(groups.get(group) ?? []), { name, start, end, measured }]);
  }
  return { groups, limits };
}

/** Where the drawing begins: after the first part of the first column if that is most of it. */
export function ground(parts = []) {
  const [first] = parts,
    top = Math.max(0, ...parts.map(({ end }) => end));
  return first && parts.length > 1 && first.end - first.start > HALF * top ? first.end : 0;
}

const LIST = "display:grid;grid-template-columns:repeat(auto-fill,minmax(320px,1fr));gap:2px 28px;font-size:13px";

export class Arena extends Parts {
  say = this.below(el("p", "dx-readout"));
  areas = svg("g");
  line = svg("path", { style: "stroke:var(--warn);stroke-width:2;stroke-dasharray:6 4" });
  hand = svg("path", { style: "stroke:var(--text)" });
  beside = svg("g");
  words = svg("g", { style: "--ink:var(--text)" });
  layers = [this.areas, this.line, this.hand, this.beside, this.words];
  look = { class: "dx-tree", role: "img", onclick: (event) => this.#go(event) };
  picture = this.below(svg("svg", this.look, ...this.layers));
  list = el("div", { style: LIST });
  folded = this.below(el("details", {}, el("summary", {}, tr`All bytes of this step`), this.list));

  #go({ clientX, clientY }) {
    const { left, top } = this.picture.getBoundingClientRect(),
      at = Math.floor(((clientX - left - leftOf(this)) / wideOf(this)) * this.run.length);
    if (clientY - top < FOOT && at >= 0) this.context.seek(Math.min(this.run.length, at + 1));
  }

  grow() {
    const found = this.run.steps.map((step) => columns(step.intervals));
    this.group = found.map(({ groups }) => [...groups.keys()][0]).find(Boolean);
    this.at = found.map(({ groups }) => groups.get(this.group) ?? []);
    this.limits = found.map(({ limits }) => limits[0] ?? null);
    this.base = Math.min(...this.at.filter(({ length }) => length).map(ground), Infinity);
    if (this.base === Infinity) this.base = 0;
    const tops = this.at.flatMap((parts) => parts.map(({ end }) => end)),
      top = Math.max(this.base + 1, ...tops),
      near = this.limits.filter((limit) => limit !== null && limit < this.base + 1.6 * (top - this.base));
    this.top = Math.max(top, ...near) + 0.04 * (top - this.base);
    this.names = [...new Set(this.at.flatMap((parts) => parts.map(({ name }) => name)))];
    this.#areas();
  }

  resize(width) {
    super.resize(width);
    this.#areas();
  }

  #areas() {
    const { paths, limit } = areas(this);
    render(this.areas, paths, (d, i) => [
      "path",
      { d, style: `fill:${fill(i)};stroke:none` },
      ["title", {}, translated(this.names[i])],
    ]);
    set(this.line, { d: limit });
  }

  #below(groups) {
    const { width } = this,
      { height, boxes, words } = below(this, groups);
    render(this.beside, boxes, ({ x, w, y: top, name, start, end, own }) => {
      const look = own ? `fill:${fill(this.names.indexOf(name))};` : "fill:none;stroke-dasharray:3 3;",
        part = translated(name),
        said = !own && w > 8 * part.length + 12 ? part : "";
      return [
        { transform: `translate(${x.toFixed(1)},${top})` },
        ["title", {}, `${part}: ${bytes(end - start)}`],
        ["rect", { width: Math.max(0.5, w - 1), height: ROW - 10, style: `${look}stroke:var(--text)` }],
        ["text", { x: 6, y: 17, style: "fill:var(--text)" }, said],
      ];
    });
    set(this.picture, { viewBox: `0 0 ${width} ${height}`, width, height });
    write(this.words, words);
  }

  show(t, hurry) {
    this.t = t;
    const wide = wideOf(this) / Math.max(1, this.run.length);
    set(this.hand, { d: t ? `M${leftOf(this) + (t - 0.5) * wide},2V${HIGH}` : "" });
    if (hurry) return;
    setText(this.say, this.describe(t));
    set(this.picture, { "aria-label": this.describe(t) });
    const { groups } = columns(this.run.steps[t - 1]?.intervals);
    this.#below(groups);
    const colour = (group, name) => (group === this.group ? fill(this.names.indexOf(name)) : "none");
    render(this.list, byteList(groups, colour));
  }

  describe(t) {
    const { groups, limits } = columns(this.run.steps[t - 1]?.intervals),
      parts = groups.get(this.group);
    if (!parts) return t ? tr`No bytes were counted in this step.` : tr`Before the first step.`;
    const all = parts.at(-1).end,
      cut = this.base ? tr` The first ${bytes(this.base)}, ${translated(parts[0].name)}, are not drawn.` : "",
      share = limits.length
        ? tr` That is ${Number(((100 * all) / limits[0]).toPrecision(3))} % of the budget of ${bytes(limits[0])}.`
        : "";
    return `${tr`${bytes(all)} are held.`}${share}${cut}`;
  }
}

/** Each part over the steps, as a path, and the limit. */
export function areas(one) {
  const { at, base, limits, names, top } = one,
    left = leftOf(one),
    wide = wideOf(one) / Math.max(1, at.length),
    y = (value) => yOf(one, value).toFixed(1),
    paths = names.map((name) =>
      at
        .map((parts, i) => {
          const part = parts.find((other) => other.name === name);
          return part && part.end > base
            ? `M${(left + i * wide).toFixed(1)},${y(part.start)}V${y(part.end)}h${wide.toFixed(1)}V${y(part.start)}Z`
            : "";
        })
        .join(""),
    );
  const limit = limits.map((value, i) =>
    value === null || value > top ? "" : `M${left + i * wide},${y(value)}h${wide.toFixed(1)}`,
  );
  return { paths, limit: limit.join("") };
}

/** [x, y, anchor, text]: ends of the axes, the limit, each part beside its last place. */
function named(one) {
  const { at, base, limits, top, width } = one,
    left = leftOf(one),
    right = left + wideOf(one),
    last = at.findLast((parts) => parts.length) ?? [],
    limit = limits.findLast((value) => value !== null && value <= top),
    words = [
      [left - 8, yOf(one, top) + 12, "end", bytes(top)],
      [left - 8, HIGH, "end", bytes(base)],
      [left, HIGH + 15, "start", tr`step 1`],
      [right, HIGH + 15, "end", tr`step ${at.length}`],
    ];
  if (width < NARROW) return words;
  let above = HIGH + 16;
  for (const { name, start, end } of last) {
    if (end <= base) continue;
    above = Math.min(above - 14, (yOf(one, Math.max(start, base)) + yOf(one, end)) / 2 + 4);
    words.push([right + 8, above, "start", translated(name)]);
  }
  if (limit !== undefined) words.push([right + 8, Math.min(yOf(one, limit) + 4, above - 14), "start", tr`the budget`]);
  return words;
}

/** What all that begins with the arena's first part take beyond it. */
function beyond({ base, group: main }, groups) {
  const first = base ? groups.get(main)?.[0].name : null;
  return [...groups]
    .filter(([, parts]) => parts.length > 1 && (!first || parts[0].name === first))
    .map(([group, parts]) => ({ group, parts: first ? parts.slice(1) : parts, from: first ? parts[0].end : 0 }));
}

/** What stands at one step, below the areas: {height, boxes, words}. */
export function below(one, groups) {
  const { base, width } = one,
    left = leftOf(one),
    narrow = width < NARROW,
    all = beyond(one, groups),
    most = Math.max(1, ...all.map(({ parts, from }) => parts.at(-1).end - from)),
    wide = width - left - (narrow ? 70 : 110),
    y = (i) => FOOT + 30 + i * ROW,
    boxes = all.flatMap(({ group, parts, from }, i) =>
      parts.map((part) => ({
        ...part,
        x: left + ((part.start - from) / most) * wide,
        w: ((part.end - part.start) / most) * wide,
        y: y(i),
        own: group === one.group,
      })),
    );
  const names = all.flatMap(({ group, parts, from }, i) => [
    [left - 8, y(i) + 17, "end", group === one.group ? translated(group) : `○ ${translated(group)}`],
    [left + ((parts.at(-1).end - from) / most) * wide + 6, y(i) + 17, "start", bytes(parts.at(-1).end - from)],
  ]);
  const [head] = groups.get(one.group) ?? [],
    said = head && base ? tr`beyond ${bytes(base)} of ${translated(head.name)}, at this step` : tr`at this step`;
  const words = [...named(one), ...(all.length ? [[narrow ? 0 : left, FOOT + 20, "start", said]] : []), ...names];
  return { height: y(all.length) + 4, boxes, words };
}
