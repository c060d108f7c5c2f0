// The chooser of methods: four questions, one search, at most five cards, the others as a list. A click on Play sends
// the ids of the runs as {play: [id]}; Try, Lesson and the address are matters of the page (address.js, form.js).

import { el } from "../player/dom.js";
import { tr, translated } from "../player/words.js";
import { card, nameOf } from "./cards.js";
import { announce, searchField } from "./dom.js";
import { ANY, choose } from "./finding.js";
import { left } from "./prose.js";

const MOST = 5;
const ANSWERS = { any: tr`any`, left: tr`left to right`, masked: tr`masked`, no: tr`no`, yes: tr`yes` };
const ASKED = [
  ["order", tr`Left to right, or masked?`, ["any", "left", "masked"]],
  ["train", tr`May anything be trained?`, ["any", "no", "yes"]],
  ["draft", tr`Is there a draft, or another second model?`, ["any", "no", "yes"]],
  ["same", tr`Must the text be the same as the control's in float32?`, ["any", "yes", "no"]],
];
const FIND = tr`Search methods, papers and words of the field`;
/** What somebody types who looks for a way to a rule of their own. */
const OWN = /\b(own|custom|customi[sz]e|my|mine|myself|write|template|plugin|extend)\b|自己|自定义|编写|模板/i;
let sent = 0; // sending the same twice is a change
let numbered = 0; // choosers of this document, so that their radio buttons do not meet

/** props.value: JSON of {entries}, as explorer/page/chooser.py says it; later, what was sent. */
export function mountChooser(element, props, watch, submit) {
  let made = null;
  const handle = () => {
    if (made || !props.value) return;
    const { entries } = JSON.parse(props.value);
    made = new Chooser(entries, (ids) => {
      props.value = JSON.stringify({ play: ids, n: ++sent });
      submit();
    });
    element.replaceChildren(made.root);
  };
  handle();
  watch("value", handle);
}

class Chooser {
  /** play: called with the ids of the recordings to play. */
  constructor(entries, play) {
    Object.assign(this, { entries, answers: { ...ANY } });
    this.acts = {
      play: (ids) => {
        play(ids);
        announce("dx-at", { gallery: ids });
      },
      learn: (lesson) => announce("dx-go", { lesson }),
      try: (asked) => {
        announce("dx-go", { tab: "explore" });
        announce("dx-try", asked);
      },
      open: (entry) => this.#open(entry.method ? { method: entry.id } : { paper: entry.id }),
    };
    const example = tr`prompt lookup, EAGLE, 2502.09992, early exit …`;
    this.search = searchField(example, () => this.#ask(), { "aria-label": FIND, maxlength: 200 });
    this.said = el("p", { class: "chooser-said", role: "status", "aria-live": "polite" });
    this.forget = el("button", { onclick: () => this.#forget() }, tr`Forget the answers`);
    this.back = el(
      "button",
      { class: "chooser-back", onclick: () => this.#open({ tab: "methods" }) },
      tr`All methods and papers`,
    );
    this.cards = el("ul", "chooser-cards");
    this.english = left(...entries.flatMap(({ summary, missing, published }) => [summary, missing, published]));
    this.summary = el("summary", {});
    this.list = el("ul", {});
    this.more = el("details", "chooser-more", this.summary, this.list);
    this.questions = el("div", "chooser-questions", ...this.#questions());
    const own = el("button", { class: "chooser-own", onclick: toOwn }, tr`Write a rule of your own`);
    const line = el("div", "chooser-line", this.said, this.forget, this.back);
    const papers = el("a", { href: "?doc=papers" }, tr`All papers as a table`);
    papers.addEventListener("click", (event) => this.#follow(event, () => announce("dx-go", { doc: "papers" })));
    this.root = el(
      "div",
      "chooser",
      el("label", "chooser-search", el("span", {}, FIND), this.search),
      own,
      this.questions,
      line,
      this.english,
      this.cards,
      this.more,
      el("p", "chooser-foot", papers),
    );
    document.addEventListener("dx-place", ({ detail }) => detail.tab === "methods" && this.#be(detail));
    this.#be(globalThis.dxPlace ?? {});
  }

  #questions() {
    const group = `chooser-${numbered++}`;
    return ASKED.map(([name, question, answers], i) =>
      el(
        "fieldset",
        {},
        el("legend", {}, `${i + 1}. ${question}`),
        ...answers.map((answer) => {
          const input = el("input", {
            type: "radio",
            name: `${group}-${name}`,
            value: answer,
            checked: answer === "any",
            onchange: () => this.#answer(name, answer),
          });
          return el("label", {}, input, ANSWERS[answer]);
        }),
      ),
    );
  }

  #answer(name, answer) {
    this.answers[name] = answer;
    this.#ask();
  }

  #forget() {
    this.answers = { ...ANY };
    for (const input of this.questions.querySelectorAll('input[value="any"]')) input.checked = true;
    this.#ask();
    this.search.focus();
  }

  /** A person asks: a card that an address had opened is no longer what is shown. */
  #ask() {
    if (this.alone) announce("dx-at", { tab: "methods" });
    this.alone = null;
    this.draw();
  }

  /** A person opens a card of its own, or all of them. */
  #open(place) {
    announce("dx-go", place);
    this.root.querySelector("h3 a, input")?.focus({ preventScroll: true });
    if (this.root.getBoundingClientRect().top < 0) this.root.scrollIntoView({ block: "start" });
  }

  /** Where the address says that the page is. */
  #be({ kind, name }) {
    const alone = this.entries.filter((entry) =>
      kind === "method" ? entry.method && entry.id === name : kind === "paper" && entry.paper?.id === name,
    );
    this.alone = alone.length ? alone : null;
    this.draw();
  }

  draw() {
    const text = this.search.value,
      { found, near, hidden, part } = this.alone
        ? { found: this.alone, near: null, hidden: 0 }
        : choose(this.entries, this.answers, text);
    const shown = found.slice(0, this.alone ? found.length : MOST),
      rest = found.slice(shown.length);
    this.said.textContent = this.alone ? "" : this.#say(text.trim(), found.length, near, hidden, part);
    this.back.hidden = !this.alone;
    this.forget.hidden = this.alone || Object.values(this.answers).every((answer) => answer === "any");
    this.questions.hidden = Boolean(this.alone);
    this.cards.toggleAttribute("data-alone", Boolean(this.alone));
    this.cards.replaceChildren(...shown.map((entry) => card(entry, this.acts, Boolean(this.alone), this.#link(entry))));
    this.summary.textContent = tr`${rest.length} more`;
    this.list.replaceChildren(...rest.map((entry) => el("li", {}, this.#link(entry), about(entry))));
    if (this.english) this.english.hidden = !this.cards.querySelector('[lang="en"]');
    this.more.hidden = !rest.length;
    this.more.open = false;
  }

  #say(text, count, near, hidden, part) {
    const parts = [],
      all = this.entries.length;
    if (near) parts.push(tr`Nothing is called “${text}”; the closest match is “${near}”.`);
    else if (part) parts.push(tr`Nothing has all the words of “${text}”; ${count} have at least half of them.`);
    else if (text && !count && !hidden)
      parts.push(tr`Nothing here is called “${text}”, and no word of the field is close to it.`);
    else if (text) parts.push(count === 1 ? tr`1 found.` : tr`${count} found, the best match first.`);
    else if (!count) parts.push(tr`No method fits these answers.`);
    else parts.push(count === all ? tr`${all} methods and papers.` : tr`${count} of ${all} fit the answers.`);
    if (hidden) parts.push(hidden === 1 ? tr`The answers rule out 1 more.` : tr`The answers rule out ${hidden} more.`);
    if (OWN.test(text)) parts.push(tr`To write one yourself, choose “${tr`Write a rule of your own`}”.`);
    return parts.join(" ");
  }

  /** The name of an entry as a link to its own address; a click stays on the page. */
  #link(entry) {
    const href = `?${entry.method ? "method" : "paper"}=${encodeURIComponent(entry.id)}`,
      link = el("a", { href, translate: "no" }, nameOf(entry));
    link.addEventListener("click", (event) => this.#follow(event, () => this.acts.open(entry)));
    return link;
  }

  #follow(event, act) {
    if (event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    act();
  }
}

/** Opens what the page says of a person's own method, or its text in Docs where the page does not have it. */
function toOwn() {
  const fold = document.querySelector("#user-methods"),
    head = fold?.querySelector("button");
  if (!head) return announce("dx-go", { doc: "own-method" });
  const show = () => {
    head.focus({ preventScroll: true });
    fold.scrollIntoView({ block: "start" });
  };
  if (head.classList.contains("open")) return show();
  head.click();
  const grown = new ResizeObserver(show); // content comes later, and the browser would keep what stands below in view
  grown.observe(fold);
  setTimeout(() => grown.disconnect(), 2000);
}

const about = ({ family, own, paper }) =>
  el("span", "chooser-quiet", [translated(family), own && translated(own), paper?.year].filter(Boolean).join(" · "));
