// The token board: one cell for each position, with its state, its heat while masked, and brackets for blocks and windows.

import { glyphs, number, unpack } from "../codec.js";
import { el, legend, pool, select, set, setText } from "../dom.js";
import { cellAt, cornerOf, grid, segments } from "../layout.js";
import { levelOf, ramp, spanColour } from "../theme.js";
import { details } from "./details.js";
import { alike, Sheet } from "./sheet.js";

const DOM_LIMIT = 256;
const NARROW = 480;
const LINES = ["solid", "dashed", "dotted", "double"];

/** Names a bracket that is pointed at. */
function entitle(node) {
  const { kind, start, end, label } = node.span;
  node.title = `${kind} ${start}–${end - 1}${label ? `: ${label}` : ""}`;
}

export class Tokens {
  static title = "Token board";

  load(run, dom, context) {
    Object.assign(this, { run, dom, context, t: 0, picked: -1, pinned: false });
    this.board = el("div", { class: "dx-board", tabindex: 0, role: "group", "aria-label": "Token board: up and down choose a position, Enter keeps its details open" });
    this.brackets = el("div", { class: "dx-brackets", "aria-hidden": "true", onpointerover: ({ target }) => entitle(target) });
    this.numbers = el("div", { class: "dx-numbers", "aria-hidden": "true" });
    this.cells = el("div", "dx-cells");
    this.popover = el("div", { class: "dx-pop", role: "region", "aria-label": "Details of a position", hidden: true });
    this.legend = el("div", "dx-legend");
    this.controls = el("div", "dx-controls");
    this.marks = el("div", "dx-marks");
    this.board.append(this.numbers, this.cells, this.brackets, this.marks);
    dom.append(this.controls, el("div", "dx-anchor", this.board, this.popover), this.legend);
    this.#listen();
    this.grow();
  }

  /** New steps arrived: lanes, span kinds or positions may be new. */
  grow() {
    const { run } = this, key = [run.spanKinds.length, run.lanes.size, run.states.size].join();
    if (key !== this.known) this.#controls(), this.#legend();
    this.known = key;
    this.resize(this.width);
  }

  resize(width) {
    const { run } = this;
    if (!width) return;
    this.width = width;
    this.mode = this.context.mode();
    this.ramp = ramp(this.context.theme, this.mode);
    const large = run.widest > DOM_LIMIT;
    const lengths = [...run.pieces.values()].filter((p) => p.kind === "text").map((p) => Math.min(glyphs(p.text).length, 11)).sort((a, b) => a - b);
    const typical = Math.max(2.4, lengths[Math.floor(lengths.length * 0.85)] ?? 5);
    this.track = large ? 6 : 8;
    const under = 4 + this.track * run.spanKinds.length, squeeze = width < NARROW ? 0.85 : 1;
    const cell = large ? { w: Math.round(Math.min(typical, 6) * 6 + 5), h: 20, under } : { w: Math.round((typical * 7.9 + 12) * squeeze), h: 30, under };
    this.grid = grid(width, run.widest, cell, run.widest > 16 ? 30 : 0);
    const laid = JSON.stringify([this.grid, this.mode, large]), same = laid === this.laid;
    this.laid = laid;
    if (same) return void (large || this.#spans());
    this.board.style.height = `${this.grid.height}px`;
    this.drawn = [];
    this.shown = null;
    this.cells.className = `dx-cells${large ? "" : " dx-dom"}`;
    if (large) this.#sheet().size(this.grid, this.mode, this.ramp);
    else this.#spans();
    const { rowHeight, columns, rows } = this.grid;
    pool(this.numbers, this.grid.gutter && rows > 1 ? rows : 0, () => el("span")).forEach((node, row) => {
      node.style.cssText = `top:${row * rowHeight}px;line-height:${this.grid.h}px`;
      setText(node, String(row * columns));
    });
    this.show(this.t);
  }

  #spans() {
    const { columns, w, h, gap, gutter, rowHeight } = this.grid;
    this.cells.style.cssText = `margin-left:${gutter}px;--w:${w}px;--h:${h}px;grid-template-columns:repeat(${columns},${w}px);grid-auto-rows:${h}px;column-gap:${gap}px;row-gap:${rowHeight - h}px`;
    this.nodes = pool(this.cells, this.run.widest, () => el("span", "dx-cell"));
  }

  /** A board only grows: once large it stays painted. */
  #sheet() {
    if (this.sheet) return this.sheet;
    this.nodes = null;
    this.cells.style.cssText = "";
    this.cells.replaceChildren();
    set(this.cells, { role: "img", "aria-label": "Token board" });
    return (this.sheet = new Sheet(this.cells, this.context.theme, (look) => this.#spell(look)));
  }

  show(t) {
    this.t = t;
    if (!this.grid) return;
    const cells = this.run.board(t), lane = this.run.lane(t - 1, this.context.lane), scores = lane && unpack(lane.values).values;
    const look = (position) => this.#look(cells[position], scores?.[position - lane.start] ?? NaN);
    this.sheet?.show(look);
    if (!this.sheet) this.nodes.forEach((node, position) => {
      const found = look(position);
      if (!alike(found, this.drawn[position])) this.#dress(node, found);
      this.drawn[position] = found;
    });
    if (cells.length !== this.shown?.length) this.numbers.childNodes.forEach((node, row) => (node.style.visibility = row * this.grid.columns < cells.length ? "" : "hidden"));
    this.shown = cells;
    this.#bracket(this.run.steps[t - 1]?.spans ?? []);
    this.remark();
    if (this.picked >= 0) this.#popover();
  }

  /** Signs at the corners of cells, set by other views: {position, glyph, title, kind}. */
  remark() {
    if (!this.grid) return;
    const { grid } = this, marks = Object.values(this.context.marks).flat().filter(({ position }) => this.shown[position]);
    pool(this.marks, marks.length, () => el("b")).forEach((node, i) => {
      const { position, glyph, title, kind } = marks[i], { x, y } = cornerOf(grid, position);
      Object.assign(node.dataset, { m: kind, position });
      node.title = title;
      node.style.cssText = `left:${x + grid.w}px;top:${y}px`;
      setText(node, glyph);
    });
  }

  /** How a cell looks: {shown: its token or the best guess, state, level}, or null where there is none. */
  #look(cell, score) {
    if (!cell) return null;
    const { run, context, t } = this, { token, state, position } = cell;
    const level = state === "masked" && context.lane ? levelOf(run.level(context.lane, score)) : -1;
    return { shown: token ?? (context.peek ? run.candidates(t - 1, position)?.[0]?.token : null) ?? null, state, level };
  }

  #spell({ shown, state }) {
    if (shown === null) return { text: this.context.theme.states[state].glyph, kind: "mark" };
    const { text, kind } = this.run.piece(shown);
    return { text: glyphs(text, 24), kind: state === "masked" || state === "remasked" ? "peek" : kind };
  }

  #dress(node, look) {
    node.style.visibility = look ? "" : "hidden";
    if (!look) return void setText(node, "");
    const { text, kind } = this.#spell(look);
    node.dataset.s = look.state;
    node.dataset.k = kind;
    const heat = this.ramp[look.level];
    node.style.background = heat?.fill ?? "";
    node.style.color = heat?.text ?? "";
    const space = /^[␣↵→]+(?=.)/.exec(text)?.[0];
    if (space) node.replaceChildren(el("i", {}, space), text.slice(space.length));
    else setText(node, text);
  }

  #bracket(spans) {
    const { theme } = this.context, g = this.grid;
    const pieces = spans.flatMap((span) => segments(g, span.start, Math.min(span.end, this.run.widest)).map((part) => ({ ...part, span })));
    pool(this.brackets, pieces.length, () => el("b")).forEach((node, i) => {
      const { span, row, column, cells, first, last } = pieces[i], track = this.run.spanKinds.indexOf(span.kind);
      node.span = span;
      if (node.title) entitle(node);
      set(node, {
        style: `left:${g.gutter + column * (g.w + g.gap)}px;top:${row * g.rowHeight + g.h + 3 + track * this.track}px;`
          + `width:${cells * (g.w + g.gap) - g.gap}px;border-color:${spanColour(theme, this.mode, span.kind)};border-bottom-style:${LINES[track % LINES.length]};`
          + `border-left-width:${first ? 2 : 0}px;border-right-width:${last ? 2 : 0}px`,
      });
    });
  }

  #controls() {
    const { run, context } = this;
    const lanes = [...run.lanes.keys()];
    this.controls.replaceChildren(
      ...(lanes.length ? [select("Colour masked cells by", [...lanes.map((name) => [name, name]), ["", "nothing"]], context.lane ?? "", (name) => context.setLane(name))] : []),
      ...(run.has("candidates") && run.canvas !== null ? [el("button", { class: "dx-toggle", "aria-pressed": String(context.peek), onclick: () => context.setPeek(!context.peek) }, "Peek at best guesses")] : []),
    );
  }

  relook() {
    this.#controls();
    this.#legend();
    this.show(this.t);
  }

  #legend() {
    const { run, context } = this, { states } = context.theme;
    const lane = run.canvas !== null && context.lane && run.lanes.get(context.lane);
    this.legend.replaceChildren(
      ...Object.keys(states).filter((state) => run.states.has(state)).map((state) => legend(context.theme, state)),
      ...(lane ? [el("span", {}, `${context.lane} ${number(lane.lo)}`, el("i", "dx-ramp"), number(lane.hi, lane.unit))] : []),
      ...run.spanKinds.map((kind, i) => el("span", {}, el("i", { class: "dx-line", style: `border-bottom:2px ${LINES[i % LINES.length]} ${spanColour(context.theme, context.mode(), kind)}` }), kind)),
    );
  }

  #listen() {
    const { board } = this;
    const hit = (event) => {
      const box = board.getBoundingClientRect();
      const position = cellAt(this.grid, event.clientX - box.left, event.clientY - box.top, this.run.widest);
      return this.shown?.[position] ? position : -1;
    };
    set(board, {
      onpointermove: (event) => !this.pinned && event.pointerType !== "touch" && this.pick(hit(event)),
      onpointerleave: () => !this.pinned && this.pick(-1),
      onclick: (event) => {
        const position = hit(event);
        if (this.context.pick?.(position)) return;
        this.pinned = position >= 0 && !(this.pinned && position === this.picked);
        this.pick(this.pinned ? position : -1);
      },
      onfocus: () => !this.pinned && this.picked < 0 && board.matches(":focus-visible") && this.pick(0),
      onblur: () => !this.pinned && this.pick(-1),
    });
    this.dom.addEventListener("keydown", (event) => {
      const last = (this.shown?.length ?? 0) - 1;
      if (event.key === "Escape") (this.pinned = false), this.pick(-1);
      else if (event.target !== board) return;
      else if (event.key === "Enter" && this.context.pick?.(this.picked)) return event.preventDefault();
      else if (event.key === "Enter") this.pinned = this.picked >= 0 && !this.pinned;
      else if (event.key === "ArrowDown") this.pick(Math.min(this.picked + 1, last));
      else if (event.key === "ArrowUp") this.pick(Math.max(this.picked - 1, 0));
      else return;
      event.preventDefault();
      this.popover.classList.toggle("dx-pinned", this.pinned);
    });
  }

  pick(position) {
    if (position === this.picked && this.popover.classList.contains("dx-pinned") === this.pinned) return;
    this.nodes?.[this.picked]?.classList.remove("dx-picked");
    this.picked = position;
    this.popover.hidden = position < 0;
    this.popover.classList.toggle("dx-pinned", this.pinned);
    if (position < 0) return;
    this.nodes?.[position]?.classList.add("dx-picked");
    this.#popover();
  }

  #popover() {
    const cell = this.shown[this.picked];
    if (!cell) return this.pick(-1);
    this.popover.replaceChildren(...details(this.run, cell, this.t, this.context.theme));
    const { x, y } = cornerOf(this.grid, this.picked), wide = Math.min(300, this.width);
    this.popover.style.cssText = `width:${wide}px;left:${Math.max(0, Math.min(x, this.width - wide))}px;top:${y + this.grid.h + 6}px`;
  }

  describe(t) {
    const { run } = this, commits = run.steps[t - 1]?.commits;
    const open = run.canvas === null ? "" : ` ${run.board(t).filter((c) => c.token === null).length} positions are still masked.`;
    const say = commits?.positions.slice(0, 6).map((p, i) => (commits.tokens[i] < 0 ? `position ${p} withdrawn` : glyphs(run.piece(commits.tokens[i]).text, 20))).join(", ");
    return say ? `${commits.positions.length} written: ${say}${commits.positions.length > 6 ? " and more" : ""}.${open}` : `Nothing written.${open}`;
  }
}
