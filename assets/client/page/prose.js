// Prose in the page's language, a text whole or not at all: what the catalogue lacks stays English and is marked as
// English, for screen readers and for those that put the words of the interface into the language.

import { el } from "../player/dom.js";
import { messages, tr, translated } from "../player/words.js";
import { firstFit, shape } from "./sentences.js";

const { notes = {} } = globalThis.dxMessages ?? {};
const WRITTEN = /[\u3400-\u9fff]/; // a text in the language already
const NUMBER = "([\\d.,]+)";
const known = new Map(); // notes that were looked up, until there are too many
const MOST = 2000;

/** Whether a page in another language has to show these texts in English: one of them is not translated. */
export const inEnglish = (...texts) =>
  Boolean(globalThis.dxMessages) && texts.some((text) => text && !(text in messages) && !WRITTEN.test(text));

/** The attribute of an element that holds this text. */
export const langOf = (...texts) => (inEnglish(...texts) ? "en" : null);

/** The one line that says of what follows that some of it is English; null where nothing is. */
export function left(...texts) {
  if (!inEnglish(...texts)) return null;
  return el("p", "prose-left", tr`Where a text below is in English, there is no translation yet.`);
}

/** Puts a text into an element, with its language. */
export function tell(node, text) {
  node.textContent = translated(text);
  const lang = langOf(text);
  if (lang) node.lang = lang;
  else node.removeAttribute("lang");
}

const patterns = Object.entries(notes).map(([key, said]) => shape(key, said, NUMBER));
const sentence = (text) => firstFit(patterns, text);

/** The note of a step, a sentence or several: all of them in the language, or all in English. */
export function note(text, node) {
  if (!known.has(text)) {
    if (known.size >= MOST) known.clear();
    const whole = sentence(text),
      all = whole === null ? text.split(/(?<=\.) (?=[A-Z\d])/).map(sentence) : [whole];
    known.set(text, all.includes(null) ? text : all.join(""));
  }
  const said = known.get(text);
  if (said && !WRITTEN.test(said)) node.lang = "en";
  else node.removeAttribute("lang");
  return said;
}
