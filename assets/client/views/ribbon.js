// Which option ran at each step, and the quantity that decided, with the threshold it was compared with.

import { curve, el, set, setText, svg, swatch, timeline } from "../player/dom.js";
import { number, tr, translated } from "../player/words.js";

export const view = { title: "Decision at each step", place: 150, needs: ["choice"] };

const H = 110,
  BAND = 18, // units of the drawing; x runs over steps
  STEPS = 44; // where there are more options than colours

/** The threshold of each step, level over the step that it held in: [{threshold}] to a path. */
export function stairs(choices, y) {
  let path = "",
    open = false;
  choices.forEach((choice, i) => {
    const at = choice?.threshold ?? null;
    if (at !== null) path += `${open ? `V${y(at)}` : `M${i},${y(at)}`}H${i + 1}`;
    open = at !== null;
  });
  return path;
}

export class Ribbon {
  load(run, dom, context) {
    this.run = run;
    const look = { class: "dx-ribbon", preserveAspectRatio: "none", role: "img" };
    this.picture = svg("svg", { ...look, "aria-label": tr`Choices over steps` });
    this.line = timeline(run, context, this.picture);
    this.say = el("p", "dx-readout");
    this.legend = el("div", "dx-legend");
    dom.append(this.say, this.line.node, this.legend);
    this.grow();
  }

  grow() {
    const { run, picture } = this,
      choices = run.steps.map((step) => step.choice ?? null),
      known = choices.filter(Boolean);
    this.options = [...new Set(known.flatMap((choice) => [...choice.options, choice.chosen]))];
    this.band = this.options.length > 4 ? STEPS : BAND;
    const numbers = known.flatMap((c) => [c.value, c.raw, c.threshold]).filter((v) => v != null),
      lo = Math.min(...numbers),
      hi = Math.max(...numbers),
      y = (v) => 8 + (1 - (v - lo) / (hi - lo || 1)) * (H - this.band - 20);
    const stretches = [];
    choices.forEach((choice, i) => {
      if (!choice) return;
      const last = stretches.at(-1);
      if (last?.chosen === choice.chosen && last.end === i) last.end = i + 1;
      else stretches.push({ chosen: choice.chosen, start: i, end: i + 1 });
    });
    const path = (kind, d, ...title) => svg("path", { class: kind, d }, ...title),
      course = (name) => choices.map((c) => c?.[name]),
      away = (c, i) => tr`after step ${i + 1}: away from ${translated(c.chosen)}`;
    const key = (kind, name) =>
      el("span", {}, svg("svg", { class: "dx-key", viewBox: "0 0 22 8" }, path(kind, "M0,4H22")), name);
    set(picture, { viewBox: `0 0 ${run.length} ${H}` });
    picture.replaceChildren(
      ...stretches.map(({ chosen, start, end }) => {
        const step = (this.options.indexOf(chosen) + 1) / this.options.length, // more options than colours
          height = this.options.length > 4 ? this.band * step : this.band,
          box = { x: start, y: H - height, width: end - start, height, style: `fill:${this.#colour(chosen)}` };
        return svg("rect", box, svg("title", {}, tr`${translated(chosen)}: steps ${start + 1} to ${end}`));
      }),
      ...choices.flatMap((c, i) =>
        c?.switched ? path("dx-switch", `M${i + 1},0V${H}`, svg("title", {}, away(c, i))) : [],
      ),
      path("dx-threshold", stairs(choices, y)),
      path("dx-raw", curve(course("raw"), y)),
      path("dx-smooth", curve(course("value"), y)),
    );
    this.legend.replaceChildren(
      ...this.options.map((option) => swatch(`background:${this.#colour(option)}`, translated(option))),
      key("dx-smooth", translated(known[0]?.quantity ?? "value")),
      key("dx-raw", tr`raw reading`),
      key("dx-threshold", tr`threshold`),
      key("dx-switch", tr`switch`),
    );
  }

  /** There are four colours; more options than that are shades between two of them, in their order. */
  #colour(option) {
    const i = this.options.indexOf(option),
      last = this.options.length - 1;
    if (last < 4) return `var(--option${i}-fill)`;
    return `color-mix(in oklab, var(--option1-fill) ${Math.round((100 * i) / last)}%, var(--option0-fill))`;
  }

  show(t) {
    this.line.show(t);
    setText(this.say, this.describe(t) || tr`No choice at this step.`);
  }

  describe(t) {
    const c = this.run.steps[t - 1]?.choice;
    if (!c) return "";
    const raw = c.raw == null ? "" : tr` (raw ${number(c.raw)})`,
      after = c.switched ? tr`; switches after this step` : "",
      sides = tr`${translated(c.quantity)} ${number(c.value)} against ${number(c.threshold, c.unit)}${raw}`;
    return tr`${translated(c.chosen)} runs; ${sides}${after}${c.detail ? `: ${c.detail}` : ""}.`;
  }
}
