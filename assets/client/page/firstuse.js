// A page that nobody has used shows the scene, the prompt and little else. What is hidden comes with the first use of
// anything but the scene, its lever and the buttons that play, and stays: the browser remembers it.

import { el } from "../player/dom.js";
import { remember } from "../player/remember.js";
import { tr } from "../player/words.js";
import { whenThere } from "./dom.js";

// What asks for no more than is shown:
const SHOW = "#scene, #toolbar .dx-buttons, #toolbar input, #language, #tour, #scenarios, [role=tab]";
const { dataset } = document.documentElement;

/** Brings what was hidden, once the click that asked for it has ended: nothing moves away under a pointer. */
function reveal() {
  setTimeout(() => {
    dataset.touched = "";
    remember("touched", true);
    dispatchEvent(new Event("resize")); // what measures itself was hidden
  });
}

export function mountFirstUse() {
  if ("touched" in dataset) return;
  const asked = ({ target, type }) => {
    if ("touched" in dataset || target === document || target.closest?.(SHOW)) return;
    if (type !== "click" && !target.closest?.("#controls")) return;
    reveal();
  };
  for (const type of ["click", "focusin", "input"]) document.addEventListener(type, asked);
  whenThere(["#toolbar .dx-toolbar .dx-place"], (place) =>
    place.after(
      el(
        "button",
        { class: "all-controls", title: tr`Clocks, parameters, forks, results`, onclick: reveal },
        tr`Show everything`,
      ),
    ),
  );
}
