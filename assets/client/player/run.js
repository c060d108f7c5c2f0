// One run as the views read it: checked header, running sums, the board after any number of steps, and the figures that
// it was handed (explorer/figures/handed.py).

import { unpack } from "./codec.js";
import { tr } from "./words.js";

const SCHEMA = 3;
const RANDOM = ["noise", "renoised"];
const STATES = ["accepted", "bonus", "correction", "forced", "changed", "settled", ...RANDOM];
const TIE = 1e-9; // keeps an axis rising when a step cost nothing, so that every step can be sought

export function checkHeader(header) {
  if (!header || typeof header !== "object") throw new Error(tr`This is not a trace: it has no header.`);
  if (header.schema !== SCHEMA)
    throw new Error(
      tr`This trace has schema version ${header.schema ?? "(none)"}; this player reads version ${SCHEMA}.`,
    );
}

/** A trace, decoded, from JSON text. */
export function parseTrace(trace) {
  if (typeof trace !== "string") return trace;
  try {
    return JSON.parse(trace);
  } catch (error) {
    throw new Error(tr`This is not a trace: the text is not JSON, or it is cut off (${error.message}).`);
  }
}

/** The i-th token of commits; null where it was drawn at random: nothing is written there yet. */
export const written = ({ tokens, causes }, i) => (RANDOM.includes(causes[i]) ? null : tokens[i]);

/** What a batch is against the last one seen: "start" of a run, the "next", an "old" one seen before, or after a
 * "gap". */
export function order(last, batch) {
  if (!last || last.run !== batch.run)
    return batch.header || batch.state === "queued" || batch.seq === 0 ? "start" : "gap";
  if (batch.seq <= last.seq) return "old";
  return batch.seq === last.seq + 1 ? "next" : "gap";
}

/** A run. Its cursor t counts finished steps: 0 is the prompt alone, t shows the state after `steps[t - 1]`. */
export class Run {
  constructor(header, pieces = []) {
    checkHeader(header);
    this.header = header;
    this.prompt = header.prompt_ids ?? [];
    this.mask = header.mask_id ?? null;
    this.canvas = header.canvas ?? null;
    this.missing = new Set(header.missing ?? []);
    this.eos = new Set(header.eos_ids ?? []);
    this.pieces = new Map();
    this.steps = [];
    this.end = null;
    this.figures = { to: -1, counts: {}, later: {}, work: {}, settings: {}, stops: [] }; // to: their last step
    this.verdict = null; // {right, expected, word, first, last, step} of the answer, where it was checked
    this.target = header.models?.[0]?.role ?? null; // the model that was picked: its calls make the clock
    this.axes = { steps: [0], forwards: [0], seconds: [0], work: [0] };
    this.sums = [{ forwards: 0, others: 0, roles: {}, work: 0, layers: {}, fed: 0, model: 0, method: 0 }];
    this.widths = [this.canvas ?? this.prompt.length];
    this.widest = this.widths[0];
    this.history = []; // by cell: a place that keeps its number while others come and go in front of it
    this.orders = []; // [{t, cells}]: from left to right since t; none where a cell is a position
    this.fresh = 0;
    this.lanes = new Map();
    this.authors = new Set(); // who wrote tokens, in the order of their first ones
    this.groups = new Set();
    this.records = new Set(); // names of what the method tells of its own
    this.spanKinds = [];
    this.states = new Set(["prompt", ...(this.canvas ? ["masked"] : []), "new", "old"]);
    this.addPieces(pieces);
  }

  static from(trace) {
    const { header, pieces, steps = [], end = null, figures } = parseTrace(trace) ?? {};
    const run = new Run(header, pieces);
    run.addSteps(steps);
    run.end = end;
    if (figures) run.hand(figures);
    return run;
  }

  get length() {
    return this.steps.length;
  }

  addPieces(pieces = []) {
    for (const { id, text, kind = "text", token = id } of pieces)
      this.pieces.set(id, { text: String(text), kind, token });
  }

  addSteps(steps = []) {
    for (const given of steps) {
      if (given.index !== this.length)
        throw new Error(tr`Step ${this.length} is missing: step ${given.index} came instead.`);
      const step = { ...given.records, ...given }; // a record is found by its name, as a group is
      for (const name of Object.keys(given.records ?? {})) this.records.add(name);
      this.steps.push(step);
      this.#sum(step);
      this.#commit(step);
      this.#scores(step);
      for (const [name, group] of Object.entries(step))
        if (group && typeof group === "object" && Object.keys(group).length) this.groups.add(name);
      for (const { kind } of step.spans ?? []) if (!this.spanKinds.includes(kind)) this.spanKinds.push(kind);
      for (const name of ["spans", "intervals", "routing"])
        for (const { kind } of step[name] ?? []) this.groups.add(`${name}.${kind}`);
    }
  }

  #sum(step) {
    const before = this.sums[this.length - 1],
      next = { ...before, roles: { ...before.roles }, layers: { ...before.layers } };
    next.fed += step.tokens_fed;
    next.model += step.model_seconds;
    next.method += step.method_seconds;
    for (const [role, n] of Object.entries(step.forwards)) {
      next.roles[role] = (next.roles[role] ?? 0) + n;
      next[this.target === null || role === this.target ? "forwards" : "others"] += n;
    }
    for (const [role, n] of Object.entries(step.work ?? {})) {
      next.layers[role] = (next.layers[role] ?? 0) + n;
      next.work += n;
    }
    this.sums.push(next);
    this.axes.steps.push(this.length);
    for (const [unit, place] of [
      ["forwards", next.forwards],
      ["seconds", next.model + next.method],
      ["work", next.work],
    ]) {
      if (this.missing.has(unit === "seconds" ? "model_seconds" : unit)) continue; // no place on that clock
      this.axes[unit].push(Math.max(place, this.axes[unit].at(-1) + TIE));
    }
  }

  /** Places that a step removes and inserts. */
  #move(index, { removed = [], inserted = [] }) {
    const width = this.widths[index],
      before = this.orders.at(-1)?.cells.slice(0, width) ?? Array.from({ length: width }, (_, cell) => cell),
      gone = new Set(removed),
      kept = before.filter((_, position) => !gone.has(position));
    this.fresh = Math.max(this.fresh, this.widest);
    for (const position of removed)
      (this.history[before[position]] ??= []).push({ step: index, token: -1, cause: "removed", author: "" });
    const places = new Set(inserted);
    let at = 0;
    const cells = Array.from({ length: kept.length + places.size }, (_, position) =>
      places.has(position) ? this.fresh++ : kept[at++],
    );
    this.orders.push({ t: index + 1, cells });
    return cells.length;
  }

  #cellFor(position) {
    const cells = this.orders.at(-1)?.cells;
    while (cells && cells.length <= position) cells.push(this.fresh++);
    return cells ? cells[position] : position;
  }

  #commit({ index, commits }) {
    const moves = commits?.removed?.length || commits?.inserted?.length;
    let width = moves ? this.#move(index, commits) : this.widths[index];
    const write = (position, entry) => (this.history[this.#cellFor(position)] ??= []).push(entry);
    commits?.positions.forEach((position, i) => {
      const cause = commits.causes[i],
        token = written(commits, i);
      const entry = {
        step: index,
        token,
        drawn: commits.tokens[i],
        cause,
        author: commits.authors?.[i] ?? "",
        probability: commits.probabilities?.[i] ?? null,
        fresh: commits.inserted?.includes(position) ?? false, // nothing was there to be hidden
      };
      if (token < 0) {
        for (let behind = position; behind < width; behind++) write(behind, entry);
        width = Math.min(width, position);
      } else {
        write(position, entry);
        width = Math.max(width, position + 1);
      }
      if (entry.author && token >= 0) this.authors.add(entry.author);
      if (STATES.includes(cause)) this.states.add(cause);
      else if (token < 0 || (token === this.mask && !entry.fresh)) this.states.add("remasked");
      if (this.eos.has(token)) this.states.add("eos");
    });
    this.widths.push(width);
    this.widest = Math.max(this.widest, width);
  }

  #scores(step) {
    for (const lane of step.scores ?? []) {
      const fixed = lane.unit === "probability";
      let seen = this.lanes.get(lane.name);
      if (!seen)
        this.lanes.set(
          lane.name,
          (seen = { unit: lane.unit, lo: fixed ? 0 : Infinity, hi: fixed ? 1 : -Infinity, threshold: null }),
        );
      if (lane.threshold !== undefined && lane.threshold !== null) seen.threshold = lane.threshold;
      if (fixed) continue;
      const { lo = 0, hi = 1, dtype } = lane.values;
      for (const value of dtype === "u1" ? [lo, hi] : unpack(lane.values).values) {
        seen.lo = Math.min(seen.lo, value);
        seen.hi = Math.max(seen.hi, value);
      }
    }
  }

  /** The score that decides what is written, as far as is known: the last that has a threshold, else the confidence,
   * else the first; null without scores. */
  get deciding() {
    const names = [...this.lanes.keys()],
      lined = names.filter((name) => this.lanes.get(name).threshold !== null);
    return lined.at(-1) ?? (this.lanes.has("confidence") ? "confidence" : (names[0] ?? null));
  }

  piece(id) {
    if (this.eos.has(id)) return { text: tr`end`, kind: "special" };
    return this.pieces.get(id) ?? { text: tr`‹token ${id}›`, kind: "special" };
  }

  #order(t) {
    return this.orders.length ? this.orders.findLast((order) => order.t <= t)?.cells : undefined;
  }

  /** The cell at a position of the board at cursor t. */
  cell(position, t) {
    const cells = this.#order(t);
    return cells ? (cells[position] ?? -1) : position;
  }

  /** Where a cell is on the board at cursor t; -1 where it is not there. */
  place(cell, t) {
    const position = this.#order(t)?.indexOf(cell) ?? cell;
    return position < this.widths[t] ? position : -1;
  }

  /** Where a position of the board at cursor t was on the one that a step found, which its scores and candidates name;
   * -1 where it was not there. */
  found(index, position, t = index + 1) {
    if (!this.orders.length) return position;
    let at = t === index + 1 ? position : this.place(this.cell(position, t), index + 1);
    const { removed = [], inserted = [] } = this.steps[index]?.commits ?? {};
    if (inserted.includes(at)) return -1;
    at -= inserted.filter((place) => place < at).length;
    for (const place of removed) at += at >= 0 && place <= at;
    return at;
  }

  /** The last write to a position before cursor t, or null. */
  written(position, t) {
    return this.history[this.cell(position, t)]?.findLast(({ step }) => step < t) ?? null;
  }

  /** All cells at cursor t: {position, token (null: none yet), state, entry}. */
  board(t) {
    if (this.latest?.t === t && this.latest.steps === this.length) return this.latest.cells;
    const cells = new Array(this.widths[t]);
    let ended = false;
    for (let position = 0; position < cells.length; position++) {
      const entry = this.written(position, t);
      const raw = entry ? entry.token : (this.prompt[position] ?? this.mask);
      const open = raw === null || raw < 0 || raw === this.mask;
      if (position >= this.prompt.length && this.eos.has(raw)) ended = true;
      cells[position] = { position, token: open ? null : raw, state: this.#state(open, entry, t, ended), entry };
    }
    this.latest = { t, steps: this.length, cells }; // views ask for the same one
    return cells;
  }

  #state(open, entry, t, ended) {
    const now = entry?.step === t - 1;
    if (open && RANDOM.includes(entry?.cause)) return now ? entry.cause : "noise";
    if (open) return now && !entry.fresh ? "remasked" : "masked";
    if (!entry) return "prompt";
    if (now && entry.cause !== "padding") return STATES.includes(entry.cause) ? entry.cause : "new";
    return entry.cause === "forced" ? "forced" : ended ? "eos" : "old";
  }

  /** Whether the first wrong word of the answer stands, as it stays, at a position at cursor t. */
  wrong(position, t) {
    const { first, last, step } = this.verdict ?? {};
    return Number.isInteger(step) && t > step && position >= first && position <= last;
  }

  /** Takes figures: those of a run that is over, which have a key, or those of the steps behind `from`. */
  hand({ from, counts, work = {}, ...more }) {
    const { figures } = this,
      to = this.length,
      zeros = (n) => Array(n).fill(0); // a list of nothing but zeros is left out
    if (more.key) this.figures = { later: {}, stops: [], counts, work, ...more, to };
    else {
      for (const name of new Set([...Object.keys(figures.counts), ...Object.keys(counts)]))
        figures.counts[name] = [...(figures.counts[name] ?? zeros(from + 1)), ...(counts[name] ?? zeros(to - from))];
      for (const [track, spells] of Object.entries(work))
        figures.work[track] = [...(figures.work[track] ?? []), ...spells];
      Object.assign(figures, more, { to });
    }
    this.verdict = more.verdict ?? this.verdict;
    globalThis.dxPairs = { ...globalThis.dxPairs, ...more.pairs };
  }

  /** How many of what is called so in `counts`, or becomes so later, stand at cursor t; null where that was not handed.
   * */
  count(name, t, of = this.figures.counts) {
    return t <= this.figures.to ? (of[name]?.[t] ?? 0) : null;
  }

  /** Tokens at cursor t: ids after the prompt and before the first end mark, masks not counted. */
  tokens(t) {
    return this.count("tokens", t);
  }

  /** Those of all samples; null where the run follows one text. */
  gained(t) {
    return this.figures.gained?.[t] ?? null;
  }

  lane(index, name) {
    return this.steps[index]?.scores?.find((lane) => lane.name === name) ?? null;
  }

  /** The value of a score lane in a step at a position of the board at cursor t; NaN if it has none. */
  score(index, name, position, t) {
    const lane = this.lane(index, name);
    return lane ? (unpack(lane.values).values[this.found(index, position, t) - lane.start] ?? NaN) : NaN;
  }

  /** The value of a lane as 0..1 of its range, for colour. */
  level(name, value) {
    const { lo, hi } = this.lanes.get(name);
    return Number.isNaN(value) ? NaN : hi > lo ? Math.min(Math.max((value - lo) / (hi - lo), 0), 1) : 0.5;
  }

  /** Top-k candidates [{token, probability}] in a step of a position of the board at cursor t, or null if none were
   * recorded. */
  candidates(index, position, t) {
    const group = this.steps[index]?.candidates;
    const row = group ? group.positions.indexOf(this.found(index, position, t)) : -1;
    if (row < 0) return null;
    const tokens = unpack(group.tokens),
      probabilities = unpack(group.probabilities).values,
      k = tokens.shape[1] ?? 1;
    return Array.from({ length: k }, (_, i) => ({
      token: tokens.values[row * k + i],
      probability: probabilities[row * k + i],
    }));
  }

  /** What a method would have decided in step t with another `value` of what the picture of a record moves, as the
   * method itself answers (`engines.Alternatives`); null where it was not asked. */
  asked(t, record, moved, value = 0) {
    const { stops, answers } = this.figures.stops[t - 1]?.[record]?.[moved] ?? {};
    return answers?.[Math.max(0, stops.filter((stop) => stop <= value).length - 1)] ?? null;
  }

  /** True if any step so far fills the group `name`. Also: "masked", a board that begins masked, "growing", one that
   * begins empty, "end", a run that is over; "spans.fed": spans of a kind. */
  has(name) {
    if (name === "end") return this.end !== null;
    if (name === "masked" || name === "growing") return (this.canvas !== null) === (name === "masked");
    return this.groups.has(name);
  }
}
