// Samples that run side by side, as lanes that grow to the right at one pace. A flag stands where one comes to its end:
// what it answers, and whether that is right. The first flag may end the race, which a line across all lanes says; a
// second one is where the last lane ends, for which a vote would wait.

import { LETTER, render, StepPicture } from "../player/drawing.js";
import { cut, glyphs, tr } from "../player/words.js";
import { answerOf, marked } from "./asked.js";

export const view = { title: "Paths side by side", place: 158, needs: ["branches"] };

const LEFT = 34,
  TOP = 42,
  FLAGS = 112, // room for them behind the longest lane
  TALL = 448; // height of many lanes together
const LOOK = { winner: "accepted", ended: "drafted", alive: "drafted", stopped: "unreached" };

export class Lines extends StepPicture {
  layers = ["after", "lanes", "finish", "flags"];

  /** Hidden where no branch goes on from one step to another: these are no paths. */
  grow() {
    const { steps, length } = this.run,
      ids = steps.flatMap(({ branches = [] }) => branches.map(({ id }) => id)),
      on = new Set(ids).size < ids.length;
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
        const before = found.get(id) ?? { tokens: [], ended: false },
          kept = before.tokens.slice(0, Math.max(0, length - tokens.length)),
          ended = before.ended || fate === "finished" || this.run.eos.has(tokens.at(-1));
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
    render(this.lanes, paths, (path, n) => this.#lane(path, won, x, y(n), row));
    const flags = paths.map((path, n) => this.#flag(path, won, vote, x, y(n), row)).filter(Boolean);
    this.chips(this.flags, row > 20 ? flags : [], FLAGS);
    this.#finish(paths, won, x, foot);
    if (row > 14) paths.forEach(({ id }, n) => this.labels.push([LEFT - 8, y(n) + row / 2 + 3, "end", id]));
    this.frame(foot + 30, this.labels);
  }

  #kind(path, won) {
    if (path === won) return "winner";
    return path.ended ? "ended" : path.fate === "alive" ? "alive" : "stopped";
  }

  #lane(path, won, x, y, row) {
    const words = this.spelled(path.tokens),
      end = x(path.length),
      room = Math.floor((end - LEFT - 8) / LETTER),
      shown = row > 14 && room > 0 && path.length ? cut(glyphs(words.slice(-Math.max(1, room)), 999), room) : "",
      box = { y: y + 1, width: Math.max(1, end - LEFT), height: row - (row > 14 ? 5 : 1) };
    return [
      { "data-s": LOOK[this.#kind(path, won)] },
      ["title", {}, tr`path ${path.id}, ${this.#count(path)} tokens: ${glyphs(words, 400)}`],
      ["rect", { rx: 4, x: LEFT, ...box }],
      ["text", { "text-anchor": "end", x: end - 6, y: y + row / 2 + 3 }, shown],
    ];
  }

  /** Behind a lane that is over: its answer, where a vote or the task's check can tell it. */
  #flag(path, won, vote, x, y, row) {
    const kind = this.#kind(path, won);
    if (kind === "alive") return null;
    const voted = vote?.answers[vote.of[vote.voters.indexOf(path.id)]] ?? "",
      text = this.spelled(path.tokens),
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
    render(this.finish, lines, (at, n) => {
      const look = { class: "dx-eta", "data-s": n ? "unreached" : "accepted" };
      return ["path", { ...look, d: `M${x(at)},${TOP - 12}V${foot + 6}` }];
    });
    render(this.after, later ? [x(won.length)] : [], (from) => {
      const box = { x: from, y: TOP - 4, width: x(last) - from, height: foot - TOP + 8 };
      return ["rect", { class: "dx-lift dx-plain", ...box }];
    });
    const wide = this.width > 560,
      n = paths.length,
      title = wide ? tr`${n} samples of one question, token by token at one pace` : tr`${n} samples, one pace`,
      count = won && this.#count(won),
      first = wide ? tr`first flag, after ${count} tokens: its answer is taken` : tr`first flag: ${count}`,
      vote = wide ? tr`a vote would wait up to here: ${last - 1} tokens` : tr`a vote waits: ${last - 1}`;
    this.labels.push([LEFT, 16, "start", title]);
    if (won) this.labels.push([x(won.length) - 6, TOP - 8, "end", first]);
    if (later && over) this.labels.push([Math.min(x(last), this.width - 4), foot + 22, "end", vote]);
  }

  /** Tokens of a path; its end mark is none, as everywhere. */
  #count({ tokens }) {
    return tokens.filter((id) => !this.run.eos.has(id)).length;
  }

  describe(t) {
    const { paths } = this.#read(t),
      won = paths.find(({ fate }) => fate === "chosen"),
      going = paths.filter(({ fate, ended }) => fate === "alive" && !ended).length,
      all = paths.reduce((sum, path) => sum + this.#count(path), 0);
    if (!paths.length) return tr`Before the first step.`;
    if (!won) return tr`Still running: ${going} of ${paths.length}; none has won yet.`;
    const n = this.#count(won);
    return tr`★ path ${won.id} with ${n} tokens; still running: ${going}; written by all: ${all} tokens.`;
  }
}
