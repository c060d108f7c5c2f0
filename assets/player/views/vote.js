// Sampled texts and what several rules make of them: the texts by weight, the modes of their weights with those that
// were dropped, and one stacked bar per rule, a segment for each text, so that the same samples add up to each winner.

import { cut, glyphs, number } from "../codec.js";
import { el, pool, setText, svg } from "../dom.js";
import { tr } from "../words.js";
import { bars, chart } from "./votecharts.js";

export const view = { name: "Vote", title: "Paths and votes", place: 157, needs: ["vote"] };

const TAIL = 26, // characters of a text
  COLOURS = 4, // the last one is for all other answers
  PART = "border:1px solid var(--line);border-radius:6px;padding:6px 8px;font-size:12px;min-width:0;overflow:hidden",
  LINE = "overflow:hidden;font-family:var(--mono);white-space:pre;height:18px",
  PICTURE = "font:12px var(--mono);display:block;width:100%;max-width:520px";

const styled = (tag, style, ...children) => {
  const node = el(tag, {}, ...children);
  node.style.cssText = style;
  return node;
};

export class Vote {
  load(run, dom) {
    this.run = run;
    this.say = el("p", "dx-readout");
    this.rows = styled("div", "height:222px;overflow:auto");
    this.rows.tabIndex = 0;
    this.rows.setAttribute("aria-label", tr`Paths`);
    this.chart = svg("svg", { role: "img", style: PICTURE });
    this.bars = svg("svg", { role: "img", style: PICTURE });
    this.head = el("strong", {}, tr`Paths`);
    const part = (...children) => styled("div", PART, ...children);
    dom.append(
      this.say,
      styled(
        "div",
        "display:grid;grid-template-columns:repeat(auto-fit,minmax(min(280px,100%),1fr));gap:8px",
        part(this.head, this.rows),
        part(el("strong", {}, tr`Weights and their two modes`), this.chart),
        part(el("strong", {}, tr`The same paths by each rule`), this.bars),
      ),
    );
  }

  /** Ids, lengths and last tokens of the paths as they stand after t steps. */
  #paths(t) {
    const found = new Map();
    for (const { branches = [] } of this.run.steps.slice(0, t))
      for (const { id, tokens, length = 0, fate = "alive" } of branches) {
        const one = found.get(id) ?? { id, tokens: [] };
        const grown = Math.max(0, length - tokens.length);
        found.set(id, { id, fate, tokens: [...one.tokens.slice(0, grown), ...tokens] });
      }
    return [...found.values()];
  }

  show(t, hurry) {
    if (hurry) return;
    const vote = this.run.steps[t - 1]?.vote ?? null,
      paths = this.#paths(t);
    setText(this.say, this.describe(t));
    setText(this.head, vote ? tr`Paths by weight: answer, weight, end of the text` : tr`Paths: the end of each text`);
    this.#order(vote);
    this.#list(paths, vote);
    chart(this.chart, vote);
    bars(this.bars, vote, this.colour);
  }

  /** Colours of the answers: the most frequent ones have their own. */
  #order(vote) {
    const counts = new Map();
    for (const of of vote?.of ?? []) if (of >= 0) counts.set(of, (counts.get(of) ?? 0) + 1);
    const first = [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a)).slice(0, COLOURS - 1);
    this.colour = (of) => `var(--option${first.includes(of) ? first.indexOf(of) : COLOURS - 1}-fill)`;
    this.ink = (of) => `var(--option${first.includes(of) ? first.indexOf(of) : COLOURS - 1}-text)`;
  }

  #list(paths, vote) {
    const at = (id) => vote.voters.indexOf(id),
      rank = ({ id }) => vote.weights[at(id)] - ((vote.removed ?? [])[at(id)] ? 2 : 0) - (vote.of[at(id)] < 0 ? 4 : 0);
    const shown = vote ? paths.filter(({ id }) => at(id) >= 0).sort((a, b) => rank(b) - rank(a)) : paths;
    const rows = pool(this.rows, Math.max(1, shown.length), () => styled("div", LINE, el("b"), el("span"), el("span")));
    rows.forEach((row, n) => {
      const [chip, weight, tail] = row.childNodes,
        path = shown[n],
        i = vote && path ? at(path.id) : -1,
        of = i < 0 ? -1 : vote.of[i],
        gone = i >= 0 && (vote.removed ?? [])[i],
        words = (path?.tokens ?? []).map((id) => this.run.piece(id).text).join("");
      row.style.opacity = gone || (i >= 0 && of < 0) ? 0.5 : 1;
      row.title = glyphs(words, 400);
      chip.style.cssText =
        "padding:0 5px;border-radius:3px;margin-right:6px;" +
        (of < 0 ? "color:var(--muted)" : `background:${this.colour(of)};color:${this.ink(of)}`);
      setText(
        chip,
        of < 0 ? (path ? (path.fate === "alive" ? "…" : i < 0 ? "■" : "–") : "") : cut(vote.answers[of], 12),
      );
      setText(weight, i < 0 ? "" : `${number(vote.weights[i])}${gone ? " ✕" : vote.copies?.[i] >= 0 ? " =" : "  "} `);
      setText(tail, path ? (words.length > TAIL ? "…" : "") + glyphs(words.slice(-TAIL), TAIL) : tr`No path yet.`);
      tail.style.color = "var(--muted)";
    });
  }

  describe(t) {
    const step = this.run.steps[t - 1],
      vote = step?.vote;
    if (!vote)
      return t
        ? tr`Paths being written: ${this.#paths(t).filter(({ fate }) => fate === "alive").length}.`
        : tr`Before the first step.`;
    const said = (vote.tallies ?? []).map(
      ({ rule, winner = -1, confidence = 0 }) =>
        `${rule}: ${winner < 0 ? tr`none` : glyphs(vote.answers[winner])} (${number(confidence)})`,
    );
    const gone = (vote.removed ?? []).filter(Boolean).length;
    return tr`${vote.voters.length} paths, ${vote.answers.length} answers, ${gone} dropped. ${said.join("; ")}.`;
  }
}
