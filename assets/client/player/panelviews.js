// The views of a panel: the board, the view that shows the method's idea, the answer; others that the run asks for
// stand under Details, folded until a person opens them. A view whose module is not here yet joins when it has come.

import { el } from "./dom.js";
import { bring, DETAILS, tableOf, wantedBy } from "./loader.js";
import { remember, remembered } from "./remember.js";
import { tr, translated } from "./words.js";

const IDEA = 30; // the place of the view that shows the idea, if it has no higher one
// What shows most where a record does not say it, as with one of another program.
const ELSE = ["tree", "thermometer", "completions", "vote", "ribbon", "gantt", "branches", "bars", "blocks", "next"];
/** The view that shows the idea of a run's method: the one that its header names, else what fits its record best. */
export function ideaOf(run) {
  const entries = wantedBy(run).filter(({ needs }) => needs.length),
    fits = (name) => entries.find(({ file, record }) => name === (record ?? file));
  return fits(run.header.signature) ?? ELSE.map(fits).find(Boolean) ?? null;
}

export class Shown {
  /** context: what views are given. late: called with a function that draws a view whose module came later. turned:
   * called when a person opens or folds Details. */
  constructor(body, context, late, turned) {
    Object.assign(this, { body, context, late });
    const ontoggle = () => {
      if (this.details.open === this.open) return;
      remember("details", this.details.open);
      turned(this.details.open);
    };
    this.details = el("details", { class: "dx-details", hidden: true, ontoggle }, el("summary", {}, tr`Details`));
    this.open = this.details.open = Boolean(remembered("details"));
    this.clear();
  }

  clear() {
    if (this.all) this.tell("leave");
    Object.assign(this, { all: [], asked: new Set(), run: null, idea: null });
    this.body.replaceChildren(this.details);
    this.details.replaceChildren(this.details.firstChild);
    this.details.hidden = true;
  }

  /** Calls a method of the views that have it, and gives what they answer. */
  tell(method, ...given) {
    return [...this.all].map((one) => this.#guarded(one, () => one.view[method]?.(...given)));
  }

  /** A view that fails goes, and what it was to show stands as a table. Those of every run are missed by nobody else:
   * their faults are the player's. */
  #guarded(one, act) {
    try {
      return act();
    } catch (error) {
      if (!one.entry.needs.length) throw error;
      console.error(error);
      one.frame.replaceWith(this.#said(one.entry, (title) => tr`The view “${title}” failed: ${error.message}`));
      this.all = this.all.filter((other) => other !== one);
      this.#stand(one.entry);
    }
  }

  /** The records of a view that is not to be had, as tables. */
  #stand(entry) {
    for (const need of entry.file === "record" ? [] : entry.needs)
      for (const name of need.split("+").filter((part) => this.run?.records.has(part))) {
        if (entry === this.idea) this.idea = tableOf(name);
        this.#bring(tableOf(name));
        queueMicrotask(() => this.run && this.late(() => {})); // it shows the step that is shown
      }
  }

  /** The frame and the view with the token board, if it is there. */
  board() {
    return this.all.find(({ view }) => view.board);
  }

  /** A run began or grew: it may ask for more views. */
  grow(run) {
    this.run = run;
    this.idea ??= ideaOf(run);
    this.tell("grow");
    this.details.hidden = false;
    for (const entry of wantedBy(run)) if (this.open || this.#place(entry) < DETAILS) this.#bring(entry);
  }

  /** Opens or folds Details: what is folded is not drawn. */
  unfold(open) {
    if (open === this.open) return;
    this.open = this.details.open = open;
    if (open && this.run) return this.grow(this.run);
    this.tell("fold");
    for (const one of this.all.filter(({ inside }) => inside)) {
      one.frame.remove();
      this.asked.delete(one.entry);
    }
    this.all = this.all.filter(({ inside }) => !inside);
  }

  #place(entry) {
    return entry === this.idea ? Math.min(IDEA, entry.place) : entry.place;
  }

  #bring(entry) {
    if (this.asked.has(entry)) return;
    this.asked.add(entry);
    const { run } = this;
    let now = true;
    const draw = (View) => {
      if (now) this.#draw(entry, View);
      else if (this.run === run && this.asked.has(entry)) this.late(() => this.#draw(entry, View));
    };
    bring(entry, draw, () => this.run === run && this.#missing(entry));
    now = false;
  }

  #draw(entry, View) {
    const { name } = entry,
      title = translated(entry.title),
      place = this.#place(entry),
      inside = place >= DETAILS,
      dom = el("div", "dx-content");
    const frame = inside
      ? el("details", { class: "dx-view", open: true, "data-view": name }, el("summary", {}, title), dom)
      : el("section", { class: "dx-part", "data-view": name, "data-idea": entry === this.idea }, dom);
    if (!inside && title) frame.prepend(el("h3", {}, title));
    const after = this.all.find((one) => one.inside === inside && one.place > place);
    const box = inside ? this.details : this.body;
    box.insertBefore(frame, after?.frame ?? (inside ? null : this.details));
    const one = { entry, view: {}, frame, dom, place, inside };
    this.all.push(one);
    this.all.sort((a, b) => a.place - b.place);
    this.#guarded(one, () => {
      one.view = Object.assign(new View(), { record: entry.needs?.[0] });
      one.view.load(this.run, dom, this.context);
    });
    this.resize();
  }

  #missing(entry) {
    this.body.append(this.#said(entry, (title) => tr`The view “${title}” could not be loaded; load the run again.`));
    this.#stand(entry);
  }

  #said({ title, name }, words) {
    return el("p", "dx-none", words(translated(title) || name));
  }

  /** By width, not by height. */
  resize(all = false) {
    for (const one of this.all.filter(({ view }) => view.resize)) {
      const { clientWidth } = one.dom;
      if (clientWidth && (all || clientWidth !== one.width))
        this.#guarded(one, () => one.view.resize((one.width = clientWidth)));
    }
  }
}
