// Which tokens ask for which expert, and what caches of few slots hold meanwhile: as recorded, or decided again for
// another number of slots; and what is said of it. No DOM.

import { tr, translated } from "../words.js";

export const RULES = ["lru", "look-ahead"];

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

/** The tokens that each step queued: [[position, expert]]. */
export const queues = (steps) =>
  steps.map(({ spans = [] }) =>
    spans
      .filter(({ kind }) => kind === "expert")
      .flatMap(({ start, end, about: { expert } }) =>
        Array.from({ length: end - start }, (_, i) => [start + i, expert]),
      ),
  );

const nextUse = (expert, future) => (future.indexOf(expert) + 1 || Infinity) - 1;

/** What a cache of c slots would hold, as of `shelves`: names: the experts in their order; ahead: of how many queued
 * tokens it knows the experts. */
export function served(queued, rule, c, names, ahead) {
  const slots = [],
    used = new Map(),
    held = [],
    last = [];
  let clock = 0;
  for (const all of queued) {
    last.length = 0;
    all.forEach(([at, expert], i) => {
      const future = all.slice(i + 1, i + 1 + ahead).map(([, one]) => one),
        cost = (one) => (rule === "lru" ? used.get(one) : -nextUse(one, future));
      let out = "";
      const hit = slots.includes(expert);
      if (!hit && slots.length < c) slots.push(expert);
      else if (!hit) {
        const order = [...slots].sort((a, b) => names.indexOf(a) - names.indexOf(b));
        out = order.reduce((best, one) => (cost(one) < cost(best) ? one : best));
        slots[slots.indexOf(out)] = expert;
      }
      used.set(expert, ++clock);
      slots.forEach((one, slot) => {
        const came = !hit && one === expert;
        if (last[slot] && !came) last[slot].end = at + 1;
        else
          held.push(
            (last[slot] = { slot: slot + 1, expert: one, start: at, end: at + 1, miss: came, out: came ? out : "" }),
          );
      });
    });
  }
  return held;
}

/** Of some steps: the expert of each token, the end of what was queued with it, and what each rule's cache held with c
 * slots. */
export function readOf(steps, c, names) {
  const queued = queues(steps),
    asked = [],
    until = [],
    facts = steps.at(-1)?.facts ?? {},
    ahead = facts.window ?? Infinity,
    all = shelves(steps);
  for (const one of queued) for (const [at, expert] of one) [asked[at], until[at]] = [expert, one.at(-1)[0] + 1];
  const held = RULES.map((rule) =>
    c === (facts.slots ?? c) ? (all.get(rule) ?? []) : served(queued, rule, c, names, ahead),
  );
  return { asked, until, held, c, ahead };
}

export const loadsOf = (held) => held.filter(({ miss }) => miss).length;

/** Where caches throw something out: the places, and the first at which they differ in what. */
export function evictions(held) {
  const outs = held.map((all) => new Map(all.filter(({ out }) => out).map((one) => [one.start, one])));
  const places = [...new Set(outs.flatMap((one) => [...one.keys()]))].sort((a, b) => a - b);
  const parted = places.find((at) => outs.every((one) => one.has(at)) && outs[0].get(at).out !== outs[1].get(at).out);
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
