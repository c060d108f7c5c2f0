// Part of the view of passages: what the drafter's reading moves. Both readers' probabilities of the tokens at a
// drafted place, and the mixed ones that decide. The strength can be moved, and the recorded step decides again; what
// came behind it would have been another text.

import { cut, glyphs, number } from "../player/codec.js";
import { el, frame, pool, set, setText, svg } from "../player/dom.js";
import { opinionsOf } from "../player/leaning.js";
import { fine as percent } from "../player/shares.js";
import { unknown } from "../player/sliding.js";
import { tr } from "../player/words.js";

const SHOWN = 7, // candidates that have a column
  W = 92,
  LEFT = 26,
  TALL = 46, // of a row of bars
  GAP = 16;
const LOOKS = ["p", "q", "mixed"];
const NAMES = ["p", "q", "p′"];
const INK = "--ink:var(--text)";
const STATES = {
  both: "accepted",
  view: "mixed",
  lost: "rejected",
  refused: "rejected",
  behind: "unreached",
  unknown: "unreached",
};
const FATES = {
  both: tr`stands, with η = 0 too`,
  view: tr`accepted only because of the transfer`,
  lost: tr`refused only because of the step`,
  refused: tr`refused`,
  behind: tr`after a refusal`,
  unknown: tr`no number was drawn for it`,
};

const standing = (fates) => fates.filter((fate) => fate === "both" || fate === "view").length;

export class Leaning {
  /** said: what the three opinions are, in words. */
  constructor(run, context, said) {
    Object.assign(this, { run, context, said, eta: null, row: null });
    this.dom = el("div", { class: "dx-leaning", style: "margin-top:14px" });
    this.say = el("p", { class: "dx-readout", "aria-live": "polite" });
    this.slider = el("input", {
      type: "range",
      min: 0,
      "aria-label": tr`Strength of the step`,
      oninput: () => this.#move(this.#strengths()[this.slider.value]),
    });
    this.value = el("output", { style: "margin:0 10px 0 4px" });
    this.unasked = el("span");
    this.zero = el("button", { onclick: () => this.#move(0) }, "η = 0");
    this.back = el("button", { onclick: () => this.#move(null) }, tr`as recorded`);
    this.cells = el("div", { role: "group", "aria-label": tr`Drafted tokens of this step`, style: "margin:6px 0" });
    this.bars = svg("g");
    this.picture = svg("svg", { class: "dx-tree", role: "img" }, this.bars);
    this.under = el("p", "dx-readout");
    this.dom.append(
      this.say,
      el("label", {}, tr`Strength η`, " ", this.slider, " ", this.value),
      this.zero,
      this.back,
      this.unasked,
      this.cells,
      el(
        "div",
        { class: "dx-scroll", tabindex: 0, "aria-label": tr`Three distributions at one position` },
        this.picture,
      ),
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
   *  refused. */
  #strip(rows, fates) {
    const told = this.#fates(this.t).findIndex((fate) => ["view", "lost", "refused"].includes(fate));
    this.row ??= Math.max(0, told);
    pool(this.cells, rows.length, () => el("button", {}, el("i", "dx-cell"), el("span"))).forEach((button, i) => {
      const [mark, word] = button.childNodes,
        state = STATES[fates[i] ?? "unknown"];
      button.onclick = () => {
        this.row = i;
        this.show(this.t);
      };
      set(button, { "aria-pressed": String(i === this.row), title: FATES[fates[i] ?? "unknown"] });
      set(mark, { "data-s": state });
      setText(mark, this.context.theme.states[state].glyph);
      setText(word, ` ${cut(glyphs(this.run.piece(rows[i].token).text), 12)}`);
    });
  }

  #draw(one, moved) {
    const { p = [], q = [], tokens = [] } = one ?? {},
      others = [...tokens.keys()].slice(1).sort((a, b) => Math.max(p[b], q[b]) - Math.max(p[a], q[a])),
      shown = tokens.length ? [0, ...others.slice(0, SHOWN - 1)] : [],
      columns = shown.map((i) => [glyphs(this.run.piece(tokens[i]).text), [p[i], q[i], moved?.[i]]]),
      rest = [p, q, moved].map((shares) => shares && Math.max(0, 1 - shown.reduce((sum, i) => sum + shares[i], 0)));
    if (one) columns.push([tr`all others`, rest]);
    frame(this.picture, LEFT + Math.max(1, columns.length) * W, 3 * (TALL + GAP) + 24);
    const row = (look, i) =>
      svg(
        "g",
        { "data-s": look },
        svg("rect", { width: W - 30 }),
        svg("text", { class: "dx-small", style: INK }, NAMES[i]),
      );
    pool(this.bars, columns.length, () => svg("g", {}, svg("title"), svg("text"), ...LOOKS.map(row))).forEach(
      (group, i) => {
        const [name, shares] = columns[i],
          [title, word, ...drawn] = group.childNodes,
          parts = this.said.map((said, k) => `${said} ${shares[k] === undefined ? "–" : number(shares[k])}`);
        set(group, { transform: `translate(${LEFT + i * W},0)` });
        set(word, { x: 0, y: 3 * (TALL + GAP) + 18, style: `${INK};font-weight:${i ? 400 : 700}` });
        setText(word, cut(name, 10));
        setText(title, `${name}: ${parts.join("; ")}`);
        drawn.forEach((part, k) => {
          const high = Math.max(1, TALL * (shares[k] ?? 0)),
            low = GAP + k * (TALL + GAP) + TALL;
          set(part.firstChild, { y: (low - high).toFixed(1), height: high.toFixed(1) });
          part.firstChild.style.display = shares[k] === undefined ? "none" : ""; // it is not known
          set(part.lastChild, { x: 0, y: (low - high - 3).toFixed(1) });
          setText(part.lastChild, `${i ? "" : `${NAMES[k]} `}${shares[k] === undefined ? "–" : percent(shares[k])}`);
        });
      },
    );
    const left = one?.unlisted
      ? tr` ${one.unlisted} more that the step would move are taken not to.`
      : tr` The step moves none of those others.`;
    set(this.picture, { "aria-label": tr`Three distributions at one position` });
    setText(
      this.under,
      one ? tr`${tokens.length} candidates of this position are recorded; all others are one bar.${left}` : "",
    );
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
