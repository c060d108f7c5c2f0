// The views of a panel: those that its run asks for, in their places. A view whose module is not here yet joins the
// others when it has come.

import { el } from "./dom.js";
import { bring, IN_PANEL, wanted } from "./loader.js";

export class Shown {
  /** context: what views are given. late: called with a function that draws a view whose module came later. */
  constructor(body, context, late) {
    Object.assign(this, { body, context, late });
    this.clear();
    for (const entry of IN_PANEL) if (!entry.needs.length) bring(entry); // every run asks for these
  }

  clear() {
    Object.assign(this, { all: [], asked: new Set(), run: null });
    this.body.replaceChildren();
  }

  /** Calls a method of the views that have it, and gives what they answer. */
  tell(method, ...given) {
    return this.all.map(({ view }) => view[method]?.(...given));
  }

  /** The frame and the view with the token board, if it is there. */
  board() {
    return this.all.find(({ view }) => view.board);
  }

  /** A run began or grew: it may ask for more views. */
  grow(run) {
    this.run = run;
    this.tell("grow");
    for (const entry of IN_PANEL) if (wanted(entry, run)) this.#bring(entry);
  }

  #bring(entry) {
    if (this.asked.has(entry)) return;
    this.asked.add(entry);
    const { run } = this;
    let now = true;
    const draw = (View) => {
      if (now) this.#draw(entry, new View());
      else if (this.run === run) this.late(() => this.#draw(entry, new View()));
    };
    bring(entry, draw, () => this.run === run && this.#missing(entry));
    now = false;
  }

  #draw(entry, view) {
    const { name, title, place } = entry,
      dom = el("div", "dx-content");
    const frame = title
      ? el("details", { class: "dx-view", open: true, "data-view": name }, el("summary", {}, title), dom)
      : dom;
    const after = this.all.find((one) => one.entry.place > place);
    this.body.insertBefore(frame, after?.frame ?? null);
    this.all.push({ entry, view, frame, dom });
    this.all.sort((a, b) => a.entry.place - b.entry.place);
    view.load(this.run, dom, this.context);
    this.resize();
  }

  #missing({ name, title }) {
    this.body.append(el("p", "dx-none", `The view “${title || name}” could not be loaded; load the run again.`));
  }

  /** By width, not by height. */
  resize(all = false) {
    for (const one of this.all.filter(({ view }) => view.resize)) {
      const { clientWidth } = one.dom;
      if (clientWidth && (all || clientWidth !== one.width)) one.view.resize((one.width = clientWidth));
    }
  }
}
