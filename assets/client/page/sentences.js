// Whole sentences of the server and of Gradio in the page's language: found in the catalogue by what they say, since
// they come with their places filled.

import { filled, messages, PLACE } from "../player/words.js";

const lower = (text) => text.charAt(0).toLowerCase() + text.slice(1);
let whole = null, // messages without places, by their text with a small first letter
  patterns = null; // those with places, the longest first
const known = new Map(); // what was looked up, until there is too much of it
const MOST = 2000,
  FEW = 9; // letters: a pattern of so few fits anything, unless its places are numbers

function prepare() {
  const entries = Object.entries(messages);
  whole = new Map(entries.filter(([key]) => !/\{\d/.test(key)).map(([key, text]) => [lower(key), text]));
  patterns = entries
    .filter(([key]) => /\{\d/.test(key) && /[a-z]{2}/i.test(key.replace(PLACE, "")))
    .sort(([a], [b]) => b.replace(PLACE, "").length - a.replace(PLACE, "").length)
    .map(([key, text]) => shape(key, text));
}

/** A message with places as [what it looks like when they are filled, its places, its translation, places that a person
 * types]. some: the pattern of what fills a place. */
export function shape(key, text, some = null) {
  const places = [...key.matchAll(PLACE)].map(([, place]) => Number(place));
  const parts = key.split(/\{\d+\}/).map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  parts[0] = parts[0].replace(/^[a-z]/i, (letter) => `[${letter.toLowerCase()}${letter.toUpperCase()}]`);
  const filling = some ?? (parts.join("").length < FEW ? "([\\d.,%×]+)" : "(.*?)");
  const typed = [...key.matchAll(/\bone of \{(\d+)\}/g)].map(([, place]) => Number(place)); // as they stand
  return [new RegExp(`^${parts.join(filling)}$`, "s"), places, text, typed];
}

/** A list of short names, such as a parameter's choices: they are typed as they stand. */
const names = (value) => value.includes(", ") && value.split(", ").every((name) => name.split(" ").length < 4);

/** Whether what fills a place is English prose, which no sentence of another language takes in: then the pattern only
 * happens to fit. What is quoted is no prose of ours. */
const prose = (value) => !/^['"“`]/.test(value) && !names(value) && /(?:\b[a-z]{2,}[,;]? ){3}[a-z]{2,}\b/.test(value);

/** A message without places; the server begins its sentences with a capital letter. */
const exact = (text) => messages[text] ?? whole.get(lower(text)) ?? null;

function find(text) {
  const [, label, kind] = /^(.+) \((\w+)\)$/.exec(text) ?? [],
    [, number, unit] = /^([\d.,]+) (\D+)$/.exec(text) ?? [];
  const one = exact(text);
  if (one !== null) return one;
  if (kind && exact(label) && exact(kind)) return `${exact(label)} (${exact(kind)})`;
  if (unit && exact(unit)) return `${number} ${exact(unit)}`;
  return firstFit(patterns, text);
}

/** What the first of these messages that fits says of this text; null where none does. */
export function firstFit(shapes, text) {
  for (const shaped of shapes) {
    const said = fit(shaped, text);
    if (said !== null) return said;
  }
  return null;
}

/** What a message says of this text, its places put into the language too; null where it says something else, or where
 * what fills it is English prose. */
function fit([pattern, places, said, typed], text) {
  const found = pattern.exec(text);
  if (!found) return null;
  const values = [];
  places.forEach((place, i) => {
    const value = found[i + 1];
    values[place] = /\s/.test(value) && !typed.includes(place) ? sentence(value) : value;
  });
  const left = places.filter((place, i) => values[place] === found[i + 1]); // not translated
  return left.some((place) => prose(values[place])) ? null : filled(said, values);
}

/** A paragraph of the catalogue with places as a function from a text to its translation, or null. */
export function fitting(key, text) {
  const shaped = shape(key, text);
  return (said) => fit(shaped, said);
}

/** Several messages one after the other, if all of them are known: a text is in one language. */
function parts(text) {
  for (const end of [/(?<=\.) /, /(?<=[.;:]) /]) {
    const all = text.split(end).map(find);
    if (!all.includes(null)) return all.join("");
  }
  return null;
}

/** A list, if all that it names is known; numbers and letters of formulas are the same in every language. */
function list(text) {
  const all = text.split(", ").map((one) => (/[a-z]{2}/i.test(one) ? find(one) : one));
  return all.includes(null) || all.join(", ") === text ? null : all.join("，");
}

/** What the server or Gradio says, in the page's language: a message, one whose places are filled, or several of them
 * one after the other. */
export function sentence(text) {
  if (!globalThis.dxMessages || !text) return text;
  if (!whole) prepare();
  if (!known.has(text)) {
    if (known.size >= MOST) known.clear();
    const said = find(text) ?? list(text) ?? parts(text) ?? text;
    known.set(text, said).set(said, said); // what is said already is not looked up again
  }
  return known.get(text);
}
