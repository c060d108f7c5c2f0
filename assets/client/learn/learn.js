// Lessons: a list, a text with stops, and a real player of the recorded run beside it. And the glossary.

import { announce, outward, searchField } from "../page/dom.js";
import { inEnglish, langOf, tell } from "../page/prose.js";
import { el, setText } from "../player/dom.js";
import { mount } from "../player/player.js";
import { store, stored } from "../player/remember.js";
import { mountToolbar } from "../player/toolbar.js";
import { tr, translated } from "../player/words.js";
import { promise } from "../views/about.js";

const GROUP = "learn"; // a clock of its own: nothing here moves the players of another tab
const GLOSSARY = "glossary";
const KEY = "decoding-explorer-lessons"; // localStorage: {method: steps of the stops that were seen}

/** The stops that were seen, of all lessons; nothing where storage is shut or holds something else. */
function remembered() {
  try {
    const kept = Object.entries(JSON.parse(stored(KEY)) ?? {});
    return new Map(kept.filter(([, steps]) => Array.isArray(steps)).map(([method, steps]) => [method, new Set(steps)]));
  } catch {
    return new Map();
  }
}
const remember = (seen) =>
  store(KEY, JSON.stringify(Object.fromEntries([...seen].map(([method, steps]) => [method, [...steps]]))));

/** The JSON text of a recorded run; a gzipped file is unpacked here. file: its path as seen from the page. */
async function recorded(name, file) {
  const answer = await fetch(new URL(file.split("/").map(encodeURIComponent).join("/"), document.baseURI));
  if (!answer.ok)
    throw new Error(
      tr`The recorded run ${name} could not be fetched (${answer.status}). Reload the page and open the lesson again.`,
    );
  const bytes = new Uint8Array(await answer.arrayBuffer());
  if (bytes[0] !== 0x1f || bytes[1] !== 0x8b) return new TextDecoder().decode(bytes);
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

const [COMMA, STOP] = globalThis.dxMessages ? ["、", "。"] : [", ", "."];
const inLang = (text) => ({ lang: langOf(text) });
/** A term of the glossary, and what it is called in English. */
const word = (term) => (translated(term) === term ? term : `${translated(term)} (${term})`);
const section = (name, ...content) => el("section", {}, el("h3", {}, name), ...content);

/** All that a lesson says, which is in the page's language as a whole or not at all. */
const texts = ({ warning, problem, idea, watch, stops, question, answer, caveat }) => [
  warning,
  problem,
  idea,
  watch,
  ...stops.map(({ say }) => say),
  question,
  answer,
  ...caveat,
];

class Learn {
  constructor(element, { lessons, glossary }) {
    const theme = globalThis.dxTheme;
    Object.assign(this, {
      lessons,
      families: [...Map.groupBy(lessons, ({ family }) => family)],
      terms: new Map(glossary.map((entry) => [entry.term, entry])),
      at: null,
      open: null,
      ready: false, // the run of the open lesson is loaded
      early: null, // the step of a stop that was chosen before it was
      seen: remembered(),
    });
    this.text = el("article", { class: "learn-text", tabindex: -1, "aria-label": tr`Lesson` });
    this.more = el("article", { class: "learn-text learn-more", "aria-label": tr`Question and words` });
    this.bar = el("div", {});
    this.lanes = [0, 1].map((slot) => ({ slot, name: el("h3", {}), stage: el("div", {}) }));
    this.stage = this.lanes[0].stage;
    this.side = el(
      "div",
      "learn-stage",
      this.bar,
      ...this.lanes.map((lane) => (lane.box = el("section", {}, lane.name, lane.stage))),
    );
    this.choices = new Map();
    this.root = el("div", "dx learn", this.#list(), this.#select(), this.text, this.side, this.more);
    element.replaceChildren(this.root);
    this.mount = (lane) => (lane.player ??= mount(lane.stage, { group: GROUP, slot: lane.slot, title: "", theme }));
    this.player = this.mount(this.lanes[0]);
    this.toolbar = mountToolbar(this.bar, { group: GROUP, theme });
    this.toolbar.group.listeners.add(() => this.#follow());
    for (const lesson of this.lessons) this.#tick(lesson);
    const first = this.lessons[0].method;
    const asked = ({ kind, name } = {}) => (kind === "lesson" && this.choices.has(name) ? name : first);
    this.show(asked(globalThis.dxPlace));
    document.addEventListener("dx-place", ({ detail }) => {
      if (detail.tab === "learn" && asked(detail) !== this.at) this.show(asked(detail));
    });
  }

  #list() {
    const item = (key, title) => {
      const done = key === GLOSSARY ? null : el("span", "learn-done");
      const button = el("button", { onclick: () => this.show(key, true) }, title, done);
      this.choices.set(key, button);
      return el("li", {}, button);
    };
    const group = (name, ...items) => el("div", {}, el("h3", {}, name), el("ul", {}, ...items));
    const families = this.families.map(([family, lessons]) =>
      group(translated(family), ...lessons.map(({ method, title }) => item(method, title))),
    );
    const words = group(tr`words`, item(GLOSSARY, tr`Glossary`));
    return el("nav", { class: "learn-list", "aria-label": tr`Lessons` }, ...families, words);
  }

  /** The list of a narrow screen. */
  #select() {
    const option = ({ method, title }) => el("option", { value: method }, title);
    const families = this.families.map(([family, lessons]) =>
      el("optgroup", { label: translated(family) }, ...lessons.map(option)),
    );
    const look = { "aria-label": tr`Lesson`, onchange: () => this.show(this.box.value, true) };
    this.box = el("select", look, ...families, option({ method: GLOSSARY, title: tr`Glossary` }));
    return el("div", "learn-choice", this.box);
  }

  /** How many of its stops were seen, in both lists. */
  #tick({ method, title, stops }) {
    const n = stops.filter(({ step }) => this.seen.get(method)?.has(step)).length;
    const done = n === stops.length ? tr`✓ seen` : n ? tr`${n} of ${stops.length}` : "";
    setText(this.choices.get(method).querySelector(".learn-done"), done);
    setText(this.box.querySelector(`option[value="${CSS.escape(method)}"]`), [title, done].filter(Boolean).join(" · "));
  }

  /** Opens a lesson by its method, or the glossary; `focus` moves the keyboard to the text, where a person chose it. */
  show(key, focus = false) {
    for (const [name, button] of this.choices) button.setAttribute("aria-current", name === key ? "page" : "false");
    this.box.value = key;
    this.at = key;
    this.side.hidden = this.more.hidden = key === GLOSSARY;
    this.root.toggleAttribute("data-wide", key === GLOSSARY);
    if (key === GLOSSARY) this.#glossary();
    else this.#lesson(this.lessons.find(({ method }) => method === key));
    if (!focus) return;
    announce("dx-at", { lesson: key });
    this.text.focus({ preventScroll: true });
    if (this.root.getBoundingClientRect().top < 0) this.root.scrollIntoView({ block: "start" });
  }

  #lesson(lesson) {
    const n = this.lessons.indexOf(lesson);
    const near = (i, label) =>
      this.lessons[i]
        ? el("button", { onclick: () => this.show(this.lessons[i].method, true) }, `${label}: ${this.lessons[i].title}`)
        : el("span", {});
    const english = inEnglish(...texts(lesson));
    this.told = english ? (text) => text : translated;
    const lang = english ? "en" : null,
      told = (text, name = null) => el("p", { class: name, lang }, this.told(text));
    this.say = el("p", { class: "learn-say", "aria-live": "polite", lang });
    this.stops = lesson.stops.map(({ step }) =>
      el("button", { "data-step": step, onclick: () => this.#go(step) }, tr`Step ${step}`),
    );
    const kept = promise({ lossless: lesson.lossless, models: lesson.dtypes.map((dtype) => ({ dtype })) }),
      about = [translated(lesson.family), kept].filter(Boolean).join(" · ");
    const paper = lesson.address ? outward(lesson.address, lesson.paper) : null;
    this.text.replaceChildren(
      el("header", {}, el("h2", {}, lesson.title), el("p", "learn-quiet", about, paper ? " · " : "", paper)),
      ...(english ? [el("p", "learn-quiet", tr`This text is in English only.`)] : []),
      ...(lesson.warning ? [told(lesson.warning, "learn-warning")] : []),
      section(tr`What was seen`, told(lesson.problem)),
      section(tr`The idea`, told(lesson.idea), told(lesson.formula, "learn-formula")),
      section(tr`What to watch`, told(lesson.watch)),
      section(
        tr`Stops in this run`,
        el("p", "learn-quiet", tr`“${lesson.prompt}” on ${lesson.models}. Choose a stop, or play.`),
        el("div", { class: "learn-stops", role: "group", "aria-label": tr`Stops` }, ...this.stops),
        this.say,
      ),
    );
    const [shown, rest] = lesson.caveat,
      fold = el("details", "learn-answer", el("summary", {}, tr`More of it`), told(rest));
    this.more.replaceChildren(
      section(
        tr`A question`,
        told(lesson.question),
        el("details", "learn-answer", el("summary", {}, tr`Show the answer`), told(lesson.answer)),
      ),
      section(tr`What this run does not show`, told(shown), ...(rest ? [fold] : [])),
      section(tr`Words`, this.#words(lesson.terms)),
      el("footer", {}, near(n - 1, tr`Previous`), near(n + 1, tr`Next`)),
    );
    this.#play(lesson);
  }

  /** Terms as buttons that unfold what they mean, one at a time. */
  #words(terms) {
    const meaning = el("p", { class: "learn-meaning", "aria-live": "polite", hidden: true });
    const more = el("button", "learn-link", tr`in the glossary`);
    const open = (button, term) => {
      const closing = button.getAttribute("aria-expanded") === "true";
      for (const one of box.childNodes) one.setAttribute("aria-expanded", "false");
      button.setAttribute("aria-expanded", String(!closing));
      meaning.hidden = closing;
      more.onclick = () => this.#lookUp(term);
      const { about = "" } = this.terms.get(term) ?? {};
      meaning.replaceChildren(
        el("strong", {}, word(term)),
        " ",
        el("span", inLang(about), translated(about)),
        " ",
        more,
      );
    };
    const button = (term) =>
      el("button", { "aria-expanded": "false", onclick: ({ currentTarget }) => open(currentTarget, term) }, word(term));
    const box = el("div", "learn-words", ...terms.map(button));
    return el("div", {}, box, meaning);
  }

  async #play(lesson) {
    Object.assign(this, { open: lesson, ready: false, early: null });
    this.lanes.forEach((lane, i) => {
      const { box, name } = lane,
        used = i < lesson.runs.length;
      if (used) this.mount(lane);
      lane.player?.clear();
      box.hidden = !used;
      name.hidden = lesson.runs.length < 2;
      const { caption = "" } = lesson.runs[i] ?? {};
      tell(name, caption);
    });
    setText(this.say, "");
    let texts = [];
    try {
      texts = await Promise.all(lesson.runs.map(({ id, file }) => recorded(id, file)));
    } catch (error) {
      if (this.open === lesson) setText(this.say, error.message);
      return;
    }
    if (this.open !== lesson) return; // another one was opened meanwhile
    const at = this.early ?? lesson.stops[0]?.step ?? 0;
    for (const [i, text] of [...texts.entries()].reverse()) {
      const { player } = this.lanes[i];
      player.context.lane = lesson.lane || null; // before the views are made
      player.load(text, { at }); // the lesson's own run comes last: the clock stands at a stop of its own
    }
    this.ready = true;
    this.#follow();
  }

  /** Goes to a step and brings what the lesson is about into sight, where the player has a scroll bar of its own. */
  #go(step) {
    if (!this.ready) {
      this.early = step;
      return;
    }
    this.player.seek(step);
    const view = this.stage.querySelector(`[data-view="${this.open?.view ?? "Tokens"}"]`);
    if (view && this.side.scrollHeight > this.side.clientHeight + 1)
      this.side.scrollTo({
        top: this.side.scrollTop + view.getBoundingClientRect().top - this.bar.getBoundingClientRect().bottom - 12,
        behavior: "instant",
      });
  }

  /** The sentence of the last stop that was reached; the stop that one stands at is marked. */
  #follow() {
    if (this.at === GLOSSARY || !this.open || !this.ready) return;
    const t = this.player.t,
      reached = this.open.stops.filter(({ step }) => step <= t).pop();
    for (const button of this.stops) button.setAttribute("aria-pressed", String(Number(button.dataset.step) === t));
    setText(this.say, reached ? this.#at(reached) : "");
    this.say.toggleAttribute("data-past", Boolean(reached) && reached.step !== t);
    if (!reached || this.seen.get(this.open.method)?.has(reached.step)) return;
    this.seen.set(this.open.method, (this.seen.get(this.open.method) ?? new Set()).add(reached.step));
    remember(this.seen);
    this.#tick(this.open);
  }

  /** The sentence of a stop, with a label in its own language. */
  #at({ step, say }) {
    return this.say.lang === "en" ? `Step ${step}: ${say}` : tr`Step ${step}: ${this.told(say)}`;
  }

  #lookUp(term) {
    this.show(GLOSSARY, true);
    this.search.value = term;
    this.search.dispatchEvent(new Event("input"));
    this.search.focus();
  }

  #glossary() {
    Object.assign(this, { open: null, ready: false });
    const left = el("output", { "aria-live": "polite", class: "learn-quiet" });
    const link = (term) => el("button", { class: "learn-link", onclick: () => this.#lookUp(term) }, word(term));
    const entries = [...this.terms.values()].map((entry) => {
      const others = entry.see?.flatMap((term, i) => [i ? COMMA : "", link(term)]) ?? [];
      const see = others.length ? el("span", "learn-quiet", " ", tr`See`, " ", ...others, STOP) : null;
      return {
        words: [entry.term, word(entry.term), entry.about, translated(entry.about), ...(entry.also ?? [])]
          .join(" ")
          .toLowerCase(),
        term: entry.term.toLowerCase(),
        node: el(
          "div",
          {},
          el("dt", {}, word(entry.term)),
          el("dd", inLang(entry.about), translated(entry.about), see),
        ),
      };
    });
    const list = el("dl", "learn-terms");
    const apply = () => {
      const wanted = this.search.value.trim().toLowerCase();
      const found = entries.filter(({ words }) => words.includes(wanted)); // those whose name begins so come first
      const rank = ({ term }) => (term === wanted ? 0 : term.startsWith(wanted) ? 1 : term.includes(wanted) ? 2 : 3);
      list.replaceChildren(...found.sort((a, b) => rank(a) - rank(b)).map(({ node }) => node));
      setText(left, tr`${found.length} of ${entries.length} words`);
    };
    this.search = searchField(tr`Search the glossary`, apply);
    this.text.replaceChildren(
      el(
        "header",
        {},
        el("h2", {}, tr`Glossary`),
        el("p", "learn-quiet", tr`The words of the field, as they are used here.`),
      ),
      el("div", "learn-search", this.search, left),
      list,
    );
    apply();
  }
}

/** The page's side: mounts once its value, JSON text {lessons, glossary}, is there. */
export function learn(element, props, watch) {
  let mounted = null;
  const handle = () => {
    if (mounted || !props.value) return;
    mounted = new Learn(element, JSON.parse(props.value));
  };
  handle();
  watch("value", handle);
}
