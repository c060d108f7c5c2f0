// All steps of a run at once: steps from top to bottom, positions from left to right. What a step does to a place is
// one cell; a pointer that is drawn over the rows sets the step.

import { el, set, setText, sizeCanvas, svg } from "./dom.js";
import { render } from "./drawing.js";
import { cut, glyphs, tr } from "./words.js";

const LEFT = 40,
  HEAD = 20,
  LINE = 24,
  FOOT = 74, // for tokens that are turned
  ROWS = 420, // pixels for all rows, where they are many
  ROW = [2, 24],
  CELL = 56, // a cell is no wider
  SPARE = 3,
  TURNED = 24; // narrower columns have their tokens turned

export const LETTER = 7.5; // of 12.5 pixels' type

/** A view names what stands left of the first column (`from`), how much room it wants right of the rows (`margin`),
 * draws a step (`paint`) and what lies over all rows (`over`), and says what else its looks depend on (`look`). */
export class StepMap {
  from = 0;
  margin = 0;
  controls = el("div", "dx-controls"); // below the rows

  load(run, dom, context) {
    Object.assign(this, { run, context, width: 640, t: 0 });
    this.say = el("p", "dx-readout");
    this.canvas = el("canvas", { role: "img" });
    this.axis = svg("svg", { class: "dx-tree dx-stepmap-axis", "aria-hidden": "true" }, svg("g"));
    this.veil = el("div", "dx-veil");
    this.hand = el("div", "dx-row");
    this.rows = el("div", "dx-stepmap-rows", this.veil, this.hand);
    set(this.rows, {
      onpointerdown: (event) => {
        if (event.button) return;
        this.held = true;
        this.rows.setPointerCapture?.(event.pointerId);
        this.#seek(event);
      },
      onpointermove: (event) => (this.held ? this.#seek(event) : this.#read(event)),
      onpointerup: () => (this.held = false),
      onpointercancel: () => (this.held = false),
      onpointerleave: () => !this.held && this.#told(),
    });
    dom.append(this.say, el("div", "dx-stepmap", this.canvas, this.axis, this.rows), this.controls);
    this.grow();
  }

  #row(event) {
    const box = this.rows.getBoundingClientRect();
    return Math.min(Math.max(Math.floor((event.clientY - box.top) / this.tall), 0), this.run.length - 1);
  }

  #seek(event) {
    const step = this.#row(event) + 1;
    if (step !== this.t) this.context.seek(step);
  }

  #read(event) {
    const box = this.rows.getBoundingClientRect(),
      column = Math.floor((event.clientX - box.left) / this.cell),
      step = this.#row(event);
    if (column < 0 || column >= this.columns || step >= this.t) return this.#told();
    setText(this.say, this.read(step, this.from + column));
  }

  #told() {
    setText(this.say, this.describe(this.t));
  }

  /** Lays everything out anew: the run has grown, the panel or the colours have changed. */
  lay() {
    const { run, width } = this;
    this.mode = this.context.mode();
    this.columns = this.#columns();
    this.cell = Math.min(CELL, (width - LEFT - this.margin) / this.columns);
    // a run that grows has room ahead, so that most of its steps add a row to those that are painted
    const room = run.end ? Math.max(1, run.length) : 2 ** Math.ceil(Math.log2(Math.max(8, run.length)));
    this.tall = Math.min(Math.max(Math.floor(ROWS / room), ROW[0]), ROW[1]);
    this.right = LEFT + this.columns * this.cell;
    this.foot = HEAD + room * this.tall;
    this.#paint(JSON.stringify([width, this.columns, room, this.mode, this.look?.()]));
    set(this.axis, { viewBox: `0 0 ${width} ${this.foot + FOOT}`, width, height: this.foot + FOOT });
    this.canvas.parentNode.style.height = `${this.foot + (this.cell < TURNED ? FOOT : LINE)}px`;
    this.rows.style.cssText = `left:${LEFT}px;top:${HEAD}px;width:${width - LEFT}px;height:${this.foot - HEAD}px`;
    this.show(this.t);
  }

  /** Paints the rows that are new, all of them where the layout or the look is. */
  #paint(layout) {
    const { run, canvas } = this;
    if (layout !== this.layout) {
      const pen = sizeCanvas(canvas, this.width, this.foot);
      Object.assign(pen, { font: "12.5px ui-monospace, monospace", textAlign: "center", textBaseline: "middle" });
      Object.assign(this, { layout, pen, painted: 0 });
    }
    while (this.painted < run.length) this.paint(this.pen, this.painted++);
    this.over?.(this.pen);
  }

  /** Of a run that is over, places that never hold anything but the end mark are left out, but for the first few. */
  #columns() {
    const { run, from } = this;
    let last = run.widest - 1;
    if (run.end) {
      const ever = (cell) => run.history[cell]?.some(({ token }) => token >= 0 && !run.eos.has(token));
      if (!run.orders.length) while (last > from && !ever(last)) last--;
      last = Math.min(last + SPARE, run.widest - 1);
    }
    this.left = run.widest - 1 - last;
    return Math.max(1, last + 1 - from);
  }

  has(position) {
    return position >= this.from && position < this.from + this.columns;
  }

  /** Where a step's cell at a position stands: [x, y, width, height]. */
  at(step, position) {
    const gap = this.cell > 8 ? 1 : 0;
    return [
      LEFT + (position - this.from) * this.cell,
      HEAD + step * this.tall,
      this.cell - gap,
      this.tall - (this.tall > 8 ? 1 : 0),
    ];
  }

  /** A cell in the look of a state, with its token where there is room. */
  written(pen, step, position, look, token) {
    const [x, y, w, h] = this.at(step, position),
      room = Math.floor((w - 1) / LETTER);
    pen.fillStyle = look.fill;
    pen.fillRect(x, y, w, h);
    if (this.cell > 5 && this.tall > 5) {
      pen.strokeStyle = look.line;
      pen.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
    }
    if (token < 0 || h < 14 || room < 1) return;
    pen.fillStyle = look.text;
    pen.fillText(this.word(token, room), x + w / 2, y + h / 2 + 0.5);
  }

  word(token, room) {
    if (this.run.eos.has(token)) return cut(tr`end`, room);
    const text = this.run.piece(token).text;
    return cut(glyphs(text.trim() || text), room);
  }

  resize(width) {
    this.width = width;
    this.lay();
  }

  grow() {
    this.lay();
  }

  relook() {
    this.lay();
  }

  show(t, hurry) {
    this.t = t;
    this.veil.style.transform = `translateY(${t * this.tall}px)`;
    this.hand.style.transform = `translateY(${t * this.tall}px)`;
    if (hurry) return;
    this.#told();
    set(this.canvas, { "aria-label": this.describe(t) });
    this.#letters(t);
  }

  /** The numbers of the steps, and the tokens that stand so far below their columns. */
  #letters(t) {
    const { run, from, cell, tall, foot, columns } = this,
      every = Math.ceil(16 / tall),
      turned = cell < TURNED,
      thin = Math.ceil(14 / cell);
    const labels = [[LEFT - 8, 13, "end", tr`step`]];
    for (let step = 0; step < run.length; step++)
      if (step === 0 || (step + 1) % every === 0)
        labels.push([LEFT - 8, HEAD + (step + 0.5) * tall + 4, "end", step + 1]);
    const board = run.board(t);
    for (let column = 0; column < columns; column += thin) {
      const token = board[from + column]?.token ?? null;
      if (token === null) continue;
      const x = LEFT + (column + 0.5) * cell,
        text = this.word(token, turned ? 9 : Math.max(2, Math.floor(cell / LETTER)));
      labels.push([x, foot + 16, turned ? "end" : "middle", text, turned]);
    }
    if (this.left) labels.push([this.right, 13, "end", tr`${this.left} more hold end marks only`]);
    labels.push(...(this.aside?.(t) ?? []));
    render(this.axis.firstChild, labels, ([x, y, anchor, text, slanted]) => {
      const transform = slanted ? `rotate(-60 ${x} ${y - 6})` : "";
      return ["text", { x, y, "text-anchor": anchor, transform }, text];
    });
  }
}
