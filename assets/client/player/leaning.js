// What is recorded of two readers' opinions. No DOM.

import { unpack } from "./codec.js";

/** The drafted tokens of a step with what is recorded of both readers: {token, tokens, p, q, unlisted}; `tokens`
 *  begins with the drafted one. */
export function opinionsOf({ opinions } = {}) {
  if (!opinions) return [];
  const { values: ids, shape } = unpack(opinions.tokens),
    [first, second] = [opinions.first, opinions.second].map((one) => unpack(one).values);
  return opinions.rows.flatMap((_, i) => {
    const at = Array.from({ length: shape[1] }, (_, j) => i * shape[1] + j).filter((j) => ids[j] >= 0),
      listed = (values) => at.map((j) => values[j]);
    if (!at.length) return [];
    return {
      token: ids[at[0]],
      tokens: listed(ids),
      p: listed(first),
      q: listed(second),
      unlisted: opinions.unlisted?.[i] ?? 0,
    };
  });
}
