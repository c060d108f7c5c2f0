// What a search over partial solutions has tried, what is open, and where it went back.

/** Every path of a search after t steps, by its id: {id, parent, tokens, fate, f, g, h, step}. */
export function states(run, t) {
  const found = new Map();
  run.steps.slice(0, t).forEach(({ branches = [] }, step) => {
    for (const { id, parent, tokens, fate = "alive", scores = {} } of branches) {
      const before = found.get(id);
      found.set(id, { id, parent, tokens: tokens.length ? tokens : (before?.tokens ?? []), fate, ...scores, step });
    }
  });
  return found;
}

/** The open ones after step t, the best first. */
export const open = (run, t, found) => (run.steps[t - 1]?.frontier?.open ?? []).map((id) => found.get(id));

/** Where step t left the path that it expanded for an older one: {last, best}, or null. */
export function back(run, t, found) {
  const { returned, expanded } = run.steps[t - 1]?.frontier ?? {};
  return returned ? { last: found.get(expanded), best: open(run, t, found)[0] } : null;
}

/** All of them up to step t: [{last, best, now}]. */
export function returns(run, t) {
  const made = [];
  for (let at = 1; at <= t; at++) {
    const gone = back(run, at, states(run, at));
    if (gone) made.push({ ...gone, now: at === t });
  }
  return made;
}
