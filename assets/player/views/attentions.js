// What one token reads of the cache under several attentions, as bars that grow with the text, and below each the
// milliseconds that its attention was measured to take. Facts "kv_bytes_NAME", "operations_NAME", "copies"; tracks
// NAME.

import { bytes, number, seconds } from "../codec.js";
import { el, frame, pool, set, setText, svg } from "../dom.js";
import { OPTIONS } from "../theme.js";
import { tr } from "../words.js";

export const view = { name: "Attentions", title: "Cache read by attention", place: 124, needs: ["intervals.part"] };

const WIDE = 720,
  LEFT = 56,
  RIGHT = 240,
  ROW = 58,
  BYTES = "kv_bytes_";

const sum = (list) => list.reduce((total, value) => total + value, 0),
  median = (list) => [...list].sort((a, b) => a - b)[list.length >> 1] ?? null;

/** By attention, the largest reader first: bytes of the cache at step t and at the end, operations for a byte, seconds
 * of attention in the step and in the middle step so far. */
export function readers(steps, t) {
  const of = (i) => steps[i]?.facts ?? {},
    names = Object.keys(of(0))
      .filter((key) => key.startsWith(BYTES))
      .map((key) => key.slice(BYTES.length)),
    took = (step, name) =>
      sum(
        (step.intervals ?? [])
          .filter(({ track, about }) => track === name.toUpperCase() && about?.part === "attention")
          .map(({ start, end }) => end - start),
      );
  return names
    .map((name) => {
      const now = of(t - 1)[BYTES + name] ?? 0,
        times = steps.slice(0, t).map((step) => took(step, name));
      return {
        name: name.toUpperCase(),
        bytes: now,
        most: of(steps.length - 1)[BYTES + name] ?? now,
        intensity: now ? of(t - 1)[`operations_${name}`] / now : 0,
        took: times.at(-1) ?? null,
        middle: median(times),
      };
    })
    .sort((a, b) => b.most - a.most);
}

export class Attentions {
  load(run, dom, context) {
    Object.assign(this, { run, dom, context });
    this.say = el("p", "dx-readout");
    this.rows = svg("g");
    this.picture = svg("svg", { class: "dx-tree", role: "img" }, this.rows);
    const box = (style) => el("i", { class: "dx-swatch", style });
    dom.append(
      this.say,
      el("div", { class: "dx-scroll", tabindex: 0, "aria-label": tr`Cache read by attention` }, this.picture),
      el(
        "div",
        "dx-legend",
        el("span", {}, box("background:var(--option0-fill)"), ` ${tr`bytes of keys and values that a token reads`}`),
        el("span", {}, box("background:var(--text);height:5px"), ` ${tr`measured: attention, middle of all steps`}`),
      ),
    );
    this.grow();
  }

  grow() {
    const known = this.run.steps.some(({ facts }) => Object.keys(facts ?? {}).some((key) => key.startsWith(BYTES)));
    if (this.dom.parentElement) this.dom.parentElement.hidden = this.run.length > 0 && !known;
  }

  show(t, hurry) {
    this.t = t;
    if (hurry) return;
    const all = readers(this.run.steps, t),
      most = Math.max(1, ...all.map((one) => one.most)),
      slow = Math.max(1e-9, ...all.map(({ middle }) => middle ?? 0)),
      room = WIDE - LEFT - RIGHT;
    frame(this.picture, WIDE, Math.max(1, all.length * ROW));
    set(this.picture, { "aria-label": this.describe(t) });
    setText(this.say, this.describe(t));
    pool(this.rows, all.length, () =>
      svg(
        "g",
        {},
        svg("text", { x: 0, y: 22, style: "--ink:var(--text);font-weight:700" }),
        svg("rect", { x: LEFT, y: 6, height: 24, rx: 2 }),
        svg("rect", { x: LEFT, y: 6, height: 24, rx: 2 }),
        svg("rect", { x: LEFT, y: 34, height: 5 }),
        svg("text", { y: 22, class: "dx-small", style: "--ink:var(--text)" }),
        svg("text", { y: 40, class: "dx-small", style: "--ink:var(--text)" }),
      ),
    ).forEach((group, i) => {
      const one = all[i],
        [name, end, bar, time, said, lasted] = group.childNodes,
        wide = (one.bytes / most) * room,
        long = ((one.middle ?? 0) / slow) * room;
      set(group, { transform: `translate(0,${i * ROW})` });
      setText(name, one.name);
      set(end, { width: (one.most / most) * room });
      end.style.cssText = "fill:none;stroke:var(--line);stroke-dasharray:3 3";
      set(bar, { width: wide });
      bar.style.cssText = `fill:var(--option${i % OPTIONS}-fill);stroke:none`;
      set(time, { width: long });
      time.style.cssText = "fill:var(--text);stroke:none;opacity:.75";
      set(said, { x: LEFT + (one.most / most) * room + 8 });
      setText(said, t ? tr`${bytes(one.bytes)}, ${number(one.intensity)} operations a byte` : "");
      set(lasted, { x: LEFT + long + 8 });
      setText(lasted, one.middle === null ? "" : tr`${seconds(one.middle)} (this step ${seconds(one.took)})`);
    });
  }

  describe(t) {
    const all = readers(this.run.steps, t);
    if (!t || !all.length) return t ? tr`No cache was counted in this step.` : tr`Before the first step.`;
    const [first, last] = [all[0], all.at(-1)],
      { context, copies } = this.run.steps[t - 1]?.facts ?? {};
    return tr`After ${context} tokens ${last.name} reads ${bytes(last.bytes)} and ${first.name} \
${bytes(first.bytes)}, ${number(first.bytes / last.bytes)} times as much; the times are those of ${copies} copies \
of the text.`;
  }
}
