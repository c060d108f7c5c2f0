// Sampled texts as blocks that fall into columns, one per answer: the same blocks under several rules, side by side.
// The height of a block is what the rule lets its text count.

import { cut, glyphs } from "../codec.js";
import { many } from "../counted.js";
import { pool, set, setText, svg } from "../dom.js";
import { comeIn } from "../motion.js";
import { fine, percent } from "../shares.js";
import { StepPicture } from "../steppicture.js";
import { tr } from "../words.js";
import { converging } from "./converging.js";
import { isRight, marked } from "./plainly.js";

export const view = { name: "Vote", title: "Paths and votes", place: 157, needs: ["vote"] };

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

export class Vote extends StepPicture {
  load(run, dom, context) {
    this.begin(run, dom, context, ["marks", "strip", "boxes", "blocks", "feet", "estimates"]);
  }

  told({ vote }) {
    return vote;
  }

  /** Answers by how many give them, of which the first ones have a colour of their own. */
  #order(vote) {
    const counts = new Map();
    for (const of of vote.of) if (of >= 0) counts.set(of, (counts.get(of) ?? 0) + 1);
    this.first = [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a)).slice(0, COLOURS - 1);
    this.right = this.run.verdict ? vote.answers.findIndex((answer) => isRight(this.run, answer)) : null;
  }

  #colour(of, what = "fill") {
    return `var(--option${this.first.includes(of) ? this.first.indexOf(of) : COLOURS - 1}-${what})`;
  }

  draw(vote, _, next) {
    this.#order(vote);
    const { width } = this,
      rules = [...vote.tallies].sort((a, b) => ORDER.indexOf(a.rule) - ORDER.indexOf(b.rule)),
      across = width >= NARROW ? rules.length : width > 520 ? 2 : 1,
      w = (width - 8) / across,
      weighted = vote.weights.some((weight) => weight > 0),
      top = vote.whole ? 290 : weighted ? STRIP + 92 : 8,
      high = COLUMN + FOOT + 62;
    this.labels = [];
    this.parts = { marks: [], strip: [], boxes: [], blocks: [], feet: [] };
    this.frame(top + Math.ceil(rules.length / across) * high + 4);
    if (vote.whole) this.labels.push(...converging(this.estimates, vote, this.right, width));
    else if (weighted) this.#strip(vote, width);
    this.estimates.style.display = vote.whole ? "" : "none";
    rules.forEach((tally, n) =>
      this.#rule(vote, tally, 4 + (n % across) * w, top + Math.floor(n / across) * high, w - 12),
    );
    for (const [name, items] of Object.entries(this.parts)) this.#paint(this[name], items);
    this.label(this.labels);
    if (next)
      comeIn([...this.blocks.childNodes].slice(0, this.parts.blocks.length), {
        transform: "translateY(-60px)",
        opacity: 0,
      });
  }

  /** Boxes with a word each: [{x, y, w, h, style, word, ink, title, dash}]. */
  #paint(layer, items) {
    const node = () => svg("g", {}, svg("title"), svg("rect", { rx: 3 }), svg("text", { "text-anchor": "middle" }));
    pool(layer, items.length, node).forEach((group, n) => {
      const { x, y, w, h, style, word = "", ink = "var(--text)", title = "", state = "" } = items[n],
        [name, box, text] = group.childNodes;
      setText(name, title);
      set(group, { "data-s": state });
      set(box, { x, y, width: Math.max(1, w), height: Math.max(1, h), style });
      set(text, { x: x + w / 2, y: y + h / 2 + 4, style: `fill:${state ? "var(--ink)" : ink}` });
      setText(text, word);
    });
  }

  #look(vote, i, hollow) {
    const colour = this.#colour(vote.of[i]);
    return hollow
      ? `fill:none;stroke:${colour};stroke-width:2;stroke-dasharray:4 3`
      : `fill:${colour};stroke:var(--panel);stroke-width:1`;
  }

  /** All paths, the likeliest first, with those that are pruned at the end. */
  #strip(vote, width) {
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
      this.parts.strip.push({
        x: 4 + n * w,
        y: foot - h,
        w: w - 3,
        h,
        style: this.#look(vote, i, gone(i)) + (again ? ";opacity:0.55" : ""),
        word: h > 14 && w > 8 * Math.min(5, answer.length) ? cut(answer, 5) : "",
        ink: gone(i) ? "var(--text)" : this.#colour(vote.of[i], "text"),
        title: tr`path ${vote.voters[i]}: ${answer}, probability ${fine(vote.weights[i])}`,
      });
    });
    const lost = order.filter(gone).length,
      kept = order.length - lost,
      repeats = order.filter((i) => (vote.copies?.[i] ?? -1) >= 0).length;
    this.labels.push(
      [
        4,
        14,
        "start",
        this.width < NARROW
          ? tr`${order.length} paths; colour: answer; height: probability`
          : tr`${order.length} sampled paths, the same for each rule. Colour: answer. Height: probability per token`,
      ],
      [
        4,
        foot + 18,
        "start",
        this.width < NARROW ? tr`pale: same text again` : tr`pale: ${repeats} repeat the text of another path`,
      ],
    );
    if (lost) {
      this.parts.marks.push({ x: 4 + kept * w, y: foot + 5, w: lost * w - 3, h: 3, style: "fill:var(--warn)" });
      const x = 4 + (kept + lost / 2) * w,
        near = x + 110 > this.width;
      this.labels.push([
        near ? this.width - 4 : x,
        foot + (this.width < NARROW ? 36 : 24),
        near ? "end" : "middle",
        tr`${lost} unlikely: dropped by RPC`,
      ]);
    }
  }

  #rule(vote, tally, left, top, width) {
    const made = columns(vote, tally, this.first),
      counting = tally.shares.every((share) => share === 0 || share === 1),
      size = (i, share) => (share > 0 ? share : vote.weights[i]),
      whole = ({ blocks }) => blocks.reduce((sum, { i, share }) => sum + size(i, share), 0),
      most = Math.max(...made.map(whole), 1e-12),
      w = Math.min(96, width / Math.max(2, made.length)),
      foot = top + 40 + COLUMN,
      won = tally.winner ?? -1,
      right = this.right === null ? null : won === this.right,
      name = won < 0 ? tr`no answer` : glyphs(vote.answers[won], 12);
    this.parts.boxes.push({
      x: left,
      y: top,
      w: width,
      h: COLUMN + FOOT + 48,
      style: "fill:none;stroke:var(--line)",
    });
    this.labels.push([left + 8, top + 18, "start", HEADINGS[tally.rule] ?? tally.rule]);
    const sign = marked(right);
    made.forEach(({ of, blocks, sum }, n) => {
      const x = left + 8 + n * w;
      let y = foot;
      for (const { i, share } of [...blocks].sort((a, b) => b.share - a.share)) {
        const h = (COLUMN * size(i, share)) / most;
        y -= h;
        this.parts.blocks.push({
          x,
          y: y + 1,
          w: w - 10,
          h: h - 2,
          style: this.#look(vote, i, !share),
          word: !share && h > 13 ? "✕" : "",
        });
      }
      const answer = of < 0 ? tr`others` : cut(glyphs(vote.answers[of]), Math.max(3, Math.floor(w / 8))),
        worth = counting ? `${sum}×` : Number(sum.toPrecision(2));
      if (of >= 0 && of === won)
        this.parts.feet.push({
          x: x - 3,
          y: foot + 4,
          w: w - 4,
          h: 36,
          style: "fill:none;stroke:var(--text);stroke-width:2",
        });
      this.labels.push([x + (w - 10) / 2, foot + 18, "middle", answer], [x + (w - 10) / 2, foot + 34, "middle", worth]);
    });
    const said = `→ ${name}${tally.tied ? tr` (tie)` : ""} ${sign}`,
      state = right === null ? "old" : right ? "accepted" : "rejected";
    this.parts.feet.push({
      x: left + 8,
      y: foot + 46,
      w: 7.4 * said.length + 18,
      h: 22,
      style: "fill:var(--fill);stroke:var(--edge)",
      word: said,
      state,
    });
  }

  describe(t) {
    const vote = this.run.steps[t - 1]?.vote;
    if (!vote) {
      const living = this.run.steps[t - 1]?.branches?.filter(({ fate = "alive" }) => fate === "alive").length ?? 0;
      return t
        ? tr`Paths being written: ${living}. The votes are drawn when all are over.`
        : tr`Before the first step.`;
    }
    const told = vote.tallies.map(
      ({ rule, winner = -1, confidence = 0 }) =>
        `${rule}: ${winner < 0 ? tr`none` : glyphs(vote.answers[winner])} (${percent(confidence)})`,
    );
    return tr`${vote.voters.length} paths, ${many(vote.answers.length, "answer")}. ${told.join("; ")}.`;
  }
}
