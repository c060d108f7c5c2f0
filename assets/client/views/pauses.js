// Code as it is written, with the entropy of each token under it. Where that reaches the threshold, the best few tokens
// are continued a little, each as a row, and the first token of the likeliest row is written.

import { chips } from "../player/chips.js";
import { glyphs, prose } from "../player/codec.js";
import { many } from "../player/counted.js";
import { pool, set, setText, svg } from "../player/dom.js";
import { comeIn } from "../player/motion.js";
import { Sliding, short } from "../player/sliding.js";
import { StepPicture } from "../player/steppicture.js";
import { tr } from "../player/words.js";
import { layout } from "./pauseslayout.js";

export const view = {
  name: "Pauses",
  title: "Greedy, with pauses to look ahead",
  place: 65,
  needs: ["pause"],
};

/** The futures of a pause, in their order: {tokens, p of the first, mean: probability per token, won}. */
const futures = ({ pause }) =>
  (pause?.futures ?? []).map((tokens, i) => ({ tokens, p: pause.p[i], mean: pause.mean[i], won: i === pause.chosen }));

export class Pauses extends StepPicture {
  load(run, dom, context) {
    this.sliding = new Sliding(this, "pause.threshold", "τ", tr`Entropy at which decoding pauses`, [0, 6, 0.05]);
    this.pauses = ({ step, paused }) => this.sliding.decided(paused, step + 1);
    const layers = ["bars", "lines", "lifted", "code", "fan", "back", "scale", "scores", "tokens"];
    this.begin(run, dom, context, layers, this.sliding.dom);
    set(this.code, "dx-code");
  }

  /** The tokens up to step t. */
  #written(t) {
    const { run } = this;
    return run
      .board(t)
      .slice(run.prompt.length)
      .filter(({ token }) => token !== null)
      .map(({ token, entry }) => {
        const { pause } = run.steps[entry?.step] ?? {};
        return {
          step: entry?.step,
          text: prose(run.piece(token).text),
          H: pause?.entropy ?? null,
          paused: Boolean(pause?.futures.length),
          overruled: pause?.chosen > 0,
        };
      });
  }

  also(pause) {
    const told = pause ? this.#written(this.t) : [],
      over = told.filter(this.pauses).length;
    this.sliding.show(
      pause?.threshold ?? 0,
      told.length > 0,
      tr`${over} of ${many(told.length, "token")} would pause.`,
    );
  }

  /** The step of the last pause, or 0. */
  #pause(t) {
    for (; t > 0; t--) if (futures(this.run.steps[t - 1]).length) return t;
    return 0;
  }

  draw(pause, _, next) {
    const { run, t, width, pauses } = this,
      written = this.#written(t),
      at = this.#pause(t),
      now = at === t,
      rows = at ? futures(run.steps[at - 1]) : [],
      word = (token) => glyphs(run.piece(token).text),
      made = layout({ width, written, line: this.sliding.at(pause.threshold), rows, at, now, word, pauses });
    this.frame(made.height);
    const { bars, dashed, code, arcs, tokens, scores } = made;
    pool(this.bars, bars.length, () => svg("rect", {}, svg("title"))).forEach((bar, i) => {
      const { title, ...box } = bars[i];
      set(bar, box);
      setText(bar.firstChild, title);
    });
    pool(this.lines, dashed.length, () => svg("path", { class: "dx-eta", "data-s": "rejected" })).forEach((path, n) =>
      set(path, { d: dashed[n] }),
    );
    pool(this.code, code.length, () => svg("g", {}, svg("rect", { rx: 4, height: 21 }), svg("text"))).forEach(
      (group, n) => {
        const { x, y, text, state, box } = code[n],
          [frame, word] = group.childNodes;
        group.removeAttribute("data-s");
        set(group, { "data-s": state });
        set(frame, box);
        frame.style.display = state ? "" : "none";
        set(word, { x, y });
        setText(word, text);
      },
    );
    pool(this.scores, scores.length, () => svg("rect", { height: 14, rx: 3 })).forEach((one, i) => set(one, scores[i]));
    const groups = chips(this.tokens, tokens, this.context.theme, 14 * 7.4 + 12);
    groups.forEach((group, i) => group.toggleAttribute("data-first", !tokens[i].n));
    for (const layer of [this.tokens, this.scores]) layer.style.opacity = now ? 1 : 0.45;
    pool(this.fan, arcs.length, () => svg("path", "dx-arc")).forEach((path, i) => set(path, arcs[i]));
    this.label(made.labels);
    if (next && now) comeIn(groups, { opacity: 0 });
  }

  describe(t) {
    const step = this.run.steps[t - 1];
    if (!step?.pause) return t ? tr`No decision was recorded in this step.` : tr`Before the first step.`;
    const { entropy, threshold } = step.pause,
      rows = futures(step),
      H = short(entropy);
    if (!rows.length) return tr`Entropy ${H} nats, below ${short(threshold)}: the model's first choice is written.`;
    const won = rows.findIndex((row) => row.won);
    return won > 0
      ? tr`Entropy ${H} nats: paused. Choice ${won + 1} overrules the first one.`
      : tr`Entropy ${H} nats: paused. The first choice stays.`;
  }
}
