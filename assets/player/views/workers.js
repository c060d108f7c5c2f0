// Tiles of one step by worker, a chart for each way to share them out; colour is the head, its depth the place in the
// context. Of the way that was carried out a piece says what it found. The worker of a head's first tile merges it. The
// fact slots: how many rows.

import { number } from "../codec.js";
import { el, frame, pool, set, setText, svg } from "../dom.js";
import { OPTIONS } from "../theme.js";
import { tr, translated } from "../words.js";

export const view = { name: "Workers", title: "Tiles by worker", place: 127, needs: ["intervals.head"] };

const WIDE = 700,
  LEFT = 6,
  HIGH = 96, // of a chart with many workers: three of them fit into the box without scrolling
  GAP = 34,
  TILES = 500; // more are drawn as whole pieces

/** The ways of a step with their pieces, tiles counted from 1. Merges are pieces beyond the first of each head. */
export function ways(intervals = []) {
  const found = new Map();
  for (const { about, start, end } of intervals) {
    if (!about?.head) continue;
    const { way, ...piece } = { found: "", ...about, start, end };
    found.set(way, [...(found.get(way) ?? []), piece]);
  }
  return [...found].map(([name, pieces]) => ({
    name,
    pieces,
    long: Math.max(...pieces.map(({ end }) => end)),
    workers: Math.max(...pieces.map(({ worker }) => worker)),
    tiles: pieces.reduce((sum, { start, end }) => sum + end - start, 0),
    merges: pieces.filter(({ first }) => first > 1).length,
    done: pieces.some(({ found: one }) => one),
  }));
}

const fill = (head) => `var(--option${(head - 1) % OPTIONS}-fill)`;

export class Workers {
  load(run, dom, context) {
    Object.assign(this, { run, dom, context, head: 0 });
    this.say = el("p", "dx-readout");
    this.charts = svg("g");
    this.picture = svg("svg", { class: "dx-tree", role: "img", style: `max-width:${WIDE}px` }, this.charts);
    this.keys = el("div", "dx-legend");
    this.list = el("ol", { style: "margin:6px 0;padding-inline-start:22px;font-size:13px" });
    dom.append(
      this.say,
      el("div", { class: "dx-scroll", tabindex: 0, "aria-label": tr`Tiles of this step by worker` }, this.picture),
      this.keys,
      this.list,
    );
    this.grow();
  }

  grow() {
    this.at = this.run.steps.map((step) => ways(step.intervals));
    this.slots = Math.max(
      ...this.at.flat().map(({ workers }) => workers),
      ...this.run.steps.map(({ facts }) => facts?.slots ?? 1),
    );
    const heads = Math.max(0, ...this.at.flat().flatMap(({ pieces }) => pieces.map(({ head }) => head)));
    if (this.dom.parentElement) this.dom.parentElement.hidden = this.run.length > 0 && !heads;
    pool(this.keys, Math.min(heads, 32), () =>
      el("button", { class: "dx-toggle", onclick: (e) => this.#pick(e) }),
    ).forEach((button, i) => {
      button.dataset.head = i + 1;
      button.style.borderInlineStart = `8px solid ${fill(i + 1)}`;
      setText(button, tr`head ${i + 1}`);
    });
  }

  #pick(event) {
    const head = Number(event.currentTarget.dataset.head);
    this.head = this.head === head ? 0 : head;
    this.show(this.t);
  }

  show(t, hurry) {
    this.t = t;
    if (hurry) return;
    const all = this.at[t - 1] ?? [],
      row = Math.max(1.2, Math.min(14, HIGH / this.slots)),
      high = this.slots * row,
      most = Math.max(1, ...all.map(({ long }) => long)),
      place = (time) => LEFT + (time / most) * (WIDE - LEFT - 8);
    setText(this.say, this.describe(t));
    set(this.picture, { "aria-label": this.describe(t) });
    frame(this.picture, WIDE, Math.max(1, all.length * (high + GAP)));
    pool(this.charts, all.length, () =>
      svg("g", {}, svg("text", { class: "dx-small", x: 0, y: 13 }), svg("g")),
    ).forEach((chart, i) => {
      const { name, long, tiles, merges, done } = all[i],
        share = Math.round((100 * tiles) / (this.slots * long)),
        how = done ? `, ${tr`carried out`}` : "",
        [word, body] = chart.childNodes;
      set(chart, { transform: `translate(0,${i * (high + GAP)})` });
      word.style.cssText = `--ink:var(--text);font-weight:${done ? 700 : 400}`;
      setText(word, tr`${translated(name)}: ${number(long)} tiles long, ${share} % busy, ${merges} merges` + how);
      set(body, { transform: "translate(0,20)" });
      this.#chart(body, all[i], row, high, place);
    });
    for (const button of this.keys.children)
      set(button, { "aria-pressed": String(Number(button.dataset.head) === this.head) });
    this.#tell(all.find(({ done }) => done));
  }

  #chart(body, { pieces, tiles, long }, row, high, place) {
    const bars = tiles > TILES ? pieces.map((p) => [p, p.first, p.start, p.end]) : pieces.flatMap(each),
      last = Math.max(...pieces.map((p) => p.last)),
      hosts = new Map(pieces.filter(({ first }) => first === 1).map((p) => [p.head, p])),
      ends = (head) => Math.max(...pieces.filter((p) => p.head === head).map(({ end }) => end)),
      y = (worker) => (worker - 0.5) * row;
    if (body.childNodes.length === 0) body.append(svg("rect"), svg("g"), svg("path"));
    const [ground, marks, arrows] = body.childNodes;
    set(ground, { x: LEFT, y: 0, width: place(long) - LEFT, height: high });
    ground.style.cssText = "fill:var(--unreached-fill);stroke:none";
    pool(marks, bars.length, () => svg("rect", {}, svg("title"))).forEach((bar, i) => {
      const [piece, tile, start, end] = bars[i],
        deep = 35 + Math.round((65 * tile) / last),
        dim = this.head && this.head !== piece.head;
      set(bar, {
        x: place(start) + (start === piece.start ? 0.8 : 0),
        y: (piece.worker - 1) * row,
        width: Math.max(0.5, place(end) - place(start) - (row > 4 ? 1.2 : 0.4)),
        height: Math.max(0.8, row - (row > 4 ? 1 : 0.2)),
      });
      const mixed = `color-mix(in srgb,${fill(piece.head)} ${deep}%,var(--panel,transparent))`;
      bar.style.cssText = `fill:${mixed};stroke:none;opacity:${dim ? 0.2 : 1}`;
      setText(bar.firstChild, this.#word(piece));
    });
    const lines = pieces
      .filter(({ first, head }) => first > 1 && hosts.has(head) && (!this.head || this.head === head))
      .map((p) => `M${place(p.end)},${y(p.worker)}L${place(ends(p.head))},${y(hosts.get(p.head).worker)}`);
    set(arrows, { d: lines.join("") });
    arrows.style.cssText = `stroke:var(--text);stroke-width:${this.head ? 1.6 : 0.9};fill:none;opacity:.7`;
  }

  #word({ worker, head, first, last, found }) {
    const where = tr`head ${head}, tiles ${first} to ${last}: worker ${worker}`;
    return found ? `${where}; ${found}` : where;
  }

  /** The pieces of the chosen head. */
  #tell(way) {
    const own = this.head && way ? way.pieces.filter(({ head }) => head === this.head) : [],
      sorted = own.sort((a, b) => a.first - b.first),
      lines = sorted.map((p, i) => (i ? this.#word(p) : `${this.#word(p)}; ${tr`this worker merges`}`));
    pool(this.list, lines.length, () => el("li")).forEach((line, i) => setText(line, lines[i]));
  }

  describe(t) {
    const all = this.at[t - 1] ?? [];
    if (!all.length) return t ? tr`No tiles in this step.` : tr`Before the first step.`;
    const [first] = all,
      lengths = all.map(({ name, long }) => `${translated(name)} ${number(long)}`).join(", ");
    return tr`${number(first.tiles)} tiles for ${this.slots} workers. Length in tile units, modelled: ${lengths}.`;
  }
}

/** [piece, tile, start, end]. */
function each(piece) {
  const { first, last, start, end } = piece,
    one = (end - start) / (last - first + 1);
  return Array.from({ length: last - first + 1 }, (_, i) => [piece, first + i, start + i * one, start + (i + 1) * one]);
}
