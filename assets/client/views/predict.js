// Predict mode: a person says which positions are written next, or how many drafts are accepted; then the step is shown
// and the answer scored against stated baselines.

import { el, setText } from "../player/dom.js";
import { depthsOf } from "../player/rounds.js";
import { number, tr } from "../player/words.js";

export const view = { title: "Predict what comes next", place: 110, needs: ["masked", "tree"] };

const ASK = tr`Click the positions of the board that you think are written next (up, down and Enter on the \
keyboard), then Reveal.`;
const RULES = {
  positions: tr`picking the positions that the model was most confident of one step before`,
  drafts: tr`saying “as many as last time”`,
};
/** The race stands outside of the players: the page says that somebody predicts. `:has` in its style would make each
 * step of four players twice as dear. */
const told = () =>
  document.documentElement.toggleAttribute("data-predict", document.querySelector(".dx-panel[data-predict]") !== null);
const places = (n) => tr`${n} position${n === 1 ? "" : "s"}`;

export class Predict {
  load(run, dom, context) {
    Object.assign(this, { run, dom, context, on: false, picks: [], scores: new Map(), t: 0 });
    const look = { class: "dx-toggle", "aria-pressed": "false", onclick: () => this.#turn(!this.on) },
      guesses = tr`How many drafted tokens will be accepted`;
    this.toggle = el("button", look, tr`Predict`);
    this.reveal = el("button", { class: "dx-toggle", onclick: () => this.#answer(this.picks) }, tr`Reveal`);
    this.guesses = el("div", { class: "dx-guesses", role: "group", "aria-label": guesses });
    this.ask = el("p", "dx-none");
    this.say = el("p", { class: "dx-score", role: "status" });
    dom.append(el("div", "dx-controls", this.toggle, this.reveal, this.guesses), this.ask, this.say);
    told();
    this.show(0);
  }

  /** Somebody else takes the clicks of the board. */
  stop() {
    if (this.on) this.#turn(false);
  }

  /** Details are folded. */
  fold() {
    this.stop();
  }

  #turn(on) {
    if (on) this.context.picking();
    this.on = on;
    this.picks = [];
    this.toggle.setAttribute("aria-pressed", String(on));
    this.dom.closest(".dx-panel")?.toggleAttribute("data-predict", on); // what would give the answer away is put aside
    told();
    this.context.pick = on ? (position) => this.#pick(position) : null;
    if (on) this.peeked = this.context.peek;
    this.context.setPeek(on ? false : this.peeked);
    this.show(this.t);
  }

  /** Whether the board's click at a position was a prediction. */
  #pick(position) {
    if (this.asked?.kind !== "positions" || !this.asked.open.includes(position)) return false;
    this.picks = this.picks.includes(position)
      ? this.picks.filter((one) => one !== position)
      : [...this.picks, position];
    this.#mark();
    return true;
  }

  #answer(picks) {
    const { run, t, asked, scores } = this,
      drafts = asked?.kind === "drafts",
      score = () => (drafts ? scoreDrafts : scorePositions)(run, t, asked, picks);
    if (asked && !scores.has(t)) scores.set(t, { ...score(), [drafts ? "guess" : "picks"]: picks });
    this.context.seek(t + 1);
  }

  grow() {
    this.show(this.t);
  }

  show(t) {
    if (t !== this.t) this.picks = [];
    this.t = t;
    this.asked = this.on ? question(this.run, t) : null;
    const { asked, run } = this,
      drafts = asked?.kind === "drafts";
    this.reveal.hidden = !this.on || drafts || t >= run.length;
    this.guesses.hidden = !drafts;
    const guess = (_, n) => el("button", { class: "dx-toggle", onclick: () => this.#answer(n) }, String(n));
    this.guesses.replaceChildren(...Array.from({ length: drafts ? asked.most + 1 : 0 }, guess));
    setText(this.ask, this.#question());
    this.#mark();
  }

  #question() {
    const { asked, on, run, t } = this;
    if (!on) return tr`Guess before each step and be scored; nothing leaves this page.`;
    if (t >= run.length) return tr`The run is over.`;
    if (!asked) return tr`Nothing can be asked before this step; Reveal goes on.`;
    if (asked.kind !== "drafts") return tr`${ASK} ${places(asked.open.length)} open.`;
    const draft = tr`A draft of ${asked.nodes} tokens, up to ${asked.most} deep, is about to be read. `;
    return draft + tr`How many will be accepted?`;
  }

  #mark() {
    const { context, picks, scores, t, run } = this,
      before = this.on ? scores.get(t - 1) : null,
      marked = (glyph, title, kind) => (position) => ({ position, glyph, title, kind }),
      marks = picks.map(marked("?", tr`predicted to be written next`, "guess"));
    if (before?.picks && !picks.length) {
      const written = (position) =>
        before.picks.includes(position) && run.steps[t - 1].commits?.positions.includes(position);
      const hit = marked("✓", tr`predicted and written`, "hit"),
        miss = marked("✗", tr`predicted, not written`, "miss");
      marks.push(...before.picks.map((position) => (written(position) ? hit : miss)(position)));
      marks.push(...before.overlooked.map(marked("+", tr`written, not predicted`, "overlooked")));
    }
    context.mark("predict", marks);
    setText(this.reveal, picks.length ? tr`Reveal (${places(picks.length)})` : tr`Reveal`);
    setText(this.say, this.on ? this.#told(before) : "");
  }

  #told(before) {
    const { scores, t } = this,
      all = [...scores.values()].filter((score) => score.tried),
      sum = total(all),
      kind = all.some((score) => score.off !== undefined) ? "drafts" : "positions";
    const last = !before
      ? ""
      : before.off !== undefined
        ? tr`Step ${t}: ${before.hits ? tr`right` : tr`off by ${before.off}`} (you said ${before.guess}). `
        : tr`Step ${t}: ${before.hits} of ${before.tried} right, ${before.misses} not written, \
${places(before.overlooked.length)} overlooked. `;
    if (!sum.tried) return last.trim();
    const held = sum.held
      ? tr` Baseline, ${RULES[kind]}: ${sum.baseline} of ${sum.held}, where you have ${sum.against}.`
      : "";
    const share = Math.round((100 * sum.hits) / sum.tried);
    return tr`${last}So far ${sum.hits} of ${sum.tried} right (${share} %). Blind chance: \
${number(sum.chance)}.${held}`;
  }

  describe() {
    return this.on ? this.say.textContent : "";
  }
}

const accepted = (tree) => tree.why.filter((why) => why === "accepted").length;
const count = (some, of) => some.filter((one) => of.has(one)).length;

/** What can be asked when t steps are done, before the next one is shown; null where there is nothing to ask. {kind:
 * "positions", open, answer: Set} on a masked board, {kind: "drafts", most, nodes, answer} before a draft tree is
 * verified. */
export function question(run, t) {
  const step = run.steps[t];
  if (step?.tree)
    return {
      kind: "drafts",
      most: Math.max(0, ...depthsOf(step.tree.parents)),
      nodes: step.tree.parents.length - 1,
      answer: accepted(step.tree),
    };
  if (!step || run.canvas === null) return null;
  const open = run
      .board(t)
      .filter(({ position, token }) => token === null && position >= run.prompt.length)
      .map(({ position }) => position),
    inside = new Set(open);
  const written = (step.commits?.positions ?? [])
    .filter((_, i) => step.commits.tokens[i] >= 0 && step.commits.tokens[i] !== run.mask)
    .map((position) => run.found(t, position)) // a step may move what it does not write
    .filter((position) => inside.has(position));
  return open.length ? { kind: "positions", open, answer: new Set(written) } : null;
}

/** The `n` open positions that the model was surest of in the step before, as a person can see it; null where nothing
 * was recorded. */
export function surest(run, t, open, n) {
  const lane = run.lanes.has("confidence")
    ? (position) => run.score(t - 1, "confidence", position)
    : (position) => run.candidates(t - 1, position)?.[0].probability ?? NaN;
  const seen = t ? open.map((position) => [position, lane(position)]).filter(([, value]) => !Number.isNaN(value)) : [];
  return seen.length
    ? seen
        .sort((a, b) => b[1] - a[1])
        .slice(0, n)
        .map(([position]) => position)
    : null;
}

/** Picked positions against what was written: hits, misses, what was overlooked, the hits of as many surest positions,
 * and those that chance would have. */
export function scorePositions(run, t, { open, answer }, picks) {
  const hits = count(picks, answer),
    sure = surest(run, t, open, picks.length);
  return {
    tried: picks.length,
    hits,
    misses: picks.length - hits,
    overlooked: [...answer].filter((position) => !picks.includes(position)),
    chance: (picks.length * answer.size) / open.length,
    baseline: sure && count(sure, answer),
  };
}

/** A guessed number of accepted drafts: hit or not, how far off, whether "as many as last time" would have hit, and the
 * chance of a blind guess. */
export function scoreDrafts(run, t, { most, answer }, guess) {
  const before = run.steps.slice(0, t).findLast((step) => step.tree),
    same = before ? Math.min(accepted(before.tree), most) : null;
  return {
    tried: 1,
    hits: Number(guess === answer),
    misses: Number(guess !== answer),
    off: Math.abs(guess - answer),
    chance: 1 / (most + 1),
    baseline: same === null ? null : Number(same === answer),
  };
}

/** The sum of some scores: where the baseline knew nothing, what was tried there is left out of its comparison. */
export function total(scores) {
  const sum = (some, name) => some.reduce((n, score) => n + score[name], 0),
    held = scores.filter((score) => score.baseline !== null);
  return {
    tried: sum(scores, "tried"),
    hits: sum(scores, "hits"),
    chance: sum(scores, "chance"),
    baseline: sum(held, "baseline"),
    against: sum(held, "hits"),
    held: sum(held, "tried"),
  };
}
