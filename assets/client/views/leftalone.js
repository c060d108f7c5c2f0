// A chain of thought beside the same model left alone, on one scale of characters: where doubt was drawn a word of
// confidence stands, and where the answer is sure enough the text is cut off. What the other one still writes is what
// was saved.

import { glyphs } from "../player/codec.js";
import { many } from "../player/counted.js";
import { MIDDLE, render } from "../player/render.js";
import { StepPicture } from "../player/steppicture.js";
import { tr } from "../player/words.js";
import { CARD, layout } from "./leftalonelayout.js";
import { answerOf, marked } from "./plainly.js";

export const view = { title: "Doubt taken out, and left in", place: 66, needs: ["left_alone"] };

export class LeftAlone extends StepPicture {
  layers = ["tail", "own", "alone", "tabs", "cuts"];
  none = tr`The model left alone was not recorded in this step.`;

  #text(token) {
    return this.run.eos.has(token) ? "" : glyphs(this.run.piece(token).text);
  }

  /** Texts of the tokens of both, up to step t. */
  #both(t) {
    const { run } = this,
      own = run
        .board(t)
        .slice(run.prompt.length)
        .filter(({ token }) => token !== null);
    return {
      own: own.map(({ token }) => this.#text(token)),
      alone: run.steps
        .slice(0, t)
        .flatMap(({ left_alone: one }) => (one?.tokens ?? []).map((token) => this.#text(token))),
    };
  }

  /** What was done up to step t: {tabs: [{at, drawn, before, after}], stop: {value, threshold} or null}. */
  #done(t) {
    const tabs = [];
    let stop = null;
    for (const { left_alone: one, commits, choice } of this.run.steps.slice(0, t)) {
      if (one?.doubt_without !== undefined && commits)
        tabs.push({
          at: commits.positions[0] - this.run.prompt.length,
          drawn: one.drawn == null ? null : this.#text(one.drawn),
          put: commits.causes.includes("injected"),
          before: one.doubt_without,
          after: one.doubt_with,
        });
      if (choice?.chosen === "stop") stop = choice;
    }
    return { tabs, stop };
  }

  draw(told) {
    const { run, width } = this,
      { own, alone } = this.#both(this.t),
      { tabs, stop } = this.#done(this.t),
      ids = run.steps.flatMap(({ left_alone: one }) => one?.tokens ?? []),
      text = ids.map((id) => (run.eos.has(id) ? "" : run.piece(id).text)).join(""), // of the whole run left alone
      made = layout({
        own: { texts: own, sign: marked(run.verdict?.right ?? null), ...told.own },
        alone: { texts: alone, sign: marked(answerOf(run, text)[1]), ...told.alone },
        longest: this.#longest(),
        over: stop !== null || run.eos.has(run.written(run.widths[this.t] - 1, this.t)?.token),
        done: tabs,
        stop,
        width,
      });
    this.#cards(this.own, made.own);
    this.#cards(this.alone, made.alone);
    render(this.cuts, made.cut, (d) => ["path", { d, class: "dx-eta", "data-s": "rejected" }]);
    render(this.tail, made.tail, (box) => ["rect", { class: "dx-lift dx-plain", rx: 6, ...box }]);
    const drawn = render(this.tabs, made.tabs, ({ at, state, room, first, second }) => [
      { transform: at, "data-s": state },
      ["rect", { rx: 5, height: 40, y: -48, width: room }],
      ["text", { x: 8, y: -32 }, first],
      ["text", { x: 8, y: -15, style: "fill:var(--ink)" }, second],
    ]);
    this.frame(made.height, made.labels);
    return drawn.length && tabs.at(-1).at === own.length - 1 ? [drawn.at(-1)] : [];
  }

  /** The longer text of the whole run, in characters. */
  #longest() {
    if (this.sought !== this.run.length) {
      const { own, alone } = this.#both(this.run.length);
      Object.assign(this, { sought: this.run.length, longest: Math.max(own.join("").length, alone.join("").length) });
    }
    return this.longest;
  }

  #cards(layer, items) {
    render(layer, items, ({ at, state, wide, size, text, title }) => [
      { transform: at, "data-s": state },
      ["title", {}, title],
      ["rect", { height: CARD, rx: 7, width: wide }],
      ["text", { ...MIDDLE, y: 27, x: wide / 2, style: `font-size:${size}` }, text],
    ]);
  }

  sentence(_told, _step, t) {
    const { own, alone } = this.#both(t),
      { tabs } = this.#done(t),
      length = (texts) => texts.join("").length;
    return tr`Steps with confidence put in: ${tabs.filter(({ put }) => put).length}. \
${many(length(own), "character")} here, ${length(alone)} by the same model left alone.`;
  }
}
