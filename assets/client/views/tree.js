// The draft tree of a verification step: what was drafted, what the target accepted, where it refused, what the step
// gained.

import { el, frame, legend, setText, svg } from "../player/dom.js";
import { render } from "../player/drawing.js";
import { fold, tidy } from "../player/layout.js";
import { depthsOf, rowsOf } from "../player/rounds.js";
import { cut, glyphs, tr, translated } from "../player/words.js";
import { chances, chosenBy, edgeWidth, GAINED, tell } from "./drafted.js";
import { Ghost } from "./ghost.js";
import { key, kindsOf, Origins, told } from "./origins.js";

export const view = { title: "Draft tree", place: 120, needs: ["tree"] };

const CHAR = 7.3; // of the monospaced letters
const NODE = { h: 24, y: 28, gap: 36, least: 112, most: 190 }; // least, most: from one column to the next
const APART = 64; // between the sources and the tree
const NAME = 22; // of what frames the levels of a pass
const TAIL = { w: 16, h: 7, x: 19, y: 7 }; // a row without a token, hanging below its node

export class DraftTree {
  load(run, dom, context) {
    Object.assign(this, { run, context, seen: 0, columns: 1 });
    this.say = el("p", "dx-readout");
    for (const layer of ["slabs", "edges", "nodes"]) this[layer] = svg("g");
    this.origins = new Origins(run);
    const defs = svg("defs"),
      size = { width: 6, height: 6 },
      hatch = { id: `dx-hatch-${context.id}`, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
      lines = ["line", { x1: 0, y1: 0, x2: 0, y2: 6, class: "dx-hatch-line" }];
    render(defs, [["pattern", { ...hatch, ...size }, ["rect", { ...size, class: "dx-hatch-fill" }], lines]]);
    const { threads, sources } = this.origins,
      label = { class: "dx-tree", role: "img", "aria-label": tr`Draft tree` };
    this.picture = svg("svg", label, defs, this.slabs, this.edges, threads, sources, this.nodes);
    this.picture.addEventListener("pointerover", ({ target }) =>
      this.origins.lift(target.closest("[data-row], [data-cell]")?.dataset ?? {}),
    );
    this.scroll = el("div", "dx-scroll", this.picture);
    const states = ["accepted", "rejected", "unreached", "correction", "bonus"].filter((s) => !run.states.has(s));
    this.ghost = Ghost.fits(run) ? new Ghost(run, context) : null;
    const looks = [chances(run), tr`edge width: draft probability or rank`];
    if (run.steps.some((step) => step.tree?.tails?.length))
      looks.push(tr`small cells: pseudo rows that predict further tokens from there`);
    const notes = looks.filter(Boolean).map((words) => el("span", {}, words)),
      list = el("div", "dx-legend", ...states.map((s) => legend(context.theme, s)), ...key(run), ...notes);
    dom.append(this.say, ...(this.ghost ? [this.ghost.root] : []), this.scroll, list);
  }

  /** The rows of a step's tree; without the target's own token where the limit of the answer cut it off. */
  #rows({ tree, commits }) {
    const { rows, accepted } = rowsOf(tree),
      wrote = commits?.tokens.filter((token) => token >= 0).length ?? Infinity,
      cut = rows.length > tree.tokens.length && wrote <= accepted;
    return { rows: cut ? rows.slice(0, tree.tokens.length) : rows, accepted, cut };
  }

  resize(width) {
    this.width = width;
    this.ghost?.resize(width);
    this.show(this.t ?? 0);
  }

  /** Columns of the deepest tree so far: a node has one place and one size in all steps. */
  #columns() {
    for (; this.seen < this.run.length; this.seen++) {
      const { tree } = this.run.steps[this.seen];
      if (!tree) continue;
      const accepted = tree.accepted.filter(Boolean).length;
      this.columns = Math.max(this.columns, accepted + 1, ...depthsOf(tree.parents).map((depth) => depth + 1));
      this.origins.measure(tree);
    }
    return this.columns;
  }

  show(t) {
    this.t = t;
    this.ghost?.show(t);
    const step = this.run.steps[t - 1],
      tree = step?.tree;
    this.scroll.hidden = !tree;
    setText(this.say, this.describe(t));
    if (!tree) return;
    const { rows } = this.#rows(step),
      { origins } = this,
      states = rows.map(({ state }) => state),
      wide = this.width || 1200,
      made = layout({
        ...{ rows, wide, all: this.#columns(), tails: Boolean(tree.tails?.length) },
        ...{ byPass: tree.value_kind === "pass", aligned: origins.aligned(tree), least: origins.least },
        plan: (room) => origins.plan(tree, states, room),
      }),
      { at, kept, number, pitch, size, slabs, edges } = made;
    frame(this.picture, made.w, made.h);
    origins.show(0, made.top, (row) => at[number.get(row)], states, made.over, { pitch, size, room: wide });
    const kinds = kindsOf(tree);
    render(this.slabs, slabs, ({ box, name, text }) => [
      {},
      ["rect", { class: "dx-slab", y: 1, rx: 8, ...box }],
      ["text", name, text],
    ]);
    render(this.edges, edges, ({ row, d }) => [
      "path",
      { d, "stroke-width": edgeWidth(row).toFixed(1), "data-s": row.state },
    ]);
    render(this.nodes, kept, (row, i) => this.#node(rows[row], at[i], row, kinds.get(row) ?? []));
  }

  #node(row, { x, y, w }, number, kinds) {
    const whole = glyphs(this.run.piece(row.token).text),
      high = NODE.h / kinds.length,
      sign = row.folded ? `+${row.folded}` : row.why === "root" ? "" : this.context.theme.states[row.state].glyph,
      said = `${chosenBy(row)} ${sign}`.trim(),
      hatch = row.state === "unreached" ? `fill:url(#dx-hatch-${this.context.id})` : "",
      ring = { class: "dx-ring", x: -3, y: -3, height: NODE.h + 6, rx: 8, width: w + 6 },
      stripe = { class: "dx-stripe", x: 0, width: 5, height: high },
      tail = { width: TAIL.w, height: TAIL.h, y: NODE.h + 1, rx: 2 };
    return [
      { transform: `translate(${x},${y})`, "data-s": row.state, "data-row": number },
      ["title", {}, `${whole}: ${tell(row)}`],
      ["rect", { height: NODE.h, rx: 6, width: w, style: hatch }],
      ["rect", ring],
      ["text", { x: 9, y: 16.5 }, cut(whole, Math.floor((w - 20 - CHAR * said.length) / CHAR))],
      ["text", { y: 16.5, "text-anchor": "end", x: w - 7 }, said],
      ["g", {}, ...Array.from({ length: row.tail ?? 0 }, (_, j) => ["rect", { ...tail, x: 6 + TAIL.x * j }])],
      ["g", {}, ...kinds.map((kind, j) => ["rect", { ...stripe, y: high * j, "data-source": kind }])],
    ];
  }

  describe(t) {
    const step = this.run.steps[t - 1],
      tree = step?.tree;
    if (!tree) return t ? tr`No draft tree in step ${t}.` : tr`Before the first step.`;
    const { rows, accepted, cut } = this.#rows(step),
      own = rows.slice(tree.tokens.length),
      drafted = tree.why.filter((why) => why !== "root").length;
    const gained = own.length
      ? tr`, ${GAINED[own[0].state]()} (${translated(tree.emitted_source ?? "argmax")})`
      : cut
        ? `; ${tr`the maximum length left no room after them`}`
        : "";
    const tails = tree.tails?.reduce((sum, n) => sum + n, 0),
      along = tails && tr`Pseudo rows in this forward: ${tails}.`;
    return [tr`${drafted} drafted, ${accepted} accepted${gained}.`, along, told(tree)].filter(Boolean).join(" ");
  }
}

/** Rows of a tree in `wide` pixels: {w, h, top: of the sources, over: whether they stand above, pitch, size, kept:
 * rows that are shown, number: their places by row, at: these places, slabs, edges}. tails: whether rows have pseudo
 * rows; all: columns of the deepest tree; byPass: whether the value of a row is its pass; aligned, least, plan: of the
 * sources. A row that is shown is told how many below it are folded. */
export function layout({ rows, tails, all, wide, byPass, aligned, least, plan }) {
  const [above, fates] = ["parent", "why"].map((name) => rows.map((row) => row[name])),
    shown = fold(above, fates),
    kept = [...rows.keys()].filter((i) => shown[i]),
    number = new Map(kept.map((row, i) => [row, i]));
  rows.forEach((row, i) => {
    if (shown[i]) return;
    let seen = row.parent;
    while (!shown[seen]) seen = rows[seen].parent;
    rows[seen].folded = (rows[seen].folded ?? 0) + 1;
  });
  const parents = kept.map((i) => (rows[i].parent < 0 ? -1 : number.get(rows[i].parent))),
    { places, rows: height, columns } = tidy(parents);
  const below = tails ? TAIL.y : 0,
    narrowest = all * NODE.least - NODE.gap + 8,
    over = aligned || least + APART + narrowest > wide,
    left = plan(over ? wide : wide - narrowest - APART),
    x0 = left.w && !over ? left.w + APART : 0,
    pitch = Math.floor(Math.min(Math.max((wide - x0 - 8 + NODE.gap) / all, NODE.least), NODE.most)),
    size = pitch - NODE.gap,
    tall = (height - 1) * (NODE.y + below) + NODE.h + below + 8,
    y0 = over && left.h ? left.h + 22 : Math.max(0, (left.h - tall) / 2);
  const at = places.map(({ column, row }) => ({
    x: 4 + x0 + column * pitch,
    y: 4 + y0 + row * (NODE.y + below),
    w: size,
    h: NODE.h,
  }));
  const w = Math.max(x0 + (columns - 1) * pitch + size + 8, left.w),
    passes = byPass ? kept.map((i) => rows[i].value).filter(Boolean) : [],
    slabs = [...new Set(passes)],
    named = slabs.length ? NAME : 0,
    h = (over ? y0 + tall : Math.max(tall, left.h + 4)) + named;
  const top = over ? 2 : Math.max(2, (h - left.h) / 2);
  const framed = slabs.map((slab) => {
    const own = places.flatMap(({ column }, j) => (rows[kept[j]].value === slab ? [column] : [])),
      [from, to] = [Math.min(...own), Math.max(...own)],
      x = 1 + x0 + from * pitch;
    return {
      box: { x, width: (to - from) * pitch + size + 6, height: h - 2 },
      name: { x: x + 8, y: h - 8 },
      text: from < to ? tr`pass ${slab} drafts levels ${from}–${to} at once` : tr`pass ${slab} drafts level ${from}`,
    };
  });
  const edges = kept
    .filter((i) => rows[i].parent >= 0)
    .map((i) => {
      const a = at[number.get(rows[i].parent)],
        b = at[number.get(i)],
        x1 = a.x + size,
        y1 = a.y + NODE.h / 2,
        y2 = b.y + NODE.h / 2,
        middle = (x1 + b.x) / 2;
      return { row: rows[i], d: `M${x1},${y1}C${middle},${y1} ${middle},${y2} ${b.x},${y2}` };
    });
  return { w, h, top, over, pitch, size, kept, number, at, slabs: framed, edges };
}
