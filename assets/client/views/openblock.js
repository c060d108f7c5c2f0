// The block after the text, as one pass leaves it: the tokens that stand, those of this pass in their colour, and over
// each how likely it was when it was written; over a mask how likely its best guess is.

import { render, StepPicture } from "../player/drawing.js";
import { percent, tr } from "../player/words.js";

export const view = { title: "The block that is being filled", place: 152, needs: ["openblock"] };

const LEAST = 46, // of a column, in CSS pixels, as far as ROWS allow
  WIDEST = 104,
  ROWS = 6,
  BARS = 60, // height of a probability of 1
  FOOT = 20 + BARS,
  HIGH = FOOT + 52; // of a row

export class OpenBlock extends StepPicture {
  layers = ["bars", "cells"];
  none = tr`No block is open: the text is read.`;
  told = ({ openblock }) => openblock?.tokens.length && openblock;

  draw({ start, mask, tokens, chances, written }) {
    const { width } = this,
      n = tokens.length,
      rows = Math.min(ROWS, Math.max(1, Math.ceil((n * LEAST) / width))),
      columns = Math.ceil(n / rows),
      w = Math.min(WIDEST, width / columns),
      x = (i) => ((i % columns) + 0.5) * w,
      foot = (i) => Math.floor(i / columns) * HIGH + FOOT,
      fresh = new Set(written),
      state = (i) => (tokens[i] === mask ? "masked" : fresh.has(start + i) ? "new" : "old"),
      word = (i) => (tokens[i] === mask ? "?" : this.word(tokens[i])),
      shown = tokens.flatMap((_, i) => (state(i) === "old" ? [] : [i])),
      tall = (i) => Math.max(2, BARS * chances[i]);
    render(this.bars, shown, (i) => [
      { "data-s": state(i) },
      ["title", {}, `${word(i)}: ${percent(chances[i])}`],
      ["rect", { rx: 3, x: x(i) - w * 0.3, y: foot(i) - tall(i), width: w * 0.6, height: tall(i) }],
    ]);
    const items = tokens.map((_, i) => ({ x: x(i), y: foot(i) + 8, state: state(i), whole: word(i) })),
      moving = this.chips(this.cells, items, w - 2),
      share = (i) => (w < 46 ? percent(chances[i]).replace(" %", "") : percent(chances[i])),
      labels = shown.map((i) => [x(i), foot(i) - tall(i) - 5, "middle", share(i)]);
    this.frame(rows * HIGH, labels);
    return moving.filter((_, i) => items[i].state === "new");
  }

  sentence(told) {
    if (!told.written.length) return tr`The full block of ${told.tokens.length} is read once more, and kept.`;
    const masks = told.tokens.filter((token) => token === told.mask).length;
    return tr`Block of ${told.tokens.length}: ${told.written.length} written in this pass, ${masks} masks left.`;
  }
}
