// Which runs are held against each other, and against which; and what they are called beside each other.

import { titleOf } from "./fork.js";

/** What is said of a run beside another one (`of_pair`); null where nothing was handed. */
export const pairOf = (run, other) => globalThis.dxPairs?.[`${run.figures.key} ${other.figures.key}`] ?? null;

const MOST = 2; // settings in a name

/** What tells a run from those among `runs` of the same name and model: the settings that differ; "" for any other. */
export function apart(run, runs) {
  const differ = new Set(runs.flatMap((other) => pairOf(run, other)?.apart ?? []));
  return Object.entries(run.figures.settings ?? {})
    .filter(([name]) => differ.has(name))
    .slice(0, MOST)
    .map(([name, value]) => `${name} ${value}`)
    .join(", ");
}

/** A run's name among others. */
export const nameOf = (run, runs = []) => [titleOf(run), apart(run, runs)].filter(Boolean).join(", ");

/** The runs of the first prompt that several of them share, failed ones left out: {basis, others}. The basis, which the
 * others are compared with, is the control of one of them, else the first. Null where all prompts differ. */
export function field(every) {
  const runs = every.filter(({ end }) => end?.reason !== "failed"),
    first = runs.find(({ header }) => runs.filter((one) => one.header.prompt === header.prompt).length > 1);
  if (!first?.header.prompt) return null;
  const all = runs.filter(({ header }) => header.prompt === first.header.prompt),
    basis = all.find((run) => all.some((other) => pairOf(other, run)?.control)) ?? all[0];
  return { basis, others: all.filter((run) => run !== basis) };
}
