// The block after the text, as one pass leaves it: the tokens that stand, those of this pass in their colour, and over
// each how likely it was when it was written; over a mask how likely its best guess is.

import { chips } from "../player/chips.js";
import { glyphs } from "../player/codec.js";
import { pool, set, setText, svg } from "../player/dom.js";
import { comeIn } from "../player/motion.js";
import { percent } from "../player/shares.js";
import { StepPicture } from "../player/steppicture.js";
import { tr } from "../player/words.js";

export const view = { name: "OpenBlock", title: "The block that is being filled", place: 152, needs: ["openblock"] };

const LEAST = 46, // of a column, in CSS pixels, as far as ROWS allow
  WIDEST = 104,
  ROWS = 6,
  BARS = 60, // height of a probability of 1
  FOOT = 20 + BARS,
  HIGH = FOOT + 52; // of a row

export class OpenBlock extends StepPicture {
  load(run, dom, context) {
    this.begin(run, dom, context, ["bars", "cells"]);
  }

  told({ openblock }) {
    return openblock?.tokens.length ? openblock : null;
  }

  draw({ start, mask, tokens, chances, written }, _, next) {
    const { run, width } = this,
      n = tokens.length,
      rows = Math.min(ROWS, Math.max(1, Math.ceil((n * LEAST) / width))),
      columns = Math.ceil(n / rows),
      w = Math.min(WIDEST, width / columns),
      x = (i) => ((i % columns) + 0.5) * w,
      foot = (i) => Math.floor(i / columns) * HIGH + FOOT,
      fresh = new Set(written),
      state = (i) => (tokens[i] === mask ? "masked" : fresh.has(start + i) ? "new" : "old"),
      word = (i) => (tokens[i] === mask ? "?" : glyphs(run.piece(tokens[i]).text));
    this.frame(rows * HIGH);
    const shown = tokens.flatMap((_, i) => (state(i) === "old" ? [] : [i]));
    pool(this.bars, shown.length, () => svg("g", {}, svg("title"), svg("rect", { rx: 3 }))).forEach((group, at) => {
      const i = shown[at],
        tall = Math.max(2, BARS * chances[i]);
      set(group, { "data-s": state(i) });
      setText(group.firstChild, `${word(i)}: ${percent(chances[i])}`);
      set(group.lastChild, { x: x(i) - w * 0.3, y: foot(i) - tall, width: w * 0.6, height: tall });
    });
    const items = tokens.map((_, i) => ({ x: x(i), y: foot(i) + 8, state: state(i), whole: word(i) })),
      moving = chips(this.cells, items, this.context.theme, w - 2);
    this.label(
      shown.map((i) => {
        const share = percent(chances[i]),
          top = foot(i) - Math.max(2, BARS * chances[i]) - 5;
        return [x(i), top, "middle", w < 46 ? share.replace(" %", "") : share];
      }),
    );
    if (next)
      comeIn(
        moving.filter((_, i) => items[i].state === "new"),
        { opacity: 0 },
      );
  }

  describe(t) {
    const step = this.run.steps[t - 1],
      told = step && this.told(step);
    if (!step) return tr`Before the first step.`;
    if (!told) return tr`No block is open: the text is read.`;
    if (!told.written.length) return tr`The full block of ${told.tokens.length} is read once more, and kept.`;
    const masks = told.tokens.filter((token) => token === told.mask).length;
    return tr`Block of ${told.tokens.length}: ${told.written.length} written in this pass, ${masks} masks left.`;
  }
}
