// Numbers of things in words: one token, two tokens.

import { number } from "./codec.js";
import { tr } from "./words.js";

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
