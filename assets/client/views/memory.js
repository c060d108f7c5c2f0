// What the method remembers: the entries touched last, newest on top, with the tokens expected behind each key and how
// sure it is of them.

import { el, setText } from "../player/dom.js";
import { Parts, render } from "../player/drawing.js";
import { glyphs, number, tr } from "../player/words.js";

export const view = { title: "Memory", place: 140, needs: ["memory"] };

const SHOWN = 24;

export class Memory extends Parts {
  say = this.below(el("p", "dx-readout"));
  list = el("div", "dx-memory");
  scroll = this.below(el("div", "dx-scroll", this.list));

  /** Entries as they stand after step t, the last touched first, each with the step that touched it. */
  #entries(t) {
    const found = new Map();
    for (const step of this.run.steps.slice(0, t))
      for (const entry of step.memory ?? []) {
        const name = entry.key.join();
        found.delete(name);
        found.set(name, { ...entry, step: step.index + 1 });
      }
    return [...found.values()].reverse();
  }

  show(t) {
    const entries = this.#entries(t),
      piece = (id) => glyphs(this.run.piece(id).text);
    setText(this.say, this.describe(t, entries.length));
    render(this.list, entries.slice(0, SHOWN), ({ key, tokens, weights = [], read, written, source, step }) => {
      const now = step === t,
        top = Math.max(...weights, 1e-9),
        title = [source, read && tr`drafted from`, written && tr`changed`, tr`in step ${step}`],
        chips = tokens.map((token, j) => {
          const style = `--part:${weights.length ? weights[j] / top : 1 / (j + 1)}`;
          return ["span", { title: weights.length ? number(weights[j]) : tr`rank ${j + 1}`, style }, piece(token)];
        });
      return [
        "div",
        { class: now ? "dx-now" : "", title: title.filter(Boolean).join(", ") },
        ["span", {}, now ? `${read ? "→" : ""}${written ? "+" : ""}` : ""],
        ["b", {}, key.map(piece).join(" ")],
        ["span", {}, ...chips],
      ];
    });
  }

  describe(t, total = this.#entries(t).length) {
    const now = this.run.steps[t - 1]?.memory ?? [],
      count = (what) => now.filter((entry) => entry[what]).length;
    return t
      ? tr`${total} entries touched so far; this step drafted from ${count("read")} (→) \
and changed ${count("written")} (+).`
      : tr`Before the first step.`;
  }
}
