// The compact mode: several runs in one viewport, a board and one line each, one below the other so that the same token
// of all runs lies in one column. On by itself from three runs; a switch in the controls decides otherwise.

import { el, icon, set, setText } from "../player/dom.js";
import { relay } from "../player/grid.js";
import { cornerOf } from "../player/layout.js";
import { besides, many, number, seconds, tr } from "../player/words.js";

export const view = { title: "", place: "toolbar", needs: [] };

const FROM = 3; // runs
const BAR = 76; // pixels that the controls and the gaps around them take
const LINE = 52; // pixels around a board: its line, the frame, the gap
const LEAST = 82; // pixels of a board, however many there are

/** A run's numbers in one line; model calls first, those of other models beside them. */
function lineOf(run, t) {
  const { forwards, others, model, method } = run.sums[t],
    held = (field, text) => (run.missing.has(field) ? "" : text),
    tokens = run.tokens(t);
  return [
    held("tokens", many(tokens, "token")),
    held("forwards", `${number(forwards)} ${tr`model calls`}`),
    others ? held("forwards", many(others, besides(run))) : "",
    held("model_seconds", seconds(model + method)),
  ]
    .filter(Boolean)
    .join(" · ");
}

/** The nearest element that holds all of these. */
function around([first, ...others]) {
  let node = first?.parentElement;
  while (node && !others.every((one) => node.contains(one))) node = node.parentElement;
  return node;
}

export class Compact {
  constructor(group) {
    Object.assign(this, { group, chosen: null, filled: [], lines: new WeakMap(), place: null });
    const title = tr`All runs in one screen: a board and one line each`,
      look = { class: "dx-toggle dx-compact", "aria-label": tr`Compact`, title, hidden: true },
      sign = icon("M1 1H11V3H1ZM1 5H11V7H1ZM1 9H11V11H1Z");
    this.root = el("button", { ...look, onclick: () => this.#choose() }, sign);
    this.fit = () => this.group.compact && this.#fit();
    window.addEventListener("resize", this.fit);
  }

  destroy() {
    window.removeEventListener("resize", this.fit);
  }

  #choose() {
    this.chosen = !this.group.compact;
    this.update();
  }

  /** Called after every move of the clock. */
  update(hurry, now = false) {
    const { group } = this,
      filled = [...group.members].filter(({ run, root }) => run || root.dataset.state !== "empty"); // or about to be
    if (filled.length < this.filled.length && !now) return this.#later();
    const on = filled.length > 1 && (this.chosen ?? filled.length >= FROM);
    this.root.hidden = filled.length < 2;
    set(this.root, { "aria-pressed": String(on) });
    const same = filled.length === this.filled.length && filled.every((member, i) => member === this.filled[i]);
    if (on !== group.compact || !same) {
      this.filled = filled;
      group.compact = on;
      this.#arrange(on ? filled : []);
      if (on) this.#fit();
      relay(group);
    }
    if (!on) return;
    for (const runner of group.runners) {
      if (!hurry) setText(this.#line(runner), lineOf(runner.run, runner.t));
      this.#follow(runner);
    }
  }

  /** A run that goes is often followed by another at once. */
  #later() {
    if (this.late) return;
    this.late = true;
    queueMicrotask(() => {
      this.late = false;
      this.update(false, true);
    });
  }

  #line({ root }) {
    if (!this.lines.has(root)) {
      const line = el("span", "dx-line1");
      root.querySelector("header").firstChild.after(line);
      this.lines.set(root, line);
    }
    return this.lines.get(root);
  }

  /** Marks the players that are shown in compact form, and what they stand in. */
  #arrange(members) {
    for (const member of this.group.members) member.root.toggleAttribute("data-compact", members.includes(member));
    this.place?.removeAttribute("data-strips");
    this.place = members.length ? around(members.map(({ root }) => root)) : null;
    this.place?.setAttribute("data-strips", "");
  }

  /** Boards that are higher than their part of the window scroll in themselves. */
  #fit() {
    this.room = Math.max(LEAST, Math.floor((innerHeight - BAR) / this.filled.length) - LINE);
    for (const { root } of this.filled) root.style.setProperty("--dx-room", `${this.room}px`);
  }

  /** A board that scrolls shows what was written last, from its first place on. */
  #follow({ root, run, t, views }) {
    const board = root.querySelector(".dx-board"),
      { grid } = views.board()?.view ?? {},
      written = run.steps[t - 1]?.commits?.positions ?? [];
    if (!grid || !board) return;
    const tall = grid.height > this.room;
    root.toggleAttribute("data-tall", tall); // else signs at the corners of cells may stand out
    if (!tall) return;
    const [from, to] = written.length ? [Math.min(...written), Math.max(...written)] : [0, 0],
      top = cornerOf(grid, from).y,
      end = cornerOf(grid, to).y + grid.rowHeight;
    if (end > board.scrollTop + board.clientHeight) board.scrollTop = end - board.clientHeight;
    if (top < board.scrollTop) board.scrollTop = top;
  }
}
