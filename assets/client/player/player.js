// A panel: one run, and the views that its groups ask for, on the clock of its group.

import { groupNamed, UNITS } from "./clock.js";
import { el, setText } from "./dom.js";
import { Fork } from "./fork.js";
import { agree, leave, level } from "./grid.js";
import { Head } from "./head.js";
import { Shown } from "./panelviews.js";
import { remember, remembered } from "./remember.js";
import { order, parseTrace, Run } from "./run.js";
import { installTheme, modeOf } from "./theme.js";
import { tr } from "./words.js";

const SPEAK_EVERY = 1200; // milliseconds between two sentences for a screen reader
const WORDS = {
  empty: tr`no run yet`,
  queued: tr`waiting`,
  expected: tr`reading the prompt`,
  loading: (model) => tr`loading ${model}: first use`,
  live: tr`running`,
  ready: tr`ready`,
  playing: tr`playing`,
  done: tr`done`,
  stopped: tr`stopped`,
  failed: tr`failed`,
  error: tr`cannot show`,
};
const LETTER = 7.4; // pixels of a letter of the sentences, on average and some more
let ids = 0;

class Player {
  constructor(element, { group = "main", slot = 0, theme, title = "", forks = false }) {
    installTheme(theme);
    Object.assign(this, { slot, title, group: groupNamed(group), run: null, t: 0, last: null, message: "", spoken: 0 });
    element.replaceChildren(this.#build(forks));
    this.context = this.#context(theme);
    this.views = new Shown(
      this.body,
      this.context,
      (draw) => this.#late(draw),
      (open) => this.#everywhere((member) => member.unfold(open)),
    );
    this.#watch();
    this.group.add(this);
    this.#state("empty");
  }

  #build(forks) {
    this.alert = el("p", { class: "dx-alert", role: "alert", hidden: true });
    this.note = el("p", "dx-note");
    const pick = ({ target }) => target.closest(".dx-board") && this.fork.form?.pick();
    this.body = el("div", { class: "dx-body", onclick: pick });
    this.say = el("output", { class: "dx-say", "aria-live": "polite" });
    this.fork = new Fork(this, forks, { board: () => this.views.board(), alone: () => this.#alone() });
    this.head = new Head(this.fork.button);
    const look = { class: "dx dx-panel", tabindex: 0, "aria-label": this.title || tr`Player ${this.slot + 1}` },
      onkeydown = (event) => this.#key(event);
    this.root = el("section", { ...look, onkeydown }, this.head.root, this.alert, this.body, this.say);
    return this.root;
  }

  /** What a view may know of its player, and ask of it. */
  #context(theme) {
    return {
      theme,
      slot: this.slot,
      id: ids++,
      lane: null,
      peek: true,
      unfolded: Boolean(remembered("prompt")), // whether the prompt stands on the board
      whole: Boolean(remembered("whole")), // whether a board above a picture shows all of its rows
      pick: null,
      marks: {},
      note: this.note,
      mode: () => modeOf(this.root),
      seek: (t) => this.seek(t),
      peers: () => this.group.runners,
      agree: (need) => agree(this.group, this, need),
      mark: (kind, marks) => this.#mark(kind, marks),
      picking: () => {
        this.#alone();
        this.fork.form?.close();
      },
      setLane: (lane) => this.look({ lane }),
      setPeek: (peek) => this.look({ peek }),
      setWhole: (whole) => {
        remember("whole", whole);
        this.#everywhere((member) => member.look({ whole }));
      },
      setPrompt: (unfolded) => {
        remember("prompt", unfolded);
        this.#everywhere((member) => member.look({ unfolded })); // the boards share one grid
      },
    };
  }

  /** Sizes, colours and printing, until `destroy`. */
  #watch() {
    this.sizes = new ResizeObserver(() => {
      this.views.resize();
      this.#room();
      level(this.group);
    });
    for (const node of [this.head.root, this.body]) this.sizes.observe(node);
    this.modes = new MutationObserver(() => this.#recolour());
    for (const node of [document.documentElement, document.body])
      this.modes.observe(node, { attributeFilter: ["class"] });
    this.ends = new AbortController();
    const { signal } = this.ends;
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#recolour(), { signal });
    const beside = () => {
      this.met();
      this.group.refresh();
    };
    document.addEventListener("dx-pairs", beside, { signal });
    window.addEventListener("beforeprint", () => this.views.tell("print"), { signal });
  }

  #everywhere(act) {
    for (const member of this.group.members) act(member);
  }

  /** Shows a whole trace with its figures, an object or JSON text, at its start, its end or after `at` steps. */
  load(trace, { at = "start" } = {}) {
    this.#guarded(() => {
      this.#open(Run.from(parseTrace(trace)));
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

  /** One numbered batch {run, seq, title?, header?, pieces?, steps?, end?, figures?, state?, message?}; a batch seen
   * before is ignored. */
  push(batch) {
    const what = order(this.last, batch);
    if (what === "old" || (this.root.dataset.state === "error" && what !== "start")) return;
    if (what === "gap")
      return this.#state(
        "error",
        tr`Part of this run did not arrive (batch ${batch.seq} after ${this.last?.seq ?? "none"}). \
Load the finished trace to see all of it.`,
      );
    if (what === "start") this.clear();
    if (batch.title) this.head.await(batch.title);
    this.expected = batch.loading ? WORDS.loading(batch.loading) : null;
    this.last = { run: batch.run, seq: batch.seq };
    if (batch.header) this.begin(batch.header, batch.pieces, batch.of);
    this.#guarded(() => {
      if (this.run) {
        this.run.addPieces(batch.pieces);
        this.run.addSteps(batch.steps);
        if (batch.end) this.run.end = batch.end;
        if (batch.figures) this.run.hand(batch.figures);
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

  /** A run was asked for that may take the place of what is shown; expected: whether it still may, or words for what
   * it waits for. loading: the model that is loaded for it. title: its name. n: tokens of its prompt. */
  expect(expected, { loading, title } = {}, n) {
    const words = (n && this.group.progress?.({ prompt: { length: n } })) || WORDS.expected; // the page may still load
    this.expected = loading ? WORDS.loading(loading) : expected === true ? words : expected || null;
    this.root.toggleAttribute("data-expected", Boolean(expected));
    if (title) this.head.await(title);
    else if (!expected && this.run) this.head.show(this.run, this.title);
    this.at(this.t, this.group.playing);
  }

  clear() {
    Object.assign(this, { run: null, last: null, t: 0, expected: null });
    this.root.removeAttribute("data-expected");
    this.views.clear();
    leave(this.group, this);
    this.reveal(false);
    Object.assign(this.context, { marks: {}, pick: null });
    this.root.removeAttribute("data-predict");
    this.head.lineage.hidden = true;
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
    this.#everywhere((member) => member.met?.());
  }

  destroy() {
    this.clear();
    this.sizes.disconnect();
    this.modes.disconnect();
    this.ends.abort();
    this.group.remove(this);
    this.fork.destroy();
    this.root.remove();
  }

  /** For tests. */
  debug() {
    const { run, t } = this,
      text = (token) => (token === null ? null : run.piece(token).text),
      cells = run?.board(t) ?? [];
    return {
      state: this.root.dataset.state,
      step: t,
      message: this.message,
      views: this.views.all.map(({ entry }) => entry.name),
      steps: run?.length ?? 0,
      board: cells.map(({ position, token, state }) => ({ position, token, state, text: text(token) })),
      note: this.note.textContent,
      sums: run && { ...run.sums[t], tokens: run.tokens(t) },
    };
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
    if (this.base === "ready" || this.base === "done")
      dataset.state = t === this.run?.length ? "done" : playing ? "playing" : "ready";
    if (!hurry) {
      setText(this.head.pill, this.expected ?? this.#standing(t));
      this.fork.show();
    }
    if (this.run?.end && t === this.run.length) this.reveal();
    if (!this.run || !moved) return;
    this.#show(hurry);
    const now = performance.now();
    clearTimeout(this.later);
    if (!playing && now - this.spoken > SPEAK_EVERY) this.#speak();
    else this.later = setTimeout(() => this.#speak(), SPEAK_EVERY);
  }

  #show(hurry = false) {
    this.stale = hurry; // then some words are of an earlier step
    this.views.tell("show", this.t, hurry);
    const { note = this.t ? "" : tr`Before the first step.` } = this.run.steps[this.t - 1] ?? {};
    setText(this.note, globalThis.dxNote?.(note, this.note) ?? note);
    this.note.hidden = !this.note.textContent;
  }

  #speak() {
    const { run, t } = this;
    if (this.group.quiet) return;
    this.spoken = performance.now();
    const parts = run
      ? [tr`Step ${t} of ${run.length}.`, ...this.views.tell("describe", t), this.note.textContent]
      : [];
    setText(this.say, parts.filter(Boolean).join(" "));
  }

  #open(run) {
    const { last } = this;
    this.clear();
    Object.assign(this, { run, last });
    this.head.show(run, this.title);
    this.#grown();
  }

  /** Runs of the group came, grew or went, or what is said of two of them came. */
  met() {
    this.views.tell("met");
  }

  #mark(kind, marks) {
    if (!marks.length && !this.context.marks[kind]?.length) return;
    this.context.marks[kind] = marks;
    this.views.tell("remark");
  }

  #grown() {
    const { run, context } = this;
    if (context.lane !== "" && context.lane !== "@author" && !run.lanes.has(context.lane))
      context.lane = run.canvas === null ? null : run.deciding;
    // where models take turns, who wrote a token is what the method is about
    if (context.lane === null && run.canvas === null && run.authors.size > 1 && run.has("choice") && !run.has("tree"))
      context.lane = "@author";
    this.views.grow(run);
    this.#regrown();
  }

  /** All notes have one line, or two where one needs it: nothing moves from step to step. */
  #room() {
    const members = [...this.group.members],
      lengths = members.flatMap(({ run }) => run?.steps.map(({ note = "" }) => note.length) ?? []),
      long = lengths.reduce((most, length) => Math.max(most, length), 0),
      wide = Math.min(...members.map(({ note }) => note.clientWidth || Infinity));
    for (const { note } of members) note.style.height = long * LETTER < wide ? "21px" : "";
  }

  /** A view came after its run had been drawn. */
  #late(draw) {
    this.#guarded(() => {
      draw();
      this.#regrown();
    });
  }

  #regrown() {
    this.stale = true;
    this.group.grown();
    if (this.stale) this.#show(); // the cursor did not move
  }

  /** Boards take one kind of click: who asked for them stops, in every player of the group. */
  #alone() {
    this.#everywhere((member) => member.views?.tell("stop"));
  }

  /** How it stands, in words. */
  #standing(t) {
    const { run, group } = this,
      { state } = this.root.dataset,
      word = WORDS[state] ?? state;
    if (!run) return word;
    if (state === "live" && group.progress) return group.progress(run);
    const place =
      run.length && this.axis(group.unit).length < 2
        ? tr`no ${UNITS[group.unit].toLowerCase()} recorded`
        : tr`step ${t}${run.end ? tr` of ${run.length}` : ""}`;
    return `${word} · ${place}`;
  }

  /** Another look at the same step: {lane, peek, unfolded}, or some of them. */
  look(change) {
    Object.assign(this.context, change);
    this.views.tell("relook");
  }

  /** Opens or folds Details. */
  unfold(open) {
    this.#guarded(() => {
      this.views.unfold(open);
      if (this.run) this.#regrown();
    });
  }

  #recolour() {
    const mode = modeOf(this.root);
    if (mode === this.mode || !this.run) return void (this.mode = mode);
    this.mode = mode;
    this.views.resize(true);
    this.look({});
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
    if (event.key === "f" && !event.ctrlKey && !event.metaKey && !event.altKey && this.fork.toggle())
      event.preventDefault();
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

export const mount = (element, options) => new Player(element, options);
