// Which finished runs are held against each other, and against which.

import { titleOf } from "./fork.js";

const LONGEST = 24; // characters of a value in a name
const MOST = 2; // parameters in a name

export const main = ({ header }) => {
  const { name, sha256, dtype } = header.models?.[0] ?? {};
  return [name, sha256, dtype].join();
};

/** What tells a run from those among `runs` of the same name and model: the parameters that differ, else the seed or
 * the model's forwards; "" for any other. */
export function apart(run, runs) {
  const own = ({ header: { params, seed, models } }) => ({
      ...params,
      seed,
      row_invariant: models?.[0]?.options?.row_invariant === true,
    }),
    mine = own(run),
    same = runs.filter((one) => one !== run && titleOf(one) === titleOf(run) && main(one) === main(run));
  return Object.keys(mine)
    .filter((name) => same.some((one) => own(one)[name] !== mine[name]))
    .slice(0, MOST)
    .map((name) => `${name} ${String(mine[name]).slice(0, LONGEST)}`)
    .join(", ");
}

/** A run's name among others. */
export const nameOf = (run, runs = []) => [titleOf(run), apart(run, runs)].filter(Boolean).join(", ");

/** Where times were measured. Times of two machines, or other threads, are no ratio. */
export const place = ({ header }) =>
  [
    header.machine || header.imported_from,
    ...(header.models ?? []).slice(0, 1).map(({ device = "cpu", threads = 1 }) => [device, threads]),
  ].join();

/** The runs of the first prompt that several of them share, failed ones left out: {basis, others}. The basis, which the
 * others are compared with, is the control of one of them, else the first. Null where all prompts differ. */
export function field(every) {
  const runs = every.filter(({ end }) => end?.reason !== "failed"),
    first = runs.find(({ header }) => runs.filter((one) => one.header.prompt === header.prompt).length > 1);
  if (!first?.header.prompt) return null;
  const all = runs.filter(({ header }) => header.prompt === first.header.prompt),
    plain = (run) => !Object.keys(run.header.edits ?? {}).length && !run.header.origin,
    controls = (basis) =>
      all.some((run) => run !== basis && run.header.baseline === basis.header.method && main(run) === main(basis));
  const basis = all.find((run) => plain(run) && controls(run)) ?? all[0];
  return { basis, others: all.filter((run) => run !== basis) };
}
