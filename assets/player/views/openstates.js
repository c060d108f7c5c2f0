// What a search over partial solutions has tried, what is open, and where it went back.

const OUT = new Set(["pruned", "expanded"]); // fates that are not in the frontier

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

/** The open ones, the best first: by f, then the deeper, then the earlier. */
export function open(found) {
  const depth = (one) => (one && found.has(one.parent) ? 1 + depth(found.get(one.parent)) : 0);
  return [...found.values()]
    .filter(({ fate, f }) => !OUT.has(fate) && f !== undefined)
    .map((one) => ({ ...one, depth: depth(one) }))
    .sort((a, b) =>
      a.fate === "chosen" ? -1 : b.fate === "chosen" ? 1 : a.f - b.f || b.depth - a.depth || a.id - b.id,
    );
}

/** Where the search after t steps goes on with no child of what was last expanded: {last, best}, or null. */
export function back(found, t) {
  const [best] = open(found),
    last = [...found.values()].find(({ fate, step }) => fate === "expanded" && step === t - 1);
  return last && best && best.parent !== last.id && best.id !== last.id ? { last, best } : null;
}

/** All of them up to step t: [{last, best, now}]. */
export function returns(run, t) {
  const made = [];
  for (let at = 1; at <= t; at++) {
    const gone = back(states(run, at), at);
    if (gone) made.push({ ...gone, now: at === t });
  }
  return made;
}
