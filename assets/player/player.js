// A panel: one run, the views that its groups ask for, on the clock of its group. And the toolbar of a group.

import { number, seconds } from "./codec.js";
import { groupNamed, SPEEDS, UNITS } from "./clock.js";
import { el, icon, select, set, setText } from "./dom.js";
import { order, parseTrace, Run } from "./store.js";
import { installTheme, modeOf } from "./theme.js";
import { Branches } from "./views/branches.js";
import { Counters } from "./views/counters.js";
import { Difference } from "./views/difference.js";
import { Facts } from "./views/facts.js";
import { Fork, lineage } from "./views/fork.js";
import { Gantt } from "./views/gantt.js";
import { Hindsight } from "./views/hindsight.js";
import { Lanes } from "./views/lanes.js";
import { Media } from "./views/media.js";
import { Memory } from "./views/memory.js";
import { Predict, stopPredicting } from "./views/predict.js";
import { Race } from "./views/race.js";
import { Ribbon } from "./views/ribbon.js";
import { Routing } from "./views/routing.js";
import { Text } from "./views/text.js";
import { Tokens } from "./views/tokens.js";
import { DraftTree } from "./views/tree.js";

// A view is drawn if the run fills its `group` or it `wants` the run; one that names neither always is.
const VIEWS = [Counters, Difference, Text, Tokens, Predict, DraftTree, Gantt, Memory, Ribbon, Lanes, Hindsight, Facts, Branches, Media, Routing];
const SPEAK_EVERY = 1200; // milliseconds between two sentences for a screen reader
const WORDS = { empty: "no run yet", queued: "waiting", live: "running", ready: "ready", playing: "playing", done: "done", stopped: "stopped", failed: "failed", error: "cannot show" };
let ids = 0;

class Player {
  constructor(element, { group = "main", slot = 0, theme, title = "", forks = false }) {
    installTheme(theme);
    Object.assign(this, { element, slot, title, group: groupNamed(group), run: null, views: [], t: 0, last: null, message: "", spoken: 0 });
    this.name = el("h2", {});
    this.sub = el("p", "dx-sub");
    this.lineage = el("p", { class: "dx-lineage", hidden: true });
    this.departs = el("p", {});
    this.about = el("details", { class: "dx-about", hidden: true }, el("summary", {}, "Departs from the paper"), this.departs);
    this.pill = el("span", "dx-pill");
    this.alert = el("p", { class: "dx-alert", role: "alert", hidden: true });
    this.note = el("p", "dx-note");
    this.body = el("div", { class: "dx-body", onclick: (event) => event.target.closest(".dx-board") && this.fork.pick() });
    this.say = el("output", { class: "dx-say", "aria-live": "polite" });
    this.fork = new Fork(this, forks, () => this.views.find(({ View }) => View === Tokens), stopPredicting);
    this.root = el("section", { class: "dx dx-panel", tabindex: 0, "aria-label": title || `Player ${slot + 1}`, onkeydown: (event) => this.#key(event) },
      el("header", {}, el("div", {}, this.name, this.sub, this.lineage, this.about), this.fork.button, this.pill), this.alert, this.body, this.say);
    element.replaceChildren(this.root);
    this.context = { theme, slot, id: ids++, lane: null, peek: false, pick: null, marks: {}, mode: () => modeOf(this.root), seek: (t) => this.seek(t),
      peers: () => this.group.runners, mark: (kind, marks) => this.#mark(kind, marks),
      picking: () => this.fork.close(), setLane: (lane) => this.#relook({ lane }), setPeek: (peek) => this.#relook({ peek }) };
    this.sizes = new ResizeObserver(() => this.#resize());
    this.sizes.observe(this.body);
    this.modes = new MutationObserver(() => this.#recolour());
    for (const node of [document.documentElement, document.body]) this.modes.observe(node, { attributeFilter: ["class"] });
    this.media = matchMedia("(prefers-color-scheme: dark)");
    this.recolour = () => this.#recolour();
    this.media.addEventListener("change", this.recolour);
    this.finish = () => this.views.forEach(({ view }) => view.sheet?.finish());
    window.addEventListener("beforeprint", this.finish);
    this.group.add(this);
    this.#state("empty");
  }

  /** Shows a whole trace, an object or JSON text, at its beginning, its end or after `at` steps. verdict: the mark of its answer, if it was checked. */
  load(trace, { at = "start", verdict = null } = {}) {
    this.#guarded(() => {
      this.#open(Object.assign(Run.from(parseTrace(trace)), { verdict }));
      this.#state(this.run.end?.reason === "failed" ? "failed" : "ready", this.run.end?.message);
      if (at === "end" || Number.isInteger(at)) this.seek(at === "end" ? this.run.length : at);
      else this.group.seek(0);
      this.reveal(this.t === this.run.length);
    });
  }

  begin(header, pieces = [], of = undefined) {
    this.#guarded(() => {
      this.#open(Object.assign(new Run(header, pieces), { of }));
      this.group.follow = true;
      this.reveal();
      this.#state("live");
    });
  }

  /** One numbered batch {run, seq, title?, header?, pieces?, steps?, end?, state?, message?}; a batch seen before is ignored. */
  push(batch) {
    const what = order(this.last, batch);
    if (what === "old" || (this.root.dataset.state === "error" && what !== "start")) return;
    if (what === "gap") return this.#state("error", `Part of this run did not arrive (batch ${batch.seq} after ${this.last?.seq ?? "none"}). Load the finished trace to see all of it.`);
    if (what === "start") this.clear();
    if (batch.title) setText(this.name, batch.title), setText(this.sub, "");
    this.last = { run: batch.run, seq: batch.seq };
    if (batch.header) this.begin(batch.header, batch.pieces, batch.of);
    this.#guarded(() => {
      if (this.run) {
        this.run.addPieces(batch.pieces);
        this.run.addSteps(batch.steps);
        if (batch.end) Object.assign(this.run, { end: batch.end, verdict: batch.verdict ?? null });
        if (batch.steps?.length || batch.end) this.#grown();
      }
      const end = { complete: "done", budget: "done", stopped: "stopped", failed: "failed" }[batch.end?.reason];
      const state = { running: "live" }[batch.state] ?? batch.state ?? end;
      if (state) this.#state(state, batch.message ?? batch.end?.message);
    });
  }

  /** Goes to the state after `step` steps; the other players of the group come along. */
  seek(step) {
    if (!this.run) return;
    const axis = this.axis(this.group.unit);
    this.group.pause();
    this.group.seek(axis[Math.min(Math.max(0, Math.round(step)), axis.length - 1)]);
  }

  clear() {
    Object.assign(this, { views: [], run: null, last: null, t: 0 });
    this.reveal(false);
    Object.assign(this.context, { marks: {}, pick: null });
    this.root.removeAttribute("data-predict");
    this.about.hidden = this.lineage.hidden = true;
    this.body.replaceChildren();
    setText(this.say, "");
    this.#state("empty");
    this.group.grown();
  }

  /** What a loaded run says in the end is told once it was played to its end, or on request. The page listens. */
  reveal(seen = true) {
    if (seen === this.seen) return;
    this.seen = seen;
    this.root.toggleAttribute("data-seen", seen);
    document.dispatchEvent(new CustomEvent("dx-seen"));
    for (const member of this.group.members) member.met?.();
  }

  destroy() {
    this.clear();
    this.sizes.disconnect();
    this.modes.disconnect();
    this.media.removeEventListener("change", this.recolour);
    window.removeEventListener("beforeprint", this.finish);
    this.group.remove(this);
    this.fork.destroy();
    this.root.remove();
  }

  /** For tests. */
  debug() {
    const { run, t } = this;
    return { state: this.root.dataset.state, step: t, message: this.message, views: this.views.map(({ View }) => View.name), steps: run?.length ?? 0,
      board: run?.board(t).map(({ position, token, state }) => ({ position, token, state, text: token === null ? null : run.piece(token).text })) ?? [],
      note: this.note.textContent, sums: run && { ...run.sums[t], tokens: run.tokens(t) } };
  }

  axis(unit) {
    return this.run?.axes[unit] ?? [0];
  }

  /** Called by the clock with the number of finished steps. hurry: the words can wait. */
  at(t, playing, hurry) {
    const moved = t !== this.t || this.stale;
    this.t = t;
    const { dataset } = this.root;
    dataset.step = t;
    if (this.base === "ready" || this.base === "done") dataset.state = t === this.run?.length ? "done" : playing ? "playing" : "ready";
    if (!hurry) setText(this.pill, `${WORDS[dataset.state] ?? dataset.state}${this.run ? ` · ${this.run.length && this.axis(this.group.unit).length < 2 ? `no ${UNITS[this.group.unit].toLowerCase()} recorded` : `step ${t} of ${this.run.length}`}` : ""}`);
    if (!hurry) this.fork.show();
    if (this.run?.end && t === this.run.length) this.reveal();
    if (!this.run || !moved) return;
    this.#show(hurry);
    const now = performance.now();
    clearTimeout(this.later);
    if (!playing && now - this.spoken > SPEAK_EVERY) this.#speak();
    else this.later = setTimeout(() => this.#speak(), SPEAK_EVERY);
  }

  #show(hurry = false) {
    this.stale = hurry; // then the words are of an earlier step
    for (const { view } of this.views) view.show(this.t, hurry);
    if (hurry) return;
    setText(this.note, this.run.steps[this.t - 1]?.note ?? (this.t ? "" : "Before the first step."));
    this.note.hidden = !this.note.textContent;
  }

  #sentence() {
    return this.run ? [`Step ${this.t} of ${this.run.length}.`, ...this.views.map(({ view }) => view.describe?.(this.t)), this.note.textContent].filter(Boolean).join(" ") : "";
  }

  #speak() {
    this.spoken = performance.now();
    setText(this.say, this.#sentence());
  }

  #open(run) {
    const { last } = this;
    this.clear();
    Object.assign(this, { run, last });
    const { header } = run;
    setText(this.name, this.title || header.title || header.method);
    setText(this.sub, [header.family, header.models?.map((m) => m.name).join(" + "), header.lossless ? (header.models?.every((m) => m.dtype === "float32") ? "lossless" : "lossless in float32; near-ties may flip here") : "", header.imported_from ? `imported: ${header.imported_from}` : "", header.missing?.length ? `not recorded: ${header.missing.join(", ").replaceAll("_", " ")}` : ""].filter(Boolean).join(" · "));
    setText(this.lineage, lineage(run));
    this.lineage.hidden = !this.lineage.textContent;
    setText(this.departs, header.departures ?? "");
    setText(this.about.firstChild, header.imported_from ? "About this record" : "Departs from the paper");
    this.about.hidden = !header.departures;
    this.#grown();
  }

  /** Runs of the group came, grew or went. */
  met() {
    for (const { view } of this.views) view.met?.();
  }

  #mark(kind, marks) {
    if (!marks.length && !this.context.marks[kind]?.length) return;
    this.context.marks[kind] = marks;
    for (const { view } of this.views) view.remark?.();
  }

  #grown() {
    const { run } = this;
    this.context.lane = this.context.lane !== "" && !run.lanes.has(this.context.lane) ? (run.lanes.has("confidence") ? "confidence" : ([...run.lanes.keys()][0] ?? null)) : this.context.lane;
    for (const { view } of this.views) view.grow?.();
    VIEWS.forEach((View, place) => {
      if (this.views.some((v) => v.View === View) || !(View.wants ? View.wants(run) : !View.group || run.has(View.group))) return;
      const dom = el("div", "dx-content"), view = new View();
      const frame = View.title ? el("details", { class: "dx-view", open: true, "data-view": View.name }, el("summary", {}, View.title), dom) : dom;
      const after = this.views.find((v) => v.place > place);
      this.body.insertBefore(frame, after?.frame ?? null);
      this.views.push({ View, view, frame, dom, place });
      this.views.sort((a, b) => a.place - b.place);
      view.load(run, dom, this.context);
      this.#resize();
      if (View === Counters) dom.append(this.note);
    });
    this.stale = true;
    this.group.grown();
    if (this.stale) this.#show(); // the cursor did not move
  }

  #relook(change) {
    Object.assign(this.context, change);
    for (const { view } of this.views) view.relook?.();
  }

  #resize(all = false) {
    for (const one of this.views.filter(({ view }) => view.resize)) {
      const { clientWidth } = one.dom;
      if (clientWidth && (all || clientWidth !== one.width)) one.view.resize((one.width = clientWidth)); // not by height
    }
  }

  #recolour() {
    const mode = modeOf(this.root);
    if (mode === this.mode || !this.run) return void (this.mode = mode);
    this.mode = mode;
    this.#resize(true);
    this.#relook({});
    this.#show();
  }

  #state(state, message = "") {
    this.base = state;
    this.message = message;
    this.root.dataset.state = state;
    this.alert.hidden = !message;
    setText(this.alert, message);
    this.at(this.t, this.group.playing);
  }

  #key(event) {
    if (event.key === "f" && !event.ctrlKey && !event.metaKey && !event.altKey && this.fork.toggle()) event.preventDefault();
    else this.group.key(event);
  }

  #guarded(act) {
    try {
      act();
    } catch (error) {
      this.#state("error", error.message);
    }
  }
}

export function mount(element, options) {
  return new Player(element, options);
}

/** The controls of a group: one for all of its players. */
export function mountToolbar(element, { group: name = "main", theme } = {}) {
  if (theme) installTheme(theme);
  const group = groupNamed(name);
  const button = (label, shape, act) => el("button", { "aria-label": label, title: label, onclick: act }, icon(shape));
  const play = button("Play", "M2 1V11L11 6Z", () => group.toggle()), slider = el("input", { type: "range", min: 0, max: 0, step: 1, "aria-label": "Place in the run" });
  const place = el("span", "dx-place");
  const units = Object.entries(UNITS).map(([unit, text]) => el("button", { "data-unit": unit, onclick: () => group.setUnit(unit) }, text));
  const speed = select("Speed", SPEEDS.map((s) => [s, `${s}×`]), 1, (s) => group.setSpeed(Number(s)));
  const root = el("div", { class: "dx dx-toolbar", role: "toolbar", "aria-label": "Playback of all players", onkeydown: (event) => group.key(event) },
    el("div", "dx-buttons", button("Restart", "M1 1H3V11H1ZM11 1V11L4 6Z", () => group.restart()), button("Step back", "M9 1V11L2 6ZM7.6 3.8V8.2L4.5 6Z", () => group.move(-1)), play, button("Step forward", "M3 1V11L10 6ZM4.4 3.8V8.2L7.5 6Z", () => group.move(1))),
    slider, place, el("div", { class: "dx-units", role: "group", "aria-label": "Clock" }, ...units), speed);
  const race = new Race(group);
  root.append(race.root);
  const GRAIN = 1000; // the slider counts whole steps, or thousandths of the longest run
  slider.addEventListener("input", () => {
    group.pause();
    group.seek(group.unit === "steps" ? Number(slider.value) : (slider.value / GRAIN) * group.end, true);
  });
  const update = (hurry) => {
    const { unit, x, end, playing } = group, whole = unit === "steps", say = (v) => (unit === "seconds" ? seconds(v) : number(Math.floor(v + 1e-6)));
    set(slider, { max: whole ? end : GRAIN });
    const to = whole ? Math.floor(x) : end ? (x / end) * GRAIN : 0;
    if (!hurry || Math.abs(to - slider.value) > slider.max / 200) slider.value = to; // a few pixels
    if (hurry) return;
    set(slider, { "aria-valuetext": `${say(x)} of ${say(end)} ${UNITS[unit].toLowerCase()}` });
    setText(place, `${say(x)} / ${say(end)}`);
    set(play.firstChild.firstChild, { d: playing ? "M2 1H5V11H2ZM7 1H10V11H7Z" : "M2 1V11L11 6Z" });
    set(play, { "aria-label": playing ? "Pause" : "Play", title: `${playing ? "Pause" : "Play"} (space)` });
    for (const node of units) set(node, { "aria-pressed": String(node.dataset.unit === unit) });
    speed.lastChild.value = group.speed;
  };
  const idle = (event) => event.target === document.body && root.offsetParent && / |Arrow(Left|Right)/.test(event.key) && group.key(event);
  document.addEventListener("keydown", idle);
  const listeners = [update, (hurry) => race.update(hurry)];
  for (const listener of listeners) group.listeners.add(listener);
  element.replaceChildren(root);
  for (const listener of listeners) listener();
  return { group, root, destroy: () => (document.removeEventListener("keydown", idle), listeners.forEach((listener) => group.listeners.delete(listener)), root.remove()) };
}
