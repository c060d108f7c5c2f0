// Which position of the token board is looked at: by pointer, touch or keyboard; and the box with its details.

import { dock } from "../player/dock.js";
import { el, set } from "../player/dom.js";
import { cellAt } from "../player/layout.js";
import { tr } from "../player/words.js";
import { details } from "./details.js";

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
