// "What is written next": the question before a step, and the score of an answer against stated baselines. No DOM.

import { depthsOf } from "./rounds.js";

const accepted = (tree) => tree.why.filter((why) => why === "accepted").length;
const count = (some, of) => some.filter((one) => of.has(one)).length;

/** What can be asked when t steps are done, before the next one is shown; null where there is nothing to ask. {kind:
 * "positions", open, answer: Set} on a masked board, {kind: "drafts", most, nodes, answer} before a draft tree is
 * verified. */
export function question(run, t) {
  const step = run.steps[t];
  if (step?.tree)
    return {
      kind: "drafts",
      most: Math.max(0, ...depthsOf(step.tree.parents)),
      nodes: step.tree.parents.length - 1,
      answer: accepted(step.tree),
    };
  if (!step || run.canvas === null) return null;
  const open = run
      .board(t)
      .filter(({ position, token }) => token === null && position >= run.prompt.length)
      .map(({ position }) => position),
    inside = new Set(open);
  const written = (step.commits?.positions ?? [])
    .filter((_, i) => step.commits.tokens[i] >= 0 && step.commits.tokens[i] !== run.mask)
    .map((position) => run.found(t, position)) // a step may move what it does not write
    .filter((position) => inside.has(position));
  return open.length ? { kind: "positions", open, answer: new Set(written) } : null;
}

/** The `n` open positions that the model was surest of in the step before, as a person can see it; null where nothing
 * was recorded. */
export function surest(run, t, open, n) {
  const lane = run.lanes.has("confidence")
    ? (position) => run.score(t - 1, "confidence", position)
    : (position) => run.candidates(t - 1, position)?.[0].probability ?? NaN;
  const seen = t ? open.map((position) => [position, lane(position)]).filter(([, value]) => !Number.isNaN(value)) : [];
  return seen.length
    ? seen
        .sort((a, b) => b[1] - a[1])
        .slice(0, n)
        .map(([position]) => position)
    : null;
}

/** Picked positions against what was written: hits, misses, what was overlooked, the hits of as many surest positions,
 * and those that chance would have. */
export function scorePositions(run, t, { open, answer }, picks) {
  const hits = count(picks, answer),
    sure = surest(run, t, open, picks.length);
  return {
    tried: picks.length,
    hits,
    misses: picks.length - hits,
    overlooked: [...answer].filter((position) => !picks.includes(position)),
    chance: (picks.length * answer.size) / open.length,
    baseline: sure && count(sure, answer),
  };
}

/** A guessed number of accepted drafts: hit or not, how far off, whether "as many as last time" would have hit, and the
 * chance of a blind guess. */
export function scoreDrafts(run, t, { most, answer }, guess) {
  const before = run.steps.slice(0, t).findLast((step) => step.tree),
    same = before ? Math.min(accepted(before.tree), most) : null;
  return {
    tried: 1,
    hits: Number(guess === answer),
    misses: Number(guess !== answer),
    off: Math.abs(guess - answer),
    chance: 1 / (most + 1),
    baseline: same === null ? null : Number(same === answer),
  };
}

/** The sum of some scores: where the baseline knew nothing, what was tried there is left out of its comparison. */
export function total(scores) {
  const sum = (some, name) => some.reduce((n, score) => n + score[name], 0),
    held = scores.filter((score) => score.baseline !== null);
  return {
    tried: sum(scores, "tried"),
    hits: sum(scores, "hits"),
    chance: sum(scores, "chance"),
    baseline: sum(held, "baseline"),
    against: sum(held, "hits"),
    held: sum(held, "tried"),
  };
}
