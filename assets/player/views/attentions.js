// A plane of bytes across and operations up: attention of published models as rays, and what a price buys on each
// device as a box with its corner on the device's slope; modelled. Beside it the four attentions of this run, their
// bytes counted and their times measured.

import { bytes, number, seconds } from "../codec.js";
import { el, pool, set, setText, svg } from "../dom.js";
import { StepPicture } from "../steppicture.js";
import { OPTIONS } from "../theme.js";
import { tr } from "../words.js";
import { DEVICES, fits, MODELS, readers, times } from "./costs.js";
import { Dial, formula, size } from "./dial.js";

export const view = {
  name: "Attentions",
  title: "Bytes and operations of attention",
  place: 81,
  needs: ["readers"],
};

const HIGH = 330, // of the plane
  TOP = 44,
  LEFT = 62,
  ROW = 62,
  APART = 1000, // width from which both parts stand side by side
  G = 1e9;

const line = (colour, width, dash = "none") =>
    `fill:none;opacity:1;stroke:${colour};stroke-width:${width};stroke-dasharray:${dash}`,
  hue = (i, part = "fill") => `var(--option${i % OPTIONS}-${part})`;

export class Attentions extends StepPicture {
  load(run, dom, context) {
    const again = () => this.show(this.t);
    this.context_ = new Dial(tr`Context`, [10, 20, 1], 2, 8192, (n) => tr`${size(n)} tokens`, again);
    this.price = new Dial(
      tr`Price`,
      [-2, 1, 0.05],
      10,
      0.05,
      (usd) => tr`$${Number(usd.toPrecision(2))} a million tokens`,
      again,
    );
    this.price.set(0.05);
    const fold = formula(tr`bytes = L · n · c, operations = L · n · 4 · h · w (n tokens of context, one byte for \
an element of the cache). For a price a device of p dollars an hour works s = 3600 · \
price / (10⁶ · p) seconds on a token: its box is W · s wide and F · s high. \
Projections and feed-forward layers are left out; sizes, devices and prices are \
those of Step-3's report. Whatever the batch, each request reads its own cache.`);
    this.begin(
      run,
      dom,
      context,
      ["boxes", "axes", "rays", "dots", "rows"],
      el("p", "dx-sliding", this.context_.dom, this.price.dom),
      fold,
    );
  }

  draw() {
    const { width } = this,
      apart = width >= APART,
      right = apart ? 0.6 * width : width,
      labels = [],
      bottom = this.#plane(right - 16, labels);
    const end = this.#measured(apart ? { left: right + 24, top: 0 } : { left: 4, top: bottom + 12 }, labels);
    this.frame(Math.max(bottom, end));
    this.label(labels);
    [...this.words.childNodes].forEach((text, i) => (text.style.cssText = labels[i]?.[4] ?? ""));
  }

  #plane(right, labels) {
    const n = this.context_.value,
      price = this.price.value,
      boxes = DEVICES.map((device) => ({ ...device, ...times(device, price) })),
      most = (key) => 1.16 * Math.max(...boxes.map((box) => box[key])),
      [wide, tall] = [most("bytes"), most("operations")],
      foot = TOP + HIGH,
      x = (value) => LEFT + (value / wide) * (right - LEFT),
      y = (value) => foot - (value / tall) * HIGH,
      slim = right < 560,
      bold = "font-weight:700";
    labels.push([
      4,
      14,
      "start",
      slim
        ? tr`Box: what a price buys on a device (modelled)`
        : tr`One token's attention as a dot. Box: what the same price buys on a device (modelled)`,
      bold,
    ]);
    labels.push(
      [4, 34, "start", tr`↑ operations, in billions`],
      [right, foot + 36, "end", tr`bytes of the cache to read →`],
    );
    pool(this.boxes, boxes.length, () => svg("g", {}, svg("rect"), svg("path"))).forEach((group, i) => {
      const box = boxes[i],
        [area, slope] = group.childNodes;
      set(area, { x: x(0), y: y(box.operations), width: x(box.bytes) - x(0), height: foot - y(box.operations) });
      area.style.cssText = `fill:var(--accent);fill-opacity:.07;stroke:var(--muted);stroke-width:1.2`;
      set(slope, { d: `M${x(0)},${y(0)}L${x(box.bytes)},${y(box.operations)}` });
      slope.style.cssText = line("var(--muted)", 1, "2 4");
    });
    boxes.forEach(({ name, usd, bytes: b, operations }, i) => {
      const high = i < 2, // the corners of the others lie close together
        inner = i % 2;
      labels.push([
        x(b) + (inner ? -5 : 5),
        high ? y(operations) + 14 : foot - 6,
        inner ? "end" : "start",
        slim ? name : tr`${name}, $${usd}/h`,
        "fill:var(--muted)",
      ]);
    });
    const ticks = [0.5, 1];
    pool(this.axes, 1, () => svg("path")).forEach((path) => {
      set(path, { d: `M${LEFT},${TOP}V${foot}H${right}` });
      path.style.cssText = line("var(--text)", 1.2);
    });
    for (const part of ticks) {
      const [b, o] = [wide, tall].map((end) => Number(((part * end) / 1.16).toPrecision(2)));
      labels.push([x(b), foot + 18, "middle", bytes(b)], [LEFT - 6, y(o) + 4, "end", number(o / G)]);
    }
    const costs = MODELS.map((model) => ({ ...model, ...times(model, n) }));
    pool(this.rays, costs.length, () => svg("path")).forEach((ray, i) => {
      const { operations, bytes: b } = costs[i],
        far = Math.min(wide / b, tall / operations);
      set(ray, { d: `M${x(0)},${y(0)}L${x(b * far)},${y(operations * far)}` });
      ray.style.cssText = line(hue(i), i ? 2 : 4);
    });
    pool(this.dots, costs.length, () => svg("circle", {}, svg("title"))).forEach((dot, i) => {
      const one = costs[i],
        inside = Math.min(1, wide / one.bytes, tall / one.operations),
        count = boxes.filter((box) => fits(one, box)).length,
        [cx, cy] = [x(one.bytes * inside), y(one.operations * inside)],
        said = slim
          ? tr`${one.name}: ${count} of ${boxes.length}`
          : tr`${one.name} (${one.kind}): in ${count} of ${boxes.length} boxes`,
        long = 7.6 * said.length,
        flip = cx + 13 + long > right;
      set(dot, { cx, cy, r: i ? 7 : 9 });
      dot.style.cssText = `fill:${inside < 1 ? "none" : hue(i)};stroke:var(--text);stroke-width:2`;
      setText(dot.firstChild, tr`${one.name}: ${bytes(one.bytes)}, ${number(one.operations / G)} billion operations`);
      labels.push([
        flip ? Math.min(Math.max(cx + 10, long + 2), right) : cx + 13,
        cy + (flip ? 24 : 5),
        flip ? "end" : "start",
        said,
        "font-weight:700;paint-order:stroke;stroke:var(--panel);stroke-width:4px",
      ]);
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
    labels.push([left, top + 14, "start", tr`This run: four small networks, one text`, "font-weight:700"]);
    labels.push([left, top + 34, "start", tr`bar: counted bytes; line: measured, ${copies} copies`]);
    pool(this.rows, all.length, () => svg("g", {}, svg("rect"), svg("rect"), svg("rect"))).forEach((group, i) => {
      const one = all[i],
        [end, bar, time] = group.childNodes,
        y = top + TOP + 8 + i * ROW;
      set(end, { x: from, y, width: (one.most / most) * room, height: 22 });
      end.style.cssText = "fill:none;stroke:var(--line);stroke-dasharray:3 3";
      set(bar, { x: from, y, width: (one.bytes / most) * room, height: 22 });
      bar.style.cssText = `${one.name === "MFA" ? `fill:${hue(0)}` : "fill:var(--muted);opacity:.4"};stroke:none`;
      set(time, { x: from, y: y + 24, width: ((one.middle ?? 0) / slow) * room, height: 5 });
      time.style.cssText = "fill:var(--text);stroke:none;opacity:.75";
      labels.push([left, y + 16, "start", one.name, "font-weight:700"]);
      labels.push([from + 6, y + 16, "start", bytes(one.bytes)]);
      labels.push([
        from,
        y + 44,
        "start",
        one.middle === null
          ? ""
          : tr`${seconds(one.middle)}, ${Number(one.intensity.toPrecision(2))} operations a byte`,
      ]);
    });
    return top + TOP + 8 + all.length * ROW;
  }

  describe(t) {
    const all = readers(this.run.steps, t);
    if (!t || !all.length) return t ? tr`No cache was counted in this step.` : tr`Before the first step.`;
    const [first, last] = [all[0], all.at(-1)],
      { readers: told, facts } = this.run.steps[t - 1];
    return tr`After ${facts.context} tokens ${last.name} reads ${bytes(last.bytes)} and ${first.name} \
${bytes(first.bytes)}, ${number(first.bytes / last.bytes)} times as much; the times are those of ${told.copies} copies \
of the text.`;
  }
}
