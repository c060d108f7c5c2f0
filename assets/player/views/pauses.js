// Code as it is written, with the entropy of each token under it. Where that reaches the threshold, the best few tokens
// are continued a little, each as a row, and the first token of the likeliest row is written.

import { chips } from "../chips.js";
import { glyphs, prose } from "../codec.js";
import { many } from "../counted.js";
import { pool, set, setText, svg } from "../dom.js";
import { comeIn } from "../motion.js";
import { percent } from "../shares.js";
import { Sliding, short } from "../sliding.js";
import { StepPicture } from "../steppicture.js";
import { tr } from "../words.js";
import { onLines } from "./onlines.js";

export const view = {
  name: "Pauses",
  title: "Greedy, with pauses to look ahead",
  place: 65,
  needs: ["branches+choice"],
};

const LETTER = 8.43, // width of one in the code
  TOP = 44,
  LINE = 52, // a line of code with its bars
  BARS = 26,
  SHOWN = 5,
  ROW = 68, // of a future
  NARROW = 760; // a panel in which the futures stand below the code

/** The futures of a pause, in their order: {tokens, p of the first, mean: probability per token, won}. */
export function futures({ branches = [] }) {
  return branches
    .filter(({ scores }) => scores?.score !== undefined)
    .map(({ tokens, scores, fate }) => ({
      tokens,
      p: Math.exp(scores["log p"]),
      mean: Math.exp(scores.score),
      won: fate === "chosen",
    }));
}

export class Pauses extends StepPicture {
  load(run, dom, context) {
    const range = { max: 6, step: 0.05 };
    this.sliding = new Sliding("τ", tr`Entropy at which decoding pauses`, () => this.show(this.t), range);
    const layers = ["bars", "lines", "lifted", "code", "fan", "back", "scale", "scores", "tokens"];
    this.begin(run, dom, context, layers, this.sliding.dom);
    set(this.code, "dx-code");
  }

  told({ choice }) {
    return choice;
  }

  /** The tokens up to step t. */
  #written(t) {
    const { run } = this;
    return run
      .board(t)
      .slice(run.prompt.length)
      .filter(({ token }) => token !== null)
      .map(({ token, entry }) => {
        const { choice, facts = {} } = run.steps[entry?.step] ?? {};
        return {
          text: prose(run.piece(token).text),
          H: choice?.value ?? null,
          paused: Boolean(facts.paused),
          overruled: Boolean(facts.overruled),
        };
      });
  }

  also(choice) {
    const line = this.sliding.at(choice?.threshold ?? 0),
      told = choice ? this.#written(this.t) : [],
      over = told.filter(({ H }) => H !== null && H >= line).length;
    this.sliding.show(
      choice?.threshold ?? 0,
      told.length > 0,
      tr`${over} of ${many(told.length, "token")} would pause.`,
    );
  }

  /** The step of the last pause, or 0. */
  #pause(t) {
    for (; t > 0; t--) if (futures(this.run.steps[t - 1]).length) return t;
    return 0;
  }

  draw(choice, _, next) {
    const { width } = this,
      wide = width >= NARROW,
      pane = wide ? Math.round(0.44 * width) : width,
      written = this.#written(this.t),
      cells = onLines(
        written.map(({ text }) => text),
        Math.floor((pane - 12) / LETTER),
      ),
      last = cells.at(-1)?.line ?? 0,
      first = Math.max(0, last - SHOWN + 1),
      shown = cells.filter(({ line }) => line >= first),
      line = this.sliding.at(choice.threshold),
      high = Math.max(1.4 * line, ...written.map(({ H }) => H ?? 0), 0.1),
      at = this.#pause(this.t),
      rows = at ? futures(this.run.steps[at - 1]) : [],
      now = at === this.t,
      left = wide ? pane + 64 : 8,
      low = TOP + (wide ? SHOWN : last - first + 1) * LINE,
      deep = TOP + 22 + Math.max(0, (last - first - 1) * LINE - rows.length * 0.5 * ROW),
      top = wide ? Math.max(TOP + 12, Math.min(deep, low - rows.length * ROW)) : low + 44,
      place = ({ line: row, from }) => [6 + from * LETTER, TOP + (row - first) * LINE + 16];
    this.labels = [];
    this.frame(Math.max(low, top + rows.length * ROW) + 4);
    this.#bars(shown, written, { place, line, high, pane, count: last - first + 1 });
    this.#code(shown, written, place);
    const here = cells.at(-1),
      [x, y] = here ? place(here) : [0, 0];
    const groups = this.#fan(rows, { left, top, right: width - 8, at, now }),
      from = [x + (here?.text.length ?? 0) * LETTER + 4, y - 5];
    const won = rows.findIndex((row) => row.won);
    pool(this.fan, now && wide ? rows.length : 0, () => svg("path", "dx-arc")).forEach((path, i) => {
      const to = [left - 6, top + i * ROW + 32],
        bend = (to[0] - from[0]) / 2;
      set(path, {
        d: `M${from}C${from[0] + bend},${from[1]} ${to[0] - bend},${to[1]} ${to}`,
        "data-s": i === won ? "new" : "unreached",
      });
    });
    this.label(this.labels);
    if (next && now) comeIn(groups, { opacity: 0 });
  }

  #bars(shown, written, { place, line, high, pane, count }) {
    const known = shown.filter(({ i }) => written[i].H !== null),
      ends = Array.from({ length: count }, () => 40),
      y = (H) => BARS * (1 - Math.min(1, H / high));
    pool(this.bars, known.length, () => svg("rect", {}, svg("title"))).forEach((bar, n) => {
      const cell = known[n],
        { H } = written[cell.i],
        [x, foot] = place(cell);
      set(bar, {
        x: x + 1,
        y: foot + 5 + y(H),
        width: Math.max(2, cell.text.length * LETTER - 2),
        height: Math.max(1, BARS - y(H)),
        class: H >= line ? "dx-over" : "dx-quiet",
      });
      setText(bar.firstChild, tr`entropy ${short(H)} nats`);
    });
    for (const cell of shown) {
      const [x, foot] = place(cell),
        n = Math.round((foot - 16 - TOP) / LINE);
      ends[n] = Math.max(ends[n], x + cell.text.length * LETTER);
    }
    pool(this.lines, count, () => svg("path", { class: "dx-eta", "data-s": "rejected" })).forEach((path, n) =>
      set(path, { d: `M2,${TOP + n * LINE + 21 + y(line)}H${ends[n] + 12}` }),
    );
    const wide = pane > 420;
    this.labels.push(
      [2, 15, "start", wide ? tr`The code so far; bar: entropy of each token` : tr`Bar: entropy of each token`],
      [2, 34, "start", tr`dashed: pause from ${short(line)} nats`],
    );
  }

  #code(shown, written, place) {
    pool(this.code, shown.length, () => svg("g", {}, svg("rect", { rx: 4, height: 21 }), svg("text"))).forEach(
      (group, n) => {
        const cell = shown[n],
          [x, y] = place(cell),
          { paused, overruled } = written[cell.i],
          now = cell.i === written.length - 1,
          [box, text] = group.childNodes;
        group.removeAttribute("data-s");
        if (now || paused) set(group, { "data-s": now || overruled ? "new" : "old" });
        set(box, { x: x - 1, y: y - 15, width: cell.text.length * LETTER + 2 });
        box.style.display = now || paused ? "" : "none";
        set(text, { x, y });
        setText(text, cell.text);
      },
    );
  }

  #fan(rows, { left, top, right, at, now }) {
    const { run } = this,
      { theme } = this.context,
      items = [],
      scores = [],
      room = right - left,
      wide = room > 560,
      most = Math.max(0, ...rows.map(({ mean }) => mean)),
      bar = Math.min(170, 0.3 * room);
    rows.forEach(({ tokens, p, mean, won }, i) => {
      const y = top + i * ROW;
      let x = left;
      for (const [n, token] of tokens.entries()) {
        const whole = glyphs(run.piece(token).text),
          wide = 7.4 * Math.min(14, [...whole].length) + 12;
        if (x + wide > right - (wide ? bar + 140 : 0)) break;
        items.push({ x: x + wide / 2, y: y + 20, whole, state: n ? "unreached" : won ? "new" : "old", n, wide });
        x += wide + 4;
      }
      const rank = i
        ? won
          ? tr`${i + 1}. choice (${percent(p)}): overrules greedy`
          : tr`${i + 1}. choice (${percent(p)})`
        : won
          ? tr`1. choice (${percent(p)}), as greedy: stays`
          : tr`1. choice (${percent(p)}): greedy takes this`;
      this.labels.push([left, y + 13, "start", won ? `✓ ${rank}` : rank]);
      scores.push({ y: wide ? y + 24 : y + 48, mean, won });
    });
    const to = wide ? right - bar - 130 : left;
    pool(this.scores, scores.length, () => svg("rect", { height: 14, rx: 3 })).forEach((one, i) => {
      const { y, mean, won } = scores[i];
      set(one, {
        x: to,
        y,
        width: Math.max(2, (mean / (most || 1)) * bar),
        class: won ? "dx-over dx-best" : "dx-quiet",
      });
      this.labels.push([
        to + (mean / (most || 1)) * bar + 6,
        y + 12,
        "start",
        tr`${(100 * mean).toFixed(1)} % per token`,
      ]);
    });
    const groups = chips(this.tokens, items, theme, 14 * 7.4 + 12);
    groups.forEach((group, i) => group.toggleAttribute("data-first", !items[i].n));
    for (const layer of [this.tokens, this.scores]) layer.style.opacity = now ? 1 : 0.45;
    const title = !at
      ? tr`No pause so far: all are first choices`
      : now
        ? wide
          ? tr`Unsure, so ${rows.length} futures are tried: the likeliest gives the next token`
          : tr`Unsure: ${rows.length} futures are tried`
        : tr`No pause here. The last one, step ${at}:`;
    this.labels.push([left, top - 12, "start", title]);
    if (rows.length && wide) this.labels.push([to, top + 6, "start", tr`how likely a future is`]);
    return groups;
  }

  describe(t) {
    const step = this.run.steps[t - 1];
    if (!step?.choice) return t ? tr`No decision was recorded in this step.` : tr`Before the first step.`;
    const { value, threshold } = step.choice,
      rows = futures(step),
      H = value === null || value === undefined ? "–" : short(value);
    if (!rows.length) return tr`Entropy ${H} nats, below ${short(threshold)}: the model's first choice is written.`;
    const won = rows.findIndex((row) => row.won);
    return won > 0
      ? tr`Entropy ${H} nats: paused. Choice ${won + 1} overrules the first one.`
      : tr`Entropy ${H} nats: paused. The first choice stays.`;
  }
}
