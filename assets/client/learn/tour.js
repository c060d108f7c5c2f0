// A guided tour of decoding: a few notes, each of which moves the players to a step of the runs that are shown and
// points at the cells it speaks of. All numbers are those of the runs. Keyboard: arrows or the buttons, Escape ends.

import { groupNamed } from "../player/clock.js";
import { el } from "../player/dom.js";
import { store, stored } from "../player/remember.js";
import { tr } from "../player/words.js";

// localStorage: "seen" once the tour was offered and answered; it is not offered where nothing can be kept
const KEY = "decoding-explorer-tour";
const GROUP = "main"; // the players of Explore

/** Tokens and end marks, so that a sum can be followed. */
function sum(tokens, ends) {
  const said = count(tokens, tr`token`, tr`tokens`);
  return ends ? tr`${said} and ${count(ends, tr`end mark`, tr`end marks`)}` : said;
}
const count = (n, one, more) => `${n} ${n === 1 ? one : more}`;

/** The cells that were written in step t, end marks left out or they alone, and those that are unwritten after it. */
const written = (run, t, ends = false) =>
  run.board(t).filter(({ entry, token }) => token !== null && run.eos.has(token) === ends && entry?.step === t - 1);
const unwritten = (run, t) => run.board(t).filter(({ state }) => state === "masked");

/** The notes on what is shown now: {words, player, step, cells}. */
function stops() {
  const inSight = (root) => (root.closest("#players") ?? root).getClientRects().length; // on a phone one at a time is
  const players = groupNamed(GROUP).runners.filter(({ root, run }) => run.length && inSight(root)),
    notes = [];
  const note = (title, text, player, step, cells) => notes.push({ words: [title, text], player, step, cells });
  if (!players.length) {
    const words = tr`Press Run: a model writes an answer, and each step of it appears here as it is made.`;
    return [{ words: [tr`No run yet`, words], selector: "#run" }];
  }
  const [player] = players,
    { run } = player,
    open = unwritten(run, 0),
    left = unwritten(run, 1);
  const board = open.length
    ? tr`${count(open.length, tr`box`, tr`boxes`)} at the start: each is an unwritten token.`
    : tr`This model writes from left to right: there is nothing after the prompt yet.`;
  note(tr`The board`, board, player, 0, open);
  if (left.length) {
    const [tokens, marks] = [false, true].map((ends) => written(run, 1, ends).length);
    const guesses = tr`The model guesses all of them at once. Step 1 wrote ${sum(tokens, marks)}, and \
${count(left.length, tr`box is`, tr`boxes are`)} still unwritten; point at one to see its guesses.`;
    note(tr`Guesses`, guesses, player, 1, left);
  }
  const all = players.flatMap((one) =>
    Array.from({ length: one.run.length }, (_, i) => ({ one, t: i + 1, cells: written(one.run, i + 1) })),
  );
  const first = all.find(({ one, cells }) => one === player && cells.length);
  if (first) {
    const { t, cells } = first,
      ends = written(run, t, true);
    note(tr`Yellow`, tr`Yellow was written now: ${sum(cells.length, ends.length)} in step ${t}.`, player, t, [
      ...cells,
      ...ends,
    ]);
  }
  const most = all.reduce((best, here) => (here.cells.length > best.cells.length ? here : best)),
    { one, t, cells } = most,
    { title } = one.run.header;
  const many =
    cells.length > 1
      ? tr`${title} writes ${cells.length} tokens at once in step ${t}.`
      : tr`${title} never writes more than one token in a step.`;
  if (cells.length) note(tr`Many at once`, many, one, t, cells);
  const end = tr`${count(run.tokens(run.length), tr`token`, tr`tokens`)} in ${count(run.length, tr`step`, tr`steps`)}. \
Space plays, the arrow keys step. Learn explains each method.`;
  note(tr`The end`, end, player, run.length, []);
  return notes;
}

const shown = (selector) =>
  [...document.querySelectorAll(selector)].find((node) => node.getClientRects().length) ?? null;

/** Whether a cell stands in the part of its board that is shown: a long board scrolls. */
function inBoard(node) {
  const [cell, board] = [node, node.closest(".dx-board")].map((one) => one.getBoundingClientRect());
  return cell.height > 0 && cell.top >= board.top - 1 && cell.bottom <= board.bottom + 1;
}

/** The keyboard goes to the first player that is shown, so that Space plays; without one, to the button. */
const toPlayer = (button) => (shown("[id^=panel-] .dx-panel") ?? button).focus({ preventScroll: true });

/** Pixels to leave free above a part that is scrolled to the top: the toolbar stays there on a wide screen. */
function room() {
  const bar = document.querySelector("#toolbar");
  return bar && getComputedStyle(bar).position === "sticky" ? bar.offsetHeight + 24 : 60;
}

class Tour {
  constructor(button) {
    this.button = button;
    this.title = el("h2", { id: "tour-title" });
    this.text = el("p", { id: "tour-text" });
    this.count = el("span", "tour-count");
    this.back = el("button", { onclick: () => this.go(-1) }, tr`Back`);
    this.next = el("button", { class: "tour-next", onclick: () => this.go(1) }, tr`Next`);
    this.close = el("button", { onclick: () => this.end() }, tr`End`);
    this.ring = el("div", { class: "tour-ring", "aria-hidden": "true" });
    this.box = el(
      "div",
      {
        class: "tour-box",
        role: "dialog",
        "aria-modal": "true",
        "aria-labelledby": "tour-title",
        "aria-describedby": "tour-text",
        tabindex: "-1",
      },
      this.title,
      this.text,
      el("div", "tour-buttons", this.count, this.close, this.back, this.next),
    );
    this.marks = el("div", { class: "tour-marks", "aria-hidden": "true" });
    new ResizeObserver(() => shown(".tour-start") || this.end(false)).observe(button); // another tab was opened
  }

  start() {
    if (this.steps) return;
    store(KEY, "seen");
    this.steps = stops();
    this.at = 0;
    this.over = new AbortController();
    const always = { capture: true, signal: this.over.signal };
    document.body.append(this.ring, this.marks, this.box);
    document.addEventListener("keydown", (event) => this.#key(event), always);
    for (const event of ["resize", "scroll"]) addEventListener(event, () => this.#place(), always);
    this.#show();
  }

  /** focus: to the player, where Space plays. */
  end(focus = true) {
    if (!this.steps) return;
    this.steps = null;
    this.over.abort();
    for (const node of [this.ring, this.marks, this.box]) node.remove();
    if (focus) toPlayer(this.button);
  }

  go(direction) {
    this.at += direction;
    if (this.at >= this.steps.length) return this.end();
    this.at = Math.max(0, this.at);
    this.#show();
  }

  #show() {
    const { words, player, step } = this.steps[this.at];
    [this.title.textContent, this.text.textContent] = words;
    player?.seek(step);
    player?.root.dispatchEvent(new CustomEvent("dx-choose", { bubbles: true }));
    this.count.textContent = tr`${this.at + 1} of ${this.steps.length}`;
    this.back.disabled = this.at === 0;
    this.next.textContent = this.at === this.steps.length - 1 ? tr`Done` : tr`Next`;
    const target = this.#targets()[0],
      tall = (target?.getBoundingClientRect().height ?? 0) > innerHeight * 0.6;
    const high = tall || innerWidth <= 560; // so that the note at the foot covers no more than it must
    target?.scrollIntoView({ block: high ? "start" : "center", behavior: "instant" });
    if (high) scrollBy({ top: -room(), behavior: "instant" });
    this.#place();
    // a player that was put aside lays its board now
    requestAnimationFrame(() => requestAnimationFrame(() => this.#place()));
    this.next.focus({ preventScroll: true });
  }

  /** The cells that the note speaks of; the board, where they are painted or none is named. */
  #targets() {
    const { player, cells, selector } = this.steps[this.at];
    if (!player) return [shown(selector)].filter(Boolean);
    const { view } = player.views.board() ?? {};
    const named = cells.map(({ position }) => view?.nodeAt(position)).filter((node) => node && inBoard(node));
    return named.length ? named : [player.root.querySelector(".dx-board") ?? player.root];
  }

  /** A frame around each cell, the ring around all, and the note beside it where there is room: below, above, to the
   * right, else at the foot of the screen. */
  #place() {
    if (!this.steps) return;
    const EDGE = 10,
      rects = this.#targets().map((node) => node.getBoundingClientRect());
    this.ring.hidden = !rects.length;
    if (!rects.length) return void (this.box.style.cssText = "");
    const edge = (name, pick) => pick(...rects.map((rect) => rect[name]));
    const r = new DOMRect(edge("left", Math.min), edge("top", Math.min));
    [r.width, r.height] = [edge("right", Math.max) - r.left, edge("bottom", Math.max) - r.top];
    const { offsetWidth: w, offsetHeight: h } = this.box;
    const around = ({ left, top, width, height }, by) =>
      `left:${left - by}px;top:${top - by}px;width:${width + 2 * by}px;height:${height + 2 * by}px`;
    this.marks.replaceChildren(...rects.map((rect) => el("i", { style: around(rect, 0) })));
    this.ring.style.cssText = around(r, 5);
    if (innerWidth <= 560) return void (this.box.style.cssText = "");
    const left = Math.min(Math.max(EDGE, r.left), innerWidth - w - EDGE);
    const spot =
      r.bottom + h + 2 * EDGE < innerHeight
        ? [left, r.bottom + EDGE + 4]
        : r.top - h - 2 * EDGE > 0
          ? [left, r.top - h - EDGE - 4]
          : r.left - w - 2 * EDGE > 0
            ? [r.left - w - EDGE - 4, Math.max(EDGE, r.top)]
            : [innerWidth - w - 2 * EDGE, innerHeight - h - 2 * EDGE];
    this.box.style.cssText = `left:${spot[0]}px;top:${spot[1]}px;right:auto;bottom:auto`;
  }

  /** Focus stays in the note while it is open. */
  #key(event) {
    const act = { Escape: () => this.end(), ArrowRight: () => this.go(1), ArrowLeft: () => this.go(-1) }[event.key];
    if (!act && event.key !== "Tab") return;
    event.stopPropagation();
    event.preventDefault();
    if (act) return act();
    const nodes = [this.close, this.back, this.next].filter((node) => !node.disabled),
      here = nodes.indexOf(document.activeElement);
    nodes[(here + (event.shiftKey ? -1 : 1) + nodes.length) % nodes.length].focus();
  }
}

/** The button, and on the first visit the offer beside it. */
export function mountTour(element) {
  let offer = null;
  const start = () => {
    offer?.remove();
    tour.start();
  };
  const decline = () => {
    store(KEY, "seen");
    offer.remove();
    toPlayer(button);
  };
  const button = el("button", { class: "tour-start", onclick: start }, tr`Tour`);
  const tour = new Tour(button);
  if (!stored(KEY, "seen")) {
    offer = el(
      "div",
      {
        class: "tour-offer",
        role: "region",
        "aria-label": tr`First visit`,
        onkeydown: ({ key }) => key === "Escape" && decline(),
      },
      el("span", {}, tr`New here?`),
      el("button", { onclick: start }, tr`Start the tour`),
      el("button", { onclick: decline }, tr`Not now`),
    );
  }
  element.replaceChildren(...(offer ? [offer] : []), button);
  return tour;
}
