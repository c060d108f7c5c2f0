// Numbers of things in words: one token, two tokens.

import { number } from "./codec.js";
import { tr } from "./words.js";

/** What is counted, for one and for more. */
export const COUNTED = {
  token: [tr`token`, tr`tokens`],
  character: [tr`character`, tr`characters`],
  alone: [tr`model call`, tr`model calls`],
  target: [tr`target call`, tr`target calls`],
  draft: [tr`draft call`, tr`draft calls`],
};
export const many = (n, what, shown = number(n)) => `${shown} ${COUNTED[what][n === 1 ? 0 : 1]}`;
