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
  other: [tr`call of another model`, tr`calls of other models`],
};
const DRAFTS = ["draft", "filler"]; // roles of models that guess what the target may keep

/** Which of COUNTED the calls of a run's other models are: a draft's, or those of a twin, a captioner, an expert. */
export const besides = (run) =>
  Object.keys(run.sums.at(-1).roles).every((role) => role === run.target || DRAFTS.includes(role)) ? "draft" : "other";

export const many = (n, what, shown = number(n)) => `${shown} ${COUNTED[what][n === 1 ? 0 : 1]}`;
