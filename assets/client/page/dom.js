// What components share: the data they are sent, news for each other, waiting for what others put on the page, and the
// elements that several of them have.

import { el } from "../player/dom.js";

/** The object of the JSON text that a component holds; an empty one for what a component itself has put in. */
export function parsed({ value }) {
  try {
    return Object(JSON.parse(value || "{}"));
  } catch {
    return {};
  }
}

/** Tells the other modules: they listen to the document. */
export const announce = (name, detail = null) => document.dispatchEvent(new CustomEvent(name, { detail }));

/** A link that leads away from the page. */
export const outward = (href, words, look = {}) =>
  el("a", { href, target: "_blank", rel: "noopener noreferrer", ...look }, words);

/** A field to search with; `placeholder` is its name unless `look` gives it another. */
export const searchField = (placeholder, oninput, look = {}) =>
  el("input", { type: "search", placeholder, "aria-label": placeholder, oninput, ...look });

/** Calls `act` with the elements of these selectors as soon as all of them are on the page. */
export function whenThere(selectors, act) {
  const look = () => {
    const found = selectors.map((one) => document.querySelector(one));
    if (found.includes(null)) return false;
    act(...found);
    return true;
  };
  if (look()) return;
  const watch = new MutationObserver(() => look() && watch.disconnect());
  watch.observe(document.body, { childList: true, subtree: true });
}
