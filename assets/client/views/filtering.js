// A block before two readers: a plain threshold on each confidence, and a trained filter that reads all of them. Where
// they disagree stands out. Below, the whole answer with what an end mark cuts off.

import { chips } from "../player/chips.js";
import { glyphs } from "../player/codec.js";
import { pool, set, svg } from "../player/dom.js";
import { comeIn } from "../player/motion.js";
import { Sliding, unknown } from "../player/sliding.js";
import { StepPicture } from "../player/steppicture.js";
import { bars } from "../player/strips.js";
import { tr } from "../player/words.js";
import { layout, TALL } from "./filteringlayout.js";

export const view = { title: "A trained filter says what is final", place: 54, needs: ["filtering"] };

const PLAIN = 0.8; // what the published filter amounts to

export class Filtering extends StepPicture {
  load(run, dom, context) {
    this.tau = new Sliding(this, "filtering.tau", tr`filter τ`, tr`Threshold of the filter`);
    this.theta = new Sliding(this, "filtering.theta", tr`baseline θ`, tr`Threshold of the baseline`);
    const layers = ["odd", "net", "lines", "bars", "cells", "strip", "scissors"];
    this.begin(run, dom, context, layers, this.tau.dom, this.theta.dom);
  }

  also(told) {
    const n = told ? this.tau.decided(this.#recorded(told)).length : 0,
      plain = this.#plain()?.length;
    this.tau.show(told?.threshold ?? 0, Boolean(told?.filter.length), tr`the filter would write ${n}`);
    this.theta.show(PLAIN, Boolean(told), tr`the threshold would write ${plain}`);
  }

  /** Which positions of the block were written. */
  #recorded({ start }) {
    const { positions, causes } = this.run.steps[this.t - 1].commits;
    return positions.filter((_, k) => causes[k] !== "cut").map((at) => at - start);
  }

  /** Which a threshold on the confidence would write; null where the method was not asked. */
  #plain() {
    return this.run.asked(this.t, "filtering", "theta", this.theta.at(PLAIN));
  }

  draw(told, _, next) {
    const { run, t } = this,
      { masked, tokens, start } = told,
      board = run.board(t),
      plain = this.#plain(),
      own = this.tau.decided(this.#recorded(told)),
      first = run.prompt.length,
      word = (i) => glyphs(run.piece(masked[i] ? tokens[i] : (board[start + i]?.token ?? -1)).text),
      made = layout(told, {
        width: this.width,
        theta: this.theta.at(PLAIN),
        tau: this.tau.at(told.threshold),
        plain: plain && masked.map((_, i) => plain.includes(i)),
        own: masked.map((_, i) => own.includes(i)),
        unasked: unknown(run),
        word,
        answer: { board, t, first, all: run.widths[0] - first },
      });
    this.frame(made.height);
    const { odd, nets, lines, strip } = made;
    pool(this.odd, odd.length, () => svg("rect", { class: "dx-odd", rx: 6 })).forEach((box, k) => set(box, odd[k]));
    pool(this.net, nets.length, () =>
      svg("g", {}, svg("path", "dx-fan"), svg("rect", { class: "dx-box", rx: 8 })),
    ).forEach((group, k) => {
      set(group.firstChild, { d: nets[k].d });
      set(group.lastChild, nets[k].box);
    });
    bars(this.bars, made.marks, TALL);
    pool(this.lines, lines.length, () => svg("path", { class: "dx-eta", "data-s": "rejected" })).forEach((path, k) =>
      set(path, { d: lines[k] }),
    );
    const drawn = chips(this.cells, made.cells, this.context.theme, made.room);
    pool(this.strip, strip.length, () => svg("rect")).forEach((box, i) => set(box, strip[i]));
    pool(this.scissors, 2, () => svg("path")).forEach((path, k) =>
      set(path, { class: k ? "dx-cut" : "dx-round", d: made.ends[k] }),
    );
    this.label(made.labels);
    if (next)
      comeIn(
        drawn.filter((_, k) => made.cells[k].fresh),
        { opacity: 0 },
      );
  }

  describe(t) {
    const told = this.run.steps[t - 1]?.filtering;
    if (!told) return t ? tr`No filter was asked in this step.` : tr`Before the first step.`;
    const own = this.#recorded(told),
      plain = this.#plain(),
      differ = plain ? plain.length + own.length - 2 * own.filter((i) => plain.includes(i)).length : "–";
    return tr`Written by this run: ${own.length}; by a plain threshold: ${plain?.length ?? "–"}. They differ at \
${differ} of ${told.masked.filter(Boolean).length} masked positions.`;
  }
}
