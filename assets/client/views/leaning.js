// Part of the view of passages: what the drafter's reading moves. Both readers' probabilities of the tokens at a
// drafted place, and the mixed ones that decide. The strength can be moved, and the recorded step decides again; what
// came behind it would have been another text.

import { unpack } from "../player/codec.js";
import { el, frame, set, setText, svg } from "../player/dom.js";
import { render } from "../player/drawing.js";
import { unknown } from "../player/sliding.js";
import { cut, glyphs, number, fine as percent, tr } from "../player/words.js";

const SHOWN = 7, // candidates that have a column
  W = 92,
  LEFT = 26,
  TALL = 46, // of a row of bars
  GAP = 16;
const LOOKS = ["p", "q", "mixed"];
const NAMES = ["p", "q", "p′"];
const INK = "--ink:var(--text)",
  SMALL = { class: "dx-small", style: INK };
const FATES = {
  both: ["accepted", tr`stands, with η = 0 too`],
  view: ["mixed", tr`accepted only because of the transfer`],
  lost: ["rejected", tr`refused only because of the step`],
  refused: ["rejected", tr`refused`],
  behind: ["unreached", tr`after a refusal`],
  unknown: ["unreached", tr`no number was drawn for it`],
};

/** The drafted tokens of a step with what is recorded of both readers: {token, tokens, p, q, unlisted}; `tokens`
 * begins with the drafted one. */
function opinionsOf({ opinions } = {}) {
  if (!opinions) return [];
  const { values: ids, shape } = unpack(opinions.tokens),
    [first, second] = [opinions.first, opinions.second].map((one) => unpack(one).values);
  return opinions.rows.flatMap((_, i) => {
    const at = Array.from({ length: shape[1] }, (_, j) => i * shape[1] + j).filter((j) => ids[j] >= 0),
      listed = (values) => at.map((j) => values[j]);
    if (!at.length) return [];
    return {
      token: ids[at[0]],
      tokens: listed(ids),
      p: listed(first),
      q: listed(second),
      unlisted: opinions.unlisted?.[i] ?? 0,
    };
  });
}

const standing = (fates) => fates.filter((fate) => fate === "both" || fate === "view").length;

export class Leaning {
  /** said: what the three opinions are, in words. */
  constructor(run, context, said) {
    Object.assign(this, { run, context, said, eta: null, row: null });
    const three = tr`Three distributions at one position`,
      oninput = () => this.#move(this.#strengths()[this.slider.value]);
    this.say = el("p", { class: "dx-readout", "aria-live": "polite" });
    this.slider = el("input", { type: "range", min: 0, "aria-label": tr`Strength of the step`, oninput });
    this.value = el("output", { style: "margin:0 10px 0 4px" });
    this.unasked = el("span");
    this.zero = el("button", { onclick: () => this.#move(0) }, "η = 0");
    this.back = el("button", { onclick: () => this.#move(null) }, tr`as recorded`);
    this.cells = el("div", { role: "group", "aria-label": tr`Drafted tokens of this step`, style: "margin:6px 0" });
    this.bars = svg("g");
    this.picture = svg("svg", { class: "dx-tree", role: "img", "aria-label": three }, this.bars);
    this.under = el("p", "dx-readout");
    this.dom = el(
      "div",
      { class: "dx-leaning", style: "margin-top:14px" },
      this.say,
      el("label", {}, tr`Strength η`, " ", this.slider, " ", this.value),
      ...[this.zero, this.back, this.unasked, this.cells],
      el("div", { class: "dx-scroll", tabindex: 0, "aria-label": three }, this.picture),
      this.under,
    );
  }

  #move(eta) {
    this.eta = eta;
    this.show(this.t);
  }

  /** The strengths that the method was asked about. */
  #strengths(t = this.t) {
    return this.run.figures.stops[t - 1]?.opinions?.eta.stops ?? [];
  }

  /** What becomes of each drafted token with one of them, and the moved probabilities of those listed there; null where
   * it was not asked. */
  #asked(t, eta) {
    return this.run.asked(t, "opinions", "eta", eta);
  }

  /** What became of each drafted token. */
  #fates(t) {
    const { opinions, tree, commits } = this.run.steps[t - 1] ?? {},
      asked = this.#asked(t, this.#recorded(t))?.[0];
    return (opinions?.rows ?? []).map((row, i) => {
      const why = tree?.why[row];
      if (why === "accepted") return commits.causes[row - 1] === "transferred" ? "view" : "both";
      if (why === "mismatch") return asked?.[i] === "lost" ? "lost" : "refused";
      return tree?.why.includes("mismatch") ? "behind" : "unknown"; // a record may come without a tree
    });
  }

  #recorded(t) {
    return this.run.steps[t - 1]?.opinions?.rule.eta ?? 0;
  }

  show(t, hurry) {
    if (t !== this.t) this.row = null;
    this.t = t;
    if (hurry) return;
    const rows = opinionsOf(this.run.steps[t - 1]),
      eta = this.eta ?? this.#recorded(t),
      asked = this.#asked(t, eta),
      fates = (this.eta !== null && asked?.[0]) || this.#fates(t),
      strengths = this.#strengths();
    set(this.slider, { max: Math.max(0, strengths.length - 1), "aria-valuetext": number(eta) });
    this.slider.value = strengths.findLastIndex((one) => one <= eta);
    setText(this.value, number(eta));
    this.back.disabled = this.eta === null;
    this.slider.disabled = this.zero.disabled = !strengths.length;
    setText(this.unasked, strengths.length || !rows.length ? "" : unknown(this.run));
    setText(this.say, this.describe(t));
    this.#strip(rows, fates);
    this.#draw(rows[this.row ?? 0], asked?.[1][this.row ?? 0]);
  }

  /** The drafted tokens; one of them is looked at: at first the one whose fate the step changes, else the one that is
   * refused. */
  #strip(rows, fates) {
    const told = this.#fates(this.t).findIndex((fate) => ["view", "lost", "refused"].includes(fate));
    this.row ??= Math.max(0, told);
    render(this.cells, rows, ({ token }, i) => {
      const [state, title] = FATES[fates[i] ?? "unknown"];
      return [
        "button",
        { type: "button", "aria-pressed": String(i === this.row), title },
        ["i", { class: "dx-cell", "data-s": state }, this.context.theme.states[state].glyph],
        ["span", {}, ` ${cut(glyphs(this.run.piece(token).text), 12)}`],
      ];
    }).forEach((button, i) => {
      button.onclick = () => {
        this.row = i;
        this.show(this.t);
      };
    });
  }

  #draw(one, moved) {
    const { p = [], q = [], tokens = [] } = one ?? {},
      others = [...tokens.keys()].slice(1).sort((a, b) => Math.max(p[b], q[b]) - Math.max(p[a], q[a])),
      shown = tokens.length ? [0, ...others.slice(0, SHOWN - 1)] : [],
      columns = shown.map((i) => [glyphs(this.run.piece(tokens[i]).text), [p[i], q[i], moved?.[i]]]),
      rest = [p, q, moved].map((shares) => shares && Math.max(0, 1 - shown.reduce((sum, i) => sum + shares[i], 0))),
      foot = 3 * (TALL + GAP) + 18;
    if (one) columns.push([tr`all others`, rest]);
    frame(this.picture, LEFT + Math.max(1, columns.length) * W, foot + 6);
    render(this.bars, columns, ([name, shares], i) => {
      const parts = this.said.map((said, k) => `${said} ${shares[k] === undefined ? "–" : number(shares[k])}`);
      const drawn = shares.map((share, k) => {
        const height = Math.max(1, TALL * (share ?? 0)),
          y = (k + 1) * (TALL + GAP) - height,
          said = `${i ? "" : `${NAMES[k]} `}${share === undefined ? "–" : percent(share)}`,
          bar = ["rect", { width: W - 30, y: y.toFixed(1), height: height.toFixed(1) }],
          known = share === undefined ? [] : [bar];
        return ["g", { "data-s": LOOKS[k] }, ...known, ["text", { ...SMALL, x: 0, y: (y - 3).toFixed(1) }, said]];
      });
      return [
        { transform: `translate(${LEFT + i * W},0)` },
        ["title", {}, `${name}: ${parts.join("; ")}`],
        ["text", { x: 0, y: foot, style: `${INK};font-weight:${i ? 400 : 700}` }, cut(name, 10)],
        ...drawn,
      ];
    });
    const left = one?.unlisted
        ? tr` ${one.unlisted} more that the step would move are taken not to.`
        : tr` The step moves none of those others.`,
      said = tr`${tokens.length} candidates of this position are recorded; all others are one bar.${left}`;
    setText(this.under, one ? said : "");
  }

  describe(t) {
    const eta = this.#recorded(t),
      rows = opinionsOf(this.run.steps[t - 1]);
    if (!rows.length) return t ? tr`Nothing was drafted in this step.` : tr`Before the first step.`;
    const plain = this.#asked(t, 0),
      moved = this.eta === null ? null : this.#asked(t, this.eta),
      told = tr`Drafted tokens accepted with η = ${number(eta)}, as recorded: ${standing(this.#fates(t))} of \
${rows.length}; ${plain ? standing(plain[0]) : "–"} with η = 0, where the text is the target's own.`,
      said = moved && tr`With η = ${number(this.eta)}: ${standing(moved[0])}.`;
    return said ? `${told} ${said}` : told;
  }
}
