// Which rows of the text a cache holds exactly.

import { el, setText, swatch } from "../player/dom.js";
import { render } from "../player/drawing.js";
import { tr, translated } from "../player/words.js";

const HATCH = "repeating-linear-gradient(45deg,transparent 0 3px,var(--rejected-fill) 3px 6px)",
  PAPER = { exact: "var(--accepted-fill)", calibrated: "var(--option5-fill)", fuzzy: HATCH };

const told = ({ about }) => about?.rows;

export class CacheRows {
  constructor(run) {
    this.run = run;
    this.rows = el("div", { style: "display:flex;gap:1px" });
    this.held = el("div", "dx-legend");
    const title = el("p", "dx-readout", tr`Rows of the cache over the text, the prompt first`);
    this.dom = el("div", {}, title, this.rows, this.held);
  }

  grow() {
    this.dom.hidden = !this.run.steps.some(({ spans }) => spans?.some(told));
    this.held.replaceChildren(
      ...Object.keys(PAPER).map((label) =>
        swatch(`background:${PAPER[label]};border:1px solid var(--line)`, ` ${translated(label)}`),
      ),
    );
  }

  /** spans: of a step. */
  show(spans) {
    const cells = spans.filter(told),
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
