// The gallery: recorded runs as pictures, in groups. A click on Play sends the ids of its runs as {play: [id]}.

import { el } from "../player/dom.js";
import { tr, translated } from "../player/words.js";
import { picturesOf } from "./cards.js";
import { announce, searchField } from "./dom.js";
import { langOf, left } from "./prose.js";
import { matching } from "./sorting.js";

const PLAY = tr`Play`;
let sent = 0; // sending the same twice is a change

/** props.groups: JSON of [{title, cards}]; a card is {ids, title, about, prompt, output?, cost?, watch, pictures}. */
export function mountGallery(element, props, submit) {
  const groups = JSON.parse(props.groups);
  const play = (ids) => {
    props.value = JSON.stringify({ play: ids, n: ++sent });
    submit();
    announce("dx-at", { gallery: ids });
  };
  const sections = groups.map(({ title, cards }) =>
    el("section", {}, el("h3", {}, title), el("ul", {}, ...cards.map((one) => card(one, play)))),
  );
  const none = el("p", { class: "gallery-none", role: "status" });
  const search = searchField(tr`Find a run`, () => {
    const fits = matching(search.value);
    for (const section of sections) {
      for (const item of section.querySelectorAll("li")) item.hidden = !fits(item);
      section.hidden = !section.querySelector("li:not([hidden])");
    }
    none.textContent = sections.every(({ hidden }) => hidden) ? tr`No run fits.` : "";
  });
  element.replaceChildren(
    el(
      "div",
      "gallery",
      search,
      left(...groups.flatMap(({ cards }) => cards.flatMap(({ title, watch }) => [title, watch]))),
      none,
      ...sections,
    ),
  );
}

function card({ ids, title, about, prompt, output, cost, watch, pictures }, play) {
  const id = ids.length === 1 ? `play-${ids[0]}` : null;
  return el(
    "li",
    { class: "card", "data-ids": ids.join(" ") },
    picturesOf(pictures),
    el("h4", { lang: langOf(title) }, translated(title)),
    el("p", "card-about", about),
    el("code", { translate: "no" }, prompt),
    watch ? el("p", { lang: langOf(watch) }, translated(watch)) : null,
    output ? el("details", {}, el("summary", {}, tr`Output`), el("p", { translate: "no" }, output)) : null,
    el(
      "div",
      "card-foot",
      el("span", {}, cost ?? ""),
      el("button", { id, "aria-label": `${PLAY}: ${translated(title)}`, onclick: () => play(ids) }, PLAY),
    ),
  );
}
