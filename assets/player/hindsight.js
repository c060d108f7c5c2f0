// Since which step each final token had been the top guess, by the rules of explorer/figures/hindsight.py; a test
// compares the two. No DOM.

import { unpack } from "./codec.js";

/** Where a position of the board that a step found is on the one that it leaves; -1 where it is removed. */
export function moved(position, { removed = [], inserted = [] } = {}) {
  if (removed.includes(position)) return -1;
  let at = position - removed.filter((place) => place < position).length;
  for (const place of inserted) at += place <= at;
  return at;
}

/** {positions: [{position, token, committed, known, since, delay, earlier}],
 * never, forwards, enough, mean, max, replaced, restored}; `enough` is null where there is nothing to show. */
export function hindsight(run) {
  const tops = run.steps.map(({ candidates: group, commits }, step) => {
    const { values, shape } = group ? unpack(group.tokens) : { values: [] };
    const cell = (p) => run.cell(moved(p, commits), step + 1);
    return new Map(
      values.length ? group.positions.map((p, i) => [cell(p), values[i * (shape[1] ?? 1)]]).reverse() : [],
    );
  });
  const guessed = new Map(); // cell -> steps with candidates for it
  tops.forEach((top, step) => {
    for (const cell of top.keys()) {
      if (!guessed.has(cell)) guessed.set(cell, []);
      guessed.get(cell).push(step);
    }
  });
  const used = run.sums.map((sum) => sum.forwards),
    hidden = (token) => token < 0 || token === run.mask,
    positions = [];
  let ahead = false,
    replaced = 0,
    restored = 0,
    enough = 0,
    never = run.widths.at(-1) - run.prompt.length;
  run.history.forEach((writes, cell) => {
    const { step: committed, token } = writes.at(-1),
      before = writes.at(-2),
      position = run.place(cell, run.length),
      has = (step) => tops[step].has(cell);
    writes.forEach(({ token: now }, i) => {
      const old = writes[i - 1]?.token ?? -1;
      if (hidden(old) || hidden(now) || old === now) return;
      replaced++;
      restored += writes.slice(0, i - 1).some((one) => one.token === now);
    });
    if (hidden(token) || position < 0) return;
    const start = before ? Math.min(before.step + !hidden(before.token), committed) : 0;
    let since = committed + 1;
    while (since > start && tops[since - 1].get(cell) === token) since--;
    ahead ||= (guessed.get(cell) ?? []).some((step) => step >= start && step < committed);
    never -= position >= run.prompt.length;
    const known = since <= committed ? "since" : has(committed) ? "other" : "unknown",
      found = known === "since";
    enough = Math.max(enough, used[Math.min(since, committed) + 1]);
    positions.push({
      position,
      token,
      committed,
      known,
      since: found ? since : null,
      delay: found ? used[committed + 1] - used[since + 1] : null,
      earlier: found && since > start && !has(since - 1),
    });
  });
  if (run.orders.length) positions.sort((a, b) => a.position - b.position);
  const delays = positions.flatMap((row) => row.delay ?? []),
    n = delays.length;
  return {
    positions,
    never: run.canvas === null ? 0 : never,
    forwards: used.at(-1),
    enough: ahead ? enough : null,
    mean: n ? delays.reduce((a, b) => a + b) / n : null,
    max: n ? Math.max(...delays) : null,
    replaced,
    restored,
  };
}
