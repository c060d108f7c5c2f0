// What the run has cost and gained up to the cursor. Each figure says whether it was measured or derived, and opens its
// receipt.

import { el, setText } from "../player/dom.js";
import { DEFINITIONS, lost, meant, numbers, receipt } from "../player/receipt.js";
import { number, seconds, tr, translated } from "../player/words.js";
import { figure } from "./receipt.js";

export const view = { title: "All numbers of this run", place: 100, needs: [] };

const rate = (above, below) => (below > 0 ? number(above / below) : "–");

const FIGURES = [
  ["steps", tr`Steps`, (c) => `${c.t} / ${c.steps}`],
  ["tokens", tr`Tokens`, (c) => number(c.tokens)],
  ["all_tokens", tr`Tokens of all samples`, (c) => number(c.gained)],
  ["target_calls", tr`Model calls`, (c) => number(c.forwards)],
  ["draft_calls", tr`Draft calls`, (c) => number(c.others)],
  ["tokens_per_call", tr`Tokens / model call`, (c) => rate(c.gained, c.forwards)],
  ["tokens_per_second", tr`Tokens / s`, (c) => rate(c.gained, c.model + c.method)],
  ["model_seconds", tr`Model time`, (c) => seconds(c.model)],
  ["method_seconds", tr`Method time`, (c) => seconds(c.method)],
  ["tokens_fed", tr`Tokens fed`, (c) => number(c.fed)],
  ["work", tr`Work, layer-rows`, (c) => number(c.work)],
];

export class Counters {
  load(run, dom) {
    this.run = run;
    this.items = FIGURES.map(([name, label, tell]) => {
      const value = el("strong", {}, "–"),
        { kind = "measured" } = DEFINITIONS[name],
        made = () =>
          receipt(name, tell(this.values), run, numbers(run, this.t), tr`after step ${this.t} of ${run.length}`);
      const said = meant(name, run) === name ? label : translated(DEFINITIONS[meant(name, run)].label),
        button = figure(el("span", "dx-name", said), made, { class: "dx-figure" });
      button.append(value, el("small", { "data-origin": kind }, translated(kind)));
      return { name, button, value };
    });
    dom.append(el("div", "dx-figures", ...this.items.map((item) => item.button)));
  }

  show(t, hurry) {
    const { run } = this,
      tokens = run.tokens(t);
    this.t = t;
    this.values = { ...run.sums[t], t, steps: run.length, tokens, gained: run.gained(t) ?? tokens };
    this.#fit();
    if (!hurry)
      FIGURES.forEach(([name, , tell], i) =>
        setText(this.items[i].value, lost(name, run).length ? tr`not recorded` : tell(this.values)),
      );
  }

  /** No place for the calls of other models where there are none, nor for work that was not recorded. */
  #fit() {
    const alone = !this.run.sums.at(-1).others;
    for (const { name, button } of this.items) {
      if (name === "draft_calls") button.hidden = alone;
      if (name === "all_tokens") button.hidden = this.run.gained(this.t) === null;
      if (name === "work") button.hidden = this.run.missing.has("work");
      if (name === "tokens_per_call") setText(button.firstChild, alone ? tr`Tokens / call` : tr`Tokens / model call`);
    }
  }
}
