// The cells of a large board on canvases of a few rows. A step paints what changed near the window; the rest follows
// when it comes near, when the clock rests, or before the page is printed. A canvas has pixels once it is painted; on a
// board of very many cells only near the window, because all of them together would be gigabytes.

import { el, pool, sizeCanvas } from "../player/dom.js";
import { cornerOf } from "../player/layout.js";
import { OPTIONS } from "../player/theme.js";
import { cut } from "../player/words.js";

const ROWS = 4; // rows of cells on a canvas
const NEAR = "80px"; // around the window
const REST = 120; // milliseconds
const FIRST = 16; // canvases that are painted before the browser tells which are near
const MANY = 20_000; // cells that are painted far from the window
const SOFTWARE = { willReadFrequently: true }; // pixels are copied

const LOOK = ["shown", "state", "level", "end", "author"];

/** Whether two looks of a cell, or null, are the same. */
export const alike = (a, b) => a === b || Boolean(a && b && LOOK.every((part) => a[part] === b[part]));

export class Sheet {
  /** spell(look): the {text, kind} of a cell. */
  constructor(box, theme, spell) {
    Object.assign(this, { box, theme, spell, tiles: [], brush: el("canvas") });
    this.sight = new IntersectionObserver((entries) => this.#moved(entries), { rootMargin: NEAR });
  }

  #moved(entries) {
    for (const { target, isIntersecting } of entries) {
      const tile = this.byCanvas.get(target);
      if (tile) tile.near = isIntersecting;
      if (tile?.near && tile.late) this.#paint(tile);
      else if (tile && !tile.near && this.many) this.#forget(tile);
    }
  }

  size(grid, mode, ramp) {
    const { rows, columns, w, h, gap, gutter, rowHeight } = grid,
      { box, tiles } = this;
    Object.assign(this, { grid, mode, ramp, stamps: new Map(), byCanvas: new Map() });
    this.drawn = new Array(rows * columns).fill(null);
    this.pen = sizeCanvas(this.brush, w + 2, h + 2, SOFTWARE);
    this.many = rows * columns > MANY;
    this.tiles = pool(box, Math.ceil(rows / ROWS), () => el("canvas")).map((canvas, i) => {
      const size = [gutter + columns * (w + gap), Math.min(ROWS, rows - i * ROWS) * rowHeight],
        tile = { canvas, size, row: i * ROWS, near: tiles[i]?.near ?? i < FIRST };
      this.byCanvas.set(canvas, tile);
      this.#forget(tile);
      this.sight.observe(canvas);
      return tile;
    });
    this.pen.font = `12px ${getComputedStyle(box).fontFamily}`;
    this.pen.textBaseline = "middle";
    this.fits = Math.max(1, Math.floor((w - 5) / this.pen.measureText("m").width));
  }

  /** look(i): how the i-th cell looks now. */
  show(look) {
    this.look = look;
    for (const tile of this.tiles) {
      tile.late = !tile.near;
      if (tile.near) this.#paint(tile);
    }
    clearTimeout(this.rest);
    if (!this.many) this.rest = setTimeout(() => this.finish(), REST);
  }

  finish() {
    for (const tile of this.tiles) if (tile.late) this.#paint(tile);
  }

  /** Its pixels go; its place stays. */
  #forget(tile) {
    const [width, height] = tile.size,
      { columns } = this.grid;
    Object.assign(tile, { pen: null, late: true });
    Object.assign(tile.canvas, { width: 1, height: 1 });
    tile.canvas.style.cssText = `width:${width}px;height:${height}px`;
    this.drawn.fill(null, tile.row * columns, (tile.row + ROWS) * columns);
  }

  #paint(tile) {
    tile.pen ??= sizeCanvas(tile.canvas, ...tile.size, SOFTWARE);
    const { grid } = this,
      { columns, w, rows, rowHeight } = grid,
      ratio = this.brush.width / (w + 2),
      end = Math.min(tile.row + ROWS, rows) * columns;
    for (let i = tile.row * columns; i < end; i++) {
      const look = this.look(i);
      if (alike(look, this.drawn[i])) continue;
      this.drawn[i] = look;
      const { x, y } = cornerOf(grid, i + (grid.first ?? 0)),
        corner = [x - 1, y - tile.row * rowHeight].map((at) => Math.round(at * ratio));
      tile.pen.putImageData(this.#stamp(look), ...corner);
    }
    tile.late = false;
  }

  /** The pixels of a cell: few looks, many cells. */
  #stamp(look) {
    const { stamps, pen, brush, grid } = this,
      { w, h } = grid,
      key = look ? LOOK.map((part) => look[part]).join(" ") : "";
    if (!stamps.has(key)) {
      if (stamps.size > 600) stamps.clear();
      pen.clearRect(0, 0, w + 2, h + 2);
      if (look) this.#draw(look);
      stamps.set(key, pen.getImageData(0, 0, brush.width, brush.height));
    }
    return stamps.get(key);
  }

  #draw(look) {
    const { pen, grid } = this,
      { w, h } = grid,
      colours = this.theme.states[look.state],
      { fill, text, line } = colours[this.mode],
      option = look.author < 0 ? null : this.theme.options[this.mode][look.author % OPTIONS],
      heat = option ?? this.ramp[look.level],
      { text: word, kind } = this.spell(look),
      { panel } = this.theme.surface[this.mode];
    pen.fillStyle = kind === "end" ? panel : (heat?.fill ?? fill);
    pen.fillRect(1, 1, w, h);
    pen.strokeStyle = line;
    pen.lineWidth = look.state === "new" ? 2 : 1;
    pen.setLineDash(colours.border === "dashed" ? [3, 2] : colours.border === "dotted" ? [1, 2] : []);
    if (colours.border !== "none") pen.strokeRect(1.5, 1.5, w - 1, h - 1);
    pen.fillStyle = kind === "end" ? this.theme.surface[this.mode].muted : (heat?.text ?? text);
    pen.globalAlpha = kind === "peek" ? 0.75 : 1;
    pen.fillText(cut(word, this.fits), kind === "mark" ? w / 2 - 3 : 4, h / 2 + 1.5, w - 4);
    pen.globalAlpha = 1;
  }
}
