// The steps of a chain of thought as cards: second looks are indented, a label where a phrase of confidence was put in,
// and behind a stated answer how sure the model is of it, against the line at which the text is ended.

import { glyphs, number } from "../player/codec.js";
import { el, pool, setText } from "../player/dom.js";
import { tr } from "../player/words.js";

export const view = {
  name: "Thoughts",
  title: "Steps of the thought",
  place: 154,
  needs: ["spans.thought", "spans.reflection"],
};

export class Thoughts {
  load(run, dom, context) {
    Object.assign(this, { run, dom, context, t: 0 });
    this.say = el("p", "dx-readout");
    this.cards = el("ol", "dx-thoughts");
    dom.append(this.say, this.cards);
  }

  /** What the probes read in the first t steps: {at: position of the answer's last token, value, line, stop}. */
  #probes(t) {
    return this.run.steps
      .slice(0, t)
      .filter(({ choice, commits }) => choice && commits)
      .map(({ choice, commits }) => ({
        at: commits.positions[0] - 1,
        value: choice.value,
        line: choice.threshold,
        stop: choice.chosen === "stop",
        over: this.run.eos.has(commits.tokens.at(-1)),
      }));
  }

  show(t, hurry) {
    if (hurry) return;
    this.t = t;
    const { run } = this,
      spans = run.steps[t - 1]?.spans ?? [],
      board = run.board(t),
      probes = this.#probes(t);
    setText(this.say, this.describe(t));
    pool(this.cards, spans.length, () =>
      el("li", {}, el("span", "dx-thought-text"), el("span", "dx-thought-label"), el("span", "dx-thought-probe")),
    ).forEach((card, i) => {
      const { kind, start, end, label } = spans[i],
        [text, put, dial] = card.children,
        probe = probes.find(({ at }) => at >= start && at < end),
        said = board
          .slice(start, end)
          .map(({ token }) => (token === null ? "" : run.piece(token).text))
          .join("");
      card.toggleAttribute("data-doubt", kind === "reflection");
      card.toggleAttribute("data-stop", Boolean(probe?.stop));
      setText(text, glyphs(said, 240));
      setText(put, label ? tr`phrase put in` : "");
      setText(dial, probe ? this.#told(probe) : "");
      dial.style.setProperty("--sure", probe ? String(probe.value ?? 0) : "0");
      dial.style.setProperty("--at", probe ? String(probe.line) : "0");
    });
  }

  #told({ value, line, stop, over }) {
    if (stop) return tr`✂ ended: confidence ${number(value)}, threshold ${number(line)}`;
    return over
      ? tr`confidence ${number(value)}, threshold ${number(line)}: the model ends it`
      : tr`confidence ${number(value)}, threshold ${number(line)}: continues`;
  }

  describe(t) {
    const spans = this.run.steps[t - 1]?.spans ?? [],
      doubts = spans.filter(({ kind }) => kind === "reflection").length,
      put = spans.filter(({ label }) => label).length;
    return spans.length
      ? tr`Steps of the thought so far: ${spans.length}; second looks: ${doubts}; with a phrase put in: ${put}.`
      : tr`Before the first step of the thought.`;
  }
}
