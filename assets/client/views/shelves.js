// Which tokens ask for which expert, and what caches of few slots hold meanwhile: as recorded, or as the method says of
// another number of slots; and what is said of it. No DOM.

import { tr, translated } from "../player/words.js";

export const RULES = ["lru", "look-ahead"];
const HIT = -1,
  FREE = -2; // what came of a request, where nothing is thrown out

/** What the slots hold in these steps: rule -> [{slot, expert, start, end, miss, out}], in order. */
export function shelves(steps) {
  const found = new Map();
  for (const { kind, about, start, end } of steps.flatMap(({ intervals }) => intervals ?? [])) {
    if (kind !== "slot") continue;
    const { rule, slot, expert, miss = false, out = "" } = about;
    if (!found.has(rule)) found.set(rule, []);
    found.get(rule).push({ slot, expert, start, end, miss, out });
  }
  return found;
}

/** What a cache would hold, as of `shelves`, where this came of the queued requests: -1 a hit, -2 a free slot, else the
 * expert that is thrown out. */
function held(queued, outs, names) {
  const slots = [],
    made = [],
    last = [];
  queued.forEach((all, step) => {
    last.length = 0;
    all.forEach(([at, expert], i) => {
      const came = outs[step][i],
        out = names[came] ?? "";
      if (out) slots[slots.indexOf(out)] = expert;
      else if (came === FREE) slots.push(expert);
      slots.forEach((one, slot) => {
        const miss = came !== HIT && one === expert;
        if (!last[slot] || miss) {
          last[slot] = { slot: slot + 1, expert: one, start: at, miss, out: miss ? out : "" };
          made.push(last[slot]);
        }
        last[slot].end = at + 1;
      });
    });
  });
  return made;
}

/** Of some steps: the expert of each token, the end of what was queued with it, and what each rule's cache held with c
 * slots. */
export function readOf(run, t, c, names) {
  const steps = run.steps.slice(0, t),
    queued = steps.map(({ requests: { start, experts } }) => experts.map((expert, i) => [start + i, names[expert]])),
    asked = [],
    until = [],
    { slots = c, window: ahead = 0 } = steps.at(-1)?.requests ?? {},
    all = shelves(steps),
    outs = (rule) => steps.map((_, i) => run.asked(i + 1, "requests", rule, c));
  for (const one of queued) for (const [at, expert] of one) [asked[at], until[at]] = [expert, one.at(-1)[0] + 1];
  const kept = RULES.map((rule) => (c === slots ? (all.get(rule) ?? []) : held(queued, outs(rule), names)));
  return { asked, until, held: kept, c, ahead };
}

export const loadsOf = (held) => held.filter(({ miss }) => miss).length;

/** Where caches throw something out: the places, and the first at which they differ in what. */
export function evictions(held) {
  const outs = held.map((all) => new Map(all.filter(({ out }) => out).map((one) => [one.start, one]))),
    places = [...new Set(outs.flatMap((one) => [...one.keys()]))].sort((a, b) => a - b),
    parted = places.find((at) => outs.every((one) => one.has(at)) && outs[0].get(at).out !== outs[1].get(at).out);
  return { outs, places, parted };
}

/** What a cache throws out at a token: gone: of `shelves`; later: the experts known after it; i: the rule's place. */
export function sentence(at, gone, later, c, i, wide) {
  const name = i ? tr`look-ahead` : tr`LRU`,
    mark = i ? "" : "② ";
  if (!gone) return tr`${mark}${name}: nothing is evicted at token ${at}`;
  const n = later.indexOf(gone.out) + 1,
    out = translated(gone.out);
  if (!wide) return tr`${mark}${name} evicts ${out}, ${n ? tr`needed in ${n}` : tr`not needed`}`;
  const when =
      n > 1 ? tr`needed ${n} tokens later` : n ? tr`needed by the next token!` : tr`not needed in what is known`,
    why = i ? tr`what is needed latest` : tr`what was used longest ago`,
    room = c === 1 ? tr`the slot is full` : tr`${c} slots are full`,
    full = i ? "" : tr`Token ${at} needs ${translated(gone.expert)}, ${room}. `;
  return tr`${mark}${full}${name} evicts ${why}: ${out}, ${when}`;
}

/** Hits of each rule so far. */
export const said = (facts) =>
  ["lru", "look-ahead", "random"]
    .map((rule) => [rule, facts[`hits_${rule.replace("-", "_")}`]])
    .filter(([, hits]) => hits !== undefined)
    .map(([rule, hits]) => tr`${translated(rule)}: ${hits} of ${facts.requests} hits`)
    .join("; ");
