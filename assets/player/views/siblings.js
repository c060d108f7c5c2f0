// Siblings that are tested one after the other: at each draw what is left of the target's distribution and of the
// draft's, the token that was drawn, and the number that decided. A refusal takes from both.

import { CHIP, chips } from "../chips.js";
import { glyphs } from "../codec.js";
import { many } from "../counted.js";
import { el, legend, pool, set, setText, svg } from "../dom.js";
import { comeIn } from "../motion.js";
import { short } from "../sliding.js";
import { StepPicture } from "../steppicture.js";
import { tr } from "../words.js";

export const view = { name: "Siblings", title: "One draw after the other", place: 46, needs: ["draws"] };

const TOP = 48,
  TALL = 110,
  FOOT = TOP + TALL,
  LEFT = 8,
  GAP = 34,
  WIDEST = 330, // of a panel
  LEAST = 150,
  HIGH = FOOT + CHIP + 54;

export class Siblings extends StepPicture {
  load(run, dom, context) {
    this.nodes = el("div", { class: "dx-sliding", role: "group", "aria-label": tr`Nodes of this step` });
    const key = [
      legend(context.theme, "p", tr`left of the target's p`),
      legend(context.theme, "q", tr`left of the draft's q`),
    ];
    this.begin(run, dom, context, ["panels"], el("div", "dx-legend", ...key));
    this.picture.before(this.nodes);
  }

  show(t, hurry) {
    if (t !== this.t) this.chosen = null;
    super.show(t, hurry);
  }

  told({ draws }) {
    return draws?.nodes.length ? draws.nodes : null;
  }

  /** The node that a person chose, else the one with the most draws. */
  #at(nodes) {
    return this.chosen ?? nodes.reduce((best, node, i) => (node.draws.length > nodes[best].draws.length ? i : best), 0);
  }

  also(nodes) {
    this.#choose(nodes ?? [], nodes ? this.#at(nodes) : 0);
  }

  #choose(nodes, at) {
    pool(this.nodes, nodes.length, () => el("button")).forEach((button, i) => {
      button.onclick = () => {
        this.chosen = i;
        this.show(this.t);
      };
      set(button, { "aria-pressed": String(i === at) });
      setText(button, tr`after ${this.word(nodes[i].after, 10)}: ${nodes[i].draws.length}`);
    });
  }

  draw(nodes, _, next) {
    const node = nodes[this.#at(nodes)];
    const panels = node.draws.map((draw, i) => ({ ...draw, i }));
    if (node.left?.length) panels.push({ target: node.left, draft: null, i: panels.length });
    const columns = Math.max(1, Math.min(panels.length, Math.floor((this.width - LEFT + GAP) / (LEAST + GAP)))),
      w = Math.min(WIDEST, (this.width - LEFT - (columns - 1) * GAP) / columns),
      lines = Math.ceil(panels.length / columns),
      labels = [],
      boxes = [];
    this.frame(lines * HIGH);
    const drawn = pool(this.panels, panels.length, () => svg("g", {}, svg("path"), svg("g"), svg("g")));
    drawn.forEach((group, k) => {
      const panel = panels[k],
        x = LEFT + (k % columns) * (w + GAP),
        y = Math.floor(k / columns) * HIGH,
        [base, bars, chip] = group.childNodes;
      set(base, { d: `M${x},${y + FOOT}H${x + w}` });
      this.#bars(bars, node, panel, { x, y, w }, labels);
      this.#told(chip, panel, node, { x, y, w }, labels, boxes);
    });
    this.label(labels);
    if (next) comeIn(drawn, { opacity: 0 });
  }

  /** For each token what is left of p and q, side by side. */
  #bars(parent, node, panel, { x, y, w }, labels) {
    const pairs = node.tokens.flatMap((token, i) =>
        ["p", "q"].map((state) => ({ token, i, state, share: (state === "p" ? panel.target : panel.draft)?.[i] ?? 0 })),
      ),
      wide = w / node.tokens.length,
      bar = (wide - 6) / 2;
    pool(parent, pairs.length, () => svg("g", {}, svg("title"), svg("rect", { rx: 2 }))).forEach((group, k) => {
      const { token, i, state, share } = pairs[k],
        high = share > 0 ? Math.max(1, share * TALL) : 0;
      set(group, { "data-s": state });
      group.lastChild.style.opacity = panel.token === undefined || panel.token === token ? 1 : 0.45;
      set(group.lastChild, {
        x: x + i * wide + 3 + (state === "q" ? bar : 0),
        y: y + FOOT - high,
        width: bar,
        height: high,
      });
      setText(group.firstChild, `${this.word(token, 40)}: ${state} ${short(share)}`);
    });
    const chars = Math.floor(wide / 7.4);
    if (chars > 2)
      node.tokens.forEach((token, i) =>
        labels.push([x + (i + 0.5) * wide, y + FOOT + 16, "middle", this.word(token, chars)]),
      );
  }

  /** The draw above its panel, and what became of it below. */
  #told(parent, panel, node, { x, y, w }, labels) {
    const { token, chance, drawn, accepted, i } = panel;
    if (token === undefined) {
      const own = this.run.steps[this.t - 1].tree?.emitted.at(-1);
      labels.push([x, y + 16, "start", tr`what is left of p`]);
      chips(parent, own === undefined ? [] : [this.#chip(own, "correction", x + w / 2, y)], this.context.theme, w);
      return;
    }
    const rule = `min(1, p/q) = ${short(chance)}`,
      column = x + ((node.tokens.indexOf(token) + 0.5) * w) / node.tokens.length;
    labels.push([x, y + 16, "start", tr`draw ${i + 1}: ${this.word(token, 14)}`]);
    labels.push([x, y + 34, "start", drawn == null ? rule : `u = ${short(drawn)} ${accepted ? "<" : "≥"} ${rule}`]);
    if (!accepted && i + 1 < node.draws.length + (node.left?.length ? 1 : 0))
      labels.push([x + w + GAP / 2, y + FOOT - TALL / 2, "middle", "→"]);
    chips(
      parent,
      [this.#chip(token, accepted ? "accepted" : "rejected", Math.max(column, x + 40), y)],
      this.context.theme,
      w,
    );
  }

  #chip(token, state, x, y) {
    return { x, y: y + FOOT + 24, state, whole: glyphs(this.run.piece(token).text), sign: true };
  }

  describe(t) {
    const nodes = this.run.steps[t - 1]?.draws?.nodes ?? [];
    if (!nodes.length) return t ? tr`No sibling was tested in this step.` : tr`Before the first step.`;
    const tested = nodes.reduce((sum, { draws }) => sum + draws.length, 0),
      rescued = nodes.filter(({ draws }) => draws.length > 1 && draws.at(-1).accepted).length;
    return tr`${many(tested, "drafted")} tested, no two siblings alike; ${rescued} accepted after a sibling was \
refused.`;
  }
}
