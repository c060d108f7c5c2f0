// What a run has come to, in one line: its tokens, its model calls, its time. Each number opens its receipt.

import { number, seconds } from "../codec.js";
import { el, setText } from "../dom.js";
import { growth } from "../race.js";
import { lost, numbers, receipt } from "../receipt.js";
import { figure } from "./receipt.js";

export const view = { name: "Headline", title: "", place: 10, needs: [] };

const WORDS = { tokens: "tokens", target: "target calls", alone: "model calls", draft: "draft calls" };
const many = (n, words) => `${number(n)} ${n === 1 ? words.slice(0, -1) : words}`;

export class Headline {
  load(run, dom) {
    this.run = run;
    const made = (name, tell) => () =>
      receipt(name, tell(), run, numbers(run, this.t), `after step ${this.t} of ${run.length}`);
    const line = (name, tell) => figure("", made(name, tell), { "data-figure": name });
    this.tokens = line("tokens", () => number(this.count));
    this.target = line("target_calls", () => number(run.sums[this.t].forwards));
    this.draft = line("draft_calls", () => number(run.sums[this.t].others));
    this.time = line("busy_seconds", () => seconds(this.#seconds()));
    dom.append(el("p", "dx-headline", this.tokens, this.target, this.draft, this.time));
  }

  #seconds() {
    const { model, method } = this.run.sums[this.t];
    return model + method;
  }

  show(t, hurry) {
    const { run } = this;
    this.t = t;
    this.count = run.end && t === run.length ? run.tokens(t) : growth(run)[t];
    if (hurry) return;
    const { forwards, others } = run.sums[t],
      alone = !run.sums.at(-1).others,
      held = (name, words, text) => (lost(name, run).length ? `${words} not recorded` : text);
    setText(this.tokens, held("tokens", WORDS.tokens, many(this.count, WORDS.tokens)));
    const calls = alone ? WORDS.alone : WORDS.target;
    setText(this.target, held("target_calls", calls, many(forwards, calls)));
    this.draft.hidden = alone;
    setText(this.draft, many(others, WORDS.draft));
    setText(this.time, held("busy_seconds", "time", seconds(this.#seconds())));
  }

  describe() {
    return `${[this.tokens, this.target, ...(this.draft.hidden ? [] : [this.draft])]
      .map(({ textContent }) => textContent)
      .join(", ")}.`;
  }
}
