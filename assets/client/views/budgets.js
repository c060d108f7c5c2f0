// What a sampler may spend at each step, as columns over the tokens that were drawn.

import { set, svg } from "../player/dom.js";
import { render, write } from "../player/drawing.js";
import { cut, glyphs, percent, tr } from "../player/words.js";

const LOW = 96, // height of a column
  CELL = 46; // its width

const short = (n) => (n >= 1e4 ? `${Math.round(n / 1000)}k` : String(n));

/** A number of tokens as a part of the most, on a logarithmic scale. */
export const width = (n, most) => Math.log2(n + 1) / Math.log2(most + 1);

export class Budgets {
  constructor(run, context) {
    Object.assign(this, { run, context });
    this.strip = svg("svg", { role: "img", class: "dx-tree dx-tower", "aria-label": tr`Each step` });
    this.columns = svg("g");
    this.words = svg("g");
    this.strip.append(this.columns, this.words);
  }

  /** The steps up to t as columns: what there is in all, filled up to the line, over the token that was drawn and how
   * many could have been. */
  show(t, across, names, most) {
    const left = 104,
      n = Math.max(1, Math.floor((across - left - 8) / CELL)),
      first = Math.max(0, Math.min(t, this.run.length) - n),
      shown = this.run.steps
        .slice(first, Math.max(t, Math.min(n, this.run.length)))
        .map((step, i) => ({ step, at: first + i + 1 })),
      other = names[1] ?? names[0],
      foot = 30 + LOW,
      whole = shown.find(({ step }) => step.truncation?.whole)?.step.truncation,
      high = Math.max(1e-9, ...this.run.steps.map(({ truncation: c }) => c?.whole ?? (c ? width(c.kept, most) : 0)));
    set(this.strip, { viewBox: `0 0 ${across} ${foot + 66}`, width: across, height: foot + 66 });
    const labels = [];
    render(this.columns, shown, ({ step, at }, i) => {
      const { truncation: c, commits } = step,
        x = left + i * CELL,
        middle = x + CELL / 2,
        tall = c ? (LOW * (c.whole ?? width(c.kept, most))) / high : 0,
        part = c?.whole ? Math.min(1, c.line / c.whole) * tall : tall,
        box = { rx: 3, x: x + 4, width: CELL - 8 },
        outline = `fill:none;stroke:var(--muted);stroke-width:${at === t ? 2.5 : 1}`;
      if (at <= t && c) {
        const token = commits?.tokens.at(-1),
          kept = c.others?.[other];
        if (token !== undefined)
          labels.push([middle, foot + 18, "middle", cut(glyphs(this.run.piece(token).text, 8), 5)]);
        labels.push([middle, foot + 36, "middle", short(c.kept)]);
        if (kept !== undefined) labels.push([middle, foot + 54, "middle", short(kept)]);
      }
      return [
        { opacity: at > t ? 0.25 : 1, style: "cursor:pointer" },
        ["title", {}, tr`step ${at}`],
        ["rect", { ...box, y: foot - tall, height: Math.max(1, tall), style: outline }],
        ["rect", { ...box, y: foot - part, height: Math.max(1, part), style: "fill:var(--accepted-fill)" }],
      ];
    }).forEach((group, i) => (group.onclick = () => this.context.seek(shown[i].at)));
    const said = whole
      ? across > 700
        ? tr`Each step: the model's entropy (outline) and the budget, ${percent(whole.line / whole.whole)} of it (blue)`
        : tr`Each step: entropy (outline), budget (blue)`
      : tr`Each step: tokens kept, on a logarithmic scale`;
    labels.push([left - 8, foot + 18, "end", tr`drawn`], [left - 8, foot + 36, "end", tr`kept here`]);
    if (other) labels.push([left - 8, foot + 54, "end", tr`by ${other}`]);
    write(this.words, [...labels, [4, 16, "start", said]]);
  }
}
