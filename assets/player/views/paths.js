// Samples that run side by side, as lanes that grow to the right at one pace: who comes to the end first, who is
// stopped then, and what each answers once they are asked.

import { cut, glyphs } from "../codec.js";
import { el, pool, setText } from "../dom.js";
import { tr } from "../words.js";

export const view = { name: "Lines", title: "Paths side by side", place: 158, needs: ["branches"] };

const LETTERS = 600, // the last ones of a text: more than a lane has room for
  ROW = "display:grid;grid-template-columns:2.2em 1fr 4.6em;gap:6px;align-items:center;height:25px",
  LANE = "position:relative;height:21px;border-radius:4px;background:var(--line-soft,transparent)",
  BAR =
    "position:absolute;inset:0 auto 0 0;display:flex;justify-content:flex-end;align-items:center;overflow:hidden;" +
    "border-radius:4px;padding:0 4px;box-sizing:border-box;border:1px solid transparent",
  FLAG = "position:absolute;top:-2px;bottom:-2px;width:0;border-left:2px dashed var(--text);pointer-events:none",
  // kind of lane: filling, text, border
  LOOK = {
    winner: ["accepted-fill", "accepted-text", "accepted-text"],
    ended: ["drafted-fill", "drafted-text", "drafted-text"],
    alive: ["drafted-fill", "drafted-text", "line"],
    stopped: ["unreached-fill", "unreached-text", "line"],
  };

const styled = (tag, style, ...children) => {
  const node = el(tag, {}, ...children);
  node.style.cssText = style;
  return node;
};

export class Lines {
  load(run, dom) {
    Object.assign(this, { run, dom });
    this.say = el("p", "dx-readout");
    this.rows = styled("div", "overflow:auto;max-height:440px;font-size:12px");
    this.rows.tabIndex = 0;
    this.rows.setAttribute("role", "group");
    this.rows.setAttribute("aria-label", tr`Paths side by side`);
    dom.append(this.say, this.rows);
    this.grow();
  }

  /** Hidden where no branch goes on from one step to another: these are no paths. */
  grow() {
    const { steps, length } = this.run,
      seen = new Set(),
      on = steps.some(({ branches = [] }) => {
        const again = branches.some(({ id }) => seen.has(id));
        for (const { id } of branches) seen.add(id);
        return again;
      });
    if (this.dom.parentElement) this.dom.parentElement.hidden = length > 1 && !on;
  }

  /** Every path as it stands after t steps: {id, length, tokens, fate, ended}; how many there are in the whole run, and
   * how long the longest of them gets. */
  #read(t) {
    const found = new Map(),
      all = new Set();
    let longest = 1;
    this.run.steps.forEach((step, i) => {
      for (const { id, tokens, length = 0, fate = "alive" } of step.branches ?? []) {
        longest = Math.max(longest, length);
        all.add(id);
        if (i >= t) continue;
        const before = found.get(id) ?? { tokens: [], ended: false };
        const kept = before.tokens.slice(0, Math.max(0, length - tokens.length));
        const ended = before.ended || fate === "finished";
        found.set(id, { id, length, fate, ended, tokens: [...kept, ...tokens] });
      }
    });
    return { paths: [...found.values()].sort((a, b) => a.id - b.id), longest, all: all.size };
  }

  show(t, hurry) {
    if (hurry) return;
    const { paths, longest, all } = this.#read(t),
      won = paths.find(({ fate }) => fate === "chosen") ?? null,
      vote = this.run.steps[t - 1]?.vote ?? null;
    setText(this.say, this.describe(t));
    const rows = pool(this.rows, Math.max(1, all), () => {
      const bar = styled("span", BAR, styled("span", "font-family:var(--mono);white-space:pre"));
      return el("div", {}, styled("div", ROW, el("span"), styled("div", LANE, bar, styled("span", FLAG)), el("span")));
    });
    rows.forEach((row, n) => this.#draw(row, paths[n], won, longest, vote));
  }

  #draw(row, path, won, longest, vote) {
    const [number, lane, said] = row.firstChild.childNodes,
      [bar, flag] = lane.childNodes,
      kind = !path
        ? "alive"
        : path === won
          ? "winner"
          : path.ended
            ? "ended"
            : path.fate === "alive"
              ? "alive"
              : "stopped",
      [fill, ink, edge] = LOOK[kind].map((name) => `var(--${name})`),
      words = path ? path.tokens.map((id) => this.run.piece(id).text).join("") : "";
    setText(number, path ? `${path.id}` : "");
    bar.style.width = path ? `${(100 * path.length) / longest}%` : "0";
    bar.style.background = fill;
    bar.style.color = ink;
    bar.style.borderColor = edge;
    bar.style.fontWeight = kind === "winner" ? "600" : "";
    bar.style.visibility = path?.length ? "" : "hidden";
    setText(bar.firstChild, glyphs(words.slice(-LETTERS), LETTERS));
    flag.style.display = won && path ? "" : "none";
    flag.style.left = won ? `${(100 * won.length) / longest}%` : "0";
    setText(said, path ? this.#said(path, kind, vote) : "");
    row.title = path ? tr`path ${path.id}, ${this.#count(path)} tokens: ${glyphs(words, 400)}` : "";
  }

  /** Tokens of a path; its end mark is none, as everywhere. */
  #count({ tokens }) {
    return tokens.filter((id) => !this.run.eos.has(id)).length;
  }

  /** Behind a lane: how it ended, and its answer where a vote was held. */
  #said({ id }, kind, vote) {
    const at = vote ? vote.voters.indexOf(id) : -1,
      answer = at >= 0 && vote.of[at] >= 0 ? ` ${cut(glyphs(vote.answers[vote.of[at]]), 5)}` : "";
    return `${{ winner: "★", ended: "■", stopped: "✕", alive: "…" }[kind]}${answer}`;
  }

  describe(t) {
    const { paths } = this.#read(t),
      won = paths.find(({ fate }) => fate === "chosen") ?? null,
      going = paths.filter(({ fate, ended }) => fate === "alive" && !ended).length;
    if (!t || !paths.length) return tr`Before the first step.`;
    if (!won) return tr`Still running: ${going} of ${paths.length}; none has won yet.`;
    const all = paths.reduce((sum, path) => sum + this.#count(path), 0),
      n = this.#count(won);
    return tr`★ path ${won.id} with ${n} tokens; still running: ${going}; written by all: ${all} tokens.`;
  }
}
