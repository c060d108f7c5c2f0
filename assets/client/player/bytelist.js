// Parts in bytes as a list, group by group: a swatch, a name, a size, and whether it was measured.

import { bytes } from "./codec.js";
import { el, pool, setText } from "./dom.js";
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
    pool(this.dom, rows.length, () => el("div", {}, el("i", "dx-swatch"), el("span"), el("b"), el("span"))).forEach(
      (row, i) => {
        const { group, name, size, measured, head, only } = rows[i],
          [box, word, value, how] = row.childNodes;
        row.style.cssText = "display:grid;grid-template-columns:18px minmax(0,1fr) 84px 76px;gap:6px";
        box.style.cssText = `background:${head ? "none" : colour(group, name)}`;
        setText(word, head ? translated(group) : only ? `${translated(group)}: ${translated(name)}` : translated(name));
        word.style.fontWeight = head || only ? 600 : 400;
        setText(value, bytes(size));
        setText(how, head ? tr`in all` : measured ? tr`measured` : tr`modelled`);
      },
    );
  }
}
