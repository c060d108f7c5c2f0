// A chain of thought beside the same model left alone, on one scale of characters: where doubt was drawn a word of
// confidence stands, and where the answer is sure enough the text is cut off. What the other one still writes is what
// was saved.

import { glyphs } from "../codec.js";
import { many } from "../counted.js";
import { pool, set, setText, svg } from "../dom.js";
import { comeIn } from "../motion.js";
import { StepPicture } from "../steppicture.js";
import { tr } from "../words.js";
import { CARD, layout } from "./leftalonelayout.js";
import { answerOf, marked } from "./plainly.js";

export const view = { name: "LeftAlone", title: "Doubt taken out, and left in", place: 66, needs: ["left_alone"] };

export class LeftAlone extends StepPicture {
  load(run, dom, context) {
    this.begin(run, dom, context, ["tail", "own", "alone", "tabs", "cuts"]);
  }

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

  draw(told, _, next) {
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
    this.frame(made.height);
    this.#cards(this.own, made.own);
    this.#cards(this.alone, made.alone);
    pool(this.cuts, made.cut.length, () => svg("path")).forEach((path, i) =>
      set(path, { d: made.cut[i], class: "dx-eta", "data-s": "rejected" }),
    );
    pool(this.tail, made.tail.length, () => svg("rect", { class: "dx-lift dx-plain", rx: 6 })).forEach((box, i) =>
      set(box, made.tail[i]),
    );
    const drawn = this.#tabs(made.tabs);
    this.label(made.labels);
    if (next && drawn.length && tabs.at(-1).at === own.length - 1) comeIn([drawn.at(-1)], { opacity: 0 });
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
    const node = () =>
      svg("g", {}, svg("title"), svg("rect", { height: CARD, rx: 7 }), svg("text", { "text-anchor": "middle", y: 27 }));
    pool(layer, items.length, node).forEach((group, i) => {
      const { at, state, wide, size, text, title } = items[i],
        [name, box, word] = group.childNodes;
      set(group, { transform: at, "data-s": state });
      set(box, { width: wide });
      set(word, { x: wide / 2, textLength: null });
      word.style.fontSize = size;
      setText(word, text);
      setText(name, title);
    });
  }

  #tabs(items) {
    const node = () =>
      svg(
        "g",
        {},
        svg("rect", { rx: 5, height: 40, y: -48 }),
        svg("text", { x: 8, y: -32 }),
        svg("text", { x: 8, y: -15, style: "fill:var(--ink)" }),
      );
    return pool(this.tabs, items.length, node).map((group, i) => {
      const { at, state, room, first, second } = items[i],
        [box, above, below] = group.childNodes;
      set(group, { transform: at, "data-s": state });
      set(box, { width: room });
      setText(above, first);
      setText(below, second);
      return group;
    });
  }

  describe(t) {
    const told = this.run.steps[t - 1]?.left_alone;
    if (!told) return t ? tr`The model left alone was not recorded in this step.` : tr`Before the first step.`;
    const { own, alone } = this.#both(t),
      { tabs } = this.#done(t),
      length = (texts) => texts.join("").length;
    return tr`Steps with confidence put in: ${tabs.filter(({ put }) => put).length}. \
${many(length(own), "character")} here, ${length(alone)} by the same model left alone.`;
  }
}
