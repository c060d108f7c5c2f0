// The draft tree of a verification step: what was drafted, what the target accepted, where it refused, what the step
// gained.

import { cut, glyphs, number } from "../codec.js";
import { el, frame, legend, pool, set, setText, svg } from "../dom.js";
import { fold, tidy } from "../layout.js";
import { rowsOf } from "../rounds.js";
import { tr } from "../words.js";

export const view = { name: "DraftTree", title: "Draft tree", place: 120, needs: ["tree"] };

const NODE = { w: 92, h: 24, x: 128, y: 31 };
const TAIL = { w: 16, h: 7, x: 19, y: 7 }; // a row without a token, hanging below its node

const GAINED = {
  correction: () => tr`then the target's correction`,
  bonus: () => tr`then the target's bonus token`,
  new: () => tr`one token from the target`,
};

function edgeWidth({ draft, target, rank }) {
  const logprob = draft ?? target;
  return logprob !== null ? 1 + 5 * Math.exp(Math.min(0, logprob)) : rank === undefined ? 2 : 1 + 4 / (1 + rank);
}

function tell(row) {
  const probability = (name, logprob) => (logprob === null ? "" : tr`${name} probability ${number(Math.exp(logprob))}`);
  return [
    row.why,
    row.source && tr`source: ${row.source}`,
    row.rank !== undefined && tr`rank ${row.rank}`,
    probability(tr`draft`, row.draft),
    probability(tr`target`, row.target),
    row.name && row.value !== null && `${row.name} ${number(row.value)}`,
    row.chance !== undefined &&
      row.chance !== null &&
      tr`chance to be kept ${number(row.chance)}${row.drawn === null ? "" : tr`, drawn ${number(row.drawn)}`}`,
    row.tail && tr`pseudo rows after it: ${row.tail}`,
    row.folded && tr`${row.folded} nodes below are folded`,
  ]
    .filter(Boolean)
    .join(", ");
}

export class DraftTree {
  load(run, dom, context) {
    Object.assign(this, { run, context });
    this.say = el("p", "dx-readout");
    this.slabs = svg("g");
    this.edges = svg("g");
    this.nodes = svg("g");
    const hatch = svg(
      "pattern",
      {
        id: `dx-hatch-${context.id}`,
        width: 6,
        height: 6,
        patternUnits: "userSpaceOnUse",
        patternTransform: "rotate(45)",
      },
      svg("rect", { width: 6, height: 6, class: "dx-hatch-fill" }),
      svg("line", { x1: 0, y1: 0, x2: 0, y2: 6, class: "dx-hatch-line" }),
    );
    this.picture = svg(
      "svg",
      { class: "dx-tree", role: "img", "aria-label": tr`Draft tree` },
      svg("defs", {}, hatch),
      this.slabs,
      this.edges,
      this.nodes,
    );
    this.scroll = el("div", "dx-scroll", this.picture);
    const states = ["accepted", "rejected", "unreached", "correction", "bonus"];
    dom.append(
      this.say,
      this.scroll,
      el(
        "div",
        "dx-legend",
        ...states.map((s) => legend(context.theme, s)),
        el("span", {}, tr`edge width: draft probability or rank`),
        ...(run.steps.some((step) => step.tree?.tails?.length)
          ? [el("span", {}, tr`small cells: pseudo rows that predict further tokens from there`)]
          : []),
      ),
    );
  }

  /** The rows of a step's tree; without the target's own token where the limit of the answer cut it off. */
  #rows({ tree, commits }) {
    const { rows, accepted } = rowsOf(tree),
      wrote = commits?.tokens.filter((token) => token >= 0).length ?? Infinity,
      cut = rows.length > tree.tokens.length && wrote <= accepted;
    return { rows: cut ? rows.slice(0, tree.tokens.length) : rows, accepted, cut };
  }

  show(t) {
    const step = this.run.steps[t - 1],
      tree = step?.tree;
    this.scroll.hidden = !tree;
    setText(this.say, this.describe(t));
    if (!tree) return;
    const { rows } = this.#rows(step),
      shown = fold(
        rows.map((r) => r.parent),
        rows.map((r) => r.why),
      );
    const kept = rows.map((_, i) => i).filter((i) => shown[i]),
      number = new Map(kept.map((row, i) => [row, i]));
    rows.forEach((row, i) => {
      if (shown[i]) return;
      let above = row.parent;
      while (!shown[above]) above = rows[above].parent;
      rows[above].folded = (rows[above].folded ?? 0) + 1;
    });
    const {
      places,
      rows: height,
      columns,
    } = tidy(kept.map((i) => (rows[i].parent < 0 ? -1 : number.get(rows[i].parent))));
    const below = tree.tails?.length ? TAIL.y : 0;
    const at = places.map(({ column, row }) => ({ x: 4 + column * NODE.x, y: 4 + row * (NODE.y + below) }));
    const w = (columns - 1) * NODE.x + NODE.w + 8,
      h = (height - 1) * (NODE.y + below) + NODE.h + below + 8;
    frame(this.picture, w, h);
    const passes = tree.value_name?.startsWith("pass") ? kept.map((i) => rows[i].value).filter(Boolean) : [],
      slabs = [...new Set(passes)];
    pool(this.slabs, slabs.length, () => svg("rect", { class: "dx-slab", y: 1, rx: 8 })).forEach((box, i) => {
      const xs = at.filter((_, j) => rows[kept[j]].value === slabs[i]).map(({ x }) => x),
        from = Math.min(...xs) - 3;
      set(box, { x: from, width: Math.max(...xs) - from + NODE.w + 3, height: h - 2 });
    });
    const edges = kept.filter((i) => rows[i].parent >= 0);
    pool(this.edges, edges.length, () => svg("path")).forEach((path, i) => {
      const row = rows[edges[i]],
        a = at[number.get(row.parent)],
        b = at[number.get(edges[i])],
        x1 = a.x + NODE.w,
        y1 = a.y + NODE.h / 2,
        y2 = b.y + NODE.h / 2,
        middle = (x1 + b.x) / 2;
      set(path, {
        d: `M${x1},${y1}C${middle},${y1} ${middle},${y2} ${b.x},${y2}`,
        "stroke-width": edgeWidth(row).toFixed(1),
        "data-s": row.state,
      });
    });
    pool(this.nodes, kept.length, () =>
      svg(
        "g",
        {},
        svg("title"),
        svg("rect", { width: NODE.w, height: NODE.h, rx: 6 }),
        svg("rect", { class: "dx-ring", x: -3, y: -3, width: NODE.w + 6, height: NODE.h + 6, rx: 8 }),
        svg("text", { x: 8, y: 16.5 }),
        svg("text", { x: NODE.w - 7, y: 16.5, "text-anchor": "end" }),
        svg("g"),
      ),
    ).forEach((group, i) => this.#node(group, rows[kept[i]], at[i]));
  }

  #node(group, row, { x, y }) {
    const [title, box, , text, mark, tail] = group.childNodes,
      whole = glyphs(this.run.piece(row.token).text);
    set(group, { transform: `translate(${x},${y})`, "data-s": row.state });
    box.style.fill = row.state === "unreached" ? `url(#dx-hatch-${this.context.id})` : "";
    setText(title, `${whole}: ${tell(row)}`);
    pool(tail, row.tail ?? 0, () => svg("rect", { width: TAIL.w, height: TAIL.h, y: NODE.h + 1, rx: 2 })).forEach(
      (cell, j) => set(cell, { x: 6 + TAIL.x * j }),
    );
    setText(text, cut(whole, row.folded ? 7 : 9));
    setText(mark, row.folded ? `+${row.folded}` : row.why === "root" ? "" : this.context.theme.states[row.state].glyph);
  }

  describe(t) {
    const step = this.run.steps[t - 1],
      tree = step?.tree;
    if (!tree) return t ? tr`No draft tree in step ${t}.` : tr`Before the first step.`;
    const { rows, accepted, cut } = this.#rows(step),
      own = rows.slice(tree.tokens.length),
      drafted = tree.why.filter((why) => why !== "root").length;
    const gained = own.length
      ? `, ${GAINED[own[0].state]()} (${tree.emitted_source ?? "argmax"})`
      : cut
        ? `; ${tr`the maximum length left no room after them`}`
        : "";
    const tails = tree.tails?.reduce((sum, n) => sum + n, 0),
      along = tails ? ` ${tr`Pseudo rows in this forward: ${tails}.`}` : "";
    return tr`${drafted} drafted, ${accepted} accepted${gained}.` + along;
  }
}
