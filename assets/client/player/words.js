// What stands on the page as words, numbers and visible characters. English stands where it is used; another language
// is a catalogue {messages: {English: translation}} in `dxMessages`, there before these modules. Tokens and what a
// person typed are looked up nowhere. No DOM here.

const { messages: given = {} } = globalThis.dxMessages ?? {};

export const messages = given;

export const PLACE = /\{(\d+)\}/g;

/** A translation may leave places out (of an English plural), and turn them round. */
export const filled = (text, values) => text.replace(PLACE, (_, place) => values[place] ?? "");

/** tr`Step ${n}`: in the page's language; its name in the catalogue is "Step {0}". */
export function tr(strings, ...values) {
  const key = strings.reduce((all, part, i) => `${all}{${i - 1}}${part}`);
  return filled(messages[key] ?? key, values);
}

/** A message that is declared elsewhere: the title of a view, the label of a number or a state. */
export const translated = (text) => messages[text] ?? text;

// Characters that the usual fonts of every system have.
const PICTURES = { " ": "␣", "\n": "↵", "\t": "→", "\u2028": "↵", "\u2029": "↵" };

// Characters that are invisible or turn the reading direction: shown by their number.
const HIDDEN = /[\p{Cc}\u00a0\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]|[\u{e0000}-\u{e0fff}]/u;

function visible(char, keepSpace) {
  if (keepSpace && (char === " " || char === "\n" || char === "\t")) return char;
  const code = char.codePointAt(0);
  if (PICTURES[char]) return PICTURES[char];
  if (code >= 0xd800 && code <= 0xdfff) return "\ufffd";
  return HIDDEN.test(char) ? `‹${code.toString(16).toUpperCase()}›` : char;
}

/** One line in which white space, control and direction characters can be seen, cut at `limit` characters. */
export function glyphs(text, limit = 40) {
  let out = "",
    n = 0;
  for (const char of text) {
    if (n++ >= limit) return `${out}…`;
    out += visible(char, false);
  }
  return out || "∅";
}

/** Text in a room for `limit` characters. */
export const cut = (text, limit) => (text.length > limit ? `${text.slice(0, limit - 1)}…` : text);

/** Running text: line breaks stay, what could hide or turn text becomes visible. */
export function prose(text) {
  let out = "";
  for (const char of text) out += visible(char, true);
  return out;
}

/** A number for a person: short, never in the wrong order of magnitude. */
export function number(value, unit = "") {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  let text;
  if (Number.isInteger(value)) text = size >= 1e4 ? value.toLocaleString("en") : String(value);
  else if (size >= 1000) text = Math.round(value).toLocaleString("en");
  else if (size >= 100) text = value.toFixed(0);
  else if (size >= 1) text = value.toFixed(2);
  else if (size >= 0.001) text = value.toFixed(3);
  else text = value.toExponential(1);
  return unit && !/^(probability|score|count)$/.test(unit) ? `${text} ${unit}` : text;
}

export function seconds(value) {
  if (value === 0) return "0 s";
  return value < 0.001
    ? `${(value * 1e6).toFixed(0)} µs`
    : value < 1
      ? `${(value * 1e3).toFixed(value < 0.1 ? 1 : 0)} ms`
      : `${value.toFixed(2)} s`;
}

export function bytes(value) {
  const power = value < 1000 ? 0 : Math.min(3, Math.floor(Math.log10(value) / 3));
  return `${power ? (value / 1000 ** power).toFixed(1) : value} ${["B", "kB", "MB", "GB"][power]}`;
}

/** What is counted, for one and for more. */
export const COUNTED = {
  token: [tr`token`, tr`tokens`],
  answer: [tr`answer`, tr`answers`],
  character: [tr`character`, tr`characters`],
  drafted: [tr`drafted token`, tr`drafted tokens`],
  row: [tr`row`, tr`rows`],
  alone: [tr`model call`, tr`model calls`],
  target: [tr`model call`, tr`model calls`],
  draft: [tr`draft call`, tr`draft calls`],
  other: [tr`call of another model`, tr`calls of other models`],
};

/** Which of COUNTED the calls of a run's other models are: a draft's, where drafts are verified, or those of a twin, a
 * captioner, an expert. */
export const besides = (run) => (run.has("tree") ? "draft" : "other");

export const many = (n, what, shown = number(n)) => `${shown} ${COUNTED[what][n === 1 ? 0 : 1]}`;

/** In whole per cent, less than one said so. */
export const percent = (share) => `${share > 0 && share < 0.005 ? "<1" : Math.round(100 * share)} %`;

/** With two figures, down to a hundred-thousandth. */
export const fine = (share) => (share > 0 && share < 1e-5 ? "< 0.001 %" : `${Number((100 * share).toPrecision(2))} %`);

/** In as few figures as still say on which side of a threshold it is. */
export function against(share, limit) {
  const side = (value) => Math.sign(Number(value.toFixed(9)) - limit),
    digits = [0, 1, 2].find((n) => side(Number((100 * share).toFixed(n)) / 100) === side(share));
  return `${(100 * share).toFixed(digits ?? 3)} %`;
}
