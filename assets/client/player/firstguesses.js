// What the drafts of a part say first of each word, from the records of the steps that wrote it.

import { tr } from "./words.js";

export const CLASSES = { attribute: tr`size, colour, shape`, place: tr`place`, function: tr`other words` };

/** What drafts were trained on. */
export const LEARNT = {
  growing: tr`text first, then ever more pictures`,
  half: tr`text and pictures in turn`,
  text: tr`text only`,
};

/** What draft number `draft` says first of the words of a step: [{token, kind, first}]. */
export function words({ inputs, tree, vision }, draft) {
  const first = inputs?.first?.[draft] ?? [],
    kinds = vision?.kinds ?? [],
    late = kinds.length - first.length; // words without a state before them
  return first.map((guess, i) => ({ token: tree?.emitted[i + late], kind: kinds[i + late], first: guess }));
}

/** Of words {kind, right}, by class: [how many are right, all]. */
export function counted(words) {
  const found = { attribute: [0, 0], place: [0, 0], function: [0, 0] };
  for (const { kind, right } of words.filter((word) => found[word.kind])) {
    found[kind][0] += right;
    found[kind][1]++;
  }
  return found;
}

/** Of the words of these steps how many a draft says first, by class. */
export const shares = (steps, draft) =>
  counted(steps.flatMap((step) => words(step, draft).map((word) => ({ ...word, right: word.token === word.first }))));
