// The choice of the page's language, in the language that each is written in.

import { el } from "../player/dom.js";
import { announce } from "./dom.js";
import { choose, LANGUAGES } from "./language.js";

/** The link to what the players show, if they have one. */
function link() {
  const detail = { text: null };
  announce("dx-link", detail);
  return detail.text;
}

export function mountSwitch(element) {
  const now = document.documentElement.lang === "zh-Hans" ? "zh-Hans" : "en";
  const box = el(
    "select",
    { "aria-label": "Language · 语言", title: "Language · 语言", translate: "no" },
    ...Object.entries(LANGUAGES).map(([key, name]) => el("option", { value: key, lang: key }, name)),
  );
  box.value = now;
  box.onchange = () => choose(box.value, link());
  element.replaceChildren(box);
}
