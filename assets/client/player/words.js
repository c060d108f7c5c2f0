// The words of the page in its language. English stands where it is used; another language is a catalogue
// {messages: {English: translation}} in `dxMessages`, there before these modules. Tokens and what a person typed are
// looked up nowhere.

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
