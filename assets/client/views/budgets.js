// What a sampler may spend at each step, as columns over the tokens that were drawn.

import { cut, glyphs } from "../player/codec.js";
import { pool, set, setText, svg } from "../player/dom.js";
import { percent } from "../player/shares.js";
import { tr } from "../player/words.js";

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
      labels = [],
      whole = shown.find(({ step }) => step.truncation?.whole)?.step.truncation,
      high = Math.max(1e-9, ...this.run.steps.map(({ truncation: c }) => c?.whole ?? (c ? width(c.kept, most) : 0)));
    set(this.strip, { viewBox: `0 0 ${across} ${foot + 66}`, width: across, height: foot + 66 });
    const node = () =>
      svg("g", { style: "cursor:pointer" }, svg("title"), svg("rect", { rx: 3 }), svg("rect", { rx: 3 }));
    pool(this.columns, shown.length, node).forEach((group, i) => {
      const { step, at } = shown[i],
        c = step.truncation,
        [title, all, fill] = group.childNodes,
        x = left + i * CELL,
        tall = c ? (LOW * (c.whole ?? width(c.kept, most))) / high : 0,
        part = c?.whole ? Math.min(1, c.line / c.whole) * tall : tall;
      group.onclick = () => this.context.seek(at);
      set(group, { opacity: at > t ? 0.25 : 1 });
      set(all, { x: x + 4, y: foot - tall, width: CELL - 8, height: Math.max(1, tall) });
      all.style.cssText = `fill:none;stroke:var(--muted);stroke-width:${at === t ? 2.5 : 1}`;
      set(fill, { x: x + 4, y: foot - part, width: CELL - 8, height: Math.max(1, part) });
      fill.style.cssText = "fill:var(--accepted-fill)";
      setText(title, tr`step ${at}`);
      if (at > t || !c) return;
      const token = step.commits?.tokens.at(-1),
        middle = x + CELL / 2,
        kept = c.others?.[other];
      labels.push([middle, foot + 18, token === undefined ? "" : cut(glyphs(this.run.piece(token).text, 8), 5)]);
      labels.push([middle, foot + 36, short(c.kept)]);
      if (kept !== undefined) labels.push([middle, foot + 54, short(kept)]);
    });
    const rows = [[foot + 18, tr`drawn`], [foot + 36, tr`kept here`], ...(other ? [[foot + 54, tr`by ${other}`]] : [])];
    const said = whole
      ? across > 700
        ? tr`Each step: the model's entropy (outline) and the budget, ${percent(whole.line / whole.whole)} of it (blue)`
        : tr`Each step: entropy (outline), budget (blue)`
      : tr`Each step: tokens kept, on a logarithmic scale`;
    pool(this.words, labels.length + rows.length + 1, () => svg("text")).forEach((text, i) => {
      const [x, y, words] =
        labels[i] ?? (rows[i - labels.length] ? [left - 8, ...rows[i - labels.length]] : [4, 16, said]);
      set(text, { x, y, "text-anchor": labels[i] ? "middle" : rows[i - labels.length] ? "end" : "start" });
      setText(text, words);
    });
  }
}
