// The generated text so far, with open positions as boxes and the newest words marked.

import { prose } from "../codec.js";
import { el, pool, setText } from "../dom.js";

const LONG = 12; // open positions in a row that are drawn one by one

export class Text {
  static title = "Generated text";

  load(run, dom) {
    this.run = run;
    this.box = el("p", { class: "dx-text" });
    dom.append(this.box);
  }

  show(t) {
    const parts = this.run.text(t);
    pool(this.box, parts.length, () => el("span")).forEach((node, i) => {
      const { text, kind } = parts[i];
      node.className = `dx-${kind}`;
      setText(node, kind === "end" ? "end of text" : kind === "hole" && text.length > LONG ? `▢ × ${text.length}` : prose(text));
    });
    this.box.classList.toggle("dx-empty", !parts.length);
  }

  describe(t) {
    return this.run.end && t === this.run.length ? `The text is: ${prose(this.run.end.text).slice(0, 300)}` : "";
  }
}
