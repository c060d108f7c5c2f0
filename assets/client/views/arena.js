// Bytes of a step by purpose: an arena with its parts over the steps, and a limit; below it, at this step and
// without the first part, what the arena and all that has such a part take, on one scale.

import { ByteList } from "../player/bytelist.js";
import { bytes } from "../player/codec.js";
import { el, pool, set, setText, svg } from "../player/dom.js";
import { render, write } from "../player/render.js";
import { tr, translated } from "../player/words.js";
import { areas, below, FOOT, fill, HIGH, leftOf, ROW, wideOf } from "./arenalayout.js";

export const view = { title: "Bytes by purpose", place: 129, needs: ["intervals.bytes"] };

const HALF = 0.5, // a first part larger than this share of its column is cut off below
  INK = "--ink:var(--text)";

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

export class Arena {
  load(run, dom, context) {
    Object.assign(this, { run, dom, context });
    this.say = el("p", "dx-readout");
    this.width = 640;
    [this.areas, this.words, this.beside] = [svg("g"), svg("g", { style: INK }), svg("g")];
    this.line = svg("path", { style: "stroke:var(--warn);stroke-width:2;stroke-dasharray:6 4" });
    this.hand = svg("path", { style: "stroke:var(--text)" });
    const layers = [this.areas, this.line, this.hand, this.beside, this.words];
    this.picture = svg("svg", { class: "dx-tree", role: "img", onclick: (event) => this.#go(event) }, ...layers);
    this.list = new ByteList();
    dom.append(this.say, this.picture, el("details", {}, el("summary", {}, tr`All bytes of this step`), this.list.dom));
    this.grow();
  }

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
    this.width = width;
    this.#areas();
    if (this.t !== undefined) this.show(this.t);
  }

  #areas() {
    const { paths, limit } = areas(this);
    pool(this.areas, paths.length, () => svg("path", {}, svg("title"))).forEach((path, i) => {
      set(path, { d: paths[i], style: `fill:${fill(i)};stroke:none` });
      setText(path.firstChild, translated(this.names[i]));
    });
    set(this.line, { d: limit });
  }

  #below(groups) {
    const { width } = this,
      { height, boxes, words } = below(this, groups);
    render(this.beside, boxes, ({ x, w, y: top, name, start, end, own }) => {
      const look = own ? `fill:${fill(this.names.indexOf(name))};` : "fill:none;stroke-dasharray:3 3;",
        said = !own && w > 8 * translated(name).length + 12 ? translated(name) : "";
      return [
        { transform: `translate(${x.toFixed(1)},${top})` },
        ["title", {}, `${translated(name)}: ${bytes(end - start)}`],
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
    this.list.show(groups, (group, name) => (group === this.group ? fill(this.names.indexOf(name)) : "none"));
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
