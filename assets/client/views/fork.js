// The panel for forks: what a person changes at the cursor, sent as one request; the server runs the method again up to
// there and goes on.

import { dock, SHEET, WIDE } from "../player/dock.js";
import { el, select } from "../player/dom.js";
import { host } from "../player/fork.js";
import { glyphs, tr } from "../player/words.js";
import { actionsOf, FREE, likelyAt, paramField, placesOf, rowLine, settings } from "./forkrows.js";

const SLOTS = 4;
const BAR = 80; // pixels that the controls take at the top of a scrolled page

export class ForkForm {
  /** fork: the button of a player, with what it knows of it. */
  constructor(fork) {
    Object.assign(this, { fork, player: fork.player, rows: [], method: "", values: {}, target: null });
    this.run = fork.player.run;
    this.root = el("form", {
      class: "dx-fork",
      hidden: true,
      novalidate: true,
      "aria-label": tr`Fork from here`,
      onkeydown: (event) => this.#key(event),
      onsubmit: (event) => this.#send(event),
    });
  }

  /** The player moved, or shows another run. */
  show() {
    const { run, t } = this.player;
    if (run !== this.run) {
      Object.assign(this, { run, rows: [], method: "", values: {}, target: null, at: -1 });
      this.#open(false);
    }
    if (!this.fork.ready && !this.root.hidden) this.#open(false);
    if (!this.root.hidden && t !== this.at) this.#draw();
  }

  toggle() {
    this.#open(this.root.hidden);
    if (this.root.hidden) return;
    this.root.querySelector("select").focus({ preventScroll: true });
    const { frame } = this.fork.board(),
      { top, bottom } = frame.getBoundingClientRect();
    if (top < BAR || bottom > innerHeight * (innerWidth < WIDE ? 1 - SHEET : 1)) scrollBy({ top: top - BAR });
  }

  /** A click on the board: while the panel is open it chooses the position and keeps no box open in its way. */
  pick() {
    const { picking } = this.fork.board().view,
      { picked } = picking;
    if (this.root.hidden || picked < 0) return;
    picking.pinned = false;
    picking.pick(-1);
    this.#choose(picked);
  }

  close() {
    if (!this.root.hidden) this.#open(false);
  }

  #open(open) {
    this.root.hidden = !open;
    this.fork.button.setAttribute("aria-expanded", String(open));
    if (!open) return;
    this.fork.alone();
    this.player.root.append(this.root);
    dock(this.root, 0.86);
    this.#draw();
  }

  #key(event) {
    event.stopPropagation();
    if (event.key !== "Escape") return;
    this.#open(false);
    this.fork.button.focus();
  }

  /** What is written later is told once the run was seen to its end. */
  #places() {
    const { run, t, seen } = this.player,
      places = placesOf(run, t);
    return seen ? places : places.map((place) => ({ ...place, later: null }));
  }

  #choose(position) {
    const { run, t } = this.player,
      place = this.#places().find((one) => one.position === position);
    if (!place || this.rows.some((row) => row.position === position)) return;
    const action = actionsOf(run, t, this.rows, place)[0]?.[0];
    if (!action) return;
    const { likely } = likelyAt(run, t, place),
      written = place.token ?? place.later?.token;
    this.rows.push({ position, action, token: likely.find((c) => c.token !== written)?.token ?? FREE, text: "" });
    this.rows.sort((a, b) => a.position - b.position);
    this.#draw();
  }

  #draw() {
    const { run, t, slot } = this.player,
      now = settings(run, t),
      places = this.#places();
    this.at = t;
    this.rows = this.rows.filter((row) => places.some((place) => place.position === row.position));
    const look = (token) => glyphs(run.piece(token).text, 24),
      label = ({ position, token, later }) =>
        `${position}: ${token !== null ? look(token) : later ? tr`open, later ${look(later.token)}` : tr`open`}`,
      listed = places.map((place) => el("option", { value: place.position }, label(place))),
      choose = el("select", { "aria-label": tr`Position`, class: "dx-place-list" }, ...listed),
      open = places.find(({ token }) => token === null);
    if (open) choose.value = open.position;
    const params = host.methods.find(({ slug }) => slug === (this.method || now.method))?.params ?? [],
      opened = this.root.querySelector("details")?.open ?? false,
      how = tr`The method runs again up to this step and goes on with what you change. \
Click tokens on the board, or choose a position.`,
      summary = el("summary", {}, this.method ? tr`Parameters of this method` : tr`Change parameters`),
      fields = el("div", "dx-fork-params", ...params.map((param) => this.#param(param, now.params))),
      row = (...parts) => el("div", "dx-fork-line", ...parts),
      known = { run, t, rows: this.rows, look, draw: () => this.#draw() };
    this.root.replaceChildren(
      el("h3", {}, tr`Fork from here: after step ${t} of ${run.length}`),
      el("p", {}, how),
      row(choose, el("button", { onclick: () => this.#choose(Number(choose.value)) }, tr`Change it`)),
      ...this.rows.map((one) => rowLine(one, places, known)),
      row(this.#methods(now), this.#into(slot)),
      params.length ? el("details", { open: opened }, summary, fields) : "",
      row(
        el("button", { type: "submit", class: "dx-go" }, tr`Continue from here`),
        el("button", { onclick: () => this.#open(false) }, tr`Close`),
      ),
    );
  }

  #methods(now) {
    const kind = host.methods.find(({ slug }) => slug === now.method)?.kind ?? this.run.header.models[0].kind;
    const methods = host.methods.filter((method) => method.kind === kind);
    const others = methods.filter(({ slug }) => slug !== now.method).map(({ slug, title }) => [slug, title]),
      options = [["", tr`goes on`], [now.method, tr`begins anew from this board`], ...others];
    return select(tr`Method`, options, this.method, (value) => {
      Object.assign(this, { method: value, values: {} });
      this.#draw();
    });
  }

  #into(slot) {
    const free = [...Array(SLOTS).keys()].filter((other) => other !== slot),
      taken = new Set(this.player.context.peers().map((peer) => peer.slot));
    this.target ??= free.find((other) => !taken.has(other)) ?? free.at(-1);
    const options = free.map((other) => [other, tr`player ${other + 1}${taken.has(other) ? tr`, replaced` : ""}`]);
    return select(tr`Into`, options, this.target, (value) => (this.target = Number(value)));
  }

  #param(param, current) {
    const was = this.method ? param.default : (current[param.name] ?? param.default);
    return paramField(param, was, this.values[param.name] ?? was, (given) => {
      if (given === was && !this.method) delete this.values[param.name];
      else this.values[param.name] = given;
    });
  }

  /** The request as the server reads it. */
  request() {
    const { slot, t } = this.player,
      { target, method, values: params } = this,
      those = (...actions) => this.rows.filter((row) => actions.includes(row.action)),
      token = (row) => [row.position, row.token === FREE ? row.text : row.token];
    return {
      ...{ slot, step: t, target, method, params },
      force: those("force").map(token),
      forbid: those("forbid", "retry").map(token),
      remask: those("remask", "retry").map((row) => row.position),
    };
  }

  #send(event) {
    event.preventDefault();
    host.send(JSON.stringify(this.request()));
    this.#open(false);
    this.fork.button.focus();
  }
}
