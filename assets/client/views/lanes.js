// Heat strips: steps from left to right, positions from top to bottom, one strip for the chosen score; commits are
// marked on it.

import { unpack } from "../player/codec.js";
import { along, el, set, setText, timeline } from "../player/dom.js";
import { scoreControls } from "../player/sliding.js";
import { levelOf, ramp, rgbOf } from "../player/theme.js";
import { number, tr } from "../player/words.js";

export const view = { title: "Scores over steps", place: 170, needs: ["scores+growing"] };

export class Lanes {
  load(run, dom, context) {
    Object.assign(this, { run, context });
    this.controls = el("div", "dx-controls");
    this.canvas = el("canvas", { class: "dx-strip", role: "img", "aria-label": tr`Scores, steps by positions` });
    this.line = timeline(run, context, this.canvas);
    set(this.line.node, {
      onpointermove: (event) => this.#read(event),
      onpointerleave: () => setText(this.readout, this.hint),
    });
    this.readout = el("p", "dx-readout");
    this.ticks = el("div", "dx-ticks", el("span", {}, tr`step 1`), el("span", {}, ""));
    dom.append(this.controls, this.line.node, this.ticks, this.readout);
    this.grow();
  }

  grow() {
    const { run, context } = this,
      names = [...run.lanes.keys()];
    this.name = names.includes(context.lane) ? context.lane : names[0];
    if (names.length + this.name !== this.known) {
      this.known = names.length + this.name;
      const { lo, hi, unit } = run.lanes.get(this.name),
        scale = [number(lo), el("i", "dx-ramp"), `${number(hi)} ${unit}`];
      this.controls.replaceChildren(...scoreControls(run, context, { label: tr`Score`, name: this.name, scale }));
      this.hint = tr`Point at the strip to read a value; click to go to that step.`;
      setText(this.readout, this.hint);
    }
    this.#draw();
  }

  #draw() {
    const { run, name, canvas, context } = this,
      mode = context.mode();
    const steps = run.length,
      height = Math.max(1, run.widest);
    canvas.width = steps;
    canvas.height = height;
    canvas.style.height = `${Math.min(Math.max(height * 3, 72), 220)}px`;
    const pen = canvas.getContext("2d"),
      image = pen.createImageData(steps, height),
      pixels = new Uint32Array(image.data.buffer);
    const pack = ([r, g, b]) => (255 << 24) | (b << 16) | (g << 8) | r;
    const colours = ramp(context.theme, mode).map((level) => pack(level.rgb)),
      written = pack(rgbOf(context.theme.states.new[mode].fill));
    for (let step = 0; step < steps; step++) {
      const lane = run.lane(step, name);
      if (lane)
        unpack(lane.values).values.forEach((value, i) => {
          const level = levelOf(run.level(name, value));
          if (level >= 0 && lane.start + i < height) pixels[(lane.start + i) * steps + step] = colours[level];
        });
      for (const position of run.steps[step].commits?.positions ?? [])
        if (position < height) pixels[position * steps + step] = written;
    }
    pen.putImageData(image, 0, 0);
    setText(this.ticks.lastChild, tr`step ${steps}`);
  }

  #read(event) {
    const { run, name } = this,
      box = this.canvas.getBoundingClientRect();
    const step = Math.min(Math.floor(along(this.line.node, event) * run.length), run.length - 1);
    const position = Math.min(Math.floor(((event.clientY - box.top) / box.height) * run.widest), run.widest - 1);
    const value =
      step < this.t ? number(run.score(step, name, position), run.lanes.get(name).unit) : tr`not played yet`;
    setText(this.readout, tr`step ${step + 1}, position ${position}: ${value}`);
  }

  relook() {
    this.grow();
  }

  show(t) {
    this.t = t;
    this.line.show(t);
  }
}
