// Where the guesses of a draft tree come from: a line for each source with its tokens as cells, and a thread from each
// cell to the node that it became. It stands left of the tree, above it where the room is narrow.

import { el, svg } from "../player/dom.js";
import { MIDDLE, render } from "../player/drawing.js";
import { depthsOf } from "../player/rounds.js";
import { cut, glyphs, tr } from "../player/words.js";

export const H = 24; // of a cell
export const LINE = 29;
const CHAR = 7.3; // of the monospaced letters
const LISTED = 14; // sources
const NAMES = {
  table: () => tr`a row of the table`,
  text: () => tr`copied from the text`,
  store: () => tr`copied from the store`,
  head: () => tr`guesses of a head`,
  prompt: () => tr`learned prompt tokens, fed to the target itself: what it says there are the guesses`,
  layer: () => tr`an early exit`,
  model: () => tr`the draft model`,
};
const COPIED = ["text", "store"];
const FATE = ["accepted", "rejected", "unreached"]; // of a cell: the best of its nodes
const NOTE = 130; // room after the cells of a copy
const room = (chars) => Math.round(chars * CHAR) + 12;

/** Kinds of sources of each row of a tree: row -> [kind, ...]. */
export function kindsOf(tree) {
  const kinds = new Map();
  for (const { kind, links = [] } of tree.guessed_from ?? [])
    for (const [row] of links) {
      const known = kinds.get(row) ?? kinds.set(row, []).get(row);
      if (!known.includes(kind)) known.push(kind);
    }
  return kinds;
}

/** The kinds that a run shows, for its legend. */
export function key(run) {
  const all = run.steps.flatMap(({ tree }) => tree?.guessed_from ?? []),
    kinds = new Set(all.map(({ kind }) => kind));
  return [...kinds].map((kind) =>
    el("span", {}, el("i", { class: "dx-swatch dx-source", "data-source": kind }), NAMES[kind]?.() ?? kind),
  );
}

/** How many sources a tree has, and how many of them no guess was taken from. */
export function told({ guessed_from: all = [] }) {
  const idle = all.filter(({ links = [] }) => !links.length).length;
  if (!all.length) return "";
  return idle ? tr`Sources: ${all.length}, ${idle} of them unused.` : tr`Sources: ${all.length}.`;
}

export class Origins {
  constructor(run) {
    Object.assign(this, { run, threads: svg("g", { class: "dx-threads" }), sources: svg("g"), shown: [] });
    Object.assign(this, { most: 0, used: 0, w: 26, left: 0, tail: 0 });
  }

  #piece(token) {
    return token < 0 ? "" : glyphs(this.run.piece(token).text, 12);
  }

  #name({ kind, label = "", key = [] }) {
    const last = key.slice(-3).map((token) => cut(this.#piece(token), 6)),
      looked = last.join(" ");
    return label || (kind === "table" || !NAMES[kind] ? `${looked} →` : tr`after ‘${looked}’`);
  }

  /** Takes the sources of another tree into account: a cell has one size in all steps. */
  measure({ guessed_from: all = [] }) {
    for (const source of all.slice(0, LISTED)) {
      const { tokens = [], links = [], after = [] } = source;
      this.most = Math.max(this.most, tokens.length);
      this.used = Math.max(this.used, ...links.map(([, cell]) => cell + 1));
      this.w = Math.min(Math.max(this.w, ...tokens.map((token) => room(this.#piece(token).length))), 66);
      this.left = Math.min(Math.max(this.left, room(this.#name(source).length)), 168);
      if (after.length) this.tail = 98;
    }
  }

  /** Whether each copy goes down one path of the tree, token by token: then its cells stand above the columns of the
   * tree that they are in. */
  aligned({ guessed_from: all = [], parents }) {
    this.away = document.documentElement.hasAttribute("data-tight"); // of a lecture: there is room for the tree alone
    const depths = depthsOf(parents),
      copies = all.filter(({ kind }) => kind !== "model");
    this.above =
      !this.away &&
      copies.length > 0 &&
      copies.every(({ kind, links = [] }) => COPIED.includes(kind) && links.every(([row, i]) => depths[row] === i + 1));
    return this.above;
  }

  /** The width that they need at least. */
  get least() {
    return this.away ? 0 : this.left && this.left + 6 + this.used * (this.w + 3) + this.tail;
  }

  /** Finds room for the sources of a tree in `width` pixels: {w, h}. states: of its rows. */
  plan({ guessed_from: all = [] }, states, width) {
    this.shown = (this.away ? [] : all.slice(0, LISTED)).map((source) => {
      const { tokens = [], links = [], after = [] } = source,
        fates = new Map();
      for (const [row, cell] of links) {
        const fate = FATE.indexOf(states[row]);
        if (fate >= 0) fates.set(cell, Math.min(fate, fates.get(cell) ?? FATE.length));
      }
      const renewed = after.filter((token, i) => token !== tokens[i]).length;
      return { ...source, tokens, links, fates, renewed, name: this.#name(source) };
    });
    const copies = this.above ? this.shown.filter(({ kind }) => COPIED.includes(kind)) : [];
    if (copies.length > 1) copies.forEach((source, i) => (source.name = `${i + 1} ${source.name}`));
    if (this.above || this.away) return { w: this.away ? 0 : width, h: this.shown.length * LINE };
    const pitch = this.w + 3,
      free = Math.floor((width - this.left - 6 - this.tail) / pitch);
    this.cells = Math.min(this.most, Math.max(this.used, free));
    return { w: this.left && this.left + 6 + this.cells * pitch + this.tail, h: this.shown.length * LINE };
  }

  /** Draws them from the corner (x, y) on. at: the place of a row of the tree, {x, y, w, h}, or undefined; over:
   * whether they stand above the tree; column: {pitch, size, room} of its columns. */
  show(x, y, at, states, over, column) {
    if (this.above) {
      this.left = column.pitch - 2;
      this.w = column.size;
      this.cells = Math.max(1, Math.floor((column.room - NOTE) / column.pitch) - 1);
    }
    const pitch = this.above ? column.pitch : this.w + 3,
      { shown } = this;
    render(this.sources, shown, (source, line) => {
      const n = Math.min(source.tokens.length, this.cells),
        fate = (i) => FATE[source.fates.get(i)] ?? "unused",
        place = (i) => `translate(${this.left + 6 + i * pitch},0)`,
        cells = source.tokens
          .slice(0, n)
          .map((token, i) => [
            { transform: place(i), "data-s": fate(i), "data-line": line, "data-cell": i },
            ["rect", { height: H, rx: 5, width: this.w }],
            ["text", { ...MIDDLE, y: 16.5, x: this.w / 2 }, cut(this.#piece(token), Math.floor((this.w - 4) / CHAR))],
          ]);
      return [
        { transform: `translate(${x},${y + line * LINE})`, "data-source": source.kind },
        ["title", {}, this.#tell(source)],
        ["rect", { height: H, rx: 5, width: this.left, class: "dx-source" }],
        ["text", { x: 7, y: 16.5 }, cut(source.name, Math.floor((this.left - 8) / CHAR))],
        ["g", {}, ...cells],
        ["text", { y: 16.5, class: "dx-quiet", x: this.left + 10 + n * pitch }, this.#note(source, n)],
      ];
    });
    const { left, w, cells, above } = this,
      drawn = threads({ sources: shown, states, at, x, y, left, w, pitch, cells, above, over });
    render(this.threads, drawn, (path) => ["path", path]);
  }

  /** What became of a source's tokens. */
  #note({ kind, tokens, links, renewed }, drawn) {
    if (renewed) return tr`↻ ${renewed} updated`;
    if (!this.above) return "";
    if (kind === "model") return tr`${links.length} guesses, striped in the tree`;
    const taken = new Set(links.map(([, cell]) => cell)).size,
      more = tokens.length > drawn ? "… " : "";
    return more + (taken ? tr`${taken} of ${tokens.length} taken` : tr`none taken`);
  }

  /** Lifts the threads of a node or of a cell that is pointed at. */
  lift({ row, line, cell }) {
    const ofCell = ({ dataset }) => line !== undefined && dataset.line === line && dataset.cell === cell,
      hot = row === undefined ? ofCell : ({ dataset }) => dataset.row === row;
    for (const path of this.threads.childNodes) path.classList.toggle("dx-hot", hot(path));
  }

  #tell(source) {
    const words = (tokens) => tokens.map((token) => this.#piece(token) || "–").join(", "),
      lines = [`${NAMES[source.kind]?.() ?? source.kind}: ${source.name}`];
    if (source.tokens.length) lines.push(words(source.tokens));
    if (source.renewed) lines.push(tr`after this step: ${words(source.after)}`);
    return lines.join("\n");
  }
}

/** Threads from the cells of sources to their nodes: [{d, "data-source", ...}]. sources: {kind, links} by line; from
 * the corner (x, y): left, w, pitch: of their names, cells and columns; cells: how many are shown where they stand
 * `above` as the tree does. at: the place of a row of the tree, {x, y, w, h}, or undefined; over: whether they stand
 * above it. */
export function threads({ sources, states, at, x, y, left, w, pitch, cells, above, over }) {
  const cellAt = (line, cell) => ({ x: x + left + 6 + cell * pitch, y: y + line * LINE });
  const draw = (kind, row, line, cell) => {
    const to = at(row),
      from = cell < 0 ? null : cellAt(line, cell),
      end = over ? { x: to.x + to.w / 2, y: to.y } : { x: to.x, y: to.y + to.h / 2 },
      down = !from ? 0 : end.y >= from.y + H / 2 ? 1 : -1,
      start = from
        ? { x: from.x + w / 2, y: from.y + (down > 0 ? H : 0) }
        : { x: x + left, y: y + line * LINE + H / 2 },
      bend = over
        ? `${start.x},${start.y + 30} ${end.x},${end.y - 30}`
        : `${start.x + (from ? 0 : 50)},${start.y + 26 * down} ${end.x - 60},${end.y}`,
      d = `M${start.x},${start.y}C${bend} ${end.x},${end.y}`,
      of = { "data-source": kind, "data-fate": states[row], "data-row": row, "data-line": line, "data-cell": cell };
    return { d, ...of };
  };
  return sources.flatMap(({ links, kind }, line) =>
    links
      .filter(([row, cell]) => at(row) && (!above || (cell >= 0 && cell < cells)))
      .map(([row, cell]) => draw(kind, row, line, cell)),
  );
}
