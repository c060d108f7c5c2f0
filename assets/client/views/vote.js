// Sampled texts as blocks that fall into columns, one per answer: the same blocks under several rules, side by side.
// The height of a block is what the rule lets its text count.

import { LETTER, MIDDLE, render, StepPicture } from "../player/drawing.js";
import { cut, fine, glyphs, many, percent, tr } from "../player/words.js";
import { answerOf, marked } from "./asked.js";
import { converging } from "./converging.js";

export const view = { title: "Paths and votes", place: 157, needs: ["vote"] };

const COLOURS = 7, // of answers; the last is for all others
  STRIP = 96, // height of the likeliest block of the strip
  COLUMN = 128, // of a rule's largest column
  FOOT = 66,
  NARROW = 760;
/** What a rule does, in a heading. */
const HEADINGS = {
  "self-consistency": tr`Count the answers`,
  perplexity: tr`Only the likeliest path`,
  "perplexity consistency": tr`Add up probabilities`,
  RPC: tr`Drop unlikely paths, then add up`,
};
const ORDER = Object.keys(HEADINGS);

export class Vote extends StepPicture {
  layers = ["marks", "strip", "boxes", "blocks", "feet", "estimates"];
  entrance = { transform: "translateY(-60px)", opacity: 0 };

  draw(vote) {
    const { run, width } = this,
      right = run.verdict ? vote.answers.findIndex((answer) => answerOf(run, answer)[1]) : null,
      { height, labels, parts } = layout(vote, width, right);
    if (vote.whole) labels.unshift(...converging(this.estimates, vote, right, width));
    this.estimates.style.display = vote.whole ? "" : "none";
    for (const [name, items] of Object.entries(parts)) this.#paint(this[name], items);
    this.frame(height, labels);
    return [...this.blocks.childNodes].slice(0, parts.blocks.length);
  }

  /** Boxes with a word each: [{x, y, w, h, style, word, ink, title, dash}]. */
  #paint(layer, items) {
    render(layer, items, ({ x, y, w, h, style, word = "", ink = "var(--text)", title = "", state = "" }) => [
      { "data-s": state },
      ["title", {}, title],
      ["rect", { rx: 3, x, y, width: Math.max(1, w), height: Math.max(1, h), style }],
      ["text", { ...MIDDLE, x: x + w / 2, y: y + h / 2 + 4, style: `fill:${state ? "var(--ink)" : ink}` }, word],
    ]);
  }

  describe(t) {
    const { vote, branches = [] } = this.run.steps[t - 1] ?? {};
    if (!t) return tr`Before the first step.`;
    if (!vote) {
      const living = branches.filter(({ fate = "alive" }) => fate === "alive").length;
      return tr`Paths being written: ${living}. The votes are drawn when all are over.`;
    }
    const tallies = vote.tallies.map(
      ({ rule, winner = -1, confidence = 0 }) =>
        `${rule}: ${winner < 0 ? tr`none` : glyphs(vote.answers[winner])} (${percent(confidence)})`,
    );
    return tr`${vote.voters.length} paths, ${many(vote.answers.length, "answer")}. ${tallies.join("; ")}.`;
  }
}

/** The columns of a rule: [{of, blocks: [{i, share}], sum}], the answers of `first` and then all others (of: -1).
 * A pruned text of RPC is a block without a share. */
export function columns(vote, tally, first) {
  const made = [...first, -1].map((of) => ({ of, blocks: [], sum: 0 }));
  vote.of.forEach((of, i) => {
    if (of < 0) return;
    const column = made[first.includes(of) ? first.indexOf(of) : first.length],
      gone = tally.rule === "RPC" && vote.removed?.[i] && (vote.copies?.[i] ?? -1) < 0;
    if (tally.shares[i] > 0 || gone) column.blocks.push({ i, share: tally.shares[i] });
    column.sum += tally.shares[i];
  });
  return made.filter(({ of, blocks }) => of >= 0 || blocks.length);
}

/** Answers by how many give them, of which the first ones have a colour of their own. */
function ordered(vote) {
  const counts = new Map();
  for (const of of vote.of) if (of >= 0) counts.set(of, (counts.get(of) ?? 0) + 1);
  return [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a)).slice(0, COLOURS - 1);
}

const colour = (first, of, what = "fill") =>
  `var(--option${first.includes(of) ? first.indexOf(of) : COLOURS - 1}-${what})`;

/** A vote in `width` pixels: {height, labels: [[x, y, anchor, text]], parts: boxes by layer, {x, y, w, h, style, word,
 * ink, title, state}}. right: the number of the right answer, -1 if nobody gives it, null where that is not known. */
export function layout(vote, width, right) {
  const rules = [...vote.tallies].sort((a, b) => ORDER.indexOf(a.rule) - ORDER.indexOf(b.rule)),
    across = width >= NARROW ? rules.length : width > 520 ? 2 : 1,
    w = (width - 8) / across,
    weighted = vote.weights.some((weight) => weight > 0),
    top = vote.whole ? 290 : weighted ? STRIP + 92 : 8,
    high = COLUMN + FOOT + 62,
    parts = { marks: [], strip: [], boxes: [], blocks: [], feet: [] },
    out = { vote, width, right, parts, first: ordered(vote), labels: [] };
  if (!vote.whole && weighted) strip(out);
  rules.forEach((tally, n) => rule(out, tally, 4 + (n % across) * w, top + Math.floor(n / across) * high, w - 12));
  return { height: top + Math.ceil(rules.length / across) * high + 4, labels: out.labels, parts };
}

function look(vote, first, i, hollow) {
  const own = colour(first, vote.of[i]);
  return hollow
    ? `fill:none;stroke:${own};stroke-width:2;stroke-dasharray:4 3`
    : `fill:${own};stroke:var(--panel);stroke-width:1`;
}

/** All paths, the likeliest first, with those that are pruned at the end. */
function strip({ vote, width, first, labels, parts }) {
  const gone = (i) => Number(Boolean(vote.removed?.[i])),
    order = vote.of
      .map((_, i) => i)
      .filter((i) => vote.of[i] >= 0)
      .sort((a, b) => gone(a) - gone(b) || vote.weights[b] - vote.weights[a]),
    w = Math.min(54, (width - 12) / Math.max(1, order.length)),
    most = Math.max(...order.map((i) => vote.weights[i]), 1e-12),
    foot = 42 + STRIP;
  order.forEach((i, n) => {
    const h = (STRIP * vote.weights[i]) / most,
      answer = glyphs(vote.answers[vote.of[i]]),
      again = (vote.copies?.[i] ?? -1) >= 0;
    parts.strip.push({
      ...{ x: 4 + n * w, y: foot - h, w: w - 3, h },
      style: look(vote, first, i, gone(i)) + (again ? ";opacity:0.55" : ""),
      word: h > 14 && w > 8 * Math.min(5, answer.length) ? cut(answer, 5) : "",
      ink: gone(i) ? "var(--text)" : colour(first, vote.of[i], "text"),
      title: tr`path ${vote.voters[i]}: ${answer}, probability ${fine(vote.weights[i])}`,
    });
  });
  const n = order.length,
    lost = order.filter(gone).length,
    repeats = order.filter((i) => (vote.copies?.[i] ?? -1) >= 0).length,
    narrow = width < NARROW,
    all = tr`${n} sampled paths, the same for each rule. Colour: answer. Height: probability per token`,
    pale = narrow ? tr`pale: same text again` : tr`pale: ${repeats} repeat the text of another path`;
  labels.push([4, 14, "start", narrow ? tr`${n} paths; colour: answer; height: probability` : all]);
  labels.push([4, foot + 18, "start", pale]);
  if (!lost) return;
  parts.marks.push({ x: 4 + (n - lost) * w, y: foot + 5, w: lost * w - 3, h: 3, style: "fill:var(--warn)" });
  const x = 4 + (n - lost / 2) * w,
    y = foot + (narrow ? 36 : 24),
    words = tr`${lost} unlikely: dropped by RPC`;
  labels.push(x + 110 > width ? [width - 4, y, "end", words] : [x, y, "middle", words]);
}

function rule({ vote, first, right: best, labels, parts }, tally, left, top, width) {
  const made = columns(vote, tally, first),
    counting = tally.shares.every((share) => share === 0 || share === 1),
    size = (i, share) => (share > 0 ? share : vote.weights[i]),
    whole = ({ blocks }) => blocks.reduce((sum, { i, share }) => sum + size(i, share), 0),
    most = Math.max(...made.map(whole), 1e-12),
    w = Math.min(96, width / Math.max(2, made.length)),
    foot = top + 40 + COLUMN,
    won = tally.winner ?? -1,
    right = best === null ? null : won === best,
    name = won < 0 ? tr`no answer` : glyphs(vote.answers[won], 12);
  parts.boxes.push({ x: left, y: top, w: width, h: COLUMN + FOOT + 48, style: "fill:none;stroke:var(--line)" });
  labels.push([left + 8, top + 18, "start", HEADINGS[tally.rule] ?? tally.rule]);
  const sign = marked(right);
  made.forEach(({ of, blocks, sum }, n) => {
    const x = left + 8 + n * w;
    let y = foot;
    for (const { i, share } of [...blocks].sort((a, b) => b.share - a.share)) {
      const h = (COLUMN * size(i, share)) / most,
        word = !share && h > 13 ? "✕" : "";
      y -= h;
      parts.blocks.push({ x, y: y + 1, w: w - 10, h: h - 2, style: look(vote, first, i, !share), word });
    }
    const answer = of < 0 ? tr`others` : cut(glyphs(vote.answers[of]), Math.max(3, Math.floor(w / 8))),
      worth = counting ? `${sum}×` : Number(sum.toPrecision(2));
    const frame = { x: x - 3, y: foot + 4, w: w - 4, h: 36, style: "fill:none;stroke:var(--text);stroke-width:2" };
    if (of >= 0 && of === won) parts.feet.push(frame);
    labels.push([x + (w - 10) / 2, foot + 18, "middle", answer], [x + (w - 10) / 2, foot + 34, "middle", worth]);
  });
  const word = `→ ${name}${tally.tied ? tr` (tie)` : ""} ${sign}`,
    state = right === null ? "old" : right ? "accepted" : "rejected",
    box = { x: left + 8, y: foot + 46, w: LETTER * word.length + 18, h: 22 };
  parts.feet.push({ ...box, style: "fill:var(--fill);stroke:var(--edge)", word, state });
}
