// A plane of bytes across and operations up: attention of published models as rays, and what a price buys on each
// device as a box with its corner on the device's slope; modelled. Beside it the four attentions of this run, their
// bytes counted and their times measured.

import { el } from "../player/dom.js";
import { option, render, StepPicture, stroked } from "../player/drawing.js";
import { Dial, formula, size } from "../player/sliding.js";
import { bytes, number, seconds, tr } from "../player/words.js";
import { DEVICES, fits, MODELS, readers, times } from "./stages.js";

export const view = { title: "Bytes and operations of attention", place: 81, needs: ["readers"] };

const HIGH = 330, // of the plane
  TOP = 44,
  LEFT = 62,
  ROW = 62,
  APART = 1000, // width from which both parts stand side by side
  G = 1e9;

const FORMULA = tr`bytes = L · n · c, operations = L · n · 4 · h · w (n tokens of context, one byte for \
an element of the cache). For a price a device of p dollars an hour works s = 3600 · \
price / (10⁶ · p) seconds on a token: its box is W · s wide and F · s high. \
Projections and feed-forward layers are left out; sizes, devices and prices are \
those of Step-3's report. Whatever the batch, each request reads its own cache.`;
const tokens = (n) => tr`${size(n)} tokens`;
const dollars = (usd) => tr`$${Number(usd.toPrecision(2))} a million tokens`;

export class Attentions extends StepPicture {
  layers = ["boxes", "axes", "rays", "dots", "rows"];
  n = new Dial(tr`Context`, [10, 20, 1], 2, 8192, tokens, () => this.show(this.t));
  price = new Dial(tr`Price`, [-2, 1, 0.05], 10, 0.05, dollars, () => this.show(this.t));
  dials = this.below(el("p", "dx-sliding", this.n.dom, this.price.dom));
  formula = this.below(formula(FORMULA));
  none = tr`No cache was counted in this step.`;

  draw() {
    const { width } = this,
      apart = width >= APART,
      right = apart ? 0.6 * width : width,
      labels = [],
      bottom = this.#plane(right - 16, labels);
    const end = this.#measured(apart ? { left: right + 24, top: 0 } : { left: 4, top: bottom + 12 }, labels);
    this.frame(Math.max(bottom, end), labels);
  }

  #plane(right, labels) {
    const n = this.n.value,
      price = this.price.value,
      boxes = DEVICES.map((device) => ({ ...device, ...times(device, price) })),
      most = (key) => 1.16 * Math.max(...boxes.map((box) => box[key])),
      [wide, tall] = [most("bytes"), most("operations")],
      foot = TOP + HIGH,
      x = (value) => LEFT + (value / wide) * (right - LEFT),
      y = (value) => foot - (value / tall) * HIGH,
      slim = right < 560;
    const title = slim
      ? tr`Box: what a price buys on a device (modelled)`
      : tr`One token's attention as a dot. Box: what the same price buys on a device (modelled)`;
    labels.push(
      [4, 14, "start", title, true],
      [4, 34, "start", tr`↑ operations, in billions`],
      [right, foot + 36, "end", tr`bytes of the cache to read →`],
    );
    render(this.boxes, boxes, (box) => {
      const top = y(box.operations),
        far = x(box.bytes),
        style = "fill:var(--accent);fill-opacity:.07;stroke:var(--muted);stroke-width:1.2";
      return [
        {},
        ["rect", { x: x(0), y: top, width: far - x(0), height: foot - top, style }],
        ["path", { d: `M${x(0)},${y(0)}L${far},${top}`, style: stroked("var(--muted)", 1, "2 4") }],
      ];
    });
    boxes.forEach(({ name, usd, bytes: b, operations }, i) => {
      const top = i < 2 ? y(operations) + 14 : foot - 6, // the corners of the others lie close together
        [at, anchor] = i % 2 ? [x(b) - 5, "end"] : [x(b) + 5, "start"];
      labels.push([at, top, anchor, slim ? name : tr`${name}, $${usd}/h`, "fill:var(--muted)"]);
    });
    const axes = { d: `M${LEFT},${TOP}V${foot}H${right}`, style: stroked("var(--text)", 1.2) };
    render(this.axes, [["path", axes]]);
    for (const part of [0.5, 1]) {
      const [b, o] = [wide, tall].map((end) => Number(((part * end) / 1.16).toPrecision(2)));
      labels.push([x(b), foot + 18, "middle", bytes(b)], [LEFT - 6, y(o) + 4, "end", number(o / G)]);
    }
    const costs = MODELS.map((model) => ({ ...model, ...times(model, n) }));
    render(this.rays, costs, ({ operations, bytes: b }, i) => {
      const far = Math.min(wide / b, tall / operations),
        d = `M${x(0)},${y(0)}L${x(b * far)},${y(operations * far)}`;
      return ["path", { d, style: stroked(option(i), i ? 2 : 4) }];
    });
    render(this.dots, costs, (one, i) => {
      const inside = Math.min(1, wide / one.bytes, tall / one.operations),
        count = boxes.filter((box) => fits(one, box)).length,
        [cx, cy] = [x(one.bytes * inside), y(one.operations * inside)],
        said = slim
          ? tr`${one.name}: ${count} of ${boxes.length}`
          : tr`${one.name} (${one.kind}): in ${count} of ${boxes.length} boxes`,
        long = 7.6 * said.length,
        flip = cx + 13 + long > right;
      const style = `fill:${inside < 1 ? "none" : option(i)};stroke:var(--text);stroke-width:2`,
        name = tr`${one.name}: ${bytes(one.bytes)}, ${number(one.operations / G)} billion operations`,
        halo = "font-weight:700;paint-order:stroke;stroke:var(--panel);stroke-width:4px";
      labels.push(
        flip
          ? [Math.min(Math.max(cx + 10, long + 2), right), cy + 24, "end", said, halo]
          : [cx + 13, cy + 5, "start", said, halo],
      );
      return ["circle", { cx, cy, r: i ? 7 : 9, style }, ["title", {}, name]];
    });
    return foot + 44;
  }

  /** The networks of this run: bars of what they read, and the time that reading took. */
  #measured({ left, top }, labels) {
    const { width, t } = this,
      all = readers(this.run.steps, t),
      most = Math.max(1, ...all.map((one) => one.most)),
      slow = Math.max(1e-9, ...all.map(({ middle }) => middle ?? 0)),
      from = left + 46,
      room = width - from - 4,
      copies = this.run.steps[t - 1]?.readers?.copies;
    labels.push([left, top + 14, "start", tr`This run: four small networks, one text`, true]);
    labels.push([left, top + 34, "start", tr`bar: counted bytes; line: measured, ${copies} copies`]);
    render(this.rows, all, (one, i) => {
      const y = top + TOP + 8 + i * ROW,
        wide = (part, whole) => (part / whole) * room,
        own = one.name === "MFA" ? `fill:${option(0)}` : "fill:var(--muted);opacity:.4",
        [end, bar, time] = [wide(one.most, most), wide(one.bytes, most), wide(one.middle ?? 0, slow)],
        intensity = Number(one.intensity.toPrecision(2)),
        took = one.middle === null ? "" : tr`${seconds(one.middle)}, ${intensity} operations a byte`;
      labels.push(
        [left, y + 16, "start", one.name, true],
        [from + 6, y + 16, "start", bytes(one.bytes)],
        [from, y + 44, "start", took],
      );
      return [
        {},
        ["rect", { x: from, y, width: end, height: 22, style: "fill:none;stroke:var(--line);stroke-dasharray:3 3" }],
        ["rect", { x: from, y, width: bar, height: 22, style: `${own};stroke:none` }],
        ["rect", { x: from, y: y + 24, width: time, height: 5, style: "fill:var(--text);stroke:none;opacity:.75" }],
      ];
    });
    return top + TOP + 8 + all.length * ROW;
  }

  sentence({ copies }, { facts }, t) {
    const all = readers(this.run.steps, t),
      [first, last] = [all[0], all.at(-1)];
    return tr`After ${facts.context} tokens ${last.name} reads ${bytes(last.bytes)} and ${first.name} \
${bytes(first.bytes)}, ${number(first.bytes / last.bytes)} times as much; the times are those of ${copies} copies \
of the text.`;
  }
}
