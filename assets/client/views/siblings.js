// Siblings that are tested one after the other: at each draw what is left of the target's distribution and of the
// draft's, the token that was drawn, and the number that decided. A refusal takes from both.

import { el, legend } from "../player/dom.js";
import { CHIP, LETTER, render, StepPicture } from "../player/drawing.js";
import { short } from "../player/sliding.js";
import { many, tr } from "../player/words.js";

export const view = { title: "One draw after the other", place: 46, needs: ["draws"] };

const TOP = 48,
  TALL = 110,
  FOOT = TOP + TALL,
  LEFT = 8,
  GAP = 34,
  WIDEST = 330, // of a panel
  LEAST = 150,
  HIGH = FOOT + CHIP + 54;

export class Siblings extends StepPicture {
  none = tr`No sibling was tested in this step.`;

  layers = ["panels"];
  nodes = el("div", { class: "dx-sliding", role: "group", "aria-label": tr`Nodes of this step` });
  above = [this.nodes];
  legend = this.below(el("div", "dx-legend"));
  keys = (theme) => [legend(theme, "p", tr`left of the target's p`), legend(theme, "q", tr`left of the draft's q`)];

  told = ({ draws }) => draws?.nodes.length && draws.nodes;

  /** The node that a person chose, else the one with the most draws. */
  #at(nodes) {
    return this.picked ?? nodes.reduce((best, node, i) => (node.draws.length > nodes[best].draws.length ? i : best), 0);
  }

  also(nodes) {
    const at = nodes && this.#at(nodes),
      words = ({ after, draws }) => tr`after ${this.word(after, 10)}: ${draws.length}`;
    this.buttons(
      this.nodes,
      (nodes ?? []).map((node, i) => [words(node), i === at, () => (this.picked = i)]),
    );
  }

  draw(nodes) {
    const node = nodes[this.#at(nodes)],
      panels = node.draws.map((draw, i) => ({ ...draw, i }));
    if (node.left?.length) panels.push({ target: node.left, draft: null, i: panels.length });
    const columns = Math.max(1, Math.min(panels.length, Math.floor((this.width - LEFT + GAP) / (LEAST + GAP)))),
      w = Math.min(WIDEST, (this.width - LEFT - (columns - 1) * GAP) / columns),
      lines = Math.ceil(panels.length / columns),
      labels = [],
      at = (k) => ({ x: LEFT + (k % columns) * (w + GAP), y: Math.floor(k / columns) * HIGH, w });
    const ground = ({ x, y }) => ["path", { d: `M${x},${y + FOOT}H${x + w}` }],
      drawn = render(this.panels, panels, (panel, k) => {
        const bars = this.#bars(node, panel, at(k), labels);
        return [{}, ground(at(k)), ["g", {}, ...bars], ["g", {}]];
      });
    drawn.forEach((group, k) => this.chips(group.lastChild, this.#drawn(panels[k], node, at(k), labels), w));
    this.frame(lines * HIGH, labels);
    return drawn;
  }

  /** For each token what is left of p and q, side by side. */
  #bars(node, panel, { x, y, w }, labels) {
    const wide = w / node.tokens.length,
      bar = (wide - 6) / 2,
      chars = Math.floor(wide / LETTER);
    if (chars > 2)
      node.tokens.forEach((token, i) =>
        labels.push([x + (i + 0.5) * wide, y + FOOT + 16, "middle", this.word(token, chars)]),
      );
    return node.tokens.flatMap((token, i) =>
      ["p", "q"].map((state) => {
        const share = (state === "p" ? panel.target : panel.draft)?.[i] ?? 0,
          height = share > 0 ? Math.max(1, share * TALL) : 0,
          left = x + i * wide + 3 + (state === "q" ? bar : 0),
          style = `opacity:${panel.token === undefined || panel.token === token ? 1 : 0.45}`,
          title = `${this.word(token, 40)}: ${state} ${short(share)}`,
          box = { rx: 2, x: left, y: y + FOOT - height, width: bar, height, style };
        return ["g", { "data-s": state }, ["title", {}, title], ["rect", box]];
      }),
    );
  }

  /** The draw above its panel; gives the token that came of it, as a box below. */
  #drawn(panel, node, { x, y, w }, labels) {
    const { token, chance, drawn, accepted, i } = panel;
    if (token === undefined) {
      const own = this.run.steps[this.t - 1].tree?.emitted.at(-1);
      labels.push([x, y + 16, "start", tr`what is left of p`]);
      return own === undefined ? [] : [this.#chip(own, "correction", x + w / 2, y)];
    }
    const rule = `min(1, p/q) = ${short(chance)}`,
      column = x + ((node.tokens.indexOf(token) + 0.5) * w) / node.tokens.length;
    labels.push([x, y + 16, "start", tr`draw ${i + 1}: ${this.word(token, 14)}`]);
    labels.push([x, y + 34, "start", drawn == null ? rule : `u = ${short(drawn)} ${accepted ? "<" : "≥"} ${rule}`]);
    if (!accepted && i + 1 < node.draws.length + (node.left?.length ? 1 : 0))
      labels.push([x + w + GAP / 2, y + FOOT - TALL / 2, "middle", "→"]);
    return [this.#chip(token, accepted ? "accepted" : "rejected", Math.max(column, x + 40), y)];
  }

  #chip(token, state, x, y) {
    return { x, y: y + FOOT + 24, state, whole: this.word(token), sign: true };
  }

  sentence(nodes) {
    const tested = nodes.reduce((sum, { draws }) => sum + draws.length, 0),
      rescued = nodes.filter(({ draws }) => draws.length > 1 && draws.at(-1).accepted).length;
    return tr`${many(tested, "drafted")} tested, no two siblings alike; ${rescued} accepted after a sibling was \
refused.`;
  }
}
