// Two models that write one text by turns: each token in the colour of its writer, under it the entropy that decides
// who writes next, and between them the baton, with what its taker must read first.

import { glyphs, number } from "../player/codec.js";
import { many } from "../player/counted.js";
import { pool, set, setText, svg } from "../player/dom.js";
import { comeIn } from "../player/motion.js";
import { percent } from "../player/shares.js";
import { Sliding, short } from "../player/sliding.js";
import { StepPicture } from "../player/steppicture.js";
import { tr } from "../player/words.js";
import { inLines } from "./onlines.js";

export const view = { title: "Who writes, and when it hands over", place: 151, needs: ["relay"] };

const TOP = 62,
  CELL = 26,
  CURVE = 62, // height of the entropy under a line
  LINE = 24 + CELL + CURVE + 18,
  SHOWN = 3; // lines

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

export class Baton extends StepPicture {
  load(run, dom, context) {
    this.dom = dom;
    this.sliding = new Sliding(this, "relay.tau", "τ", tr`Threshold τ`, [0, 4, 0.01]);
    this.begin(run, dom, context, ["areas", "lines", "cells", "batons", "gauge"], this.sliding.dom);
    this.grow();
  }

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
    if (!relay) return this.sliding.show(0, false, "");
    const told = this.#written(this.t),
      over = told.filter((one) => this.#large(one)).length;
    return this.sliding.show(
      relay.tau,
      told.length > 0,
      tr`after ${over} of ${many(told.length, "token")} it would call for the large model.`,
    );
  }

  draw(relay, _, next) {
    const { width } = this,
      told = this.#written(this.t),
      cells = inLines(
        told.map(({ text }) => text),
        width - 8,
      ),
      last = cells.at(-1)?.line ?? 0,
      first = Math.max(0, last - SHOWN + 1),
      shown = cells.filter(({ line }) => line >= first),
      tau = this.sliding.at(relay.tau),
      most = Math.max(2.2 * tau, ...this.#written(this.run.length).map(({ mean }) => mean), 0.01),
      top = (cell) => TOP + (cell.line - first) * LINE + 24,
      // a square root: the threshold is far below the largest values
      foot = (cell) => top(cell) + CELL + CURVE,
      y = (cell, H) => foot(cell) - (CURVE - 6) * Math.sqrt(Math.max(0, Math.min(1, H / most)));
    this.labels = [];
    this.frame(TOP + (last - first + 1) * LINE + 8);
    const colour = (role) => `var(--option${this.roles.indexOf(role)}-fill)`;
    const drawn = pool(this.cells, shown.length, () =>
      svg("g", {}, svg("title"), svg("rect", { height: CELL, rx: 4 }), svg("text", { "text-anchor": "middle" })),
    );
    drawn.forEach((group, n) => {
      const cell = shown[n],
        { writer: role, text, entropy } = told[cell.i],
        [title, box, word] = group.childNodes;
      set(box, { x: 4 + cell.x, y: top(cell), width: cell.w - 3, style: `fill:${colour(role)};stroke:none` });
      set(word, {
        x: 4 + cell.x + cell.w / 2 - 1.5,
        y: top(cell) + 18,
        style: `fill:var(--option${this.roles.indexOf(role)}-text);font-size:13px`,
      });
      setText(word, text);
      setText(title, tr`written by ${role}; entropy ${number(entropy, "bits")}`);
    });
    pool(this.areas, shown.length, () => svg("rect")).forEach((bar, n) => {
      const cell = shown[n],
        { mean } = told[cell.i],
        up = y(cell, mean);
      set(bar, { x: 4 + cell.x, y: up, width: cell.w - 1, height: Math.max(1, foot(cell) - up) });
      set(bar, { class: this.#large(told[cell.i]) ? "dx-high" : "dx-quiet" });
    });
    const rows = [...new Map(shown.map((cell) => [cell.line, cell])).values()],
      ends = new Map(shown.map((cell) => [cell.line, 4 + cell.x + cell.w]));
    pool(this.lines, rows.length, () => svg("path", { class: "dx-eta", "data-s": "rejected" })).forEach((line, n) =>
      set(line, { d: `M4,${y(rows[n], tau)}H${ends.get(rows[n].line)}` }),
    );
    this.#batons(shown, told, top, foot, next);
    this.#gauge(told.length);
    this.#key(tau, rows[0], ends, y);
    this.label(this.labels);
    if (next) comeIn(drawn.slice(-1), { transform: "translateY(-14px)", opacity: 0 });
  }

  /** A baton stands in front of the first token of who took it. */
  #batons(shown, told, top, foot, next) {
    const handed = shown.filter(({ i }) => i && told[i].writer !== told[i - 1].writer),
      drawn = pool(this.batons, handed.length, () => svg("path"));
    drawn.forEach((path, n) => {
      const cell = handed[n],
        x = 4 + cell.x - 1;
      set(path, {
        d: `M${x},${foot(cell)}V${top(cell) - 6}l9,-5l-9,-5`,
        style: "stroke:var(--text);stroke-width:2;fill:none;opacity:1",
      });
      const { read, writer: role } = told[cell.i],
        after = handed[n + 1]?.line === cell.line ? handed[n + 1].x : this.width,
        words = read ? tr`to ${role}, ${read} read` : tr`to ${role}`;
      if (after - cell.x > 7.4 * words.length + 16) this.labels.push([x + 13, top(cell) - 7, "start", words]);
      else this.labels.push([x + 13, top(cell) - 7, "start", read ? `+${read}` : ""]);
    });
    if (next && handed.at(-1)?.i === told.length - 1) comeIn(drawn.slice(-1), { opacity: 0 });
  }

  #gauge(n) {
    const large = this.roles.at(-1),
      { weights, work } = costs(this.run.steps.slice(0, this.t), this.models, large, this.run.prompt.length),
      wide = this.width > 1000,
      w = wide ? 200 : 0,
      x = this.width - w - 8,
      shares = [
        [weights, tr`weights read: ${percent(weights)} of the large model alone`],
        [work, tr`arithmetic: ${percent(work)}, since missed tokens are read`],
      ].filter(([share]) => wide && n && Number.isFinite(share));
    pool(this.gauge, 2 * shares.length, () => svg("rect", { rx: 4, height: 13 })).forEach((box, i) =>
      set(box, {
        x,
        y: 4 + 19 * (i >> 1),
        width: i % 2 ? Math.min(1, shares[i >> 1][0]) * w : w,
        style: i % 2 ? "fill:var(--accent);stroke:none" : "fill:none;stroke:var(--muted);stroke-dasharray:4 3",
      }),
    );
    shares.forEach(([, words], i) => this.labels.push([x - 8, 15 + 19 * i, "end", words]));
    if (!wide && n && Number.isFinite(weights))
      this.labels.push([4, 34, "start", tr`${percent(weights)} of the weights that ${large} alone reads`]);
  }

  #key(tau, row, ends, y) {
    const wide = this.width > 1000,
      [small, large] = [this.roles[0], this.roles.at(-1)];
    if (wide) {
      this.labels.push([
        4,
        15,
        "start",
        tr`Who wrote each token: blue ${small}, orange ${large}. Bars: entropy, averaged`,
      ]);
      this.labels.push([
        4,
        34,
        "start",
        tr`over ${short(tau)} bits (dashed) the ${large} model writes next, else the ${small} one`,
      ]);
    } else this.labels.push([4, 15, "start", tr`blue: ${small}, orange: ${large}; bars: entropy`]);
    if (row && wide && ends.get(row.line) < this.width - 90)
      this.labels.push([ends.get(row.line) + 6, y(row, tau) + 4, "start", tr`τ = ${short(tau)} bits`]);
  }

  describe(t) {
    const c = this.run.steps[t - 1]?.relay;
    if (!c) return t ? tr`No choice at this step.` : tr`Before the first step.`;
    const told = this.#written(t),
      large = told.filter(({ writer }) => writer === this.roles.at(-1)).length,
      now = c.switched ? tr` It hands over.` : "";
    return tr`Written by ${c.writer}: averaged entropy ${number(c.mean, "bits")}, threshold \
${number(c.tau)}.${now} ${large} of ${many(told.length, "token")} by the large model.`;
  }
}
