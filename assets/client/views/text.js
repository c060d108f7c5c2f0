// The generated text so far, with open positions as boxes, the newest words marked, and the first wrong one where the
// answer was checked.

import { el, pool, setText } from "../player/dom.js";
import { prose, tr } from "../player/words.js";
import { reading, rightAt } from "./asked.js";

export const view = { title: "Answer", place: 40, needs: [] };

const LONG = 12; // open positions in a row that are drawn one by one
const MOST = 420; // pixels; a longer answer scrolls

export class Text {
  load(run, dom, context) {
    Object.assign(this, { run, context, t: 0 });
    this.box = el("p", "dx-words");
    this.frame = el("div", `dx-text${run.canvas === null ? " dx-grows" : ""}`, this.box);
    this.mark = el("p", "dx-mark");
    dom.append(this.frame, this.mark);
  }

  remark() {
    this.show(this.t);
  }

  /** A finished run keeps the room of its whole answer from the beginning, so that nothing below moves. */
  resize() {
    if (!this.run.end) return;
    const parts = reading(this.run, this.run.length),
      spans = parts.map(({ text, kind }) => el("span", `dx-${kind}`, this.#said(text, kind))),
      whole = el("p", "dx-words", ...spans);
    whole.style.cssText = "position:absolute;visibility:hidden;inset-inline:0";
    this.frame.append(whole);
    this.frame.style.height = `${Math.min(whole.offsetHeight, MOST)}px`;
    whole.remove();
  }

  grow() {
    this.resize();
  }

  #said(text, kind) {
    if (kind === "end") return tr`end of text`;
    return kind === "hole" && text.length > LONG ? `▢ × ${text.length}` : prose(text);
  }

  show(t, hurry) {
    if (hurry) return;
    this.t = t;
    const place = this.context.marks.difference?.[0],
      parts = reading(this.run, t, place?.position);
    pool(this.box, parts.length, () => el("span")).forEach((node, i) => {
      const { text, kind, wrong, marked } = parts[i];
      const looks = [kind, wrong && "wrong", wrong && !parts[i - 1]?.wrong && "first", marked && "differs"];
      node.className = looks.flatMap((look) => (look ? `dx-${look}` : [])).join(" ");
      node.title = marked ? place.title : "";
      setText(node, this.#said(text, kind));
    });
    this.frame.classList.toggle("dx-empty", !parts.length);
    const said = [this.#cut(t), this.verdict(t)].filter(Boolean).join(" ");
    this.mark.style.visibility = said ? "" : "hidden"; // its line stays, so that boards side by side keep one height
    this.mark.dataset.mark = this.run.verdict ? (this.run.verdict.right ? "right" : "wrong") : "";
    this.mark.title = said;
    setText(this.mark, said);
  }

  /** An answer without an end mark that has all the tokens it was allowed may go on behind them; as in
   * explorer/figures/verdict.py. */
  #cut(t) {
    const { run } = this,
      most = run.header.params?.max_new_tokens,
      ids = t === run.length && run.end?.reason === "complete" ? run.end.output_ids : [];
    return run.eos.size && ids.length && ids.length >= most && !ids.some((id) => run.eos.has(id))
      ? tr`Cut at ${most} tokens: raise max_new_tokens.`
      : "";
  }

  /** What the task's exact check says, once the wrong word stands or the run is over. */
  verdict(t) {
    const { word = null, step = null, expected = "", many } = this.run.verdict ?? {},
      right = rightAt(this.run, t);
    if (right === null) return "";
    if (right) return tr`✓ right, by the task's exact check`;
    const when = step === null ? "" : tr`, written in step ${step + 1}`,
      wanted = many ? tr`right would be, for example` : tr`expected`,
      from = word === null ? tr`✗ wrong` : tr`✗ wrong from word ${word + 1}${when}`;
    return tr`${from}; ${wanted}: ${prose(expected)}`;
  }

  describe(t) {
    return this.run.end && t === this.run.length
      ? tr`The text is: ${prose(this.run.end.text).slice(0, 300)} ${this.verdict(t)}`.trim()
      : "";
  }
}
