// The draft tree of a verification step: what was drafted, what the target accepted, where it refused, what the step
// gained.

import { el, frame, legend, setText, svg } from "../player/dom.js";
import { render } from "../player/drawing.js";
import { rowsOf } from "../player/rounds.js";
import { cut, glyphs, tr, translated } from "../player/words.js";
import { chances, chosenBy, edgeWidth, GAINED, tell } from "./drafted.js";
import { Ghost } from "./ghost.js";
import { key, kindsOf, Origins, told } from "./origins.js";
import { layout, NODE, TAIL } from "./treelayout.js";

export const view = { title: "Draft tree", place: 120, needs: ["tree"] };

const CHAR = 7.3; // of the monospaced letters

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
      const depths = [];
      for (const parent of tree.parents) depths.push(parent < 0 ? 1 : depths[parent] + 1);
      const accepted = tree.accepted.filter(Boolean).length;
      this.columns = Math.max(this.columns, accepted + 1, ...depths);
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
