// A search over partial solutions: its tree with the best way thick, the open ones in order, and what the same tokens
// would be as whole solutions.

import { MIDDLE, render, StepPicture } from "../player/drawing.js";
import { tidy } from "../player/layout.js";
import { cut, glyphs, number, tr } from "../player/words.js";
import { answerOf, marked } from "./asked.js";

export const view = { title: "Frontier and tree", place: 159, needs: ["frontier"] };

const TOP = 40,
  TALL = 330, // of the tree
  LINE = 22, // of a leaf at most, and of the list
  WIDE = 150, // of a step of depth at most
  LETTERS = 11,
  OPEN = 7, // rows of the list
  SIDE = 330, // its width
  NARROW = 760,
  HUE = (r) => `color-mix(in srgb, var(--accepted-fill) ${Math.round(100 * r)}%, var(--rejected-line))`;

/** Every path of a search after t steps, by its id: {id, parent, tokens, fate, f, g, h, step}. */
function states(run, t) {
  const found = new Map();
  run.steps.slice(0, t).forEach(({ branches = [] }, step) => {
    for (const { id, parent, tokens, fate = "alive", scores = {} } of branches) {
      const before = found.get(id);
      found.set(id, { id, parent, tokens: tokens.length ? tokens : (before?.tokens ?? []), fate, ...scores, step });
    }
  });
  return found;
}

/** The open ones after step t, the best first. */
const open = (run, t, found) => (run.steps[t - 1]?.frontier?.open ?? []).map((id) => found.get(id));

/** Where the steps up to t left the path that they expanded for an older one: [{last, best, now}]. */
const returns = (run, t) =>
  run.steps.slice(0, t).flatMap(({ frontier }, i) => {
    if (!frontier?.returned) return [];
    const found = states(run, i + 1);
    return { last: found.get(frontier.expanded), best: open(run, i + 1, found)[0], now: i + 1 === t };
  });

export class Frontier extends StepPicture {
  layers = ["ghost", "list", "edges", "back", "nodes"];
  none = tr`Nothing is open.`;

  #text({ tokens }) {
    return glyphs(this.spelled(tokens), 80);
  }

  draw(_, step) {
    const { width } = this,
      wide = width >= NARROW,
      found = states(this.run, this.t),
      waiting = open(this.run, this.t, found),
      best = waiting[0] ?? null,
      left = wide ? SIDE + 30 : 8,
      low = TOP + TALL + 16;
    this.labels = [];
    const fresh = this.#tree(found, best, left, width - left - 8),
      top = wide ? 0 : low + 26;
    this.#rows(waiting, top, wide ? SIDE : width - 8);
    this.#whole(step, best, found, top + 44 + OPEN * LINE, wide ? SIDE : width - 8);
    this.frame(wide ? low : low + 60 + (OPEN + 1) * LINE + 130, this.labels);
    return fresh;
  }

  /** The frontier, the best one first. */
  #rows(waiting, top, width) {
    const shown = waiting.slice(0, OPEN),
      most = Math.max(0.01, ...shown.map(({ f }) => f)),
      room = width - 178;
    const title =
      waiting[0]?.fate === "chosen" ? tr`The solution, and what stays open` : tr`Open, the most promising first`;
    this.labels.push([4, top + 14, "start", title], [4, top + 31, "start", tr`bar: cost of the way g, then doubt h`]);
    render(this.list, shown, (path, n) => {
      const { id, f, g, h } = path,
        y = top + 38 + n * LINE,
        x = 96,
        wide = (value) => (room * value) / most,
        [cost, doubt] = ["fill:var(--option1-fill)", "fill:var(--option0-fill)"];
      this.labels.push(
        [4, y + 14, "start", `${n ? " " : "→"} ${cut(this.#text(path), 9)}`],
        [x + wide(f) + 6, y + 14, "start", Number(f.toPrecision(2))],
      );
      return [
        {},
        ["title", {}, tr`path ${id}: f ${number(f)} = g ${number(g)} + h ${number(h)}`],
        ["rect", { height: 12, x, y: y + 4, width: wide(g), style: cost }],
        ["rect", { height: 12, x: x + wide(g), y: y + 4, width: wide(h), style: doubt }],
      ];
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
      chain = way.map((_, k) => `H${x(k + 1)}m0,-3v6m0,-3`).join("");
    render(this.ghost, Array(shown).fill(chain), (d, i) => [
      "path",
      { class: "dx-eta", d: `M${x(0)},${top + 34 + i * 9}${d}`, "data-s": "unreached" },
    ]);
    if (n)
      this.labels.push(
        [4, top + 10, "start", tr`grey, for comparison (derived): the same`],
        [4, top + 25, "start", tr`${facts.tokens_of_all_paths} tokens as best-of-${n}, whole lines`],
      );
  }

  /** Leaves each have a line of their own, a state stands at the middle of its children. Duplicates are left out. */
  #tree(found, best, left, width) {
    const at = new Map(), // by id: its number among those drawn
      way = new Set();
    for (const { id, parent, f } of found.values())
      if (!found.has(parent) || (f !== undefined && at.has(parent))) at.set(id, at.size);
    for (let one = best; one; one = found.get(one.parent)) way.add(one.id);
    const drawn = [...at.keys()].map((id) => found.get(id)),
      { places, rows, columns } = tidy(drawn.map(({ parent }) => at.get(parent) ?? -1)),
      high = Math.min(LINE, TALL / Math.max(1, rows)),
      across = Math.min(WIDE, (width - 96) / Math.max(1, columns - 1)),
      spot = ({ id }) => {
        const { column, row } = places[at.get(id)];
        return { x: left + 10 + column * across, y: TOP + 14 + row * high };
      },
      edges = drawn.filter(({ parent }) => at.has(parent)),
      gone = returns(this.run, this.t).filter(({ last, best: to }) => at.has(last.id) && at.has(to.id)),
      fresh = (one) => one.step === this.t - 1 && one.fate !== "expanded" && one.tokens.length > 0;
    render(this.edges, edges, (one) => {
      const [a, b] = [spot(found.get(one.parent)), spot(one)],
        d = `M${a.x},${a.y}C${a.x + 40},${a.y} ${b.x - 40},${b.y} ${b.x},${b.y}`,
        look = way.has(one.id) ? "accent);stroke-width:4" : "line);stroke-width:1.2";
      return ["path", { d, style: `opacity:1;stroke:var(--${look}` }];
    });
    const nodes = render(this.nodes, drawn, (one) => {
      const { x, y } = spot(one),
        along = way.has(one.id),
        known = one.h !== undefined && one.parent >= 0,
        named = one.parent >= 0 && across > 70 && (high > 13 || along),
        said = named ? cut(this.#text(one), Math.min(LETTERS, Math.floor((across - 14) / 7.4))) : "",
        style = `fill:${known ? HUE(1 - one.h) : "var(--panel)"};stroke:var(--text);stroke-width:${along ? 2 : 0.5}`,
        above = along && one.id !== best?.id;
      return [
        { transform: `translate(${x.toFixed(1)},${y.toFixed(1)})` },
        ["title", {}, known ? tr`path ${one.id}: r ${number(1 - one.h)}, f ${number(one.f)}` : tr`path ${one.id}`],
        ["circle", { r: along ? 8 : Math.min(6, Math.max(3, high / 2)), style }],
        ["text", above ? { x: 0, y: -12, ...MIDDLE } : { x: 12, y: 4, "text-anchor": "start" }, said],
      ];
    });
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
    render(this.back, arcs, (arc) => ["path", arc]);
    const roots = drawn.filter(({ parent }) => parent < 0);
    for (const root of across > 70 ? roots : [])
      this.labels.push([left, Math.max(TOP + 2, spot(root).y - 14), "start", tr`question`]);
    const n = gone.length,
      narrow = this.width < NARROW;
    const title = narrow
        ? tr`Search tree; went back ${n}×`
        : tr`Every partial solution that was tried; the search went back to an older one ${n} ×`,
      key = narrow
        ? tr`blue: looks right, orange: wrong`
        : tr`blue: the reward model finds the step right, orange: wrong; thick: the best way so far`;
    this.labels.push([left, 14, "start", title], [left, 31, "start", key]);
    if (best?.fate === "chosen") {
      const { x, y } = spot(best),
        sign = `★ ${marked(answerOf(this.run, this.#text(best))[1])}`;
      this.labels.push([Math.min(x, left + width - 70), y + 24, "middle", sign]);
    }
    return nodes.filter((_, i) => fresh(drawn[i]));
  }

  sentence(_told, _step, t) {
    const found = states(this.run, t),
      [best] = open(this.run, t, found);
    if (!best) return this.none;
    if (best.fate === "chosen") return tr`★ path ${best.id} is the solution.`;
    const gone = returns(this.run, t).at(-1),
      from = gone?.now ? tr` Back from path ${gone.last.id}.` : "";
    return tr`Next: path ${best.id}, f ${number(best.f)}.${from}`;
  }
}
