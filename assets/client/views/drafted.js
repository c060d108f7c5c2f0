// What is said of the rows of a draft tree.

import { fine, number, tr, translated } from "../player/words.js";

/** The target's own token behind the drafts, by what it is. */
export const GAINED = {
  correction: () => tr`then the target's correction`,
  bonus: () => tr`then the target's bonus token`,
  new: () => tr`one token from the target`,
};

/** How wide the edge to a row is: by its draft probability or rank. */
export function edgeWidth({ draft, target, rank }) {
  const logprob = draft ?? target;
  return logprob !== null ? 1 + 5 * Math.exp(Math.min(0, logprob)) : rank === undefined ? 2 : 1 + 4 / (1 + rank);
}

/** The chance by which a method chose a row, as a node says it; "" where it chose by anything else. */
export const chosenBy = ({ value, by }) => (value != null && SHARES.has(by) ? fine(value) : "");

const SHARES = new Set(["chance", "slot"]);

/** What that chance is, in a run that has one. */
export function chances(run) {
  const { value_name: name, value_kind: by } = run.steps.find(({ tree }) => tree?.values?.length)?.tree ?? {};
  if (by === "slot")
    return tr`%: estimated chance that the check gets here. The next draft goes where it is highest, until the budget \
of ${run.header.params?.budget ?? "?"} is spent`;
  return SHARES.has(by) ? tr`%: ${translated(name)}` : "";
}

/** What is known of a row. */
export function tell(row) {
  const probability = (name, logprob) => (logprob === null ? "" : tr`${name} probability ${number(Math.exp(logprob))}`);
  return [
    row.why,
    row.source && tr`source: ${row.source}`,
    row.rank !== undefined && tr`rank ${row.rank}`,
    probability(tr`draft`, row.draft),
    probability(tr`target`, row.target),
    row.name && row.value !== null && `${row.name} ${number(row.value)}`,
    row.chance !== undefined &&
      row.chance !== null &&
      tr`chance to be kept ${number(row.chance)}${row.drawn === null ? "" : tr`, drawn ${number(row.drawn)}`}`,
    row.tail && tr`pseudo rows after it: ${row.tail}`,
    row.folded && tr`${row.folded} nodes below are folded`,
  ]
    .filter(Boolean)
    .join(", ");
}
