// Parts in bytes as a list, group by group: a swatch, a name, a size, and whether it was measured.

import { bytes, tr, translated } from "./words.js";

const row = (paper, words, bold, size, how) => [
  "div",
  { style: "display:grid;grid-template-columns:18px minmax(0,1fr) 84px 76px;gap:6px" },
  ["i", { class: "dx-swatch", style: `background:${paper}` }],
  ["span", { style: `font-weight:${bold ? 600 : 400}` }, words],
  ["b", {}, bytes(size)],
  ["span", {}, how],
];

/** The list as `render` takes it. groups: name -> its parts {name, start, end, measured}, one after the other; colour:
 * of a part, by both names. */
export const byteList = (groups, colour) =>
  [...groups].flatMap(([group, parts]) => {
    const only = parts.length < 2,
      rows = parts.map(({ name, start, end, measured }) => {
        const words = only ? `${translated(group)}: ${translated(name)}` : translated(name);
        return row(colour(group, name), words, only, end - start, measured ? tr`measured` : tr`modelled`);
      });
    return only ? rows : [row("none", translated(group), true, parts.at(-1).end, tr`in all`), ...rows];
  });
