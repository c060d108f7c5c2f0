// A search over partial solutions: the open ones in the order in which they would be continued, with the two parts of
// what ranks them, and the tree that was grown so far, the way to the best one thick.

import { cut, glyphs, number } from "../codec.js";
import { el, frame, pool, set, setText, svg } from "../dom.js";
import { tr } from "../words.js";

export const view = { name: "Frontier", title: "Frontier and tree", place: 159, needs: ["branches"] };

const X = 104, // of a step of depth
  Y = 19, // of a leaf
  LETTERS = 11,
  OPEN = 9, // rows of the list
  OUT = new Set(["pruned", "expanded"]), // fates that are not in the frontier
  HUE = (r) => `color-mix(in srgb, var(--accepted-fill) ${Math.round(100 * r)}%, var(--rejected-fill))`,
  BAR = "height:12px;display:inline-block;vertical-align:middle",
  ROW = "white-space:pre;font:12px var(--mono);height:18px;overflow:hidden",
  GRID = "display:grid;grid-template-columns:repeat(auto-fit,minmax(min(270px,100%),1fr));gap:10px";

const styled = (tag, style, ...children) => {
  const node = el(tag, {}, ...children);
  node.style.cssText = style;
  return node;
};

/** Every path of a search after t steps, by its id: {id, parent, tokens, fate, f, g, h, step}. */
export function states(run, t) {
  const found = new Map();
  run.steps.slice(0, t).forEach(({ branches = [] }, step) => {
    for (const { id, parent, tokens, fate = "alive", scores = {} } of branches) {
      const before = found.get(id);
      found.set(id, { id, parent, tokens: tokens.length ? tokens : (before?.tokens ?? []), fate, ...scores, step });
    }
  });
  return found;
}

/** The open ones, the best first: by f, then the deeper, then the earlier. */
export function open(found) {
  const depth = (one) => (one && found.has(one.parent) ? 1 + depth(found.get(one.parent)) : 0);
  return [...found.values()]
    .filter(({ fate, f }) => !OUT.has(fate) && f !== undefined)
    .map((one) => ({ ...one, depth: depth(one) }))
    .sort((a, b) =>
      a.fate === "chosen" ? -1 : b.fate === "chosen" ? 1 : a.f - b.f || b.depth - a.depth || a.id - b.id,
    );
}

export class Frontier {
  load(run, dom) {
    Object.assign(this, { run, dom });
    this.say = el("p", "dx-readout");
    this.list = styled("div", `min-height:${18 * OPEN}px`);
    this.edges = svg("g");
    this.nodes = svg("g");
    this.picture = svg("svg", { class: "dx-tree", role: "img", "aria-label": tr`Tree of the search` });
    this.picture.append(this.edges, this.nodes);
    this.scroll = el("div", { class: "dx-scroll", tabindex: 0, "aria-label": tr`Tree of the search` }, this.picture);
    this.scroll.style.cssText = "max-height:300px;overflow:auto";
    const head = el("strong", {}, tr`Open states: f = g + h`);
    const legend = styled("p", "margin:2px 0;font-size:12px;color:var(--muted)");
    legend.append(
      styled("span", `${BAR};width:18px;background:var(--option1-fill)`),
      ` ${tr`g: what the way has cost`}  `,
      styled("span", `${BAR};width:18px;background:var(--option0-fill)`),
      ` ${tr`h = 1 - r: what is still to fear`}`,
    );
    const left = styled("div", "font-size:13px;min-width:0", head, legend, this.list);
    dom.append(this.say, styled("div", GRID, left, this.scroll));
    this.grow();
  }

  /** Hidden where no branch is ranked by an f: that is no search. */
  grow() {
    const { steps, length } = this.run,
      any = steps.some(({ branches }) => branches?.some(({ scores }) => scores && "f" in scores));
    if (this.dom.parentElement) this.dom.parentElement.hidden = length > 0 && !any;
  }

  show(t, hurry) {
    if (hurry) return;
    const found = states(this.run, t),
      waiting = open(found);
    setText(this.say, this.describe(t));
    this.#rows(waiting);
    this.#tree(found, waiting[0] ?? null);
  }

  #text({ tokens }) {
    return glyphs(tokens.map((id) => this.run.piece(id).text).join(""), 80);
  }

  #rows(waiting) {
    const shown = waiting.slice(0, OPEN),
      most = Math.max(1, ...shown.map(({ f }) => f));
    const rows = pool(this.list, shown.length, () =>
      styled("div", ROW, el("span"), styled("span", BAR), styled("span", BAR), el("span")),
    );
    rows.forEach((row, n) => {
      const { id, f, g, h, fate } = shown[n],
        [name, cost, guess, said] = row.childNodes;
      setText(name, `${fate === "chosen" ? "★" : fate === "finished" ? "■" : " "}#${id}`.padEnd(6));
      cost.style.width = `${(110 * g) / most}px`;
      cost.style.background = "var(--option1-fill)";
      guess.style.width = `${(110 * h) / most}px`;
      guess.style.background = "var(--option0-fill)";
      setText(said, ` ${number(f)} ${cut(this.#text(shown[n]), LETTERS)}`);
      row.title = tr`path ${id}: f ${number(f)} = g ${number(g)} + h ${number(h)}`;
    });
  }

  /** Leaves each have a line of their own, a state stands at the middle of its children. */
  #tree(found, best) {
    const below = new Map(),
      at = new Map(),
      way = new Set();
    for (const one of found.values())
      if (one.fate !== "pruned" || one.tokens.length) below.set(one.parent, [...(below.get(one.parent) ?? []), one]);
    for (let one = best; one; one = found.get(one.parent)) way.add(one.id);
    let line = 0;
    const place = (one, depth) => {
      const children = below.get(one.id) ?? [];
      for (const child of children) place(child, depth + 1);
      const ys = children.map(({ id }) => at.get(id).y);
      at.set(one.id, { x: 8 + depth * X, y: ys.length ? (ys[0] + ys.at(-1)) / 2 : 10 + Y * line++ });
    };
    for (const one of found.values()) if (!found.has(one.parent)) place(one, 0);
    const drawn = [...found.values()].filter(({ id }) => at.has(id)),
      edges = drawn.filter(({ parent }) => at.has(parent));
    pool(this.edges, edges.length, () => svg("path", { style: "fill:none" })).forEach((path, i) => {
      const a = at.get(edges[i].parent),
        b = at.get(edges[i].id),
        thick = way.has(edges[i].id);
      set(path, { d: `M${a.x},${a.y}C${a.x + 40},${a.y} ${b.x - 40},${b.y} ${b.x},${b.y}` });
      path.style.cssText = `fill:none;stroke:var(--${thick ? "accent" : "line"});stroke-width:${thick ? 3 : 1}`;
    });
    pool(this.nodes, drawn.length, () => svg("g", {}, svg("title"), svg("circle", { r: 6 }), svg("text"))).forEach(
      (group, i) => {
        const one = drawn[i],
          { x, y } = at.get(one.id),
          [title, dot, text] = group.childNodes,
          known = one.h !== undefined;
        set(group, { transform: `translate(${x},${y})`, opacity: one.fate === "pruned" ? 0.45 : 1 });
        const fill = known ? HUE(1 - one.h) : "none";
        dot.style.cssText = `fill:${fill};stroke:var(--text);stroke-width:${way.has(one.id) ? 2 : 0.5}`;
        set(text, { x: 9, y: 4, style: "fill:var(--text);font:12px var(--mono)" });
        setText(text, one.parent < 0 ? "" : cut(this.#text(one), LETTERS));
        setText(title, known ? tr`path ${one.id}: r ${number(1 - one.h)}, f ${number(one.f)}` : tr`path ${one.id}`);
      },
    );
    const wide = Math.max(X, ...drawn.map(({ id }) => at.get(id).x + X - 8));
    frame(this.picture, wide, Math.max(1, line) * Y + 8);
    const target = best ? at.get(best.id) : null;
    if (target) this.scroll.scrollTo(target.x - 140, target.y - 120);
  }

  describe(t) {
    const found = states(this.run, t),
      [best] = open(found);
    if (!t || !best) return t ? tr`Nothing is open.` : tr`Before the first step.`;
    if (best.fate === "chosen") return tr`★ path ${best.id} is the solution.`;
    const last = [...found.values()].filter(({ fate, step }) => fate === "expanded" && step === t - 1)[0],
      back = last && best.parent !== last.id ? tr` Back from path ${last.id}.` : "";
    return tr`Next: path ${best.id}, f ${number(best.f)}.${back}`;
  }
}
