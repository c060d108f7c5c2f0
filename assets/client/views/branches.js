// Beams or reasoning paths: one column for each of the latest steps, a link from each branch to the one it grew from.

import { el, frame, svg } from "../player/dom.js";
import { Parts, render } from "../player/drawing.js";
import { cut, glyphs, number, tr, translated } from "../player/words.js";

export const view = { title: "Branches", place: 190, needs: ["branches"] };

const COLUMNS = 16,
  W = 108,
  X = 140,
  H = 34,
  Y = 42;
const FATES = { alive: ["drafted", ""], pruned: ["unreached", "✕"], finished: ["old", "■"], chosen: ["accepted", "★"] };

const link = (x1, y1, x2, y2) => `M${x1},${y1}C${x1 + 16},${y1} ${x2 - 16},${y2} ${x2},${y2}`;

export class Branches extends Parts {
  picture = svg("svg", { class: "dx-tree", role: "img", "aria-label": tr`Branches over steps` });
  scroll = this.below(el("div", "dx-scroll", this.picture));

  show(t) {
    const steps = this.run.steps.slice(Math.max(0, t - COLUMNS), t).filter((step) => step.branches?.length),
      latest = new Map(),
      edges = [],
      nodes = [];
    const tall = Math.max(1, ...steps.map((step) => step.branches.length));
    steps.forEach((step, column) => {
      const fresh = [];
      step.branches.forEach((branch, row) => {
        const [state, mark] = FATES[Object.hasOwn(FATES, branch.fate ?? "alive") ? (branch.fate ?? "alive") : "alive"],
          x = 4 + column * X,
          y = 4 + row * Y;
        const from = latest.get(branch.parent) ?? latest.get(branch.id),
          words = glyphs(branch.tokens.map((id) => this.run.piece(id).text).join(""), 60),
          scores = Object.entries(branch.scores ?? {}).map(([name, value]) => `${name} ${number(value)}`);
        const d = from && link(from.x + W, from.y + H / 2, x, y + H / 2),
          told = [tr`branch ${branch.id}`, translated(branch.fate ?? "alive"), ...scores].join(", ");
        if (from) edges.push(["path", { d, "stroke-width": 2, "data-s": state }]);
        nodes.push([
          { transform: `translate(${x},${y})`, "data-s": state },
          ["title", {}, `${told}: ${words}`],
          ["rect", { width: W, height: H, rx: 6 }],
          ["text", { x: 7, y: 14 }, cut(words, 12)],
          ["text", { x: 7, y: 28, class: "dx-small" }, cut(`#${branch.id}  ${scores[0] ?? ""}`, 18)],
          ["text", { x: W - 7, y: 28, "text-anchor": "end" }, mark],
        ]);
        fresh.push([branch.id, { x, y }]);
      });
      for (const [id, place] of fresh) latest.set(id, place);
    });
    const w = Math.max(1, steps.length) * X,
      h = tall * Y + 4;
    frame(this.picture, w, h);
    this.picture.replaceChildren();
    render(this.picture, [...edges, ...nodes]);
    this.scroll.scrollLeft = w;
  }

  describe(t) {
    const branches = this.run.steps[t - 1]?.branches ?? [];
    return branches.length
      ? tr`${branches.length} branches, ${branches.filter((b) => b.fate === "pruned").length} pruned.`
      : "";
  }
}
