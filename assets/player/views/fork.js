// "Fork from here": what a person changes at the cursor, sent as one request; the server runs the method again up to there and goes on.

import { glyphs } from "../codec.js";
import { el, select } from "../dom.js";
import { share } from "./details.js";

const SLOTS = 4, FREE = "type a text …";
const desk = { methods: [], send: null, panels: new Set() };

/** Called once by the page: the methods that can take over, and how a request is sent. A saved page has no desk and no button. */
export function openDesk(methods, send) {
  Object.assign(desk, { methods, send });
  for (const panel of desk.panels) panel.show();
}

/** An edit in words; `look` gives a token's text. */
export function said({ force = {}, forbid = {}, remask = [], params = {}, method = "" }, look) {
  const title = desk.methods.find(({ slug }) => slug === method)?.title ?? method;
  return [...Object.entries(force).map(([p, t]) => `forced “${look(t)}” at ${p}`), ...Object.entries(forbid).map(([p, ts]) => `forbade ${ts.map((t) => `“${look(t)}”`).join(" and ")} at ${p}`),
    ...(remask.length ? [`masked ${remask.join(", ")} again`] : []), ...(method ? [`method ${title}`] : []), ...Object.entries(params).map(([name, value]) => `${name}=${value}`)].join("; ");
}

/** Where a fork comes from, for the head of its player; "" for other runs. */
export function lineage(run) {
  const { origin } = run.header;
  if (!origin) return "";
  const changed = origin.edit ? said(origin.edit, (token) => glyphs(run.piece(token).text, 24)) : "nothing changed";
  return `fork of ${run.of === undefined ? origin.title : `player ${run.of + 1}`} at step ${origin.step}: ${changed}`;
}

/** The method that is at work after t steps, and its parameters. */
function settings({ header }, t) {
  const { origin, edits = [] } = header;
  const made = edits.length || !origin?.edit ? edits : [{ after_step: origin.step - 1, edit: origin.edit }];
  let now = { method: header.method, params: header.params };
  for (const { after_step, edit } of made) {
    if (after_step < t) now = edit.method ? { method: edit.method, params: edit.params ?? {} } : { ...now, params: { ...now.params, ...edit.params } };
  }
  return now;
}

export class Fork {
  /** player: what is forked. known: whether the server knows what it shows. board: gives {frame, view} of its token board. alone: called when it opens. */
  constructor(player, known, board, alone) {
    Object.assign(this, { player, known, board, alone, rows: [], method: "", values: {}, target: null });
    this.button = el("button", { class: "dx-forker", hidden: true, "aria-expanded": "false", title: "Fork from here (f)", onclick: () => this.toggle() }, "Fork");
    this.root = el("form", { class: "dx-fork", hidden: true, novalidate: true, "aria-label": "Fork from here", onkeydown: (event) => this.#key(event), onsubmit: (event) => this.#send(event) });
    desk.panels.add(this);
  }

  get ready() {
    return Boolean(this.known && desk.send && this.player.run && !["live", "queued", "error"].includes(this.player.base));
  }

  /** The player moved, or shows another run. */
  show() {
    const { run, t } = this.player;
    this.button.hidden = !this.ready;
    if (run !== this.run) Object.assign(this, { run, rows: [], method: "", values: {}, target: null, at: -1 }), this.#open(false);
    if (!this.ready && !this.root.hidden) this.#open(false);
    if (!this.root.hidden && t !== this.at) this.#draw();
  }

  toggle() {
    if (this.ready) this.#open(this.root.hidden);
    if (this.root.hidden) return this.ready;
    this.root.querySelector("select").focus({ preventScroll: true });
    this.board().frame.scrollIntoView({ block: "center" });
    return true;
  }

  /** A click on the board: while the panel is open it chooses the position and keeps no box open in its way. */
  pick() {
    const tokens = this.board().view, { picked } = tokens;
    if (this.root.hidden || picked < 0) return;
    tokens.pinned = false;
    tokens.pick(-1);
    this.#choose(picked);
  }

  destroy() {
    desk.panels.delete(this);
  }

  #open(open) {
    this.root.hidden = !open;
    this.button.setAttribute("aria-expanded", String(open));
    if (!open) return;
    this.alone();
    this.board().frame.after(this.root); // below the board, which stays where it is while the panel grows
    this.#draw();
  }

  close() {
    if (!this.root.hidden) this.#open(false);
  }

  #key(event) {
    event.stopPropagation();
    if (event.key !== "Escape") return;
    this.#open(false);
    this.button.focus();
  }

  /** The positions of the answer that can be changed at the cursor: {position, token (null: open), later}. */
  #places() {
    const { run, t } = this.player, cells = run.board(t).slice(run.prompt.length);
    const places = cells.map(({ position, token }) => ({ position, token, later: null }));
    if (run.canvas === null) for (let position = run.prompt.length + cells.length; position < Math.max(run.widest, run.prompt.length + cells.length + 1); position++) places.push({ position, token: null });
    for (const place of places) place.later = (run.history[place.position] ?? []).find(({ step, token }) => step >= t && token >= 0 && token !== run.mask) ?? null;
    return places;
  }

  /** What may be done with a place. A causal run takes nothing back but by forcing another token, and leaves no gap. */
  #actions({ position, token }) {
    const { run, t } = this.player, masked = run.canvas !== null, next = run.board(t).length;
    const forced = masked || position <= next || this.rows.some((row) => row.position === position - 1 && row.action === "force");
    return [...(forced ? [["force", "force"]] : []), ...(token === null ? [["forbid", "forbid"]] : masked ? [["remask", "mask again"], ["retry", "mask again, and forbid"]] : [])];
  }

  /** Tokens that were likely there, best first. */
  #likely({ position, token, later }) {
    const { run, t } = this.player, entry = run.written(position, t);
    const found = (token === null && later && run.candidates(later.step, position)) || run.candidates(t, position) || run.candidates(t - 1, position) || (entry && run.candidates(entry.step, position)) || [];
    const first = token ?? later?.token;
    return [...(first == null || found.some((c) => c.token === first) ? [] : [{ token: first, probability: NaN }]), ...found];
  }

  #choose(position) {
    const place = this.#places().find((one) => one.position === position);
    if (!place || this.rows.some((row) => row.position === position)) return;
    const action = this.#actions(place)[0]?.[0];
    if (!action) return;
    const likely = this.#likely(place), written = place.token ?? place.later?.token;
    this.rows.push({ position, action, token: likely.find((c) => c.token !== written)?.token ?? FREE, text: "" });
    this.rows.sort((a, b) => a.position - b.position);
    this.#draw();
  }

  #draw() {
    const { run, t, slot } = this.player, now = settings(run, t), places = this.#places();
    this.at = t;
    this.now = now;
    this.rows = this.rows.filter((row) => places.some((place) => place.position === row.position));
    const look = (token) => glyphs(run.piece(token).text, 24);
    const label = ({ position, token, later }) => `${position}: ${token !== null ? look(token) : later ? `open, later ${look(later.token)}` : "open"}`;
    const choose = el("select", { "aria-label": "Position", class: "dx-place-list" }, ...places.map((place) => el("option", { value: place.position }, label(place))));
    const open = places.find(({ token }) => token === null);
    if (open) choose.value = open.position;
    const add = el("button", { onclick: () => this.#choose(Number(choose.value)) }, "Change it");
    const kind = desk.methods.find(({ slug }) => slug === now.method)?.kind;
    const methods = desk.methods.filter((method) => method.kind === kind);
    const method = select("Method", [["", "goes on"], [now.method, "begins anew from this board"], ...methods.filter(({ slug }) => slug !== now.method).map(({ slug, title }) => [slug, title])], this.method, (value) => {
      Object.assign(this, { method: value, values: {} });
      this.#draw();
    });
    const free = [...Array(SLOTS).keys()].filter((other) => other !== slot), taken = new Set(this.player.context.peers().map((peer) => peer.slot));
    this.target ??= free.find((other) => !taken.has(other)) ?? free.at(-1);
    const into = select("Into", free.map((other) => [other, `player ${other + 1}${taken.has(other) ? ", replaced" : ""}`]), this.target, (value) => (this.target = Number(value)));
    const params = desk.methods.find(({ slug }) => slug === (this.method || now.method))?.params ?? [];
    const opened = this.root.querySelector("details")?.open ?? false;
    this.root.replaceChildren(
      el("h3", {}, `Fork from here: after step ${t} of ${run.length}`),
      el("p", {}, "The method runs again up to this step and goes on with what you change. Click tokens on the board, or choose a position."),
      el("div", "dx-fork-line", choose, add),
      ...this.rows.map((row) => this.#row(row, places.find((place) => place.position === row.position), look)),
      el("div", "dx-fork-line", method, into),
      params.length ? el("details", { open: opened }, el("summary", {}, this.method ? "Parameters of this method" : "Change parameters"), el("div", "dx-fork-params", ...params.map((param) => this.#param(param, now.params)))) : "",
      el("div", "dx-fork-line", el("button", { type: "submit", class: "dx-go" }, "Continue from here"), el("button", { onclick: () => this.#open(false) }, "Close")),
    );
  }

  #row(row, place, look) {
    const actions = this.#actions(place), likely = this.#likely(place);
    if (!actions.some(([key]) => key === row.action)) row.action = actions[0]?.[0];
    const tokens = [...likely.map(({ token, probability }) => [token, `${look(token)}${Number.isNaN(probability) ? "" : `  ${share(probability)}`}`]), [FREE, FREE]];
    if (!tokens.some(([key]) => String(key) === String(row.token))) row.token = tokens[0][0];
    const action = select(`Position ${row.position}`, actions, row.action, (value) => {
      row.action = value;
      if (value !== "force" && row.token !== FREE) row.token = place.token ?? place.later?.token ?? row.token; // what is there, or would be
      this.#draw();
    });
    const token = select("token", tokens, row.token, (value) => ((row.token = value === FREE ? FREE : Number(value)), this.#draw()));
    const typed = el("input", { type: "text", maxlength: 400, "aria-label": `Text for position ${row.position}`, placeholder: "text, spaces count", oninput: () => (row.text = typed.value) });
    typed.value = row.text;
    const drop = el("button", { "aria-label": `Leave position ${row.position} as it is`, onclick: () => ((this.rows = this.rows.filter((other) => other !== row)), this.#draw()) }, "✕");
    return el("div", { class: "dx-fork-line", "data-position": row.position }, action, row.action === "remask" ? null : token, row.action !== "remask" && row.token === FREE ? typed : null, drop);
  }

  #param(param, current) {
    const was = this.method ? param.default : (current[param.name] ?? param.default), value = this.values[param.name] ?? was;
    const keep = (given) => (given === was && !this.method ? delete this.values[param.name] : (this.values[param.name] = given));
    let input;
    if (param.kind === "bool") input = el("input", { type: "checkbox", checked: value === true, onchange: () => keep(input.checked) });
    else if (param.kind === "choice") input = el("select", { onchange: () => keep(input.value) }, ...param.choices.map((choice) => el("option", { value: choice }, choice)));
    else if (param.kind === "text") input = el("input", { type: "text", maxlength: 2000, onchange: () => keep(input.value) });
    else input = el("input", { type: "number", min: param.low, max: param.high, step: param.step ?? "any", onchange: () => keep(input.value === "" ? was : Number(input.value)) });
    if (param.kind !== "bool") input.value = value;
    return el("label", { title: param.sees }, el("span", {}, `${param.name}${param.symbol ? ` (${param.symbol})` : ""}`), input);
  }

  /** The request as the server reads it. */
  request() {
    const { slot, t } = this.player, places = new Map(this.rows.map((row) => [row.position, row]));
    const token = (row) => (row.token === FREE ? row.text : row.token);
    const those = (...actions) => [...places.values()].filter((row) => actions.includes(row.action));
    return { slot, step: t, target: this.target, method: this.method, params: this.values, force: those("force").map((row) => [row.position, token(row)]),
      forbid: those("forbid", "retry").map((row) => [row.position, token(row)]), remask: those("remask", "retry").map((row) => row.position) };
  }

  #send(event) {
    event.preventDefault();
    desk.send(JSON.stringify(this.request()));
    this.#open(false);
    this.button.focus();
  }
}
