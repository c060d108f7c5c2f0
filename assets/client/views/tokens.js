// The token board: one cell for each position, with its state, its heat while masked, and brackets for blocks and
// windows.

import { el, pool, set, setText } from "../player/dom.js";
import { cornerOf, density, grid } from "../player/layout.js";
import { ramp } from "../player/theme.js";
import { glyphs, tr } from "../player/words.js";
import { Asked } from "./asked.js";
import { Brackets, controls, Elements, Looks, legend } from "./cells.js";
import { Picking } from "./picking.js";
import { Sheet } from "./sheet.js";

export const view = { title: "", place: 20, needs: [] };

const ROWS = { growing: 3, masked: 4, narrow: 3 }; // of a board above a picture, which scrolls then
const NARROW = 560;

export class Tokens {
  load(run, dom, context) {
    Object.assign(this, { run, dom, context, t: 0 });
    const name = tr`Token board: up and down choose a position, Enter keeps its details open`;
    this.board = el("div", { class: "dx-board", tabindex: 0, role: "group", "aria-label": name });
    this.brackets = new Brackets(run, context);
    this.looks = new Looks(run, context);
    this.elements = new Elements(this.looks);
    this.numbers = el("div", { class: "dx-numbers", "aria-hidden": "true" });
    this.cells = el("div", "dx-cells");
    this.picking = new Picking(this);
    this.legend = el("div", "dx-legend");
    this.controls = el("div", "dx-controls");
    this.asked = new Asked(run);
    this.low = el("div", "dx-low");
    this.top = 0; // what scrolled out of a board above it
    this.board.addEventListener("scroll", () => {
      this.top = this.board.scrollTop;
      this.elements.finish();
    });
    this.marks = el("div", "dx-marks");
    this.board.append(this.numbers, this.cells, this.brackets.root, this.marks);
    const [anchor, under] = [el("div", "dx-anchor", this.board), el("div", "dx-under", context.note, this.legend)];
    dom.append(this.controls, anchor, this.low, under);
    this.grow();
  }

  /** New steps arrived: lanes, span kinds or positions may be new. */
  grow() {
    const { run } = this,
      key = [run.spanKinds.length, run.lanes.size, run.states.size, run.authors.size].join();
    if (key !== this.known) this.#about();
    this.known = key;
    this.resize(this.width);
  }

  resize(width) {
    const { run } = this;
    if (!width) return;
    this.width = width;
    this.mode = this.context.mode();
    this.looks.ramp = ramp(this.context.theme, this.mode);
    const lengths = [...run.pieces.values()].filter((p) => p.kind === "text").map((p) => glyphs(p.text).length),
      typical = typicalOf(lengths);
    this.first = this.context.unfolded ? 0 : run.prompt.length;
    const count = Math.max(run.widest - this.first, 1),
      plan = this.context.agree({ width, typical, kinds: run.spanKinds.length, count }),
      { cell, gutter, track, large } = density(plan);
    const painted = large || Boolean(this.sheet);
    this.track = track;
    this.grid = this.context.grid = grid(plan.width, count, cell, gutter, this.first); // others stand on its columns
    const most = this.#most(),
      laid = JSON.stringify([this.grid, this.mode, painted, most]),
      same = laid === this.laid;
    this.laid = laid;
    if (same) return void (painted || this.#spans());
    this.board.style.height = `${this.grid.height}px`;
    this.board.style.setProperty("--dx-most", most < Infinity ? `${most * this.grid.rowHeight}px` : "none");
    const high = this.grid.rows > rowsSeen(this.run.canvas, this.width),
      look = `${high} ${width < NARROW}`;
    if (look !== this.look) {
      Object.assign(this, { high, look });
      this.#about();
    }
    this.elements.forget();
    this.shown = null;
    this.cells.className = `dx-cells${painted ? "" : " dx-dom"}`;
    if (painted) this.#sheet().size(this.grid, this.mode, this.looks.ramp);
    else this.#spans();
    const { rowHeight, columns, rows } = this.grid;
    pool(this.numbers, this.grid.gutter && rows > 1 ? rows : 0, () => el("span")).forEach((node, row) => {
      node.style.cssText = `top:${row * rowHeight}px;line-height:${this.grid.h}px`;
      setText(node, String(this.first + row * columns));
    });
    this.show(this.t);
  }

  /** Rows that are seen at once where a picture stands below. */
  #most() {
    const { unfolded, whole } = this.context;
    return unfolded || whole ? Infinity : rowsSeen(this.run.canvas, this.width);
  }

  /** A board that scrolls shows what was written last, from its first place on. */
  #follow(t) {
    const { positions = [], tokens } = this.run.steps[t - 1]?.commits ?? {},
      written = positions.filter((_, i) => !this.run.eos.has(tokens[i])), // nothing stands at the end marks
      top = scrolledTo(this.grid, { top: this.top, written, most: this.#most() });
    if (top !== this.top) this.board.scrollTop = this.top = top;
  }

  /** The boards of the group have a new plan. */
  relay() {
    this.resize(this.width);
  }

  #spans() {
    const { columns, w, h, gap, gutter, rowHeight } = this.grid;
    this.cells.style.cssText =
      `margin-left:${gutter}px;--w:${w}px;--h:${h}px;grid-template-columns:repeat(${columns},${w}px);` +
      `grid-auto-rows:${h}px;column-gap:${gap}px;row-gap:${rowHeight - h}px`;
    this.nodes = pool(this.cells, Math.max(this.run.widest - this.first, 0), () => el("span", "dx-cell"));
  }

  /** The element of a position, if it has one. */
  nodeAt(position) {
    return this.nodes?.[position - this.first];
  }

  /** A board only grows: once large it stays painted. */
  #sheet() {
    if (this.sheet) return this.sheet;
    this.nodes = null;
    this.cells.style.cssText = "";
    this.cells.replaceChildren();
    set(this.cells, { role: "img", "aria-label": tr`Token board` });
    return (this.sheet = new Sheet(this.cells, this.context.theme, (look) => this.looks.spell(look)));
  }

  show(t, hurry) {
    this.t = t;
    if (!hurry) this.asked.show(t);
    if (!this.grid) return;
    const cells = this.run.board(t),
      look = this.looks.at(t, cells),
      { first } = this;
    this.#follow(t);
    if (this.sheet) this.sheet.show((i) => look(first + i));
    else {
      const seen = (i) => inSight(this.grid, i, { top: this.top, most: this.#most() });
      this.elements.dress(this.nodes, (i) => look(first + i), seen);
    }
    if (cells.length !== this.shown?.length)
      this.numbers.childNodes.forEach(
        (node, row) => (node.style.visibility = first + row * this.grid.columns < cells.length ? "" : "hidden"),
      );
    this.shown = cells;
    this.brackets.show(this.run.steps[t - 1]?.spans ?? [], this);
    this.remark();
    this.picking.show();
  }

  leave() {
    this.elements.forget();
    this.picking.leave();
  }

  /** The whole board is about to be printed. */
  print() {
    this.sheet?.finish();
    this.elements.finish();
  }

  /** Signs at the corners of cells, set by other views: {position, glyph, title, kind}. */
  remark() {
    if (!this.grid) return;
    const { grid } = this,
      marks = Object.values(this.context.marks)
        .flat()
        .filter(({ position }) => position >= this.first && this.shown[position]);
    pool(this.marks, marks.length, () => el("b")).forEach((node, i) => {
      const { position, glyph, title, kind } = marks[i],
        { x, y } = cornerOf(grid, position);
      Object.assign(node.dataset, { m: kind, position });
      node.title = title;
      node.style.cssText = `left:${x + grid.w}px;top:${y}px`;
      setText(node, glyph);
    });
  }

  #about() {
    const { run, context } = this,
      [first, ...others] = controls(run, context, this.high),
      narrow = this.width < NARROW, // then the board comes first
      whole = narrow && this.high ? others.pop() : null;
    this.controls.replaceChildren(...[first, narrow ? null : this.asked.root, ...others].filter(Boolean));
    this.low.replaceChildren(...[narrow ? this.asked.root : null, whole].filter(Boolean));
    this.legend.replaceChildren(...legend(run, context));
  }

  relook() {
    this.#about();
    this.resize(this.width); // the prompt may have come or gone
    this.show(this.t);
  }

  describe(t) {
    const { run } = this,
      commits = run.steps[t - 1]?.commits,
      masks = run.board(t).filter(({ token }) => token === null).length,
      open = run.canvas === null ? "" : tr` ${masks} positions are still masked.`,
      [removed, inserted] = [commits?.removed?.length ?? 0, commits?.inserted?.length ?? 0],
      went = removed || inserted ? tr` ${removed} positions removed, ${inserted} inserted.` : "",
      name = (token, p) => (token < 0 ? tr`position ${p} withdrawn` : glyphs(run.piece(token).text, 20));
    if (!commits?.positions.length) return tr`Nothing written.${went}${open}`;
    const first = commits.positions.slice(0, 6).map((p, i) => name(commits.tokens[i], p)),
      more = commits.positions.length > 6 ? tr` and more` : "";
    return tr`${commits.positions.length} written: ${first.join(", ")}${more}.${went}${open}`;
  }
}

export const rowsSeen = (canvas, width) => ROWS[canvas === null ? "growing" : width < NARROW ? "narrow" : "masked"];

/** Characters of a long word among the texts' lengths. */
export function typicalOf(lengths) {
  const sorted = lengths.map((length) => Math.min(length, 9)).sort((a, b) => a - b);
  return Math.max(2.4, sorted[Math.floor(sorted.length * 0.75)] ?? 5);
}

/** Where a board that scrolls stands: it shows what was written last, from its first place on. top: where it stood;
 * written: positions; most: rows that are seen. */
export function scrolledTo(grid, { top, written, most }) {
  const room = Math.min(most * grid.rowHeight, grid.height);
  if (room >= grid.height) return top;
  const [from, to] = written.length ? [Math.min(...written), Math.max(...written)] : [0, 0],
    low = cornerOf(grid, to).y + grid.rowHeight - room;
  return Math.max(0, Math.min(Math.max(top, low), cornerOf(grid, from).y));
}

/** Whether a cell is in sight of a board that has scrolled. */
export function inSight({ columns, rowHeight }, i, { top, most }) {
  const y = Math.floor(i / columns) * rowHeight - top;
  return y > -rowHeight && y < most * rowHeight;
}
