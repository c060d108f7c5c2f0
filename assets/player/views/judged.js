// Drafted tokens against the judge's line: who let each stand. The line can be moved, and the recorded step decides
// again; what came behind it would have been another text.

import { cut, glyphs, number } from "../codec.js";
import { el, frame, legend, pool, set, setText, svg } from "../dom.js";
import { tr } from "../words.js";

export const view = { name: "Judged", title: "Judged drafts", place: 119, needs: ["choice+tree"] };

const W = 84,
  GAP = 4,
  TOP = 8,
  TALL = 96, // of the bars
  H = 24,
  PLOT = { w: 260, h: 150, left: 34, low: 16 },
  FLOOR = -12; // natural logarithm; less likely tokens stand at the edge
const STATES = { both: "accepted", standard: "old", judge: "judged", none: "rejected", behind: "unreached" };
const SAID = {
  both: tr`both tests`,
  standard: tr`the target's choice alone`,
  judge: tr`the judge alone`,
  none: tr`refused`,
  behind: tr`after a refusal`,
};

/** The drafted tokens of a tree whose rows were all judged: {token, value, logp, standard}; none of another tree. */
export function judged({ tokens = [], values = [], chances = [], uniforms = [], target_logprobs: logp = [] } = {}) {
  const rows = tokens.map((token, i) => ({
    token,
    value: values[i],
    logp: logp[i] ?? null,
    standard: (uniforms[i] ?? 0.5) < chances[i],
  }));
  const drafted = rows.slice(1);
  return drafted.every(({ value }, i) => value != null && chances[i + 1] != null) ? drafted : [];
}

/** Who lets each token stand at a line: both, standard, judge, none, and behind the first refusal behind. */
export function decide(rows, line) {
  let open = true;
  return rows.map(({ value, standard }) => {
    if (!open) return "behind";
    const by = value > line ? (standard ? "both" : "judge") : standard ? "standard" : "none";
    open = by !== "none";
    return by;
  });
}

const kept = (fates) => fates.filter((fate) => fate !== "none" && fate !== "behind").length;

export class Judged {
  load(run, dom, context) {
    Object.assign(this, { run, dom, context, moved: null });
    this.say = el("p", "dx-readout");
    this.slider = el("input", {
      type: "range",
      min: 0,
      max: 1,
      step: 0.01,
      "aria-label": tr`The judge's line`,
      oninput: () => this.#move(Number(this.slider.value)),
    });
    this.back = el("button", { onclick: () => this.#move(null) }, tr`as recorded`);
    this.bars = svg("g");
    this.line = svg("path", { "data-s": "rejected", style: "stroke-width:2;stroke-dasharray:6 4" });
    this.picture = svg("svg", { class: "dx-tree", role: "img", "aria-label": tr`Judged drafts` }, this.bars, this.line);
    this.dots = svg("g");
    const { w, h, left, low } = PLOT,
      words = [
        [left, h + low - 3, tr`unlikely`],
        [left + w - 40, h + low - 3, tr`likely`],
        [2, 12, tr`good`],
        [2, h - 2, tr`bad`],
      ].map(([x, y, text]) => svg("text", { x, y, class: "dx-small" }, text));
    this.across = svg("path", { "data-s": "rejected", style: "stroke-width:1.5;stroke-dasharray:6 4" });
    this.plot = svg(
      "svg",
      { class: "dx-tree", role: "img", "aria-label": tr`Judge's score against the target's probability` },
      svg("path", { d: `M${left},4V${h}H${left + w}` }),
      ...words,
      this.dots,
      this.across,
    );
    frame(this.plot, left + w + 6, h + low);
    const { theme } = context;
    dom.append(
      this.say,
      el("label", {}, tr`Line δ`, " ", this.slider),
      this.back,
      el("div", { class: "dx-scroll", tabindex: 0, "aria-label": tr`Drafted tokens of this step` }, this.picture),
      el("div", "dx-legend", ...Object.entries(STATES).map(([fate, state]) => legend(theme, state, SAID[fate]))),
      el("p", "dx-readout", tr`All tokens looked at so far: the judge's score over the target's own probability.`),
      this.plot,
    );
    this.grow();
  }

  /** A run whose drafts nobody judged has nothing to show here. */
  grow() {
    const any = this.run.steps.some(({ tree }) => tree && judged(tree).length);
    if (this.dom.parentElement) this.dom.parentElement.hidden = this.run.length > 0 && !any;
  }

  #move(line) {
    this.moved = line;
    this.show(this.t);
  }

  show(t, hurry) {
    this.t = t;
    if (hurry) return;
    const step = this.run.steps[t - 1],
      rows = judged(step?.tree ?? undefined),
      line = this.moved ?? step?.choice?.threshold ?? 0.5,
      fates = decide(rows, line);
    this.slider.value = line;
    this.back.disabled = this.moved === null;
    setText(this.say, this.describe(t));
    this.#strip(rows, fates, line);
    this.#scatter(t, line);
  }

  #strip(rows, fates, line) {
    const y = (value) => TOP + (1 - value) * TALL;
    frame(this.picture, Math.max(1, rows.length) * (W + GAP) + 2, TOP + TALL + H + 8);
    set(this.line, { d: rows.length ? `M0,${y(line)}H${rows.length * (W + GAP)}` : "" });
    pool(this.bars, rows.length, () =>
      svg(
        "g",
        {},
        svg("title"),
        svg("rect", { x: 20, width: W - 40 }),
        svg("rect", { y: TOP + TALL + 4, width: W, height: H, rx: 6 }),
        svg("text", { x: 6, y: TOP + TALL + 20.5 }),
        svg("text", { x: W / 2, "text-anchor": "middle", class: "dx-small" }),
      ),
    ).forEach((group, i) => {
      const [title, bar, , word, mark] = group.childNodes,
        { token, value, logp } = rows[i],
        whole = glyphs(this.run.piece(token).text),
        state = STATES[fates[i]];
      set(group, { transform: `translate(${1 + i * (W + GAP)},0)`, "data-s": state });
      set(bar, { y: y(value), height: Math.max(1, TALL * value) });
      set(mark, { y: y(value) > TOP + 14 ? y(value) - 4 : y(value) + 12 });
      setText(
        title,
        tr`${whole}: judge ${number(value)}, target probability ${number(Math.exp(logp))}, ${SAID[fates[i]]}`,
      );
      setText(word, `${this.context.theme.states[state].glyph} ${cut(whole, 8)}`);
      setText(mark, number(value));
    });
  }

  #scatter(t, line) {
    const { w, h, left } = PLOT,
      dots = this.run.steps.slice(0, t).flatMap(({ tree, choice }) => {
        const rows = judged(tree ?? undefined),
          fates = decide(rows, this.moved ?? choice?.threshold ?? 0.5);
        return rows.map((row, i) => ({ ...row, fate: fates[i] })).filter(({ fate }) => fate !== "behind");
      });
    set(this.across, { d: `M${left},${4 + (1 - line) * (h - 8)}H${left + w}` });
    pool(this.dots, dots.length, () => svg("g", {}, svg("title"), svg("rect", { width: 8, height: 8 }))).forEach(
      (group, i) => {
        const { token, value, logp, fate } = dots[i],
          x = left + 4 + (1 - Math.max(FLOOR, logp) / FLOOR) * (w - 12);
        set(group, {
          "data-s": STATES[fate],
          transform: `translate(${x.toFixed(1)},${((1 - value) * (h - 8)).toFixed(1)})`,
        });
        set(group.lastChild, { rx: fate === "none" ? 0 : 4 });
        setText(group.firstChild, tr`${glyphs(this.run.piece(token).text)}: judge ${number(value)}, ${SAID[fate]}`);
      },
    );
  }

  describe(t) {
    const step = this.run.steps[t - 1],
      rows = judged(step?.tree ?? undefined);
    if (!rows.length) return t ? tr`Nothing was drafted in this step.` : tr`Before the first step.`;
    const line = step.choice?.threshold ?? 0.5,
      count = (at) => kept(decide(rows, at)),
      own = this.run.header.lossless ? "" : tr` Not lossless.`,
      moved = this.moved === null ? "" : tr` At threshold ${number(this.moved)}: ${count(this.moved)}.`;
    return tr`Tokens kept at threshold ${number(line)}: ${count(line)} of ${rows.length}; ${count(1)} \
without the judge.${moved}${own}`;
  }
}
