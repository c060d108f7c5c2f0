// The verdict above the players: what finished runs of one prompt say when they are held against each other. Nothing of
// it is told before all of them were shown to their end.

import { el, pool, setText } from "../player/dom.js";
import { apart, field, nameOf, pairOf } from "../player/field.js";
import { verdict, WORDS } from "../player/verdict.js";
import { tr } from "../player/words.js";
import { figure } from "./receipt.js";

export const view = { title: "", place: "toolbar", needs: [] };

const EVENTS = ["dx-seen", "dx-pairs"];

export class Verdict {
  constructor(group) {
    Object.assign(this, { group, known: [] });
    this.root = el("div", { class: "dx-verdict dx-below", role: "region", "aria-label": tr`Verdict`, hidden: true });
    this.told = () => this.update();
    for (const event of EVENTS) document.addEventListener(event, this.told);
  }

  destroy() {
    for (const event of EVENTS) document.removeEventListener(event, this.told);
  }

  /** Called after every move of the clock. */
  update(hurry) {
    if (hurry) return;
    const { runners } = this.group,
      known = [globalThis.dxMeasured];
    for (const { run, seen } of runners) known.push(run, Boolean(run.end && seen));
    for (const { run } of runners) known.push(...runners.map((other) => pairOf(run, other.run)));
    if (known.length === this.known.length && known.every((part, i) => part === this.known[i])) return;
    this.known = known;
    const runs = runners.map(({ run }) => run),
      found = field(runs);
    for (const { run, head } of runners) head.apart(apart(run, runs));
    this.root.hidden = !found;
    if (!found) return;
    const all = [found.basis, ...found.others],
      shown = runners.every(({ run, seen }) => !all.includes(run) || (run.end && seen)),
      ready = shown && found.others.every((run) => pairOf(run, found.basis));
    this.root.toggleAttribute("data-ready", ready);
    const mark = (name, value) => name === "check" && (value ? "right" : "wrong"),
      part = ({ text, name, value, receipt }) =>
        figure(text, receipt, { "data-part": name, "data-mark": mark(name, value) });
    // one line for each run that is held against another, told or not: the players below do not move
    pool(this.root, found.others.length, () => el("p")).forEach((line, i) => {
      if (!ready) return void setText(line, i ? "\u00a0" : WORDS.waits);
      const run = found.others[i],
        place = runners.find((runner) => runner.run === run).slot + 1;
      line.replaceChildren(el("strong", {}, `${place} ${nameOf(run, all)}: `), ...verdict(run, found.basis).map(part));
    });
  }
}
