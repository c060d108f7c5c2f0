// What a run has come to, in one line: its tokens, its model calls, its time. Each number opens its receipt.

import { el, setText } from "../player/dom.js";
import { lost, numbers, receipt } from "../player/receipt.js";
import { besides, COUNTED, many, number, seconds, tr } from "../player/words.js";
import { figure } from "./receipt.js";

export const view = { title: "", place: 10, needs: [] };

export class Headline {
  load(run, dom) {
    this.run = run;
    const made = (name, tell, title) => () =>
      receipt(name, tell(), run, numbers(run, this.t), tr`after step ${this.t} of ${run.length}`, title?.());
    const line = (name, tell, title) => figure("", made(name, tell, title), { "data-figure": name });
    const alone = () => (run.sums.at(-1).others ? undefined : tr`Model calls`);
    this.tokens = line("tokens", () => number(this.count));
    this.every = line("all_tokens", () => number(run.gained(this.t)));
    this.target = line("target_calls", () => number(run.sums[this.t].forwards), alone);
    this.draft = line("draft_calls", () => number(run.sums[this.t].others));
    this.time = line("busy_seconds", () => seconds(this.#seconds()));
    dom.append(el("p", "dx-headline", this.tokens, this.every, this.target, this.draft, this.time));
  }

  #seconds() {
    const { model, method } = this.run.sums[this.t];
    return model + method;
  }

  show(t, hurry) {
    const { run } = this;
    this.t = t;
    this.count = run.tokens(t);
    if (hurry) return;
    const { forwards, others } = run.sums[t],
      alone = !run.sums.at(-1).others,
      held = (name, words, text) => (lost(name, run).length ? tr`${words} not recorded` : text);
    setText(this.tokens, held("tokens", COUNTED.token[1], many(this.count, "token")));
    const every = run.gained(t);
    this.every.hidden = every === null;
    if (every !== null) setText(this.every, held("all_tokens", COUNTED.token[1], tr`${number(every)} in all samples`));
    setText(this.target, held("target_calls", COUNTED.target[1], many(forwards, "target")));
    this.draft.hidden = alone;
    setText(this.draft, many(others, besides(run)));
    setText(this.time, held("busy_seconds", tr`time`, seconds(this.#seconds())));
  }

  describe() {
    const seen = [this.tokens, this.every, this.target, this.draft].filter(({ hidden }) => !hidden);
    return `${seen.map(({ textContent }) => textContent).join(", ")}.`;
  }
}
