// What a sampler lets through at this step: its tokens stacked under the line, the first refused one hollow above it.
// Beside it how many other samplers would, with their mass; below, the same for each step: what the line was held
// against, as a column.

import { el, set, setText, svg } from "../player/dom.js";
import { Parts } from "../player/drawing.js";
import { cut, glyphs, many, number, percent, tr } from "../player/words.js";
import { Budgets, width } from "./budgets.js";

export const view = { title: "Tokens kept", place: 155, needs: ["truncation"] };

const H = 290, // units of the drawing
  BASE = 256,
  TUBE = 36,
  X = 116,
  GAP = 13, // between two lines of text
  ROW = 30,
  SEEN = 9; // least height of the refused one, which may add hardly anything

const text = (x, y, words, more = {}) => svg("text", { x, y, style: "fill:var(--text)", ...more }, words);
const two = (value) => (value < 0.01 ? number(value) : String(Number(value.toPrecision(2))));

const STYLE = "font:12px var(--mono);display:block;flex:1 1 300px;max-width:520px;min-width:0";

export class Thermometer extends Parts {
  say = this.below(el("p", "dx-readout"));
  tube = svg("svg", { viewBox: `0 0 380 ${H}`, role: "img", style: STYLE });
  bars = svg("svg", { role: "img", style: STYLE, "aria-label": tr`Tokens kept by several samplers` });
  both = this.below(el("div", "dx-legend", this.tube, this.bars));

  load(run, dom, context) {
    this.budgets = new Budgets(run, context);
    this.below(this.budgets.strip);
    super.load(run, dom, context);
  }

  /** Samplers in the order of the bars, this run's own first; the most tokens that any of them lets through. */
  grow() {
    const some = this.run.steps.flatMap(({ truncation: cut }) => (cut ? [cut] : []));
    this.names = [...new Set(some.flatMap((c) => Object.keys(c.others ?? {})))];
    this.most = Math.max(2, ...some.flatMap((c) => [c.kept, ...Object.values(c.others ?? {})]));
  }

  show(t, hurry) {
    this.t = t;
    if (hurry) return;
    const cut = this.run.steps[t - 1]?.truncation,
      words = this.describe(t);
    setText(this.say, words || tr`Nothing is cut off at this step.`);
    set(this.tube, { "aria-label": words });
    this.tube.replaceChildren(...(cut ? this.#tube(cut, this.run.steps[t - 1].commits?.tokens ?? []) : []));
    this.#bars(cut);
    this.budgets.show(t, this.width, this.names, this.most);
  }

  /** The glass from 0 to the whole, a block per token from what was counted before it to what is counted with it. */
  #tube(c, written) {
    const listed = c.tokens.length - (c.refused ?? 0),
      top = Math.max(c.whole ?? 0, c.line, c.counted[listed] ?? 0) * (c.whole ? 1 : 1.05) || 1,
      y = (value) => BASE - (Math.min(value, top) / top) * (BASE - 14),
      more = c.kept - listed,
      blocks = [],
      labels = [];
    const block = (i, from, to, style, label, least = 1) => {
      const title = svg("title", {}, `${label}: ${number(c.counted[i], c.unit)}`),
        height = Math.max(y(from) - y(to), least),
        box = { x: X - TUBE / 2, y: y(from) - height, width: TUBE, height, rx: 1.5, style };
      blocks.push({ drawn: style.includes("--new"), node: svg("rect", box, title) });
    };
    c.tokens.slice(0, listed + 1).forEach((token, i) => {
      const drawn = i < listed && written.at(-1) === token,
        refused = i >= listed,
        before = i === listed && more > 0 ? c.line : i ? c.counted[i - 1] : 0,
        name = `${cut(glyphs(this.run.piece(token).text, 20), 14)} ${percent(c.probabilities[i])}`,
        words = refused ? tr`${name} refused` : drawn ? tr`${name} drawn` : name,
        fill = refused ? "none" : drawn ? "var(--new-fill)" : "var(--accepted-fill)",
        thick = y(before) - y(c.counted[i]) > 4,
        line = refused ? "var(--text);stroke-dasharray:3 2" : thick ? "var(--panel)" : "none";
      block(i, before, c.counted[i], `fill:${fill};stroke:${line}`, words, refused ? SEEN : drawn ? 4 : 1);
      labels.push({ y: (y(before) + y(c.counted[i])) / 2 + 4, words, must: drawn || refused || !i });
    });
    if (more > 0) {
      block(listed - 1, c.counted[listed - 1], c.line, "fill:var(--accepted-fill);opacity:0.45", tr`others that stay`);
      const among = c.tokens.slice(0, listed).includes(written.at(-1)) ? "" : tr` (drawn)`,
        middle = (y(c.counted[listed - 1]) + y(c.line)) / 2 + 4;
      labels.unshift({ y: middle, words: tr`and ${number(more)} more${among}`, must: true });
    }
    const at = y(c.line),
      glass = { x: X - TUBE / 2, y: y(c.whole ?? top), height: BASE - y(c.whole ?? top) },
      bulb = written.at(-1) === c.tokens[0] ? "var(--new-fill)" : "var(--accepted-fill)",
      left = (y, words) => text(X - 30, y + 4, words, { "text-anchor": "end" }),
      right = (y, words) => text(X + 40, y, words),
      whole = c.whole
        ? [left(y(c.whole), two(c.whole)), right(y(c.whole) + 4, tr`${c.unit}: all the model's entropy`)]
        : [];
    if (c.whole && at - y(c.whole) > 44) whole.push(right((at + y(c.whole)) / 2 + 4, tr`not to be spent`));
    return [
      svg("rect", { ...glass, width: TUBE, rx: 4, style: "fill:none;stroke:var(--line)" }),
      svg("circle", { cx: X, cy: BASE + 12, r: 17, style: `fill:${bulb};stroke:var(--line)` }),
      ...blocks.sort((a, b) => a.drawn - b.drawn).map(({ node }) => node), // a narrow one that was drawn stays in sight
      svg("path", { class: "dx-threshold", d: `M${X - 28},${at}H${X + 34}` }),
      left(at, c.whole ? tr`budget ${two(c.line)}` : two(c.line)),
      ...whole,
      ...spread(labels).map((label) => right(label.y, label.words)),
    ];
  }

  /** How many tokens each sampler keeps, this run in the colour of its liquid. */
  #bars(c) {
    const all = c
      ? [[tr`this run`, c.kept, c.mass], ...this.names.map((n) => [n, c.others?.[n] ?? null, c.others_mass?.[n]])]
      : [];
    const bars = all.flatMap(([name, n, mass], i) => {
      const long = width(n ?? 0, this.most) * 120,
        style = `fill:var(--${i ? "muted" : "accepted-fill"});opacity:${i ? 0.6 : 1}`,
        box = { x: 88, y: i * ROW + 45, width: Math.max(2, long), height: 17, rx: 3, style },
        words = `${many(n, "token")}${mass ? ` · ${percent(mass)}` : ""}`;
      return [text(0, i * ROW + 58, cut(name, 11)), svg("rect", box), text(96 + long, i * ROW + 58, words)];
    });
    const title = text(0, 14, tr`Tokens that may be drawn at this step`),
      scale = text(0, 30, tr`(logarithmic scale)`, { style: "fill:var(--muted)" });
    set(this.bars, { viewBox: `0 0 360 ${Math.max(1, all.length) * ROW + 50}` });
    this.bars.replaceChildren(title, scale, ...bars);
  }

  describe(t) {
    const c = this.run.steps[t - 1]?.truncation;
    if (!c) return "";
    const unit = ["bits", "nats"].includes(c.unit) ? ` (${c.unit})` : "",
      last = c.tokens.length - (c.refused ?? 0) - 1,
      used = c.kept > last + 1 ? "" : `${number(c.counted[last])} `,
      all = c.whole ? tr`, ${number(c.whole)} in all` : "",
      kept = tr`${number(c.kept)} ${c.kept === 1 ? tr`token` : tr`tokens`} kept with ${percent(c.mass)} \
of the mass; ${c.quantity}: ${used}against the threshold ${number(c.line)}`;
    return `${kept}${all}${unit}.`;
  }
}

/** Labels that have room: those that must stand are moved apart, the others are left out where it is narrow. */
function spread(labels) {
  const placed = [];
  for (const label of [...labels].sort((a, b) => b.must - a.must)) {
    let { y } = label;
    const meets = () => placed.find((other) => Math.abs(other.y - y) < GAP);
    if (!label.must && meets()) continue;
    for (let next = meets(); next; next = meets()) y = next.y - GAP;
    placed.push({ ...label, y });
  }
  return placed;
}
