// All tiles of all heads on one line, cut into equal pieces; below, three ways to share them out, on one scale.

import { el, set, setText } from "../player/dom.js";
import { comeIn, option, render, StepPicture } from "../player/drawing.js";
import { Dial, formula, size, unknown } from "../player/sliding.js";
import { percent, tr, translated } from "../player/words.js";
import { boxOf, linesOf, modelled, ORDER, ways, wordOf } from "./tiles.js";

export const view = { title: "Tiles by worker", place: 83, needs: ["tiling"] };

const HIGH = 92, // of a chart with many workers
  LINE = 24, // of the line of all tiles
  TITLE = 22,
  DRAWN = 400; // tiles that are told apart

const FORMULA = tr`A tile costs 1; a launch and a merge nothing. T tiles in all on W workers: cut evenly they take \
ceil(T / W). One per head: the tiles of a head in as many waves as heads need. Fixed split: each \
head in s equal pieces, s the fewest that fill the last wave at least 0.85 times as well as the best \
number does.`;
const fill = (head) => option(head - 1),
  digits = (value) => Number(value.toPrecision(4)).toLocaleString("en");

export class Workers extends StepPicture {
  layers = ["cuts", "charts"];
  none = tr`No tiles in this step.`;
  head = 0;

  dials = {
    context: this.#dial("context", tr`Context`, (n) => tr`${size(n)} tokens`),
    heads: this.#dial("heads", tr`Heads`),
    slots: this.#dial("slots", tr`Workers`),
  };
  back = el("button", { onclick: () => this.#move() }, tr`as recorded`);
  note = el("span");
  row = this.below(el("p", "dx-sliding", ...Object.values(this.dials).map(({ dom }) => dom), this.back, this.note));
  formula = this.below(formula(FORMULA));
  keys = this.below(el("div", "dx-legend"));
  list = this.below(el("ol", { style: "margin:6px 0;padding-inline-start:22px;font-size:13px" }));

  #move(moved) {
    this.moved = moved;
    this.show(this.t);
  }

  #dial(moved, label, text = String) {
    return new Dial(label, [0, 1, 1], 0, 1, text, () => this.#move(moved));
  }

  grow() {
    this.at = this.run.steps.map((step) => ways(step.intervals));
    const heads = Math.max(0, ...this.at.flatMap((all) => all.flatMap(({ pieces }) => pieces.map(({ head }) => head)))),
      keys = Math.min(heads, 32);
    const pick = (head) => {
      this.head = this.head === head ? 0 : head;
      this.show(this.t);
    };
    if (keys > this.keys.children.length)
      this.keys.replaceChildren(
        ...Array.from({ length: keys }, (_, i) => {
          const style = `border-inline-start:8px solid ${fill(i + 1)}`;
          return el("button", { class: "dx-toggle", style, onclick: () => pick(i + 1) }, tr`head ${i + 1}`);
        }),
      );
    this.#sizes(this.run.length);
  }

  /** Where the method was asked about sizes: here, or in the last step with the same ones. */
  get #step() {
    return 1 + this.run.figures.stops.slice(0, this.t).findLastIndex((one) => one?.tiling);
  }

  /** The sliders stand where the run does, but for one that a person moved. */
  #sizes(t) {
    const recorded = this.run.steps[t - 1]?.tiling ?? {},
      asked = this.run.figures.stops[this.#step - 1]?.tiling;
    setText(this.note, asked ? "" : unknown(this.run));
    for (const [name, dial] of Object.entries(this.dials)) {
      dial.over(asked?.[name].stops ?? []);
      dial.set((name === this.moved ? null : recorded[name]) ?? dial.value);
    }
  }

  told(step) {
    const all = ways(step.intervals);
    return all.length ? all : null;
  }

  /** The ways that are drawn: the step's, or with another size of what was moved. */
  #ways() {
    const { moved, run } = this,
      value = this.dials[moved]?.value,
      { context, heads, slots } = { ...run.steps[this.t - 1].tiling, [moved]: value },
      plans = moved && run.asked(this.#step, "tiling", moved, value);
    if (!plans) return { all: this.at[this.t - 1] ?? [], slots };
    const tiles = plans[0][1].reduce((sum, n) => sum + n, 0);
    return { all: modelled(plans, tiles / heads), slots, n: context };
  }

  also() {
    this.back.disabled = !this.moved;
    this.#sizes(this.t);
    [...this.keys.children].forEach((button, i) => set(button, { "aria-pressed": String(i + 1 === this.head) }));
    const way = (this.at[this.t - 1] ?? []).find(({ done }) => done),
      lines = this.head && way ? linesOf(way.pieces.filter(({ head }) => head === this.head)) : [];
    render(this.list, lines, (line) => ["li", {}, line]);
  }

  draw(_ways, _step, next) {
    const { all, slots, n } = this.#ways(),
      sorted = ORDER.flatMap((name) => all.find((way) => way.name === name) ?? []),
      row = Math.max(0.7, Math.min(12, HIGH / slots)),
      high = slots * row,
      labels = [],
      most = Math.max(1, ...sorted.map(({ long }) => long)),
      slim = this.width < 760,
      x = (time) => (time / most) * (this.width - 4),
      y = (i) => TITLE + LINE + 30 + i * (high + TITLE + 12),
      names = {
        lean: slim ? tr`② stacked` : tr`② the pieces stacked, one worker each (stream-K)`,
        "flash-decoding": slim ? tr`fixed split` : tr`instead: every head cut in the same way (fixed split)`,
        plain: slim ? tr`one worker per head` : tr`instead: one worker per head`,
      };
    const line = sorted.find(({ name }) => name === "lean");
    if (line) this.#line(line, labels, slim, n);
    const charts = render(this.charts, sorted, (way, i) => {
      const { name, long, tiles, merges, done } = way,
        share = percent(tiles / (slots * long)),
        how = done && !this.moved && !slim ? tr`, carried out` : "",
        units = slim
          ? tr`${digits(long)} long, ${share} busy`
          : tr`${digits(long)} tiles long, ${share} busy, ${merges} merges (lines)`;
      labels.push([0, y(i) + 14, "start", tr`${names[name]}: ${units}${how}`, true]);
      return [{ transform: `translate(0,${y(i) + TITLE})` }, ...this.#chart(way, { row, x, high })];
    });
    this.frame(y(sorted.length), labels);
    const lean = sorted.indexOf(line);
    if (next && line)
      line.pieces.forEach((piece, i) => {
        const dx = this.#place(piece, line)[0] - x(piece.start),
          dy = (piece.worker - 1) * row + y(lean) - TITLE + 4;
        comeIn([charts[lean].childNodes[1].childNodes[i]], { transform: `translate(${dx}px,${-dy}px)` });
      });
  }

  /** Where a piece is on the line of all tiles, which has the width of the drawing. */
  #place({ head, first, last }, { pieces, tiles }) {
    const t = Math.max(...pieces.map((one) => one.last)),
      wide = this.width - 4;
    return [(((head - 1) * t + first - 1) / tiles) * wide, (((head - 1) * t + last) / tiles) * wide];
  }

  #line(way, labels, slim, n) {
    const { pieces, tiles, workers } = way,
      sizes = n ? tr`modelled: ${size(n)}, ` : "",
      title = slim
        ? tr`① ${sizes}${digits(tiles)} tiles, cut`
        : tr`① ${sizes}the ${digits(tiles)} tiles of all heads (colours) on one line, cut into ${workers} equal \
pieces`;
    labels.push([0, 14, "start", title, true]);
    render(this.cuts, pieces, (piece) => {
      const [from, to] = this.#place(piece, way),
        begins = piece.start === 0,
        d = boxOf(piece, from, to, TITLE + 4, LINE, tiles <= DRAWN),
        cut = begins ? `M${Math.max(from, 1)},${TITLE - 2}v${LINE + 12}` : "";
      if (begins && (this.width - 4) / workers > 26)
        labels.push([from + 5, TITLE + LINE + 18, "start", String(piece.worker)]);
      return [
        {},
        ["path", { d, style: `fill:${fill(piece.head)};stroke:var(--panel);stroke-width:1;opacity:1` }],
        ["path", { d: cut, style: "fill:none;opacity:1;stroke:var(--text);stroke-width:3" }],
      ];
    });
  }

  /** One way: the time of all workers, their pieces, and a line from each merged piece to the one it is merged into. */
  #chart({ pieces, long, tiles }, { row, x, high }) {
    const hosts = new Map(pieces.flatMap((p) => (p.first === 1 ? [[p.head, p]] : []))),
      ends = (head) => Math.max(...pieces.filter((p) => p.head === head).map(({ end }) => end)),
      y = (worker) => (worker - 0.5) * row,
      tall = Math.max(0.5, row - (row > 4 ? 1.5 : 0.2)),
      hidden = (head) => this.head && this.head !== head;
    const bars = pieces.map((piece) => {
      const { worker, head, start, end } = piece,
        d = boxOf(piece, x(start), x(end), (worker - 1) * row, tall, tiles <= DRAWN && row > 4),
        look = `stroke-width:${row > 4 ? 1 : 0};opacity:${hidden(head) ? 0.2 : 1}`;
      return ["path", { d, style: `fill:${fill(head)};stroke:var(--panel);${look}` }, ["title", {}, wordOf(piece)]];
    });
    const lines = pieces
        .filter(({ first, head }) => first > 1 && hosts.has(head) && !hidden(head))
        .map((p) => `M${x(p.end)},${y(p.worker)}L${x(ends(p.head))},${y(hosts.get(p.head).worker)}`),
      thick = `stroke-width:${this.head ? 1.6 : 0.9};opacity:${row > 4 ? 0.7 : 0.2}`,
      ground = "fill:var(--muted);opacity:.16;stroke:none";
    return [
      ["rect", { x: 0, y: 0, width: x(long), height: high, style: ground }],
      ["g", {}, ...bars],
      ["path", { d: lines.join(""), style: `stroke:var(--text);fill:none;${thick}` }],
    ];
  }

  sentence(all, { tiling }) {
    const lengths = all.map(({ name, long }) => `${translated(name)} ${digits(long)}`).join(", ");
    return tr`${digits(all[0].tiles)} tiles for ${tiling.slots} workers. Length in tile units, \
modelled: ${lengths}.`;
  }
}
