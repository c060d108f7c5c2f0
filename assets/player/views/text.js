// The generated text so far, with open positions as boxes, the newest words marked, and the first wrong one where the answer was checked.

import { prose } from "../codec.js";
import { el, pool, setText } from "../dom.js";

const LONG = 12; // open positions in a row that are drawn one by one

export class Text {
  static title = "Generated text";

  load(run, dom) {
    this.run = run;
    this.box = el("p", { class: "dx-text" });
    this.mark = el("p", { class: "dx-mark", hidden: true });
    dom.append(this.box, this.mark);
  }

  show(t) {
    const parts = this.run.text(t);
    pool(this.box, parts.length, () => el("span")).forEach((node, i) => {
      const { text, kind, wrong } = parts[i];
      node.className = `dx-${kind}${wrong && !parts[i - 1]?.wrong ? " dx-wrong dx-first" : wrong ? " dx-wrong" : ""}`;
      setText(node, kind === "end" ? "end of text" : kind === "hole" && text.length > LONG ? `▢ × ${text.length}` : prose(text));
    });
    this.box.classList.toggle("dx-empty", !parts.length);
    const said = this.verdict(t);
    this.mark.hidden = !said;
    this.mark.dataset.mark = this.run.verdict?.right ? "right" : "wrong";
    setText(this.mark, said);
  }

  /** What the task's exact check says, once the wrong word stands or the run is over. */
  verdict(t) {
    const { right, word = 0, step = null, expected = "", many } = this.run.verdict ?? {};
    if (!this.run.verdict || (t < this.run.length && (right || step === null || t <= step))) return "";
    if (right) return "✓ right, by the task's exact check";
    return `✗ wrong from word ${word + 1}${step === null ? "" : `, written in step ${step + 1}`}; ${many ? "right would be, for example" : "expected"}: ${prose(expected)}`;
  }

  describe(t) {
    return this.run.end && t === this.run.length ? `The text is: ${prose(this.run.end.text).slice(0, 300)} ${this.verdict(t)}`.trim() : "";
  }
}
