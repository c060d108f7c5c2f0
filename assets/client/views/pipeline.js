// Attention and experts as two rows, each bar a microbatch of a layer, what is pale a wait: taking turns on one
// machine, this step as it was measured, and as the report's event model has it, on one clock; below, at Step-3's own
// size.

import { el, select, setText } from "../player/dom.js";
import { MIDDLE, option, render, StepPicture } from "../player/drawing.js";
import { Dial, formula, size } from "../player/sliding.js";
import { percent, seconds, tr, translated } from "../player/words.js";
import { DEVICES, durations, flow, median, SIDES, step3, turn } from "./stages.js";

export const view = { title: "Attention and FFN on separate workers", place: 82, needs: ["intervals.microbatch"] };

const ROW = 26,
  HEAD = 22,
  PANEL = HEAD + 2 * ROW + 20,
  SHOWN = 4, // layers of the large model that are drawn
  FAR = 1.15, // times as long as modelled: the model does not hold
  NAMES = DEVICES.map(({ name }) => [name, name]);
const FORMULA = tr`Each side and each link takes one microbatch after the other; attention of a layer \
starts when the layer before has returned. For this run: the middle time of its \
parts, and the fastest way to the experts for both ways. At Step-3's size, 16 \
devices a side, b sequences in a microbatch: attention = b / 16 · (max(operations / \
F, bytes / W) + projections / F), experts = max(b / 16 · operations / F, weights / \
(16 · W)), links = b · 7168 bytes out and twice that back over two servers' \
networks.`;

export class Pipeline extends StepPicture {
  layers = ["ground", "bars"];
  none = tr`Nothing was timed in this step.`;

  device = DEVICES[0];
  count = new Dial(tr`Microbatches, modelled`, [1, 6, 1], 0, 3, String, () => this.#set({ moved: true }));
  chosen = select(tr`Device`, NAMES, NAMES[0][0], (chosen) =>
    this.#set({ device: DEVICES.find(({ name }) => name === chosen) }),
  );
  length = new Dial(
    tr`Context`,
    [10, 20, 1],
    2,
    8192,
    (n) => tr`${size(n)} tokens`,
    () => this.#set({}),
  );
  batch = new Dial(
    tr`Batch`,
    [5, 13, 1],
    2,
    2048,
    (n) => tr`${size(n)} sequences in a microbatch`,
    () => this.#set({}),
  );
  row = this.below(el("p", "dx-sliding", this.count.dom, this.chosen, this.length.dom, this.batch.dom));
  formula = this.below(formula(FORMULA));
  all = this.below(el("p", "dx-readout"));

  /** What a person set. */
  #set(change) {
    Object.assign(this, change);
    this.show(this.t);
  }

  grow() {
    this.turns = this.run.steps.map(turn);
    if (!this.moved) this.count.set(durations(this.turns.filter(Boolean)).m || 3);
  }

  told = turn;

  /** The middle step so far: one step says little on a busy machine. */
  also(_turn, step) {
    const { t } = this,
      so = this.turns.slice(0, t).filter(Boolean),
      batch = step?.facts?.batch ?? 1;
    if (!so.length) return setText(this.all, "");
    const long = median(so.map((one) => one.long)),
      rows = Math.round(batch / long).toLocaleString("en"),
      [a, f] = SIDES.map((_, side) => percent(median(so.map(({ busy }) => busy[side])))),
      both = percent(median(so.map((one) => one.both))),
      waited = seconds(median(so.map((one) => one.waited)));
    setText(
      this.all,
      tr`Colour: the microbatch; number: the layer. Median of steps 1 to ${t}: ${seconds(long)}, \
${rows} rows a second, one for each text, ended ones too; attention busy ${a}, feed-forward ${f}, \
both at once ${both}; a microbatch waited ${waited} for the experts.`,
    );
  }

  draw(found, step) {
    const apart = step.facts?.processes === 2,
      own = durations(this.turns.slice(0, this.t).filter(Boolean)),
      m = this.moved ? this.count.value : own.m,
      alone = flow({ ...own, m }, true),
      ours = flow({ ...own, m }),
      slow = apart && m === own.m && found.long > FAR * ours.long,
      verdict = slow ? tr`; this machine's load refutes the model here` : "",
      many = (n) => (n === 1 ? tr`1 microbatch` : tr`${n} microbatches`),
      long = Math.max(found.long, alone.long, ours.long),
      at = step3(this.device, this.length.value, this.batch.value),
      large = flow({ ...at, m }),
      least = flow({ ...at, m, layers: SHOWN }),
      slim = this.width < 760,
      said = (short, whole) => (slim ? short : whole),
      { name } = this.device,
      turns = tr`Taking turns on one machine: one side always waits (modelled)`,
      run = tr`This run: attention and experts apart, ${many(own.m)} in flight (measured)`,
      model = tr`The same apart, ${many(m)}, by the report's event model (modelled${verdict})`,
      real = tr`At Step-3's size on 16 + 16 ${name}, first ${SHOWN} of ${at.layers} layers (modelled): \
a token every ${seconds(large.long)}`,
      measured = said(tr`This run, ${many(own.m)} (measured)`, run);
    this.#panels(
      [
        [said(tr`Taking turns (modelled)`, turns), alone, long],
        [apart ? measured : tr`This run, one process (measured)`, found, long],
        [said(tr`Apart, ${many(m)} (modelled)`, model), ours, long],
        [said(tr`Step-3's size, ${name} (modelled)`, real), { ...least, busy: large.busy }, least.long],
      ],
      slim,
    );
  }

  #panels(panels, slim) {
    const labels = [],
      bars = [],
      grounds = [],
      left = slim ? 96 : 190,
      right = this.width - 12;
    panels.forEach(([title, { parts, start, long, busy }, whole], i) => {
      const top = i * PANEL + (i === 3 ? 12 : 0),
        width = ((right - left) * long) / (whole || 1),
        x = (time) => left + ((time - start) / (whole || 1)) * (right - left);
      labels.push([slim ? 0 : left, top + 15, "start", title, true]);
      SIDES.forEach((side, row) => {
        const y = top + HEAD + row * ROW,
          said = slim ? translated(side) : tr`${translated(side)} ${percent(busy[row])} busy`;
        labels.push([left - 8, y + 17, "end", said]);
        grounds.push({ y, width });
      });
      labels.push([Math.min(x(start + long), right), top + HEAD + 2 * ROW + 13, "end", seconds(long)]);
      for (const part of parts)
        bars.push({ ...part, x: x(part.start), w: x(part.end) - x(part.start), y: top + HEAD + part.side * ROW });
    });
    const ground = { x: left, height: ROW - 4, style: "fill:var(--muted);opacity:.16;stroke:none" };
    render(this.ground, grounds, (box) => ["rect", { ...ground, ...box }]);
    render(this.bars, bars, ({ side, microbatch, layer, x, y, w, start, end }) => {
      const n = microbatch - 1,
        where = tr`microbatch ${microbatch}, layer ${layer}`;
      return [
        { transform: `translate(${x},${y})` },
        ["title", {}, `${translated(SIDES[side])}: ${where}, ${seconds(end - start)}`],
        ["rect", { height: ROW - 4, width: Math.max(w - 0.6, 0.6), style: `fill:${option(n)};stroke:none` }],
        ["text", { ...MIDDLE, y: 16, x: w / 2, style: `fill:${option(n, "text")}` }, w > 16 ? String(layer) : ""],
      ];
    });
    this.frame(panels.length * PANEL + 12, labels);
  }

  sentence(found, { facts }) {
    const { processes, batch } = facts ?? {},
      two = tr`In two processes, which worked at once for ${percent(found.both)} of the time.`,
      how = processes === 2 ? two : tr`In one process: one half after the other.`;
    return `${tr`A step of ${batch} texts took ${seconds(found.long)}, measured.`} ${how}`;
  }
}
