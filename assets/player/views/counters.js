// What the run has cost and gained up to the cursor. Each figure says whether it was measured or derived, and how, on click.

import { number, seconds } from "../codec.js";
import { el, setText } from "../dom.js";

const COMPACT = new Intl.NumberFormat("en", { notation: "compact" });
const rate = (above, below) => (below > 0 ? number(above / below) : "–");

const NEEDS = { Steps: ["steps"], Tokens: ["tokens"], Forwards: ["forwards"], "Tokens / forward": ["tokens", "forwards"], "Tokens / s": ["tokens", "model_seconds", "method_seconds"],
  "Model time": ["model_seconds"], "Method time": ["method_seconds"], "Tokens fed": ["tokens_fed"] };

const FIGURES = [
  ["Steps", "measured", (c) => `${c.t} / ${c.steps}`, () => "Turns of the method's loop up to the cursor, and in the whole run so far."],
  ["Tokens", "measured", (c) => number(c.tokens), () => "Ids after the prompt and before the first end mark, as the method wrote them; masks are not counted and text is never re-encoded."],
  ["Forwards", "measured", (c) => number(c.forwards), (c) => `Forward passes, counted at the model call${c.roles ? `: ${c.roles}` : ""}.`],
  ["Tokens / forward", "derived", (c) => rate(c.tokens, c.forwards), (c) => `Tokens / forward passes of all roles = ${number(c.tokens)} / ${number(c.forwards)}. Bonus tokens are included.`],
  ["Tokens / s", "derived", (c) => rate(c.tokens, c.model + c.method), (c) => `Tokens / (model time + method time) = ${number(c.tokens)} / (${seconds(c.model)} + ${seconds(c.method)}). Drawing and warm-up are not in it.`],
  ["Model time", "measured", (c) => seconds(c.model), () => "Seconds inside model calls, summed over the steps so far."],
  ["Method time", "measured", (c) => seconds(c.method), () => "Seconds of the method's own work between model calls; recording and drawing are excluded."],
  ["Tokens fed", "measured", (c) => number(c.fed), () => "Rows times positions computed in those forward passes."],
];

export class Counters {
  load(run, dom) {
    Object.assign(this, { run, open: null });
    this.note = el("p", { class: "dx-formula", hidden: true });
    this.items = FIGURES.map(([name, origin], i) => {
      const value = el("strong", {}, "–");
      const button = el("button", { type: "button", class: "dx-figure", "aria-expanded": "false", onclick: () => this.#toggle(i) },
        el("span", { class: "dx-name" }, name), value, el("small", { "data-origin": origin }, origin));
      return { button, value };
    });
    const { header } = run;
    const models = (header.models ?? []).map((m) => [`${m.role}: ${m.name}`, m.parameters ? `${COMPACT.format(m.parameters)} parameters` : "", m.dtype, m.device ?? "cpu", m.threads === 0 ? "" : `${m.threads ?? 1} thread${(m.threads ?? 1) > 1 ? "s" : ""}`].filter(Boolean).join(", "));
    this.machine = el("p", { class: "dx-machine" }, [...models, header.machine, header.warmup_seconds ? `warm-up ${seconds(header.warmup_seconds)}, not counted` : "", run.missing.has("seed") ? "" : `seed ${header.seed}`].filter(Boolean).join(" · "));
    dom.append(el("div", { class: "dx-figures" }, ...this.items.map((item) => item.button)), this.note, this.machine);
  }

  #toggle(i) {
    this.open = this.open === i ? null : i;
    this.items.forEach(({ button }, k) => button.setAttribute("aria-expanded", String(k === this.open)));
    this.note.hidden = this.open === null;
    this.#explain();
  }

  #explain() {
    if (this.open === null) return;
    const [name, origin, , formula] = FIGURES[this.open];
    setText(this.note, this.#lost(name) ? `${name}: ${this.#lost(name)}` : `${name} (${origin}). ${formula(this.values)}`);
  }

  /** Why a figure cannot be told of this run; nothing if it can. */
  #lost(name) {
    const lost = (NEEDS[name] ?? []).filter((field) => this.run.missing.has(field));
    return lost.length ? `not recorded. ${this.run.header.imported_from ?? "What is left of this run"} does not say: ${lost.join(", ").replaceAll("_", " ")}.` : "";
  }

  show(t) {
    const sums = this.run.sums[t], roles = Object.entries(sums.roles).map(([role, n]) => `${n} ${role}`).join(", ");
    this.values = { ...sums, t, steps: this.run.length, roles, tokens: this.run.tokens(t) };
    FIGURES.forEach(([name, origin, figure, formula], i) => {
      const lost = this.#lost(name);
      setText(this.items[i].value, lost ? "not recorded" : figure(this.values));
      this.items[i].button.title = lost ? `${name}: ${lost}` : `${name} (${origin}). ${formula(this.values)}`;
    });
    this.#explain();
  }

  describe() {
    const { missing } = this.run, told = (name, n, words) => (missing.has(name) ? `${words} not recorded` : `${n} ${words}`);
    return `${told("tokens", this.values.tokens, "tokens")} after ${told("forwards", this.values.forwards, "forward passes")}.`;
  }
}
