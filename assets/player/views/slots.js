// What the slots of a cache hold over the tokens of the text, a group of rows for each rule, under the expert that each
// token asks for; spans of the kind expert say who serves which tokens.

import { el, frame, pool, set, setText, svg } from "../dom.js";
import { OPTIONS } from "../theme.js";
import { tr, translated } from "../words.js";

export const view = { name: "Slots", title: "Experts in the cache", place: 126, needs: ["intervals.slot"] };

const WIDE = 720,
  LEFT = 84,
  ROW = 14,
  INK = "--ink:var(--text)";

/** What the slots hold in these steps: rule -> [{slot, expert, start, end, miss, out}], in order. */
export function shelves(steps) {
  const found = new Map();
  for (const { about, start, end } of steps.flatMap(({ intervals }) => intervals ?? [])) {
    if (about?.slot === undefined) continue;
    const { rule, slot, expert, miss = false, out = "" } = about;
    if (!found.has(rule)) found.set(rule, []);
    found.get(rule).push({ slot, expert, start, end, miss, out });
  }
  return found;
}

export class Slots {
  load(run, dom, context) {
    Object.assign(this, { run, dom, context });
    this.say = el("p", "dx-readout");
    this.names = svg("g", { style: INK });
    this.bars = svg("g");
    this.marks = svg("g");
    this.hand = svg("path", { style: "stroke:var(--text);stroke-width:1.5;fill:none" });
    this.picture = svg("svg", { class: "dx-tree", role: "img" }, this.names, this.bars, this.marks, this.hand);
    this.legend = el("div", "dx-legend");
    dom.append(
      this.say,
      el("div", { class: "dx-scroll", tabindex: 0, "aria-label": tr`Experts over the text` }, this.picture),
      this.legend,
    );
    this.grow();
  }

  grow() {
    const all = shelves(this.run.steps),
      asked = this.#asked(this.run.length);
    this.rules = [...all.keys()];
    this.slots = Math.max(1, ...[...all.values()].flat().map(({ slot }) => slot));
    this.experts = [
      ...new Set(this.run.steps.flatMap(({ choice, spans }) => choice?.options ?? spans?.map((s) => s.label) ?? [])),
    ];
    this.end = Math.max(1, ...asked.map(({ end }) => end), ...[...all.values()].flat().map(({ end }) => end));
    if (this.dom.parentElement) this.dom.parentElement.hidden = this.run.length > 0 && !this.rules.length;
    const box = (style) => el("i", { class: "dx-swatch", style });
    this.legend.replaceChildren(
      ...this.experts.map((name) => el("span", {}, box(`background:${this.#fill(name)}`), ` ${translated(name)}`)),
      el("span", {}, box("background:var(--warn)"), ` ${tr`miss: loaded here`}`),
    );
  }

  #fill(name) {
    return `var(--option${Math.max(0, this.experts.indexOf(name)) % OPTIONS}-fill)`;
  }

  #asked(t) {
    return this.run.steps
      .slice(0, t)
      .flatMap(({ spans }) => spans ?? [])
      .filter(({ kind }) => kind === "expert");
  }

  show(t, hurry) {
    if (hurry) return;
    const x = (token) => LEFT + (token / this.end) * (WIDE - LEFT - 4),
      found = shelves(this.run.steps.slice(0, t)),
      block = this.slots * ROW + 20,
      top = (rule) => 30 + this.rules.indexOf(rule) * block + 16,
      held = [...found].flatMap(([rule, list]) => list.map((one) => ({ ...one, y: top(rule) + (one.slot - 1) * ROW }))),
      bars = [...this.#asked(t).map(({ label, start, end }) => ({ expert: label, start, end, y: 4 })), ...held],
      misses = held.filter(({ miss }) => miss);
    setText(this.say, this.describe(t));
    set(this.picture, { "aria-label": this.describe(t) });
    frame(this.picture, WIDE, 34 + this.rules.length * block);
    pool(this.names, 1 + this.rules.length, () => svg("text", { class: "dx-small", x: 0 })).forEach((text, i) => {
      const rule = this.rules[i - 1];
      set(text, { y: i ? top(rule) - 3 : 15 });
      setText(text, i ? `${translated(rule)}: ${this.#hits(t, rule)}` : tr`asked for`);
    });
    pool(this.bars, bars.length, () => svg("rect", {}, svg("title"))).forEach((bar, i) => {
      const { expert, start, end, y, miss, out } = bars[i],
        how = out ? tr`miss, evicts ${translated(out)}` : miss ? tr`miss` : "";
      set(bar, { x: x(start), y, width: Math.max(0.8, x(end) - x(start) - 0.4), height: ROW - 1 });
      bar.style.cssText = `fill:${this.#fill(expert)};stroke:none`;
      setText(bar.firstChild, tr`${translated(expert)}, tokens ${start} to ${end - 1}` + (how ? `; ${how}` : ""));
    });
    pool(this.marks, misses.length, () => svg("rect", { width: 2, height: ROW - 1 })).forEach((mark, i) => {
      set(mark, { x: x(misses[i].start), y: misses[i].y });
      mark.style.cssText = "fill:var(--warn);stroke:none";
    });
    const first = this.run.steps[t - 1]?.spans?.find(({ kind }) => kind === "expert");
    set(this.hand, { d: first ? `M${x(first.start)},2V${34 + this.rules.length * block}` : "" });
  }

  /** Hits of all requests so far. */
  #hits(t, rule) {
    const facts = this.run.steps[t - 1]?.facts ?? {},
      hits = facts[`hits_${rule.replace("-", "_")}`];
    return hits === undefined ? "" : tr`${hits} of ${facts.requests} hits`;
  }

  describe(t) {
    if (!t) return tr`Before the first step.`;
    const now = this.run.steps[t - 1]?.spans?.filter(({ kind }) => kind === "expert") ?? [],
      tokens = now.reduce((sum, { start, end }) => sum + end - start, 0);
    if (!now.length) return tr`No expert in this step.`;
    if (tokens === 1) return tr`Token ${now[0].start} asks for ${translated(now[0].label)}.`;
    return tr`${tokens} tokens were routed before the first layer ran: ${now.length} stretches of one expert.`;
  }
}
