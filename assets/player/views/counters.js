// What the run has cost and gained up to the cursor. Each figure says whether it was measured or derived, and opens its receipt.

import { number, seconds } from "../codec.js";
import { DEFINITIONS } from "../definitions.js";
import { el, setText } from "../dom.js";
import { growth } from "../race.js";
import { lost, numbers, ofModel, receipt } from "../receipt.js";
import { figure } from "./receipt.js";

const rate = (above, below) => (below > 0 ? number(above / below) : "–");

const FIGURES = [
  ["steps", "Steps", (c) => `${c.t} / ${c.steps}`],
  ["tokens", "Tokens", (c) => number(c.tokens)],
  ["forwards", "Forwards", (c) => number(c.forwards)],
  ["tokens_per_forward", "Tokens / forward", (c) => rate(c.tokens, c.forwards)],
  ["tokens_per_second", "Tokens / s", (c) => rate(c.tokens, c.model + c.method)],
  ["model_seconds", "Model time", (c) => seconds(c.model)],
  ["method_seconds", "Method time", (c) => seconds(c.method)],
  ["tokens_fed", "Tokens fed", (c) => number(c.fed)],
];

export class Counters {
  load(run, dom) {
    this.run = run;
    this.items = FIGURES.map(([name, label, tell]) => {
      const value = el("strong", {}, "–"), { kind = "measured" } = DEFINITIONS[name], made = () => receipt(name, tell(this.values), run, numbers(run, this.t), `after step ${this.t} of ${run.length}`);
      const button = figure(el("span", "dx-name", label), made, { class: "dx-figure" });
      button.append(value, el("small", { "data-origin": kind }, kind));
      return { button, value };
    });
    const { header } = run;
    const models = (header.models ?? []).map((m) => `${m.role}: ${ofModel(m)}`);
    const machine = [...models, header.machine, header.warmup_seconds ? `warm-up ${seconds(header.warmup_seconds)}, not counted` : "", run.missing.has("seed") ? "" : `seed ${header.seed}`].filter(Boolean).join(" · ");
    dom.append(el("div", "dx-figures", ...this.items.map((item) => item.button)), el("p", { class: "dx-machine", title: machine }, machine));
  }

  show(t, hurry) {
    const { run } = this, tokens = run.end && t === run.length ? run.tokens(t) : growth(run)[t];
    this.t = t;
    this.values = { ...run.sums[t], t, steps: run.length, tokens };
    if (!hurry) FIGURES.forEach(([name, , tell], i) => setText(this.items[i].value, lost(name, run).length ? "not recorded" : tell(this.values)));
  }

  describe() {
    const { missing } = this.run, told = (name, n, words) => (missing.has(name) ? `${words} not recorded` : `${n} ${words}`);
    return `${told("tokens", this.values.tokens, "tokens")} after ${told("forwards", this.values.forwards, "forward passes")}.`;
  }
}
