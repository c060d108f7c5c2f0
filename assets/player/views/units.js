// Text as tiles, one for each step that wrote a unit, as wide as what it wrote at once; tokens that the model would not
// have written one by one are underlined once it has read them. Below, the window of this step: a bar for each token
// that it foresaw, against a line that can be moved; what is written then is told, and would have been another text.

import { cut, glyphs, number } from "../codec.js";
import { el, frame, legend, pool, set, setText, svg } from "../dom.js";
import { tr } from "../words.js";

export const view = { name: "Units", title: "Units written at once", place: 115, needs: ["spans+scores+growing"] };

const W = 84,
  GAP = 4,
  TOP = 8,
  TALL = 80, // of the bars
  H = 24,
  SURE = "confidence";

/** How many tokens of a window with these confidences are written with the line at `line`, by the confidence alone. */
export const taken = (sure, line) => {
  const low = sure.findIndex((one) => one < line);
  return sure.length ? Math.max(1, low < 0 ? sure.length : low) : 0;
};

/** The tiles that the first t steps wrote: {step, start, tokens, lowest, parted}; parted: places whose token is not
 * what the model says there one by one, as the step behind read it. A fork or an edit cuts tiles off. */
export function tiles(run, t) {
  const made = [];
  run.steps.slice(0, t).forEach(({ spans = [], commits }, index) => {
    const unit = spans.find(({ kind }) => kind === "unit");
    if (!unit || !commits) return;
    while (made.length && made.at(-1).start + made.at(-1).tokens.length > unit.start) {
      const last = made.at(-1);
      last.tokens.length = Math.max(0, unit.start - last.start);
      if (last.tokens.length) break;
      made.pop();
    }
    const tokens = unit.start < unit.end ? commits.tokens.slice(-(unit.end - unit.start)) : [];
    const sure = commits.probabilities.slice(-tokens.length).filter((p) => p !== null);
    made.push({ step: index, start: unit.start, tokens, lowest: sure.length ? Math.min(...sure) : null, parted: [] });
    const before = made.at(-2);
    if (before)
      before.parted = before.tokens
        .map((token, i) => ({ token, at: before.start + i }))
        .filter(({ token, at }, i) => i && (run.candidates(index, at)?.[0]?.token ?? token) !== token)
        .map(({ at }) => at);
  });
  return made;
}

export class Units {
  load(run, dom, context) {
    Object.assign(this, { run, dom, context, moved: null, t: 0 });
    this.say = el("p", "dx-readout");
    this.text = el("div", { class: "dx-lexical", tabindex: 0, role: "group", "aria-label": tr`Units written at once` });
    this.slider = el("input", {
      type: "range",
      min: 0,
      max: 1.05,
      step: 0.01,
      "aria-label": tr`Confidence threshold`,
      oninput: () => this.#move(Number(this.slider.value)),
    });
    this.back = el("button", { onclick: () => this.#move(null) }, tr`as recorded`);
    this.bars = svg("g");
    this.line = svg("path", { "data-s": "rejected", style: "stroke-width:2;stroke-dasharray:6 4" });
    this.picture = svg("svg", { class: "dx-tree", role: "img", "aria-label": tr`Window of this step` });
    this.picture.append(this.bars, this.line);
    const { theme } = context;
    dom.append(
      this.say,
      this.text,
      el("label", {}, tr`Line β`, " ", this.slider),
      this.back,
      el("div", { class: "dx-scroll", tabindex: 0, "aria-label": tr`Window of this step` }, this.picture),
      el(
        "div",
        "dx-legend",
        legend(theme, "accepted", tr`written`),
        legend(theme, "unreached", tr`predicted, not written`),
        el("span", {}, el("u", "dx-parted", "ab"), " ", tr`differs from autoregressive decoding`),
      ),
    );
    this.grow();
  }

  /** A run without units has nothing to show here. */
  grow() {
    const { length, spanKinds } = this.run;
    if (this.dom.parentElement) this.dom.parentElement.hidden = length > 0 && !spanKinds.includes("unit");
  }

  #move(line) {
    this.moved = line;
    this.show(this.t);
  }

  /** Confidences of the window of a step, and the line that they were held against. */
  #window(index) {
    const unit = this.run.steps[index]?.spans?.find(({ kind }) => kind === "unit"),
      lane = this.run.lane(index, SURE),
      sure = [];
    for (let at = unit?.start ?? 0; unit && !Number.isNaN(this.run.score(index, SURE, at)); at++)
      sure.push(this.run.score(index, SURE, at));
    return { sure, start: unit?.start ?? 0, wrote: unit ? unit.end - unit.start : 0, line: lane?.threshold ?? 1 };
  }

  show(t, hurry) {
    this.t = t;
    if (hurry) return;
    const { run } = this,
      made = tiles(run, t),
      { sure, start, wrote, line } = this.#window(t - 1),
      at = this.moved ?? line,
      count = this.moved === null ? wrote : taken(sure, at);
    this.slider.value = at;
    this.back.disabled = this.moved === null;
    setText(this.say, this.describe(t));
    pool(this.text, made.length, () => el("span", "dx-lexeme")).forEach((tile, i) => {
      const { step, tokens, start: from, parted, lowest } = made[i];
      tile.toggleAttribute("data-now", step === t - 1);
      tile.toggleAttribute("data-many", tokens.length > 1);
      tile.style.setProperty("--sure", String(lowest ?? 1));
      tile.title = tr`step ${step + 1}: ${tokens.length} at once, lowest confidence ${number(lowest)}`;
      pool(tile, tokens.length, () => el("span")).forEach((word, j) => {
        setText(word, glyphs(run.piece(tokens[j]).text));
        word.className = parted.includes(from + j) ? "dx-parted" : "";
      });
    });
    const y = (value) => TOP + (1 - value) * TALL;
    frame(this.picture, Math.max(1, sure.length) * (W + GAP) + 2, TOP + TALL + H + 8);
    set(this.line, { d: sure.length ? `M0,${y(Math.min(1, at))}H${sure.length * (W + GAP)}` : "" });
    pool(this.bars, sure.length, () =>
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
        token = i < wrote ? made.at(-1)?.tokens[i] : run.candidates(t - 1, start + i)?.[0]?.token,
        whole = token === undefined ? "?" : glyphs(run.piece(token).text),
        state = i < count ? "accepted" : "unreached";
      set(group, { transform: `translate(${1 + i * (W + GAP)},0)`, "data-s": state });
      set(bar, { y: y(sure[i]), height: Math.max(1, TALL * sure[i]) });
      set(mark, { y: y(sure[i]) > TOP + 14 ? y(sure[i]) - 4 : y(sure[i]) + 12 });
      setText(title, tr`${whole}: confidence ${number(sure[i])}`);
      setText(word, `${this.context.theme.states[state].glyph} ${cut(whole, 8)}`);
      setText(mark, number(sure[i]));
    });
  }

  describe(t) {
    const { sure, wrote, line } = this.#window(t - 1);
    if (!sure.length) return t ? tr`No unit in this step.` : tr`Before the first step.`;
    const made = tiles(this.run, t),
      all = made.reduce((n, { tokens }) => n + tokens.length, 0),
      parted = made.reduce((n, one) => n + one.parted.length, 0),
      kept = this.run.header.lossless ? "" : tr` Not lossless.`,
      moved = this.moved === null ? "" : tr` At threshold ${number(this.moved)}: ${taken(sure, this.moved)}.`;
    return tr`${wrote} of ${sure.length} tokens written, threshold ${number(line)}.${moved} Tokens up to step ${t}: \
${all}; those that differ from autoregressive decoding: ${parted}.${kept}`;
  }
}
