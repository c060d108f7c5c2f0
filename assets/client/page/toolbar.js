// On a narrow screen, a button that unfolds what is below the first line of the toolbar; on a wide one all of it fits.

import { mountToolbar } from "../player/gradio.js";
import { tr } from "../player/words.js";

/** The bar of the players, unless it was drawn before Gradio's page was there (first.js). */
export function mountBar(element) {
  if (!element.querySelector(".dx-toolbar")) foldable(mountToolbar(element));
}

function foldable({ root }) {
  const more = document.createElement("button"),
    narrow = matchMedia("(max-width: 700px)");
  const fold = (folded) => {
    root.toggleAttribute("data-folded", folded);
    more.setAttribute("aria-expanded", String(!folded));
    dispatchEvent(new Event("scroll")); // unfolded it no longer sticks, although nothing was scrolled
  };
  Object.assign(more, { className: "more", textContent: tr`More`, title: tr`Clock, speed and race` });
  more.addEventListener("click", () => fold(!root.hasAttribute("data-folded")));
  narrow.addEventListener("change", () => fold(narrow.matches));
  fold(narrow.matches);
  root.querySelector(".dx-place").after(more);
}
