// Named numbers of the method, one small curve each, with the value at the cursor.

import { curve, el, pool, set, setText, svg, timeline } from "../player/dom.js";
import { number, tr } from "../player/words.js";

export const view = { title: "Numbers of the method, as recorded", place: 180, needs: ["facts"] };

const H = 36;

export class Facts {
  load(run, dom, context) {
    Object.assign(this, { run, lines: [] });
    this.box = el("div", "dx-multiples");
    this.make = () => {
      const path = svg("path", "dx-smooth"),
        picture = svg("svg", { preserveAspectRatio: "none", "aria-hidden": "true" }, path);
      const line = timeline(run, context, picture),
        name = el("span"),
        value = el("strong"),
        range = el("small");
      this.lines.push({ path, picture, line, name, value, range });
      return el("div", "dx-fact", name, value, line.node, range);
    };
    dom.append(this.box);
    this.grow();
  }

  grow() {
    const { run } = this;
    this.names = [...new Set(run.steps.flatMap((step) => Object.keys(step.facts ?? {})))];
    pool(this.box, this.names.length, this.make);
    this.names.forEach((name, i) => {
      const values = run.steps.map((step) => step.facts?.[name] ?? null),
        some = values.filter((v) => v !== null);
      const lo = Math.min(...some),
        hi = Math.max(...some),
        y = (v) => H - 3 - ((v - lo) / (hi - lo || 1)) * (H - 6);
      set(this.lines[i].picture, { viewBox: `0 0 ${run.length} ${H}` });
      set(this.lines[i].path, { d: curve(values, y) });
      setText(this.lines[i].name, name.replaceAll("_", " "));
      setText(this.lines[i].range, tr`${number(lo)} to ${number(hi)}`);
    });
  }

  show(t, hurry) {
    this.names.forEach((name, i) => {
      this.lines[i].line.show(t);
      if (!hurry) setText(this.lines[i].value, number(this.run.steps[t - 1]?.facts?.[name]));
    });
  }
}
