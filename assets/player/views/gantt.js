// Work on devices and workers over time; modelled intervals are hatched, measured ones are solid.

import { seconds } from "../codec.js";
import { el, set, svg } from "../dom.js";

const ROW = 26, LEFT = 96, WIDE = 720;

export class Gantt {
  static title = "Devices and workers";
  static group = "lanes";

  load(run, dom) {
    this.run = run;
    this.picture = svg("svg", { class: "dx-gantt", role: "img", "aria-label": "Work over time" });
    this.foot = el("p", { class: "dx-readout" });
    dom.append(el("div", { class: "dx-scroll" }, this.picture), this.foot);
    this.grow();
  }

  grow() {
    const work = this.run.steps.flatMap((step) => (step.lanes ?? []).map((interval) => ({ ...interval, step: step.index })));
    const lanes = [...new Set(work.map((w) => w.lane))], end = Math.max(...work.map((w) => w.end), 1e-9), x = (s) => LEFT + (s / end) * (WIDE - LEFT);
    set(this.picture, { viewBox: `0 0 ${WIDE} ${lanes.length * ROW}`, width: WIDE, height: lanes.length * ROW });
    this.bars = work.map((w) => svg("rect", { x: x(w.start), y: lanes.indexOf(w.lane) * ROW + 4, width: Math.max(1, x(w.end) - x(w.start)), height: ROW - 8, rx: 3, class: w.measured === false ? "dx-modelled" : "dx-measured" },
      svg("title", {}, `${w.lane}: ${w.label ?? ""} ${seconds(w.start)} to ${seconds(w.end)}, ${w.measured === false ? "modelled" : "measured"}`)));
    this.work = work;
    this.picture.replaceChildren(...lanes.map((lane, i) => svg("text", { x: 0, y: i * ROW + 17 }, lane.slice(0, 14))), ...this.bars);
    this.foot.textContent = `0 to ${seconds(end)}; solid: measured, outlined: modelled`;
  }

  show(t) {
    this.bars.forEach((bar, i) => (bar.style.opacity = this.work[i].step < t - 1 ? 0.55 : this.work[i].step < t ? 1 : 0.07));
  }

  describe(t) {
    const work = this.run.steps[t - 1]?.lanes ?? [];
    return work.length ? `Work on ${[...new Set(work.map((w) => w.lane))].join(", ")}.` : "";
  }
}
