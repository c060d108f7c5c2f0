// Two models that write one text by turns: each token in the colour of its writer, under it the entropy that decides
// who writes next, and between them the baton, with what its taker must read first.

import { comeIn, MIDDLE, StepPicture } from "../player/drawing.js";
import { limit, Sliding, short } from "../player/sliding.js";
import { glyphs, many, number, percent, tr } from "../player/words.js";

export const view = { title: "Who writes, and when it hands over", place: 151, needs: ["relay"] };

const TOP = 62,
  CELL = 26,
  CURVE = 62, // height of the entropy under a line
  LINE = 24 + CELL + CURVE + 18,
  SHOWN = 3, // lines
  WIDE = 1000, // a panel with room for the longer words
  LETTER = 8, // width of one in a cell
  NARROWEST = 38; // of a cell

/** What the steps cost so far as a share of what the large model alone would have cost. Weights: a call reads all of
 * its model's; arithmetic: positions read times parameters. models: {role: parameters}; prompt: its length. */
export function costs(steps, models, large, prompt) {
  let weights = 0,
    work = 0;
  for (const { relay, forwards = {}, tokens_fed: fed } of steps) {
    for (const [role, calls] of Object.entries(forwards)) weights += calls * (models[role] ?? 0);
    work += fed * (models[relay?.writer] ?? 0);
  }
  const n = steps.length;
  return { weights: weights / (n * models[large]), work: work / ((prompt + n - 1) * models[large]) };
}

/** Cells on lines of a width: [{i, line, x, w}], for texts in this order. */
export function inLines(texts, width) {
  let line = 0,
    x = 0;
  return texts.map((text, i) => {
    const w = Math.min(width, Math.max(NARROWEST, LETTER * [...text].length + 16));
    if (x && x + w > width) [line, x] = [line + 1, 0];
    x += w;
    return { i, line, x: x - w, w };
  });
}

export class Baton extends StepPicture {
  layers = ["areas", "lines", "cells", "batons", "gauge"];
  sliding = new Sliding(this, "relay.tau", "τ", tr`Threshold τ`, [0, 4, 0.01]);
  none = tr`No choice at this step.`;

  grow() {
    this.models = Object.fromEntries(this.run.header.models.map(({ role, parameters = 0 }) => [role, parameters]));
    this.roles = Object.keys(this.models).sort((a, b) => this.models[a] - this.models[b]);
  }

  /** Steps up to t that wrote a token: {text, writer, entropy, mean, switched, read}. */
  #written(t) {
    const { run } = this;
    return run.steps
      .slice(0, t)
      .map((step, index) => ({ ...step, index }))
      .filter(({ relay, commits }) => relay && commits)
      .map(({ relay, commits, index }) => ({
        ...relay,
        index,
        text: run.eos.has(commits.tokens.at(-1)) ? "■" : glyphs(run.piece(commits.tokens.at(-1)).text, 24),
      }));
  }

  /** Whether a token calls for the large model: where its bar is above the line. */
  #large({ index, mean, tau }) {
    return this.sliding.decided(mean > tau ? "large" : "", index + 1) === "large";
  }

  also(relay) {
    const told = relay ? this.#written(this.t) : [],
      over = told.filter((one) => this.#large(one)).length,
      said = tr`after ${over} of ${many(told.length, "token")} it would call for the large model.`;
    this.sliding.show(relay?.tau ?? 0, told.length > 0, said);
  }

  draw(relay, _, next) {
    const { width } = this,
      told = this.#written(this.t),
      texts = told.map(({ text }) => text),
      cells = inLines(texts, width - 8),
      last = cells.at(-1)?.line ?? 0,
      first = Math.max(0, last - SHOWN + 1),
      tau = this.sliding.at(relay.tau),
      most = Math.max(2.2 * tau, ...this.#written(this.run.length).map(({ mean }) => mean), 0.01),
      // a square root: the threshold is far below the largest values
      y = (foot, H) => foot - (CURVE - 6) * Math.sqrt(Math.max(0, Math.min(1, H / most))),
      shown = cells
        .filter(({ line }) => line >= first)
        .map((cell) => {
          const top = TOP + (cell.line - first) * LINE + 24;
          return { ...cell, ...told[cell.i], x: 4 + cell.x, top, foot: top + CELL + CURVE };
        }),
      ends = new Map(shown.map(({ line, foot, x, w }) => [line, { end: x + w, level: y(foot, tau) }])),
      labels = [];
    const words = shown.map(({ x, w, top, writer: role, text, entropy }) => {
      const option = `--option${this.roles.indexOf(role)}`;
      return [
        {},
        ["title", {}, tr`written by ${role}; entropy ${number(entropy, "bits")}`],
        ["rect", { height: CELL, rx: 4, x, y: top, width: w - 3, style: `fill:var(${option}-fill);stroke:none` }],
        [
          "text",
          { ...MIDDLE, x: x + w / 2 - 1.5, y: top + 18, style: `fill:var(${option}-text);font-size:13px` },
          text,
        ],
      ];
    });
    const areas = shown.map((cell) => {
      const up = y(cell.foot, cell.mean),
        box = { x: cell.x, y: up, width: cell.w - 1, height: Math.max(1, cell.foot - up) };
      return ["rect", { ...box, class: this.#large(cell) ? "dx-high" : "dx-quiet" }];
    });
    this.#key(tau, [...ends.values()][0], labels);
    const handed = shown.filter(({ i, writer }) => i && writer !== told[i - 1].writer),
      drawn = this.paint(TOP + (last - first + 1) * LINE + 8, labels, {
        areas,
        lines: [...ends.values()].map(({ end, level }) => limit(4, end, level)),
        cells: words,
        batons: handed.map((cell, n) => this.#baton(cell, handed[n + 1], labels)),
        gauge: this.#gauge(told.length, labels),
      });
    if (!next) return;
    if (handed.length && handed.at(-1).i === told.length - 1) comeIn(drawn.batons.slice(-1), { opacity: 0 });
    comeIn(drawn.cells.slice(-1), { transform: "translateY(-14px)", opacity: 0 });
  }

  /** A baton stands in front of the first token of who took it. */
  #baton({ x, line, top, foot, read, writer }, after, labels) {
    const end = after?.line === line ? after.x : this.width + 4,
      words = read ? tr`to ${writer}, ${read} read` : tr`to ${writer}`,
      short = read ? `+${read}` : "";
    labels.push([x + 12, top - 7, "start", end - x > 7.4 * words.length + 16 ? words : short]);
    const style = "stroke:var(--text);stroke-width:2;fill:none;opacity:1";
    return ["path", { d: `M${x - 1},${foot}V${top - 6}l9,-5l-9,-5`, style }];
  }

  /** What the run cost so far, against the large model alone. */
  #gauge(n, labels) {
    const large = this.roles.at(-1),
      { weights, work } = costs(this.run.steps.slice(0, this.t), this.models, large, this.run.prompt.length),
      w = 200,
      x = this.width - w - 8,
      shares = [
        [weights, tr`weights read: ${percent(weights)} of the large model alone`],
        [work, tr`arithmetic: ${percent(work)}, since missed tokens are read`],
      ].filter(([share]) => n && Number.isFinite(share));
    if (this.width <= WIDE) {
      if (shares[0]?.[0] === weights)
        labels.push([4, 34, "start", tr`${percent(weights)} of the weights that ${large} alone reads`]);
      return [];
    }
    return shares.flatMap(([share, words], i) => {
      const box = { rx: 4, height: 13, x, y: 4 + 19 * i };
      labels.push([x - 8, 15 + 19 * i, "end", words]);
      return [
        ["rect", { ...box, width: w, style: "fill:none;stroke:var(--muted);stroke-dasharray:4 3" }],
        ["rect", { ...box, width: Math.min(1, share) * w, style: "fill:var(--accent);stroke:none" }],
      ];
    });
  }

  /** row: where the threshold of the first line ends. */
  #key(tau, row, labels) {
    const [small, large] = [this.roles[0], this.roles.at(-1)];
    if (this.width <= WIDE) return labels.push([4, 15, "start", tr`blue: ${small}, orange: ${large}; bars: entropy`]);
    labels.push(
      [4, 15, "start", tr`Who wrote each token: blue ${small}, orange ${large}. Bars: entropy, averaged`],
      [4, 34, "start", tr`over ${short(tau)} bits (dashed) the ${large} model writes next, else the ${small} one`],
    );
    if (row?.end < this.width - 90) labels.push([row.end + 6, row.level + 4, "start", tr`τ = ${short(tau)} bits`]);
  }

  sentence({ writer, mean, tau, switched }, _, t) {
    const told = this.#written(t),
      large = told.filter((one) => one.writer === this.roles.at(-1)).length,
      now = switched ? tr` It hands over.` : "";
    return tr`Written by ${writer}: averaged entropy ${number(mean, "bits")}, threshold \
${number(tau)}.${now} ${large} of ${many(told.length, "token")} by the large model.`;
  }
}
