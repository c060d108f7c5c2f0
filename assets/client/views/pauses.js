// Code as it is written, with the entropy of each token under it. Where that reaches the threshold, the best few tokens
// are continued a little, each as a row, and the first token of the likeliest row is written.

import { svg } from "../player/dom.js";
import { render, StepPicture } from "../player/drawing.js";
import { Sliding, short } from "../player/sliding.js";
import { cut, many, percent, prose, tr } from "../player/words.js";

export const view = { title: "Greedy, with pauses to look ahead", place: 65, needs: ["pause"] };

const LETTER = 8.43, // width of one in the code
  TOP = 44,
  LINE = 52, // a line of code with its bars
  BARS = 26,
  SHOWN = 5,
  ROW = 68, // of a future
  NARROW = 760; // a panel in which the futures stand below the code

/** The futures of a pause, in their order: {tokens, p of the first, mean: probability per token, won}. */
const futures = ({ pause }) =>
  (pause?.futures ?? []).map((tokens, i) => ({ tokens, p: pause.p[i], mean: pause.mean[i], won: i === pause.chosen }));

export class Pauses extends StepPicture {
  code = svg("g", "dx-code");
  layers = ["bars", "lines", this.code, "fan", "scores", "tokens"];
  none = tr`No decision was recorded in this step.`;
  sliding = new Sliding(this, "pause.threshold", "τ", tr`Entropy at which decoding pauses`, [0, 6, 0.05]);
  pauses = ({ step, paused }) => this.sliding.decided(paused, step + 1);

  /** The tokens up to step t. */
  #written(t) {
    const { run } = this,
      cells = run.board(t).slice(run.prompt.length);
    return cells.flatMap(({ token, entry }) => {
      if (token === null) return [];
      const { pause } = run.steps[entry?.step] ?? {},
        cell = { step: entry?.step, text: prose(run.piece(token).text), H: pause?.entropy ?? null };
      return { ...cell, paused: Boolean(pause?.futures.length), overruled: pause?.chosen > 0 };
    });
  }

  also(pause) {
    const told = pause ? this.#written(this.t) : [],
      said = tr`${told.filter(this.pauses).length} of ${many(told.length, "token")} would pause.`;
    this.sliding.show(pause?.threshold ?? 0, told.length > 0, said);
  }

  draw(pause) {
    const { run, t, width, pauses } = this,
      at = 1 + run.steps.slice(0, t).findLastIndex((step) => futures(step).length), // the last pause, or 0
      now = at === t,
      rows = at ? futures(run.steps[at - 1]) : [],
      word = (token) => this.word(token),
      line = this.sliding.at(pause.threshold),
      made = layout({ width, written: this.#written(t), line, rows, at, now, word, pauses });
    render(this.bars, made.bars, ({ title, ...box }) => ["rect", box, ["title", {}, title]]);
    render(this.lines, made.dashed, (d) => ["path", { class: "dx-eta", "data-s": "rejected", d }]);
    render(this.code, made.code, ({ x, y, text, state, box }) => {
      const word = ["text", { x, y }, text];
      return state ? [{ "data-s": state }, ["rect", { rx: 4, height: 21, ...box }], word] : word;
    });
    render(this.scores, made.scores, (box) => ["rect", { height: 14, rx: 3, ...box }]);
    render(this.fan, made.arcs, (arc) => ["path", { class: "dx-arc", ...arc }]);
    const groups = this.chips(this.tokens, made.tokens, 14 * 7.4 + 12);
    for (const layer of [this.tokens, this.scores]) layer.style.opacity = now ? 1 : 0.45;
    this.frame(made.height, made.labels);
    return now ? groups : [];
  }

  sentence({ entropy, threshold, futures, chosen }) {
    const H = short(entropy);
    if (!futures.length) return tr`Entropy ${H} nats, below ${short(threshold)}: the model's first choice is written.`;
    return chosen > 0
      ? tr`Entropy ${H} nats: paused. Choice ${chosen + 1} overrules the first one.`
      : tr`Entropy ${H} nats: paused. The first choice stays.`;
  }
}

/** The tokens so far, {text, H, paused, overruled}, and the futures of the last pause, at step `at` (0: none):
 * {height, labels, bars, line, code, arcs, tokens, scores}. line: the entropy of a pause; now: whether it is this
 * step; word: of a token; pauses: whether there is one at a token. */
export function layout({ width, written, line, rows, at, now, word, pauses }) {
  const wide = width >= NARROW,
    pane = wide ? Math.round(0.44 * width) : width,
    cells = onLines(
      written.map(({ text }) => text),
      Math.floor((pane - 12) / LETTER),
    ),
    last = cells.at(-1)?.line ?? 0,
    first = Math.max(0, last - SHOWN + 1),
    shown = cells.filter(({ line }) => line >= first),
    high = Math.max(1.4 * line, ...written.map(({ H }) => H ?? 0), 0.1),
    left = wide ? pane + 64 : 8,
    low = TOP + (wide ? SHOWN : last - first + 1) * LINE,
    deep = TOP + 22 + Math.max(0, (last - first - 1) * LINE - rows.length * 0.5 * ROW),
    top = wide ? Math.max(TOP + 12, Math.min(deep, low - rows.length * ROW)) : low + 44,
    place = ({ line: row, from }) => [6 + from * LETTER, TOP + (row - first) * LINE + 16];
  const labels = [],
    code = shown.map((cell) => words(cell, written, place)),
    { bars, dashed } = entropies(shown, written, { place, line, pauses, high, pane, count: last - first + 1, labels }),
    here = cells.at(-1),
    [x, y] = here ? place(here) : [0, 0],
    { tokens, scores } = futuresAt(rows, { left, top, right: width - 8, at, now, word, labels }),
    from = [x + (here?.text.length ?? 0) * LETTER + 4, y - 5],
    won = rows.findIndex((row) => row.won);
  const arcs = (now && wide ? rows : []).map((_, i) => {
    const to = [left - 6, top + i * ROW + 32],
      bend = (to[0] - from[0]) / 2;
    return {
      d: `M${from}C${from[0] + bend},${from[1]} ${to[0] - bend},${to[1]} ${to}`,
      "data-s": i === won ? "new" : "unreached",
    };
  });
  return { height: Math.max(low, top + rows.length * ROW) + 4, labels, bars, dashed, code, arcs, tokens, scores };
}

function entropies(shown, written, { place, line, pauses, high, pane, count, labels }) {
  const known = shown.filter(({ i }) => written[i].H !== null),
    ends = Array.from({ length: count }, () => 40),
    y = (H) => BARS * (1 - Math.min(1, H / high)),
    bars = known.map((cell) => {
      const { H } = written[cell.i],
        [x, foot] = place(cell);
      return {
        x: x + 1,
        y: foot + 5 + y(H),
        width: Math.max(2, cell.text.length * LETTER - 2),
        height: Math.max(1, BARS - y(H)),
        class: pauses(written[cell.i]) ? "dx-over" : "dx-quiet",
        title: tr`entropy ${short(H)} nats`,
      };
    });
  for (const cell of shown) {
    const [x, foot] = place(cell),
      n = Math.round((foot - 16 - TOP) / LINE);
    ends[n] = Math.max(ends[n], x + cell.text.length * LETTER);
  }
  const wide = pane > 420;
  labels.push(
    [2, 15, "start", wide ? tr`The code so far; bar: entropy of each token` : tr`Bar: entropy of each token`],
    [2, 34, "start", tr`dashed: pause from ${short(line)} nats`],
  );
  return { bars, dashed: ends.map((end, n) => `M2,${TOP + n * LINE + 21 + y(line)}H${end + 12}`) };
}

/** A token of the code; a box stands around it where there was a pause, and around the last one. */
function words(cell, written, place) {
  const [x, y] = place(cell),
    { paused, overruled } = written[cell.i],
    now = cell.i === written.length - 1,
    state = now || paused ? (now || overruled ? "new" : "old") : null;
  return { x, y, text: cell.text, state, box: { x: x - 1, y: y - 15, width: cell.text.length * LETTER + 2 } };
}

function futuresAt(rows, { left, top, right, at, now, word, labels }) {
  const tokens = [],
    room = right - left,
    roomy = room > 560,
    most = Math.max(0, ...rows.map(({ mean }) => mean)) || 1,
    bar = Math.min(170, 0.3 * room),
    to = roomy ? right - bar - 130 : left;
  const scores = rows.map((future, i) => {
    const { mean, won } = future,
      y = top + i * ROW,
      long = (mean / most) * bar;
    let x = left;
    for (const [n, token] of future.tokens.entries()) {
      const whole = word(token),
        wide = 7.4 * Math.min(14, [...whole].length) + 12;
      if (x + wide > right - bar - 140) break;
      tokens.push({ x: x + wide / 2, y: y + 20, whole, state: n ? "unreached" : won ? "new" : "old", n, wide });
      x += wide + 4;
    }
    const score = { x: to, y: roomy ? y + 24 : y + 48, width: Math.max(2, long) };
    labels.push([left, y + 13, "start", won ? `✓ ${rank(future, i)}` : rank(future, i)]);
    labels.push([to + long + 6, score.y + 12, "start", tr`${(100 * mean).toFixed(1)} % per token`]);
    return { ...score, class: won ? "dx-over dx-best" : "dx-quiet" };
  });
  labels.push([left, top - 12, "start", titleOf(rows, at, now, roomy)]);
  if (rows.length && roomy) labels.push([to, top + 6, "start", tr`how likely a future is`]);
  return { tokens, scores };
}

function rank({ p, won }, i) {
  if (i) return won ? tr`${i + 1}. choice (${percent(p)}): overrules greedy` : tr`${i + 1}. choice (${percent(p)})`;
  return won ? tr`1. choice (${percent(p)}), as greedy: stays` : tr`1. choice (${percent(p)}): greedy takes this`;
}

function titleOf(rows, at, now, roomy) {
  if (!at) return tr`No pause so far: all are first choices`;
  if (!now) return tr`No pause here. The last one, step ${at}:`;
  if (!roomy) return tr`Unsure: ${rows.length} futures are tried`;
  return tr`Unsure, so ${rows.length} futures are tried: the likeliest gives the next token`;
}

/** Tokens on lines of at most `most` letters: [{i, line, from, text}]; a line break is a letter at the end of its
 * line. */
export function onLines(texts, most) {
  let line = 0,
    from = 0;
  return texts.map((text, i) => {
    const [head, ...rest] = text.split("\n"),
      shown = rest.length ? `${head}↵` : head;
    if (from && from + shown.length > most) [line, from] = [line + 1, 0];
    const cell = { i, line, from, text: cut(shown, most) };
    from += shown.length;
    if (rest.length) [line, from] = [line + rest.length, rest.at(-1).length];
    return cell;
  });
}
