// A whole decode at a glance: steps down, positions across, coloured by a score, what is written marked. A dashed stair
// is the same text one by one.

import { unpack } from "../player/codec.js";
import { el, setText } from "../player/dom.js";
import { scoreControls } from "../player/sliding.js";
import { StepMap } from "../player/stepmap.js";
import { levelOf, ramp } from "../player/theme.js";
import { number, tr } from "../player/words.js";

export const view = { title: "All steps at once", place: 161, needs: ["masked"] };

const NUMBER = 34; // pixels that a number needs

export class Overview extends StepMap {
  load(run, dom, context) {
    this.from = run.prompt.length;
    super.load(run, dom, context);
  }

  grow() {
    const { run, context } = this,
      names = [...run.lanes.keys()];
    this.name = names.includes(context.lane) ? context.lane : run.deciding;
    if (names.length && names.length + this.name !== this.known) {
      this.known = names.length + this.name;
      this.low = el("span");
      this.high = el("span");
      const scale = [this.low, el("i", "dx-ramp"), this.high, run.lanes.get(this.name).unit],
        stair = el("span", "dx-scale", el("i", "dx-swatch dx-stair"), tr`one by one, left to right (derived)`),
        shown = { label: tr`Colour`, name: this.name, scale },
        [choice, ends, written, ...threshold] = scoreControls(run, context, shown);
      this.controls.replaceChildren(choice, ends, ...threshold, written, stair);
    }
    this.lay();
  }

  relook() {
    this.grow();
  }

  lay() {
    const { lo, hi } = this.run.lanes.get(this.name) ?? { lo: 0, hi: 1 };
    this.colours = ramp(this.context.theme, this.context.mode());
    // whole numbers, so that two runs beside each other mostly have the same scale
    this.lo = Math.min(0, Math.floor(lo));
    this.hi = Math.max(1, Math.ceil(hi));
    if (this.low) {
      setText(this.low, number(this.lo));
      setText(this.high, number(this.hi));
    }
    super.lay();
  }

  look() {
    return [this.name, this.lo, this.hi];
  }

  paint(pen, step) {
    const { run, mode, context } = this,
      { states } = context.theme,
      lane = run.lane(step, this.name),
      { positions = [], tokens = [] } = run.steps[step].commits ?? {},
      written = new Set(positions);
    if (lane)
      unpack(lane.values).values.forEach((value, i) => {
        const level = levelOf((value - this.lo) / (this.hi - this.lo)),
          position = lane.start + i;
        if (level < 0 || !this.has(position)) return;
        const { fill, text } = this.colours[Math.min(level, this.colours.length - 1)],
          [x, y, w, h] = this.at(step, position);
        pen.fillStyle = fill;
        pen.fillRect(x, y, w, h);
        if (w < NUMBER || h < 16 || written.has(position)) return;
        pen.fillStyle = text;
        pen.fillText(value > 0 && value < 0.01 ? "<.01" : Number(value.toPrecision(2)), x + w / 2, y + h / 2 + 0.5);
      });
    positions.forEach((position, i) => {
      const gone = tokens[i] < 0 || tokens[i] === run.mask,
        look = states[gone ? "remasked" : "new"];
      if (this.has(position)) this.written(pen, step, position, look[mode], gone ? -1 : tokens[i]);
    });
  }

  over(pen) {
    const { run, columns, context, mode } = this,
      most = Math.min(run.length, columns);
    pen.strokeStyle = context.theme.surface[mode].text;
    pen.setLineDash([4, 3]);
    pen.beginPath();
    for (let step = 0; step < most; step++) {
      const [x, y] = this.at(step, this.from + step);
      pen.lineTo(x + this.cell, y);
      pen.lineTo(x + this.cell, y + this.tall);
    }
    pen.stroke();
    pen.setLineDash([]);
  }

  read(step, position) {
    const value = this.run.score(step, this.name, position),
      unit = this.run.lanes.get(this.name)?.unit ?? "";
    return tr`step ${step + 1}, position ${position}: ${Number.isNaN(value) ? tr`no score` : number(value, unit)}`;
  }

  describe(t) {
    const { run, from } = this,
      places = run.board(t).slice(from, from + this.columns),
      done = places.filter(({ token }) => token !== null).length,
      said = tr`${done} of ${places.length} places are written after ${t} of ${run.length} steps.`,
      limit = run.lanes.get(this.name)?.threshold ?? null;
    return this.name === "entropy" && limit !== null
      ? tr`${said} A place is written once its entropy is at most ${number(limit)} nats, and always the lowest.`
      : said;
  }
}
