// What stands with the schedule of a step: which rows of the text a cache holds exactly; branches that were drafted for
// outcomes of a verification; what a modelled order does at once.

import { el, setText, swatch } from "../player/dom.js";
import { render } from "../player/drawing.js";
import { glyphs, tr, translated } from "../player/words.js";

const HATCH = "repeating-linear-gradient(45deg,transparent 0 3px,var(--rejected-fill) 3px 6px)",
  PAPER = { exact: "var(--accepted-fill)", calibrated: "var(--option5-fill)", fuzzy: HATCH };

const ofCache = ({ about }) => about?.rows;

/** Rows of the text, by what a cache holds of them. */
export class CacheRows {
  constructor(run) {
    this.run = run;
    this.rows = el("div", { style: "display:flex;gap:1px" });
    this.held = el("div", "dx-legend");
    const title = el("p", "dx-readout", tr`Rows of the cache over the text, the prompt first`);
    this.dom = el("div", {}, title, this.rows, this.held);
  }

  grow() {
    this.dom.hidden = !this.run.steps.some(({ spans }) => spans?.some(ofCache));
    this.held.replaceChildren(
      ...Object.keys(PAPER).map((label) =>
        swatch(`background:${PAPER[label]};border:1px solid var(--line)`, ` ${translated(label)}`),
      ),
    );
  }

  /** spans: of a step. */
  show(spans) {
    const cells = spans.filter(ofCache),
      at = cells.flatMap(({ start, end, about: { rows } }) =>
        Array.from({ length: end - start }, (_, i) => [start + i, rows]),
      );
    render(this.rows, at, ([position, rows]) => {
      const style = `flex:1;max-width:24px;height:24px;border:1px solid var(--line);background:${PAPER[rows]}`;
      return ["span", { style, title: tr`position ${position}: ${translated(rows)}` }];
    });
    const count = (label) => at.filter(([, one]) => one === label).length;
    Object.keys(PAPER).forEach((label, i) =>
      setText(this.held.children[i].lastChild, ` ${translated(label)}: ${count(label)}`),
    );
  }
}

/** Branches, each after the drafts that it supposes to stay; the one that came true goes on. */
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

/** Modelled parts of one kind that begin together on several tracks, such as the attention of several layers:
 * {begin, end, from, to, first, last}; from and to are parts on the outer tracks, first and last their layers. */
export function together(shown) {
  const groups = new Map();
  for (const one of shown) {
    const n = one.about?.layer;
    if (one.measured !== false || n === undefined) continue;
    const key = `${one.kind} ${one.start.toFixed(6)}`;
    groups.set(key, [...(groups.get(key) ?? []), { one, n }]);
  }
  return [...groups.values()]
    .filter((all) => new Set(all.map(({ one }) => one.track)).size > 1)
    .map((all) => {
      const by = [...all].sort((a, b) => a.n - b.n),
        end = Math.max(...all.map(({ one }) => one.end));
      return { begin: by[0].one.start, end, from: by[0].one, to: by.at(-1).one, first: by[0].n, last: by.at(-1).n };
    });
}
