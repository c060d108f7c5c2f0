// What a run has at a place of the clock and what became of it, counted here alone and held against a definition in the
// tests; and where two outputs part, by the rules of explorer/figures/compare.py. No DOM.

import { written } from "./store.js";

export const SLACK = 1e-6; // a step that exactly fits a budget is inside it
const known = new WeakMap();

const hidden = (run, token) => token === undefined || token === null || token < 0 || token === run.mask;
// Beyond every index where there is none.
const endOf = (run, ids) => ids.findIndex((token) => run.eos.has(token)) >>> 0;

/** Takes the ids of removed places out of an answer `width` long, and opens those that are inserted. */
function move(ids, { removed = [], inserted = [] } = {}, first, width) {
  if (!removed.length && !inserted.length) return;
  ids.length = width;
  for (const position of [...removed].reverse()) ids.splice(position - first, 1);
  for (const position of inserted) ids.splice(position - first, 0, undefined);
}

/** Tokens after 0, 1, ... steps: ids after the prompt and before the first end mark, masks not counted. Goes on where a
 * live run had ended before. */
export function growth(run) {
  if (!known.has(run)) known.set(run, { ids: [], points: [0] });
  const { ids, points } = known.get(run),
    first = run.prompt.length;
  for (let t = points.length - 1; t < run.length; t++) {
    move(ids, run.steps[t].commits, first, run.widths[t] - first);
    run.steps[t].commits?.positions.forEach((position, i) => {
      const token = written(run.steps[t].commits, i),
        at = position - first;
      if (token < 0) ids.length = Math.min(ids.length, Math.max(at, 0));
      else if (at >= 0) ids[at] = token;
    });
    let n = 0;
    for (const token of ids) {
      if (run.eos.has(token)) break;
      n += !hidden(run, token);
    }
    points.push(n);
  }
  return points;
}

const spread = new WeakMap();

/** Tokens in all samples or paths of an answer after 0, 1, ... steps; null where the run follows one text. The rule is
 * that of explorer/figures/samples.py. */
export function inAll(run) {
  if (!spread.has(run)) spread.set(run, { seen: new Map(), points: [0], paths: 0 });
  const held = spread.get(run),
    { seen, points } = held;
  for (let t = points.length - 1; t < run.length; t++) {
    let n = points[t];
    for (const { id, tokens } of run.steps[t].branches ?? []) {
      const steps = (seen.get(id) ?? 0) + 1;
      seen.set(id, steps);
      held.paths += steps === 2; // what stands in one step only was a guess
      n += tokens.filter((token) => !run.eos.has(token)).length;
    }
    points.push(n);
  }
  return held.paths > 1 ? points : null;
}

/** What stands after t steps and what became of it: {steps, forwards, seconds, tokens, remasked, changed, cut, behind,
 * missing}. */
export function standing(run, t) {
  const first = run.prompt.length,
    [now, last] = [t, run.length].map((at) =>
      run
        .board(at)
        .slice(first)
        .map((cell) => cell.token),
    ),
    then = (at) => run.place(run.cell(first + at, t), run.length) - first, // where it is in the end
    before = (at) => run.place(run.cell(first + at, run.length), t) - first;
  const stop = endOf(run, now),
    over = endOf(run, last),
    found = { tokens: 0, remasked: 0, changed: 0, cut: 0, behind: 0 };
  now.forEach((token, at) => {
    if (at >= stop || token === null) return;
    found.tokens++;
    const later = run.history[run.cell(first + at, t)].find((write) => write.step >= t && write.token !== token);
    if (later) found[later.token < 0 ? "cut" : later.token === run.mask ? "remasked" : "changed"]++;
    else if (then(at) >= over) found.behind++;
  });
  const missing = last.filter((token, at) => at < over && token !== null && token !== now[before(at)]).length,
    { forwards, model, method } = run.sums[t];
  return { steps: t, forwards, seconds: model + method, ...found, missing };
}

/** When at least so many of the spells [from, to) last: spells that do not touch, from early to late. */
function lasting(spells, least) {
  const found = [],
    edges = spells.flatMap(([start, end]) => [
      [start, 1],
      [end, -1],
    ]);
  let running = 0;
  for (const [at, change] of edges.sort((a, b) => a[0] - b[0] || b[1] - a[1])) {
    if (running >= least) found.at(-1)[1] = at;
    running += change;
    if (change > 0 && running === least) found.push([at, at]);
  }
  return found.filter(([start, end]) => end > start);
}

/** Track -> when it computed, on the run's own clock, and `at once`: when two did; as in explorer/figures/work.py. */
export function work(run) {
  const rows = new Map(),
    once = [];
  run.steps.forEach(({ intervals = [] }, t) => {
    const calls = intervals.filter((call) => call.measured !== false && (call.unit ?? "seconds") === "seconds"),
      shift = run.axes.seconds[t] - calls.reduce((least, call) => Math.min(least, call.start), Infinity),
      names = new Set(calls.map((call) => call.track));
    // what begins behind the step was for the record alone
    const own = calls.filter(
      ({ about, start }) => start + shift < run.axes.seconds[t + 1] && !names.has(about?.part_of),
    );
    const mine = new Map(),
      each = [];
    for (const { track, start, end } of own)
      for (const tracks of [rows, mine]) {
        if (!tracks.has(track)) tracks.set(track, []);
        tracks.get(track).push([start + shift, end + shift]);
      }
    for (const spells of mine.values()) for (const spell of lasting(spells, 1)) each.push(spell);
    for (const spell of lasting(each, 2)) once.push(spell);
  });
  return rows.size > 1 ? rows.set("at once", once) : new Map();
}

const answer = (run, ids = run.end.output_ids) => ids.slice(0, endOf(run, ids));
const asked = (run) => run.header.params?.max_new_tokens;

/** Both outputs for comparison; cut to the length that both reached unless both came to their own end. */
function comparable(a, b) {
  const themselves = [a, b].every((run) => run.end.output_ids.some((token) => run.eos.has(token)));
  if (themselves || (asked(a) === asked(b) && [a, b].every((run) => run.end.reason === "complete")))
    return { ours: answer(a), theirs: answer(b), limited: false };
  const shorter = Math.min(a.end.output_ids.length, b.end.output_ids.length);
  return { ours: answer(a).slice(0, shorter), theirs: answer(b).slice(0, shorter), limited: true };
}

const parts = (a, b) => {
  const n = Math.min(a.length, b.length);
  for (let i = 0; i < n; i++) if (a[i] !== b[i]) return i;
  return a.length === b.length ? null : n;
};

/** The token that holds a character of the output, or null where the tokens do not spell the text out. */
function tokenAt(run, character) {
  const texts = answer(run).map((token) => run.piece(token).text),
    whole = texts.join("");
  if (!whole.endsWith(run.end.text)) return null;
  let at = 0;
  for (
    let left = character + [...whole].length - [...run.end.text].length;
    at < texts.length && left >= [...texts[at]].length;
    at++
  )
    left -= [...texts[at]].length;
  return at;
}

/** The main model's tokenizer: ids mean the same in two runs where it is the same, and is known. */
const tokenizer = ({ header, missing }) =>
  !missing.has("token_ids") && !missing.has("tokens") && header.models?.[0]?.tokenizer;

/** The first place where the outputs of two finished runs part: {unit: "token" | "character", at: null (the same),
 * count, ours, theirs, position: of the board or null, limited: compared only as far as both go, respelled: the same
 * text in other tokens}. */
export function difference(run, other) {
  if (tokenizer(run) && tokenizer(run) === tokenizer(other)) {
    const { ours, theirs, limited } = comparable(run, other),
      at = parts(ours, theirs),
      show = (who, ids) => (at < ids.length ? who.piece(ids[at]).text : "");
    const respelled = at !== null && !limited && run.end.text === other.end.text;
    return {
      unit: "token",
      at,
      count: theirs.length,
      ours: show(run, ours),
      theirs: show(other, theirs),
      position: at === null ? null : run.prompt.length + at,
      limited,
      respelled,
    };
  }
  const ours = [...run.end.text],
    theirs = [...other.end.text],
    limited = [run, other].some((one) => one.end.reason !== "complete");
  const cut = limited ? Math.min(ours.length, theirs.length) : Infinity,
    at = parts(ours.slice(0, cut), theirs.slice(0, cut)),
    token = at === null ? null : tokenAt(run, at);
  return {
    unit: "character",
    at,
    count: Math.min(theirs.length, cut),
    ours: ours[at] ?? "",
    theirs: theirs[at] ?? "",
    position: token === null ? null : run.prompt.length + token,
    limited,
    respelled: false,
  };
}
