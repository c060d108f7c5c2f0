// One step of a pipeline on two sides, attention above, the feed-forward half below: every bar a microbatch of a layer,
// its colour the microbatch; what is left white, a side waited. Facts "processes" and "batch".

import { seconds } from "../codec.js";
import { el, frame, pool, set, setText, svg } from "../dom.js";
import { OPTIONS } from "../theme.js";
import { tr, translated } from "../words.js";

export const view = {
  name: "Pipeline",
  title: "Attention and FFN on separate workers",
  place: 123,
  needs: ["intervals.microbatch"],
};

const WIDE = 760,
  LEFT = 96,
  HIGH = 46,
  AXIS = 20,
  SIDES = ["attention", "feed-forward"];

const median = (list) => [...list].sort((a, b) => a - b)[list.length >> 1];

/** The parts of a step; how long it took from its first to its last, the share of that in which each side worked, and
 * in which both did; how long a microbatch waited for the feed-forward side, in the middle. Null without any. */
export function turn(step) {
  const parts = (step?.intervals ?? [])
    .filter(({ about, track }) => about?.microbatch && SIDES.includes(track))
    .map(({ about, track, start, end }) => ({ side: SIDES.indexOf(track), start, end, ...about }));
  if (!parts.length) return null;
  const start = Math.min(...parts.map((one) => one.start)),
    long = Math.max(...parts.map(({ end }) => end)) - start,
    busy = SIDES.map((_, side) =>
      parts.filter((one) => one.side === side).reduce((sum, one) => sum + one.end - one.start, 0),
    ),
    of = (side) => parts.filter((one) => one.side === side),
    both = of(0).reduce(
      (sum, a) => sum + of(1).reduce((s, b) => s + Math.max(0, Math.min(a.end, b.end) - Math.max(a.start, b.start)), 0),
      0,
    );
  const key = ({ microbatch, layer }) => `${microbatch} ${layer}`,
    left = new Map(of(0).map((one) => [key(one), one.end])),
    waited = median(of(1).map((one) => one.start - left.get(key(one)))) ?? 0;
  return { parts, start, long, busy: busy.map((time) => time / long), both: both / long, waited };
}

const percent = (share) => `${Math.round(100 * share)} %`;

export class Pipeline {
  load(run, dom, context) {
    Object.assign(this, { run, dom, context });
    this.say = el("p", "dx-readout");
    this.ground = svg("g");
    this.bars = svg("g");
    this.ticks = svg("g");
    this.picture = svg("svg", { class: "dx-tree", role: "img" }, this.ground, this.bars, this.ticks);
    this.keys = el("div", "dx-legend");
    this.all = el("p", "dx-readout");
    dom.append(
      this.say,
      el(
        "div",
        { class: "dx-scroll", tabindex: 0, "aria-label": tr`Attention and FFN on separate workers` },
        this.picture,
      ),
      this.keys,
      this.all,
    );
    this.grow();
  }

  grow() {
    this.turns = this.run.steps.map(turn);
    const found = this.turns.filter(Boolean),
      most = Math.max(0, ...found.flatMap(({ parts }) => parts.map(({ microbatch }) => microbatch)));
    if (this.dom.parentElement) this.dom.parentElement.hidden = this.run.length > 0 && !found.length;
    const box = (style) => el("i", { class: "dx-swatch", style });
    this.keys.replaceChildren(
      ...Array.from({ length: most }, (_, j) =>
        el("span", {}, box(`background:var(--option${j % OPTIONS}-fill)`), ` ${tr`microbatch ${j + 1}`}`),
      ),
      el("span", {}, box("background:var(--unreached-fill)"), ` ${tr`waits`}`),
    );
  }

  show(t, hurry) {
    this.t = t;
    if (hurry) return;
    const found = this.turns[t - 1],
      { parts = [], start = 0, long = 1, busy = [] } = found ?? {},
      x = (time) => LEFT + ((time - start) / long) * (WIDE - LEFT - 8);
    frame(this.picture, WIDE, found ? 2 * HIGH + AXIS : 1);
    set(this.picture, { "aria-label": this.describe(t) });
    setText(this.say, this.describe(t));
    pool(this.ground, found ? 2 : 0, () =>
      svg("g", {}, svg("text", { x: 0, y: 18 }), svg("text", { x: 0, y: 34, class: "dx-small" }), svg("rect")),
    ).forEach((group, side) => {
      const [name, share, ground] = group.childNodes;
      set(group, { transform: `translate(0,${side * HIGH})` });
      name.style.cssText = share.style.cssText = "--ink:var(--text)";
      setText(name, translated(SIDES[side]));
      setText(share, tr`busy ${percent(busy[side])}`);
      set(ground, { x: LEFT, y: 4, width: WIDE - LEFT - 8, height: HIGH - 8 });
      ground.style.cssText = "fill:var(--unreached-fill);stroke:none";
    });
    pool(this.bars, parts.length, () => svg("g", {}, svg("title"), svg("rect"), svg("text"))).forEach((group, i) => {
      const { side, start: began, end, microbatch, layer } = parts[i],
        [title, bar, word] = group.childNodes,
        wide = Math.max(1, x(end) - x(began) - 0.6),
        fill = `var(--option${(microbatch - 1) % OPTIONS}-fill)`;
      set(group, { transform: `translate(${x(began)},${side * HIGH + 4})` });
      set(bar, { width: wide, height: HIGH - 8 });
      bar.style.cssText = `fill:${fill};stroke:none`;
      set(word, { x: wide / 2, y: 24, "text-anchor": "middle", class: "dx-small" });
      word.style.fill = fill.replace("-fill", "-text");
      setText(word, wide > 12 ? String(layer) : "");
      const where = tr`microbatch ${microbatch}, layer ${layer}`;
      setText(title, `${translated(SIDES[side])}: ${where}, ${seconds(end - began)}`);
    });
    pool(this.ticks, found ? 2 : 0, () => svg("text", "dx-small")).forEach((text, i) => {
      set(text, { x: i ? WIDE - 8 : LEFT, y: 2 * HIGH + 14, "text-anchor": i ? "end" : "start" });
      text.style.cssText = "--ink:var(--text)";
      setText(text, i ? seconds(long) : "0");
    });
    this.#middle(t);
  }

  /** The middle step so far: one step says little on a busy machine. */
  #middle(t) {
    const so = this.turns.slice(0, t).filter(Boolean),
      batch = this.run.steps[t - 1]?.facts?.batch ?? 1;
    if (!so.length) return setText(this.all, "");
    const long = median(so.map((one) => one.long)),
      rows = Math.round(batch / long),
      [a, f] = SIDES.map((_, side) => percent(median(so.map(({ busy }) => busy[side]))));
    setText(
      this.all,
      tr`Median of steps 1 to ${t}: ${seconds(long)}, ${rows.toLocaleString("en")} rows a second, one for each text, \
ended ones too; attention busy ${a}, feed-forward ${f}, both at once ${percent(median(so.map(({ both }) => both)))}; \
a microbatch waited ${seconds(median(so.map(({ waited }) => waited)))} for the experts.`,
    );
  }

  describe(t) {
    const found = this.turns[t - 1],
      { processes, batch } = this.run.steps[t - 1]?.facts ?? {};
    if (!found) return t ? tr`Nothing was timed in this step.` : tr`Before the first step.`;
    const both = percent(found.both),
      how =
        processes === 2
          ? tr`In two processes, which worked at once for ${both} of the time.`
          : tr`In one process: one half after the other.`;
    return `${tr`A step of ${batch} texts took ${seconds(found.long)}, measured.`} ${how}`;
  }
}
