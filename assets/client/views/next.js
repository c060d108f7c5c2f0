// What the model would have said next: the most likely tokens at the place that was written in this step.

import { el, setText } from "../player/dom.js";
import { Parts } from "../player/drawing.js";
import { glyphs, tr } from "../player/words.js";
import { bars } from "./picking.js";

export const view = { title: "The next token, and what else it could be", place: 168, needs: ["candidates+growing"] };

export class Next extends Parts {
  say = this.below(el("p", "dx-readout"));
  list = this.below(el("ol", { class: "dx-bars dx-next", "aria-label": tr`Most likely tokens` }));

  show(t, hurry) {
    if (hurry) return;
    const { run } = this,
      step = run.steps[t - 1],
      at = step?.commits?.positions.at(-1) ?? step?.candidates?.positions[0],
      found = at === undefined ? null : run.candidates(t - 1, at),
      chosen = step?.commits?.tokens.at(-1);
    this.words = t ? tr`No candidates were recorded in this step.` : tr`Before the first step.`;
    if (found) this.words = tr`Position ${at}: ‘${glyphs(run.piece(chosen ?? found[0].token).text, 24)}’ out of these.`;
    setText(this.say, this.words);
    this.list.replaceChildren(...bars(run, found ?? [], chosen));
  }

  describe() {
    return this.words;
  }
}
