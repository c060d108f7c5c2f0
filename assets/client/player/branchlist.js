// Branches that were drafted for outcomes of a verification, each after the drafts that it supposes to stay; the one
// that came true goes on.

import { el } from "./dom.js";
import { render } from "./drawing.js";
import { glyphs, tr } from "./words.js";

export class BranchList {
  constructor(run) {
    this.run = run;
    this.dom = el("div", { role: "list", style: "display:grid;gap:3px;margin:6px 0;font-size:13px" });
  }

  show({ branches = [], commits } = {}) {
    const own = branches.filter(({ tokens }) => tokens.length > 1),
      before = Math.min(...(commits?.positions ?? [0]));
    render(this.dom, own, ({ tokens, length, fate }) => {
      const chosen = fate === "chosen",
        look = chosen ? "accepted" : "unreached",
        style = `background:var(--${look}-fill);color:var(--${look}-text);padding:1px 5px;margin:0 2px;\
border-radius:4px;font-family:var(--mono);border:`,
        when = tr`if ${length - tokens.length - before} stay, then`,
        words = tokens.map((token, i) => {
          const border = i ? "0" : "1.5px solid var(--text)";
          return ["span", { style: style + border }, glyphs(this.run.piece(token).text)];
        });
      return [
        "div",
        { role: "listitem", style: "display:grid;grid-template-columns:9em 1fr" },
        ["span", {}, `${chosen ? "✓ " : ""}${when}`],
        ["span", {}, ...words],
      ];
    });
  }
}
