// The steps of a chain of thought as cards: second looks are indented, a label where a phrase of confidence was put in,
// and behind a stated answer how sure the model is of it, against the line at which the text is ended.

import { el, setText } from "../player/dom.js";
import { Parts, render } from "../player/drawing.js";
import { glyphs, number, tr } from "../player/words.js";

export const view = { title: "Steps of the thought", place: 154, needs: ["spans.thought", "spans.reflection"] };

export class Thoughts extends Parts {
  say = this.below(el("p", "dx-readout"));
  cards = this.below(el("ol", "dx-thoughts"));

  /** What the probes read in the first t steps: {at: position of the answer's last token, value, line, stop}. */
  #probes(t) {
    const probed = this.run.steps.slice(0, t).filter(({ choice, commits }) => choice && commits);
    return probed.map(({ choice, commits }) => ({
      ...{ at: commits.positions[0] - 1, value: choice.value, line: choice.threshold },
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
      probes = this.#probes(t),
      probeOf = ({ start, end }) => probes.find(({ at }) => at >= start && at < end);
    setText(this.say, this.describe(t));
    render(this.cards, spans, (span) => {
      const probe = probeOf(span),
        said = board.slice(span.start, span.end).map(({ token }) => (token === null ? "" : run.piece(token).text)),
        style = `--sure:${probe?.value ?? 0};--at:${probe?.line ?? 0}`;
      return [
        "li",
        {},
        ["span", { class: "dx-thought-text" }, glyphs(said.join(""), 240)],
        ["span", { class: "dx-thought-label" }, span.label ? tr`phrase put in` : ""],
        ["span", { class: "dx-thought-probe", style }, probe ? this.#outcome(probe) : ""],
      ];
    }).forEach((card, i) => {
      card.toggleAttribute("data-doubt", spans[i].kind === "reflection");
      card.toggleAttribute("data-stop", Boolean(probeOf(spans[i])?.stop));
    });
  }

  #outcome({ value, line, stop, over }) {
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
