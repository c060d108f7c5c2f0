// Branches that were drafted for outcomes of a verification, each after the drafts that it supposes to stay; the one
// that came true goes on.

import { glyphs } from "./codec.js";
import { el, pool, setText } from "./dom.js";
import { tr } from "./words.js";

export class BranchList {
  constructor(run) {
    this.run = run;
    this.dom = el("div", { role: "list", style: "display:grid;gap:3px;margin:6px 0;font-size:13px" });
  }

  show({ branches = [], commits } = {}) {
    const own = branches.filter(({ tokens }) => tokens.length > 1),
      before = Math.min(...(commits?.positions ?? [0]));
    pool(this.dom, own.length, () => el("div", { role: "listitem" }, el("span"), el("span"))).forEach((row, i) => {
      const { tokens, length, fate } = own[i],
        [when, words] = row.childNodes,
        chosen = fate === "chosen",
        look = chosen ? "accepted" : "unreached",
        at = length - tokens.length - before;
      row.style.cssText = "display:grid;grid-template-columns:9em 1fr";
      setText(when, `${chosen ? "✓ " : ""}${tr`if ${at} stay, then`}`);
      pool(words, tokens.length, () => el("span")).forEach((word, j) => {
        word.style.cssText = `background:var(--${look}-fill);color:var(--${look}-text);padding:1px 5px;margin:0 2px;\
border-radius:4px;font-family:var(--mono);border:${j ? "0" : "1.5px solid var(--text)"}`;
        setText(word, glyphs(this.run.piece(tokens[j]).text));
      });
    });
  }
}
