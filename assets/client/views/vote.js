// Sampled texts as blocks that fall into columns, one per answer: the same blocks under several rules, side by side.
// The height of a block is what the rule lets its text count.

import { glyphs } from "../player/codec.js";
import { many } from "../player/counted.js";
import { comeIn } from "../player/motion.js";
import { MIDDLE, render } from "../player/render.js";
import { percent } from "../player/shares.js";
import { StepPicture } from "../player/steppicture.js";
import { tr } from "../player/words.js";
import { converging } from "./converging.js";
import { answerOf } from "./plainly.js";
import { layout } from "./votelayout.js";

export const view = { name: "Vote", title: "Paths and votes", place: 157, needs: ["vote"] };

export class Vote extends StepPicture {
  layers = ["marks", "strip", "boxes", "blocks", "feet", "estimates"];

  draw(vote, _, next) {
    const { run, width } = this,
      right = run.verdict ? vote.answers.findIndex((answer) => answerOf(run, answer)[1]) : null,
      { height, labels, parts } = layout(vote, width, right);
    if (vote.whole) labels.unshift(...converging(this.estimates, vote, right, width));
    this.estimates.style.display = vote.whole ? "" : "none";
    for (const [name, items] of Object.entries(parts)) this.#paint(this[name], items);
    this.frame(height, labels);
    if (next)
      comeIn([...this.blocks.childNodes].slice(0, parts.blocks.length), { transform: "translateY(-60px)", opacity: 0 });
  }

  /** Boxes with a word each: [{x, y, w, h, style, word, ink, title, dash}]. */
  #paint(layer, items) {
    render(layer, items, ({ x, y, w, h, style, word = "", ink = "var(--text)", title = "", state = "" }) => [
      { "data-s": state },
      ["title", {}, title],
      ["rect", { rx: 3, x, y, width: Math.max(1, w), height: Math.max(1, h), style }],
      ["text", { ...MIDDLE, x: x + w / 2, y: y + h / 2 + 4, style: `fill:${state ? "var(--ink)" : ink}` }, word],
    ]);
  }

  describe(t) {
    const vote = this.run.steps[t - 1]?.vote;
    if (!vote) {
      const living = this.run.steps[t - 1]?.branches?.filter(({ fate = "alive" }) => fate === "alive").length ?? 0;
      return t
        ? tr`Paths being written: ${living}. The votes are drawn when all are over.`
        : tr`Before the first step.`;
    }
    const told = vote.tallies.map(
      ({ rule, winner = -1, confidence = 0 }) =>
        `${rule}: ${winner < 0 ? tr`none` : glyphs(vote.answers[winner])} (${percent(confidence)})`,
    );
    return tr`${vote.voters.length} paths, ${many(vote.answers.length, "answer")}. ${told.join("; ")}.`;
  }
}
