// Which position of the token board is looked at, by pointer, touch or keyboard; and the box with its details: its
// token, why it was written, what else the model considered, every score.

import { dock } from "../player/dock.js";
import { el, rowOf, set } from "../player/dom.js";
import { cellAt } from "../player/layout.js";
import { glyphs, number, tr, translated } from "../player/words.js";

const WHOLE = 20000; // characters of a token that are shown in full

export class Picking {
  /** view: the token board, whose root and board element are there. */
  constructor(view) {
    Object.assign(this, { view, picked: -1, pinned: false });
    const name = tr`Details of a position`;
    this.popover = el("div", { class: "dx-pop", role: "region", "aria-label": name, hidden: true });
    view.dom.closest(".dx-panel").append(this.popover); // outside of what scrolls or is cut off
    this.#listen();
  }

  /** The board shows another step. */
  show() {
    if (this.picked >= 0) this.#popover();
  }

  #listen() {
    const { board, context, dom } = this.view;
    const hit = (event) => {
      const { left, top } = board.getBoundingClientRect(),
        [x, y] = [event.clientX - left, event.clientY - top + board.scrollTop],
        position = cellAt(this.view.grid, x, y, this.view.run.widest);
      return this.view.shown?.[position] ? position : -1;
    };
    set(board, {
      onpointermove: (event) => !this.pinned && event.pointerType !== "touch" && this.pick(hit(event)),
      onpointerleave: () => !this.pinned && this.pick(-1),
      onclick: (event) => {
        const position = hit(event);
        if (context.pick?.(position)) return;
        this.pinned = position >= 0 && !(this.pinned && position === this.picked);
        this.pick(this.pinned ? position : -1);
      },
      onfocus: () => !this.pinned && this.picked < 0 && board.matches(":focus-visible") && this.pick(this.view.first),
      onblur: () => !this.pinned && this.pick(-1),
    });
    dom.addEventListener("keydown", (event) => {
      const last = (this.view.shown?.length ?? 0) - 1;
      if (event.key === "Escape") {
        this.pinned = false;
        this.pick(-1);
      } else if (event.target !== board) return;
      else if (event.key === "Enter" && context.pick?.(this.picked)) return event.preventDefault();
      else if (event.key === "Enter") this.pinned = this.picked >= 0 && !this.pinned;
      else if (event.key === "ArrowDown") this.pick(Math.min(Math.max(this.picked + 1, this.view.first), last));
      else if (event.key === "ArrowUp") this.pick(Math.max(this.picked - 1, this.view.first));
      else return;
      event.preventDefault();
      this.popover.classList.toggle("dx-pinned", this.pinned);
    });
  }

  pick(position) {
    if (position === this.picked && this.popover.classList.contains("dx-pinned") === this.pinned) return;
    this.view.nodeAt(this.picked)?.classList.remove("dx-picked");
    this.picked = position;
    this.popover.hidden = position < 0;
    this.popover.classList.toggle("dx-pinned", this.pinned);
    if (position < 0) return;
    this.view.nodeAt(position)?.classList.add("dx-picked");
    this.#popover();
  }

  #popover() {
    const { run, context, t } = this.view;
    const cell = this.view.shown[this.picked];
    if (!cell) return this.pick(-1);
    this.popover.replaceChildren(...details(run, cell, t, context.theme));
    dock(this.popover);
  }

  leave() {
    this.popover.remove();
  }
}

// Recorded in 254 steps, so the ends are bounds and not values.
export const share = (p) => (p < 0.002 ? "< 0.002" : p > 0.998 ? "> 0.998" : number(p));

/** Candidates as items of a list: a bar as long as the token is probable, the token, its probability. */
export const bars = (run, candidates, chosen) =>
  candidates.map(({ token, probability }) => {
    const width = `width:${Math.max(1, (Number.isNaN(probability) ? 0 : probability) * 100)}%`,
      bar = el("span", { class: "dx-bar", style: width }),
      code = el("code", {}, glyphs(run.piece(token).text));
    return el("li", { class: token === chosen ? "dx-chosen" : "" }, bar, code, el("span", {}, share(probability)));
  });

function scores(run, index, position, t) {
  const rows = [...run.lanes].flatMap(([name, { unit }]) => {
    const value = run.score(index, name, position, t),
      threshold = run.lane(index, name)?.threshold;
    return Number.isNaN(value)
      ? []
      : [rowOf(translated(name), number(value, unit), threshold == null ? "" : tr`threshold ${number(threshold)}`)];
  });
  return rows.length ? el("table", {}, ...rows) : null;
}

/** The elements of a details box for a cell of the board at cursor t. */
export function details(run, { position, token, state, entry }, t, theme) {
  const piece = token === null ? null : run.piece(token);
  const index = token !== null && entry ? entry.step : t - 1;
  const candidates = index >= 0 ? run.candidates(index, position, t) : null;
  const facts = [tr`position ${position}`, translated(theme.states[state].label)];
  if (token !== null && !run.missing.has("token_ids"))
    facts.push(tr`id ${piece.token ?? token}${piece.kind === "text" ? "" : ` (${piece.kind})`}`);
  if (entry) facts.push(tr`step ${entry.step + 1}`, tr`cause: ${translated(entry.cause)}`);
  if (entry?.probability != null) facts.push(tr`probability ${number(entry.probability)}`);
  const out = [
    el("code", "dx-whole", piece ? glyphs(piece.text, WHOLE) : theme.states.masked.glyph),
    el("p", {}, facts.join(" · ")),
  ];
  if (token !== null && !entry) out.push(el("p", "dx-none", tr`Part of the prompt.`));
  else if (index < 0) out.push(el("p", "dx-none", tr`The run has not begun.`));
  else {
    const table = scores(run, index, position, t),
      list = { class: "dx-bars", "aria-label": tr`Most likely tokens` },
      none = tr`No candidates recorded at this step.`;
    out.push(
      el("h4", {}, tr`Candidates in step ${index + 1}`),
      candidates ? el("ol", list, ...bars(run, candidates, token)) : el("p", "dx-none", none),
    );
    if (table) out.push(el("h4", {}, tr`Scores in step ${index + 1}`), table);
  }
  return out;
}
