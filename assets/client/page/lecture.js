// Lecture mode on the page: asks the server for the scenes, shows the runs of each, and runs them live. A list of a
// presenter's own is kept by the browser. The address is ?lecture, or ?lecture=3 for the third scene.

import { el } from "../player/dom.js";
import { store, stored } from "../player/remember.js";
import { tr } from "../player/words.js";
import { announce, parsed, whenThere } from "./dom.js";
import { download, textOf } from "./download.js";
import { address, lectureView, wanted } from "./lectureview.js";
import { sentence } from "./sentences.js";

const KEY = "decoding-explorer-lecture"; // localStorage: {name, text} of an own list
const MOST = 100_000; // characters of it

function kept() {
  try {
    const { name, text } = JSON.parse(stored(KEY));
    return typeof text === "string" ? { name: String(name), text } : null;
  } catch {
    return null;
  }
}

/** The first sentence of a text. */
const first = (text) => text.split(/(?<=\.)\s+|(?<=。)/)[0];

/** How a scene stands. live: null, "asked" until the controls hold what it was made with, then "on", in the end "done";
 * ready: they hold it; returning: to the recording; after: what is sent once a live run has ended. */
export const BEGUN = { scene: null, live: null, ready: false, returning: false, after: null };

const done = (state, ...effects) => ({ state, effects });
const ended = (state) => done({ ...state, live: null, after: null }, ...(state.live === "on" ? [["stop"]] : []));

const EVENTS = {
  show(state, { scene }) {
    const busy = state.live === "on",
      wish = { act: "show", query: scene.query },
      { state: to, effects } = ended(state);
    return done({ ...to, scene, after: busy ? wish : null }, ...effects, ...(busy ? [] : [["send", wish]]));
  },
  leave: ended,
  /** L: the scene live, and the recording again. query: what the scene shows now. */
  turn(state, { query }) {
    if (state.live) {
      const { state: to, effects } = EVENTS.show({ ...state, returning: true }, { scene: state.scene });
      return done(to, ["say"], ...effects);
    }
    if (!state.scene) return done(state);
    return done({ ...state, live: "asked" }, ["say"], ["live", true], ["send", { act: "ready", query }]);
  },
  /** Whether the controls hold what the scene was made with, and why not. */
  ready: (state, { ready, said }) =>
    ready ? done({ ...state, ready }) : done({ ...state, ready, live: null }, ["live", false], ["say", said]),
  /** What was asked for is there: the recording again, or the controls. */
  told(state) {
    const back = state.returning && !state.after,
      starts = state.live === "asked" && state.ready;
    return done(
      { ...state, ...(back && { returning: false }), ...(starts && { ready: false, live: "on" }) },
      ...(back ? [["live", false]] : []),
      ...(starts ? [["run"]] : []),
    );
  },
  /** A live run has ended, or was refused. */
  over({ live, after, ...state }) {
    return done({ ...state, live: live === "on" ? "done" : live, after: null }, ...(after ? [["send", after]] : []));
  },
};

/** What an event {type, ...} makes of a scene, and what is to be done then, in this order: {state, effects}. */
export const next = (state, { type, ...event }) => EVENTS[type](state, event);

/** The hidden component: props.value takes a request, {act: "list" | "show" | "ready" | "save", ...}, and comes back as
 * the scenes, {scenes, text, said, own}, as {page} or {saying}, or as {ready, said}. ask: sends it. */
export function mountLecture(props, watch, ask) {
  whenThere(["#players", "#status .status", "#run", "#stop"], (players, status, run, stop) => {
    new Show(props, watch, ask, { players, status, run, stop });
  });
}

class Show {
  constructor(props, watch, ask, parts) {
    Object.assign(this, { props, ask, parts, text: "", wanted: 0, state: BEGUN });
    watch("value", () => this.#told());
    document.addEventListener("dx-lecture-told", () => this.#step("told"));
    document.addEventListener("dx-lecture-open", () => this.open(0, true));
    document.addEventListener("dx-over", () => this.#step("over"));
    document.addEventListener("click", (event) => {
      if (!event.target.closest?.('#docs a[href$="?lecture"]')) return;
      event.preventDefault();
      this.open(0, true);
    });
    addEventListener("popstate", () => {
      if (wanted() === null) this.view?.close();
      else if (!this.view?.on) this.open(wanted());
    });
    new MutationObserver(() => this.#status()).observe(parts.status, { childList: true, characterData: true });
    if (wanted() !== null) this.open(wanted());
  }

  send(wish) {
    this.props.value = JSON.stringify({ ...wish, asked: Date.now() });
    this.ask();
  }

  /** full: by a click, which may ask for the whole screen. */
  open(n, full = false) {
    this.wanted = n;
    this.view ??= lectureView({
      show: (scene) => this.#step("show", { scene }),
      leave: () => this.leave(),
      live: () => this.#step("turn", { query: this.state.scene && standing(this.state.scene) }),
      moved: address,
      files: this.#files(),
      players: this.parts.players,
    });
    if (full) document.documentElement.requestFullscreen?.().catch(() => {}); // while the click counts
    if (wanted() === null) address(n, true);
    announce("dx-go", { tab: "explore" });
    this.list(kept());
  }

  list(own) {
    this.send({ act: "list", ...(own ?? {}) });
  }

  leave() {
    this.#step("leave");
    this.view.close();
    address(null, true);
  }

  #told() {
    const told = parsed(this.props),
      { taken } = this;
    if (told.scenes) this.taken = null;
    if (told.scenes && told.said && taken) {
      this.view.say(sentence(told.said)); // a file that is no lecture leaves the list that was there
    } else if (told.scenes) {
      this.text = told.text;
      this.view.open(told.scenes, this.wanted);
      this.back.hidden = !told.own;
      if (told.said) {
        store(KEY, null);
        this.view.say(sentence(told.said));
      } else if (taken) store(KEY, JSON.stringify(taken));
    } else if (told.page) download({ text: told.page, name: "lecture.html", type: "text/html" });
    else if (told.saying) this.view.say(sentence(told.saying));
    else if ("ready" in told) this.#step("ready", told);
  }

  #step(type, event) {
    const { state, effects } = next(this.state, { type, ...event });
    this.state = state;
    for (const [name, ...given] of effects) this.#effects[name](...given);
  }

  #effects = {
    stop: () => this.parts.stop.click(),
    send: (wish) => this.send(wish),
    say: (...said) => this.view.say(...said.map((one) => sentence(one))),
    live: (on) => this.view.live(on ? tr`Live: the same prompt, methods and parameters, run here and now.` : ""),
    run: () => setTimeout(() => this.parts.run.click()),
  };

  /** What the status line says of a live run, or of a link that leads nowhere. */
  #status() {
    if (!this.view?.on) return;
    const { status } = this.parts,
      bad = ["error", "warn"].includes(status.dataset.kind);
    if (bad) this.view.say(status.textContent);
    // What follows the first sentence speaks of the page's own keys.
    else if (this.state.live === "on") this.view.say(first(status.textContent));
  }

  #files() {
    const field = el("input", { type: "file", accept: ".json,application/json", onchange: () => this.#take(field) });
    const button = (words, onclick) => el("button", { onclick }, words);
    this.back = button(tr`Back to the list of this page`, () => {
      store(KEY, null);
      this.wanted = 0;
      this.list(null);
    });
    this.back.hidden = true;
    const save = () => download({ text: this.text, name: "lecture.json", type: "application/json" });
    return el(
      "p",
      "lecture-files",
      button(tr`Download this list`, save),
      button(tr`Save as one page, without a server`, () => this.send({ ...(kept() ?? {}), act: "save" })),
      el("label", {}, tr`A list of your own`, " ", field),
      this.back,
      el("a", { href: "?doc=teaching", target: "_blank" }, tr`What to ask in each scene, and an exercise sheet`),
    );
  }

  async #take(field) {
    const [file] = field.files;
    if (!file) return;
    field.blur();
    if (file.size > MOST)
      return this.view.say(tr`${file.name} has ${file.size} bytes; a list may have ${MOST}. Make it shorter.`);
    this.taken = { name: file.name, text: textOf(new Uint8Array(await file.arrayBuffer())) };
    field.value = "";
    this.wanted = 0;
    this.list(this.taken);
  }
}

/** The link to the runs that a scene shows now: where its lever was moved, the run of that place is among them. */
function standing({ query, voice }) {
  const lever = document.querySelector("#scene-lever"),
    { stops, slot } = voice?.lever ?? {};
  if (!stops || !lever?.checkVisibility()) return query;
  const { trace } = stops[Number(lever.value)];
  return trace === voice.traces[slot] ? query : `?gallery=${voice.traces.with(slot, trace).join()}`;
}
