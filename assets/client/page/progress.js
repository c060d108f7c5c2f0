// How far a run has come that goes on, in words.

import { tr } from "../player/words.js";

/** "reading 671 tokens" before the first step; then what is written of what may be, and how fast since the first
 * step, which has read the prompt: tokens over the measured seconds. */
export function progress(run) {
  const { prompt, steps, sums, length } = run;
  if (!length) return tr`reading ${prompt.length.toLocaleString("en")} tokens`;
  const answer = run.board(length).slice(prompt.length),
    n = answer.filter(({ token }) => token !== null).length,
    most = run.canvas === null ? run.header.params?.max_new_tokens : answer.length,
    [first, last] = [sums[1], sums[length]].map(({ model, method }) => model + method),
    rate = (n - (steps[0].commits?.positions.length ?? 0)) / (last - first);
  const written = most ? tr`${n} of ${most} written` : tr`${n} written`;
  return rate > 0 && rate < 1e6 ? tr`${written}, ${Number(rate.toPrecision(2))} tokens/s` : written;
}
