// Samples that run side by side, as lanes that grow to the right at one pace. A flag stands where one comes to its end:
// what it answers, and whether that is right. The first flag may end the race, which a line across all lanes says; a
// second one is where the last lane ends, for which a vote would wait.

import { chips } from "../chips.js";
import { cut, glyphs } from "../codec.js";
import { pool, set, setText, svg } from "../dom.js";
import { StepPicture } from "../steppicture.js";
import { tr } from "../words.js";
import { answerOf, marked } from "./plainly.js";

export const view = { name: "Lines", title: "Paths side by side", place: 158, needs: ["branches"] };

const LEFT = 34,
  TOP = 42,
  FLAGS = 112, // room for them behind the longest lane
  LETTER = 7.4,
  TALL = 448; // height of many lanes together
const LOOK = { winner: "accepted", ended: "drafted", alive: "drafted", stopped: "unreached" };

export class Lines extends StepPicture {
  load(run, dom, context) {
    this.dom = dom;
    this.begin(run, dom, context, ["after", "lanes", "finish", "flags"]);
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
        const ended = before.ended || fate === "finished" || this.run.eos.has(tokens.at(-1));
        found.set(id, { id, length, fate, ended, tokens: [...kept, ...tokens] });
      }
    });
    return { paths: [...found.values()].sort((a, b) => a.id - b.id), longest, all: all.size };
  }

  draw(_, step) {
    const { width } = this,
      { paths, longest, all } = this.#read(this.t),
      won = paths.find(({ fate }) => fate === "chosen") ?? null,
      vote = step.vote ?? null,
      row = all <= 16 ? 28 : Math.max(6, TALL / all),
      foot = TOP + all * row,
      unit = (width - LEFT - FLAGS) / longest,
      x = (n) => LEFT + n * unit,
      y = (n) => TOP + n * row;
    this.labels = [];
    this.frame(foot + 30);
    pool(this.lanes, paths.length, () =>
      svg("g", {}, svg("title"), svg("rect", { rx: 4, x: LEFT }), svg("text", { "text-anchor": "end" })),
    ).forEach((lane, n) => this.#lane(lane, paths[n], won, x, y(n), row));
    const flags = paths.map((path, n) => this.#flag(path, won, vote, x, y(n), row)).filter(Boolean);
    chips(this.flags, row > 20 ? flags : [], this.context.theme, FLAGS);
    this.#finish(paths, won, x, foot);
    if (row > 14) paths.forEach(({ id }, n) => this.labels.push([LEFT - 8, y(n) + row / 2 + 3, "end", id]));
    this.label(this.labels);
  }

  #kind(path, won) {
    if (path === won) return "winner";
    return path.ended ? "ended" : path.fate === "alive" ? "alive" : "stopped";
  }

  #text({ tokens }) {
    return tokens.map((id) => (this.run.eos.has(id) ? "" : this.run.piece(id).text)).join("");
  }

  #lane(lane, path, won, x, y, row) {
    const [title, bar, text] = lane.childNodes,
      words = this.#text(path),
      room = Math.floor((x(path.length) - LEFT - 8) / LETTER);
    set(lane, { "data-s": LOOK[this.#kind(path, won)] });
    set(bar, { y: y + 1, width: Math.max(1, x(path.length) - LEFT), height: row - (row > 14 ? 5 : 1) });
    set(text, { x: x(path.length) - 6, y: y + row / 2 + 3 });
    const shown = glyphs(words.slice(-Math.max(1, room)), 999);
    setText(text, row > 14 && room > 0 && path.length ? cut(shown, room) : "");
    setText(title, tr`path ${path.id}, ${this.#count(path)} tokens: ${glyphs(words, 400)}`);
  }

  /** Behind a lane that is over: its answer, where a vote or the task's check can tell it. */
  #flag(path, won, vote, x, y, row) {
    const kind = this.#kind(path, won);
    if (kind === "alive") return null;
    const at = vote ? vote.voters.indexOf(path.id) : -1,
      voted = at >= 0 && vote.of[at] >= 0 ? vote.answers[vote.of[at]] : "",
      text = this.#text(path),
      [answer, right] = answerOf(this.run, voted || text),
      sign = path.ended ? `⚑ ${cut(glyphs(voted || answer || "■"), 6)} ${marked(right)}`.trim() : tr`✕ stopped`;
    return {
      x: x(path.length) + 6 + (LETTER * sign.length + 12) / 2,
      y: y + row / 2 - 13,
      state: !path.ended ? "unreached" : right === null ? "old" : right ? "accepted" : "rejected",
      whole: path.ended ? glyphs(text) : sign,
      text: sign,
    };
  }

  #finish(paths, won, x, foot) {
    const over = paths.length > 0 && paths.every((path) => path.ended || path.fate !== "alive"),
      last = Math.max(0, ...paths.filter(({ ended }) => ended).map(({ length }) => length)),
      lines = won ? [won.length] : [],
      later = won && last > won.length;
    if (later && over) lines.push(last);
    pool(this.finish, lines.length, () => svg("path", { class: "dx-eta" })).forEach((line, n) =>
      set(line, { d: `M${x(lines[n])},${TOP - 12}V${foot + 6}`, "data-s": n ? "unreached" : "accepted" }),
    );
    pool(this.after, later ? 1 : 0, () => svg("rect", { class: "dx-lift dx-plain" })).forEach((box) =>
      set(box, { x: x(won.length), y: TOP - 4, width: x(last) - x(won.length), height: foot - TOP + 8 }),
    );
    const wide = this.width > 560;
    this.labels.push([
      LEFT,
      16,
      "start",
      wide
        ? tr`${paths.length} samples of one question, token by token at one pace`
        : tr`${paths.length} samples, one pace`,
    ]);
    if (won)
      this.labels.push([
        x(won.length) - 6,
        TOP - 8,
        "end",
        wide
          ? tr`first flag, after ${this.#count(won)} tokens: its answer is taken`
          : tr`first flag: ${this.#count(won)}`,
      ]);
    if (later && over)
      this.labels.push([
        Math.min(x(last), this.width - 4),
        foot + 22,
        "end",
        wide ? tr`a vote would wait up to here: ${last - 1} tokens` : tr`a vote waits: ${last - 1}`,
      ]);
  }

  /** Tokens of a path; its end mark is none, as everywhere. */
  #count({ tokens }) {
    return tokens.filter((id) => !this.run.eos.has(id)).length;
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
