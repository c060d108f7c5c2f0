// Parts in bytes as a list, group by group: a swatch, a name, a size, and whether it was measured.

import { bytes } from "./codec.js";
import { el } from "./dom.js";
import { render } from "./render.js";
import { tr, translated } from "./words.js";

export class ByteList {
  constructor() {
    this.dom = el("div", {
      style: "display:grid;grid-template-columns:repeat(auto-fill,minmax(320px,1fr));gap:2px 28px;font-size:13px",
    });
  }

  /** groups: name -> its parts {name, start, end, measured}, one after the other; colour: of a part, by both names. */
  show(groups, colour) {
    const rows = [...groups].flatMap(([group, parts]) => [
      ...(parts.length > 1 ? [{ group, size: parts.at(-1).end, head: true }] : []),
      ...parts.map((part) => ({ ...part, group, size: part.end - part.start, only: parts.length < 2 })),
    ]);
    render(this.dom, rows, ({ group, name, size, measured, head, only }) => {
      const words = [...(head || only ? [group] : []), ...(head ? [] : [name])].map(translated).join(": ");
      return [
        "div",
        { style: "display:grid;grid-template-columns:18px minmax(0,1fr) 84px 76px;gap:6px" },
        ["i", { class: "dx-swatch", style: `background:${head ? "none" : colour(group, name)}` }],
        ["span", { style: `font-weight:${head || only ? 600 : 400}` }, words],
        ["b", {}, bytes(size)],
        ["span", {}, head ? tr`in all` : measured ? tr`measured` : tr`modelled`],
      ];
    });
  }
}
