// "Fork from here", as far as every player has it: the button in its head, and where a run comes from. The panel itself
// is loaded when it is first opened.

import { el, setText } from "./dom.js";
import { load } from "./loader.js";
import { glyphs, tr } from "./words.js";

/** What the page gave: the methods that can take over, how a request is sent, and the players that ask. */
export const host = { methods: [], send: null, panels: new Set() };

/** Called once by the page: the methods that can take over, and how a request is sent. A saved page has no host and no
 * button. */
export function openForks(methods, send) {
  Object.assign(host, { methods, send });
  for (const panel of host.panels) panel.show();
}

/** An edit in words; `look` gives a token's text. */
export function said({ force = {}, forbid = {}, remask = [], params = {}, method = "" }, look) {
  const title = host.methods.find(({ slug }) => slug === method)?.title ?? method;
  return [
    ...Object.entries(force).map(([p, t]) => tr`forced “${look(t)}” at ${p}`),
    ...Object.entries(forbid).map(([p, ts]) => tr`forbade ${ts.map((t) => `“${look(t)}”`).join(tr` and `)} at ${p}`),
    ...(remask.length ? [tr`masked ${remask.join(", ")} again`] : []),
    ...(method ? [tr`method ${title}`] : []),
    ...Object.entries(params).map(([name, value]) => `${name}=${value}`),
  ].join("; ");
}

/** A run's name; a fork has its own. */
export function titleOf({ header: { title, method, origin } }) {
  const name = title || method;
  return origin ? tr`${name}, forked at step ${origin.step}` : name;
}

/** Where a fork comes from, for the head of its player; "" for other runs. */
export function lineage(run) {
  const { origin } = run.header;
  if (!origin) return "";
  const changed = origin.edit ? said(origin.edit, (token) => glyphs(run.piece(token).text, 24)) : tr`nothing changed`;
  return tr`fork of ${run.of === undefined ? origin.title : tr`player ${run.of + 1}`} at step ${origin.step}: \
${changed}`;
}

export class Fork {
  /** player: what is forked. known: whether the server knows what it shows. board: gives {frame, view} of its token
   * board. alone: called when the panel opens. */
  constructor(player, known, { board, alone }) {
    Object.assign(this, { player, known, board, alone, form: null });
    const look = { class: "dx-forker", hidden: true, "aria-expanded": "false", title: tr`Fork from here (f)` };
    this.button = el("button", { ...look, onclick: () => this.toggle() }, tr`Fork`);
    host.panels.add(this);
  }

  get ready() {
    const { run, base } = this.player;
    return Boolean(this.known && host.send && run && this.board() && !["live", "queued", "error"].includes(base));
  }

  /** The player moved, or shows another run. */
  show() {
    this.button.hidden = !this.ready;
    this.form?.show();
  }

  /** Opens or closes the panel; false where there is nothing to fork. */
  toggle() {
    if (!this.ready) return false;
    if (this.form) this.form.toggle();
    else
      load("fork").then(
        ({ ForkForm }) => this.#first(ForkForm),
        () => this.#failed(),
      );
    return true;
  }

  #first(ForkForm) {
    this.form ??= new ForkForm(this);
    if (this.ready) this.form.toggle();
  }

  #failed() {
    const { alert } = this.player;
    alert.hidden = false;
    setText(alert, tr`The panel for forks could not be loaded; press Fork again.`);
  }

  destroy() {
    host.panels.delete(this);
  }
}
