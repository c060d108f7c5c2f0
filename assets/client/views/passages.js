// A long prompt as a strip: passages by their score, those that were retrieved lit; below the tokens of a step under
// three opinions: the whole prompt, the retrieved part, and the first moved towards the second.

import { el, frame, legend, setText, svg } from "../player/dom.js";
import { render } from "../player/drawing.js";
import { cut, glyphs, number, tr } from "../player/words.js";
import { Leaning } from "./leaning.js";

export const view = { title: "Passages that were retrieved", place: 114, needs: ["opinions"] };

const TALL = 56,
  W = 92,
  BARS = 84,
  H = 24,
  LOOKS = ["p", "q", "mixed"], // of the three opinions
  NAMES = ["confidence", "short", "moved"],
  SAID = [tr`p, everything read`, tr`q, retrieved passages read`, tr`p′, moved towards q`],
  BY = { draft: tr`both`, retrieval: tr`view alone`, target: tr`the target` },
  STATE = { draft: "accepted", retrieval: "q", target: "p" },
  CELL = { y: BARS + 4, width: W, height: H, rx: 6 };

/** The passages that a run tells of: {start, end, score, kept}, in their order; none where nothing was retrieved. */
export function passages(run) {
  const spans = run.steps.find(({ spans = [] }) => spans.some(({ kind }) => kind === "retrieved"))?.spans ?? [];
  return spans
    .filter(({ kind }) => kind === "retrieved" || kind === "passage")
    .map(({ kind, start, end, about }) => ({ start, end, score: about.score, kept: kind === "retrieved" }));
}

export class Passages {
  load(run, dom, context) {
    Object.assign(this, { run, dom, context, wide: 640 });
    this.say = el("p", "dx-readout");
    this.strip = svg("g");
    this.picture = svg("svg", { class: "dx-tree", role: "img", "aria-label": tr`The prompt's passages` }, this.strip);
    this.list = el("ul", { class: "dx-readout", style: "margin:4px 0 8px;padding-left:18px" });
    this.cells = svg("g");
    this.tokens = svg("svg", { class: "dx-tree", role: "img", "aria-label": tr`Tokens of this step` }, this.cells);
    this.lean = new Leaning(run, context, SAID);
    const scroll = (label, inside) => el("div", { class: "dx-scroll", tabindex: 0, "aria-label": label }, inside),
      { theme } = context;
    dom.append(
      this.say,
      el("p", "dx-readout", tr`The prompt's passages by score, filled: retrieved`),
      scroll(tr`The prompt's passages`, this.picture),
      this.list,
      scroll(tr`Tokens of this step`, this.tokens),
      el("div", "dx-legend", ...LOOKS.map((look, i) => legend(theme, look, SAID[i]))),
      this.lean.dom,
    );
    this.grow();
  }

  resize(width) {
    this.wide = Math.max(300, width - 4);
    this.grow();
  }

  grow() {
    this.found = passages(this.run);
    const all = this.found,
      first = all[0]?.start ?? 0,
      scale = this.wide / Math.max(1, (all.at(-1)?.end ?? 1) - first),
      top = Math.max(1e-9, ...all.map(({ score }) => score));
    frame(this.picture, this.wide, TALL + 4);
    render(this.strip, all, ({ start, end, score, kept }) => {
      const high = Math.max(3, TALL * (score / top)),
        x = ((start - first) * scale).toFixed(1),
        width = Math.max(1, (end - start) * scale - 1).toFixed(1),
        said = kept ? tr`retrieved` : tr`left out`;
      return [
        { "data-s": kept ? "accepted" : "unreached" },
        ["title", {}, tr`${said}, score ${number(score)}: ${this.#words(start, end)}`],
        ["rect", { x, y: 0, width, height: TALL, style: "fill-opacity:0.15;stroke:none" }],
        ["rect", { x, width, y: (TALL - high).toFixed(1), height: high.toFixed(1) }],
      ];
    });
    const kept = all.filter((one) => one.kept);
    render(this.list, kept, ({ start, end }) => ["li", {}, this.#words(start, end).trim()]);
  }

  #words(start, end) {
    const tokens = this.run.prompt.slice(start, end);
    return tokens.map((token) => this.run.piece(token).text).join("");
  }

  show(t, hurry) {
    this.lean.show(t, hurry);
    if (hurry) return;
    setText(this.say, this.describe(t));
    const { positions = [], tokens = [], authors = [] } = this.run.steps[t - 1]?.commits ?? {},
      shown = positions.map((at, i) => ({ at, token: tokens[i], by: authors[i] })).filter(({ token }) => token >= 0);
    frame(this.tokens, Math.max(1, shown.length) * (W + 4) + 2, BARS + 2 * H);
    render(this.cells, shown, ({ at, token, by }, i) => {
      const values = NAMES.map((name) => this.run.score(t - 1, name, at)),
        whole = glyphs(this.run.piece(token).text),
        told = values.map((value, k) => (Number.isNaN(value) ? "" : `${SAID[k]} ${number(value)}`)).filter(Boolean);
      return [
        { transform: `translate(${1 + i * (W + 4)},0)` },
        ["title", {}, [whole, ...told].join("; ")],
        ...LOOKS.map((look, k) => {
          const high = Number.isNaN(values[k]) ? 0 : Math.max(1, BARS * values[k]),
            bar = { width: 18, x: 12 + k * 24, y: (BARS - high).toFixed(1), height: high.toFixed(1) };
          return ["g", { "data-s": look }, ["rect", bar]];
        }),
        ["g", { "data-s": STATE[by] ?? "prompt" }, ["rect", CELL], ["text", { x: 6, y: BARS + 20.5 }, cut(whole, 10)]],
        ["text", { x: 2, y: BARS + H + 18, class: "dx-small", style: "--ink:var(--text)" }, BY[by] ?? ""],
      ];
    });
  }

  describe(t) {
    if (!this.found.length) return "";
    const kept = this.found.filter((one) => one.kept),
      length = (some) => some.reduce((sum, { start, end }) => sum + end - start, 0),
      facts = this.run.steps[t - 1]?.facts ?? {},
      read = tr`Retrieved: ${kept.length} of ${this.found.length} passages, ${length(kept)} of ${length(this.found)} \
tokens.`;
    if (!t) return read;
    return `${read} ${tr`In this step ${number(facts.transferred ?? 0)} tokens were accepted only because \
the target moved towards the retrieved view.`}`;
  }
}
