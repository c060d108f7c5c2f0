// RAPID's rule on recorded opinions: z' = z - eta (p - q) where q >= alpha max q, by which drafted tokens stand or not,
// as engines/methods/speculative/rapid/transfer.py has it; a test compares the two. No DOM.

import { unpack } from "./codec.js";

/** The drafted tokens of a step with what is recorded of both readers: {token, tokens, p, q, unlisted, u}; `tokens`
 *  begins with the drafted one, u is the number that was drawn for its test, null where none was. */
export function opinionsOf({ opinions, tree } = {}) {
  if (!opinions) return [];
  const { values: ids, shape } = unpack(opinions.tokens),
    [first, second] = [opinions.first, opinions.second].map((one) => unpack(one).values);
  return opinions.rows.flatMap((row, i) => {
    const at = Array.from({ length: shape[1] }, (_, j) => i * shape[1] + j).filter((j) => ids[j] >= 0),
      listed = (values) => at.map((j) => values[j]);
    if (!at.length) return [];
    return {
      token: ids[at[0]],
      tokens: listed(ids),
      p: listed(first),
      q: listed(second),
      unlisted: opinions.unlisted?.[i] ?? 0,
      u: tree?.uniforms?.[row] ?? null,
    };
  });
}

/** {moved, rest}: p' of the listed tokens, and of all others together, which are taken not to move. */
export function transfer(p, q, eta, alpha) {
  const line = alpha * Math.max(...q),
    weights = p.map((share, i) => (q[i] >= line ? share * Math.exp(-eta * (share - q[i])) : share)),
    others = Math.max(0, 1 - p.reduce((a, b) => a + b, 0)),
    all = weights.reduce((a, b) => a + b, others);
  return { moved: weights.map((weight) => weight / all), rest: others / all };
}

const leads = (shares) => shares.every((share) => share <= shares[0]);

/** What becomes of each drafted token: both (it stands with eta = 0 too), view (by the step alone), lost (by the step
 *  refused), refused, after a refusal, or unknown, where the recording drew no number for it. */
export function decide(rows, { eta, alpha, temperature }) {
  let open = true;
  return rows.map(({ p, q, u }) => {
    if (!open) return "behind";
    const { moved } = transfer(p, q, eta, alpha),
      greedy = temperature === 0,
      plain = greedy ? leads(p) : u < p[0] / q[0],
      stands = greedy ? plain || leads(moved) : u < moved[0] / q[0];
    open = stands && (greedy || u !== null);
    if (!greedy && u === null) return "unknown";
    return stands ? (plain ? "both" : "view") : plain ? "lost" : "refused";
  });
}
