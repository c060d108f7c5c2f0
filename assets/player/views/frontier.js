// A search over partial solutions: its tree with the best way thick, the open ones in order, and what the same tokens
// would be as whole solutions.

import { cut, glyphs, number } from "../codec.js";
import { pool, set, setText, svg } from "../dom.js";
import { comeIn } from "../motion.js";
import { StepPicture } from "../steppicture.js";
import { tr } from "../words.js";
import { back, open, returns, states } from "./openstates.js";
import { answerOf, marked } from "./plainly.js";

export const view = { name: "Frontier", title: "Frontier and tree", place: 159, needs: ["frontier"] };

const TOP = 40,
  TALL = 330, // of the tree
  LINE = 22, // of a leaf at most, and of the list
  WIDE = 150, // of a step of depth at most
  LETTERS = 11,
  OPEN = 7, // rows of the list
  SIDE = 330, // its width
  NARROW = 760,
  HUE = (r) => `color-mix(in srgb, var(--accepted-fill) ${Math.round(100 * r)}%, var(--rejected-line))`;

export class Frontier extends StepPicture {
  load(run, dom, context) {
    this.begin(run, dom, context, ["ghost", "list", "edges", "back", "nodes"]);
  }

  #text({ tokens }) {
    return glyphs(tokens.map((id) => (this.run.eos.has(id) ? "" : this.run.piece(id).text)).join(""), 80);
  }

  draw(_, step, next) {
    const { width } = this,
      wide = width >= NARROW,
      found = states(this.run, this.t),
      waiting = open(this.run, this.t, found),
      best = waiting[0] ?? null,
      left = wide ? SIDE + 30 : 8,
      low = TOP + TALL + 16;
    this.labels = [];
    this.frame(wide ? low : low + 60 + (OPEN + 1) * LINE + 130);
    this.#tree(found, best, left, width - left - 8, next);
    const top = wide ? 0 : low + 26;
    this.#rows(waiting, top, wide ? SIDE : width - 8);
    this.#whole(step, best, found, top + 44 + OPEN * LINE, wide ? SIDE : width - 8);
    this.label(this.labels);
  }

  /** The frontier, the best one first. */
  #rows(waiting, top, width) {
    const shown = waiting.slice(0, OPEN),
      most = Math.max(0.01, ...shown.map(({ f }) => f)),
      room = width - 178;
    this.labels.push(
      [
        4,
        top + 14,
        "start",
        waiting[0]?.fate === "chosen" ? tr`The solution, and what stays open` : tr`Open, the most promising first`,
      ],
      [4, top + 31, "start", tr`bar: cost of the way g, then doubt h`],
    );
    const node = () => svg("g", {}, svg("title"), svg("rect", { height: 12 }), svg("rect", { height: 12 }));
    pool(this.list, shown.length, node).forEach((group, n) => {
      const { id, f, g, h } = shown[n],
        y = top + 38 + n * LINE,
        [title, cost, doubt] = group.childNodes,
        x = 96;
      set(cost, { x, y: y + 4, width: (room * g) / most, style: "fill:var(--option1-fill)" });
      set(doubt, { x: x + (room * g) / most, y: y + 4, width: (room * h) / most, style: "fill:var(--option0-fill)" });
      setText(title, tr`path ${id}: f ${number(f)} = g ${number(g)} + h ${number(h)}`);
      this.labels.push(
        [4, y + 14, "start", `${n ? " " : "→"} ${cut(this.#text(shown[n]), 9)}`],
        [x + (room * f) / most + 6, y + 14, "start", Number(f.toPrecision(2))],
      );
    });
  }

  /** The baseline: the same tokens as whole solutions of this depth. */
  #whole({ facts = {} }, best, found, top, width) {
    const way = [];
    for (let one = best; one && one.parent >= 0; one = found.get(one.parent)) way.push(one);
    const written = way.reduce((sum, { tokens }) => sum + tokens.length, 0),
      n = best?.fate === "chosen" && written ? Math.floor((facts.tokens_of_all_paths ?? 0) / written) : 0,
      shown = Math.min(n, 8),
      x = (i) => 10 + (i * Math.min(width - 20, 240)) / Math.max(1, way.length),
      chains = pool(this.ghost, shown, () => svg("path", "dx-eta"));
    chains.forEach((chain, i) =>
      set(chain, {
        d: `M${x(0)},${top + 34 + i * 9}${way.map((_, k) => `H${x(k + 1)}m0,-3v6m0,-3`).join("")}`,
        "data-s": "unreached",
      }),
    );
    if (n)
      this.labels.push(
        [4, top + 10, "start", tr`grey, for comparison (derived): the same`],
        [4, top + 25, "start", tr`${facts.tokens_of_all_paths} tokens as best-of-${n}, whole lines`],
      );
  }

  /** Leaves each have a line of their own, a state stands at the middle of its children. Duplicates are left out. */
  #tree(found, best, left, width, next) {
    const below = new Map(),
      at = new Map(),
      way = new Set();
    for (const one of found.values())
      if (one.f !== undefined || one.parent < 0) below.set(one.parent, [...(below.get(one.parent) ?? []), one]);
    for (let one = best; one; one = found.get(one.parent)) way.add(one.id);
    let line = 0,
      deep = 1;
    const place = (one, depth) => {
      const children = below.get(one.id) ?? [];
      deep = Math.max(deep, depth);
      for (const child of children) place(child, depth + 1);
      const lines = children.map(({ id }) => at.get(id).line);
      at.set(one.id, { depth, line: lines.length ? (lines[0] + lines.at(-1)) / 2 : line++ });
    };
    for (const one of found.values()) if (!found.has(one.parent)) place(one, 0);
    const high = Math.min(LINE, TALL / Math.max(1, line)),
      across = Math.min(WIDE, (width - 96) / deep),
      spot = ({ id }) => ({ x: left + 10 + at.get(id).depth * across, y: TOP + 14 + at.get(id).line * high }),
      drawn = [...found.values()].filter(({ id }) => at.has(id)),
      edges = drawn.filter(({ parent }) => at.has(parent)),
      gone = returns(this.run, this.t).filter(({ last, best: to }) => at.has(last.id) && at.has(to.id)),
      fresh = (one) => one.step === this.t - 1 && one.fate !== "expanded" && one.tokens.length > 0;
    pool(this.edges, edges.length, () => svg("path")).forEach((path, i) => {
      const a = spot(found.get(edges[i].parent)),
        b = spot(edges[i]),
        thick = way.has(edges[i].id);
      set(path, { d: `M${a.x},${a.y}C${a.x + 40},${a.y} ${b.x - 40},${b.y} ${b.x},${b.y}` });
      path.style.cssText = `opacity:1;stroke:var(--${thick ? "accent" : "line"});stroke-width:${thick ? 4 : 1.2}`;
    });
    const node = () => svg("g", {}, svg("title"), svg("circle"), svg("text", { y: 4 }));
    const nodes = pool(this.nodes, drawn.length, node);
    nodes.forEach((group, i) => {
      const one = drawn[i],
        { x, y } = spot(one),
        [title, dot, text] = group.childNodes,
        known = one.h !== undefined && one.parent >= 0,
        named = one.parent >= 0 && across > 70 && (high > 13 || way.has(one.id));
      set(group, { transform: `translate(${x.toFixed(1)},${y.toFixed(1)})` });
      set(dot, { r: way.has(one.id) ? 8 : Math.min(6, Math.max(3, high / 2)) });
      const fill = known ? HUE(1 - one.h) : "var(--panel)";
      dot.style.cssText = `fill:${fill};stroke:var(--text);stroke-width:${way.has(one.id) ? 2 : 0.5}`;
      const above = way.has(one.id) && one.id !== best?.id;
      set(text, above ? { x: 0, y: -12, "text-anchor": "middle" } : { x: 12, y: 4, "text-anchor": "start" });
      setText(text, named ? cut(this.#text(one), Math.min(LETTERS, Math.floor((across - 14) / 7.4))) : "");
      setText(title, known ? tr`path ${one.id}: r ${number(1 - one.h)}, f ${number(one.f)}` : tr`path ${one.id}`);
    });
    if (next)
      comeIn(
        nodes.filter((_, i) => fresh(drawn[i])),
        { opacity: 0 },
      );
    const arcs = gone.flatMap(({ last, best: to, now }, n) => {
      const a = spot(last),
        b = spot(to),
        side = Math.min(Math.max(a.x, b.x) + 70, left + width - 8),
        style = `fill:none;stroke:var(--warn);stroke-width:${now ? 3 : 1.6};opacity:${now ? 1 : 0.45}`;
      if (now || (best?.fate === "chosen" && n === gone.length - 1))
        this.labels.push([0.25 * a.x + 0.75 * side - 20, (a.y + b.y) / 2 - 8, "middle", tr`back to`]);
      return [
        { d: `M${a.x + 8},${a.y}C${side},${a.y} ${side},${b.y} ${b.x + 10},${b.y}`, style },
        { d: `M${b.x + 20},${b.y - 6}L${b.x + 10},${b.y}L${b.x + 20},${b.y + 6}`, style },
      ];
    });
    pool(this.back, arcs.length, () => svg("path")).forEach((path, i) => set(path, arcs[i]));
    const roots = drawn.filter(({ parent }) => parent < 0);
    for (const root of across > 70 ? roots : [])
      this.labels.push([left, Math.max(TOP + 2, spot(root).y - 14), "start", tr`question`]);
    const n = gone.length;
    this.labels.push([
      left,
      14,
      "start",
      this.width < NARROW
        ? tr`Search tree; went back ${n}×`
        : tr`Every partial solution that was tried; the search went back to an older one ${n} ×`,
    ]);
    this.labels.push([
      left,
      31,
      "start",
      this.width < NARROW
        ? tr`blue: looks right, orange: wrong`
        : tr`blue: the reward model finds the step right, orange: wrong; thick: the best way so far`,
    ]);
    if (best?.fate === "chosen") {
      const { x, y } = spot(best);
      this.labels.push([
        Math.min(x, left + width - 70),
        y + 24,
        "middle",
        `★ ${marked(answerOf(this.run, this.#text(best))[1])}`,
      ]);
    }
  }

  describe(t) {
    const found = states(this.run, t),
      [best] = open(this.run, t, found);
    if (!t || !best) return t ? tr`Nothing is open.` : tr`Before the first step.`;
    if (best.fate === "chosen") return tr`★ path ${best.id} is the solution.`;
    const gone = back(this.run, t, found),
      from = gone ? tr` Back from path ${gone.last.id}.` : "";
    return tr`Next: path ${best.id}, f ${number(best.f)}.${from}`;
  }
}
