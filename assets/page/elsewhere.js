// The sentence before Run where a prompt is none of what the chosen models know; its button puts the slots on a model
// that reads any text.

import { tr } from "../player/words.js";
import { make } from "./dom.js";
import { general, instead, lost } from "./slot.js";

const WORDS = {
  said: (names) =>
    tr`${names.join(", ")} ${names.length === 1 ? tr`knows` : tr`know`} small tasks only, such as “sort: Mia, Leo, \
Ada”, and will answer this with something unrelated.`,
  use: (name) => tr`Use ${name} instead`,
};

/** props.value: JSON of {foreign}, whether the prompt is none of our tasks. knownForms, changeForms: of form.js. */
export function elsewhere(element, props, watch, { knownForms, changeForms }) {
  const words = make("p", { class: "status", "data-kind": "warn", role: "status" }),
    button = make("button", { type: "button", onclick: () => swap() });
  element.replaceChildren(words, button);
  const draw = () => {
    const { foreign } = JSON.parse(props.value || "{}"),
      { catalogue, values } = knownForms(),
      names = foreign ? lost(catalogue, values) : [],
      other = names.length ? general(catalogue) : "";
    element.hidden = !names.length;
    words.textContent = names.length ? WORDS.said(names) : "";
    button.hidden = !other;
    button.textContent = other ? WORDS.use(other) : "";
  };
  const swap = () => {
    const { catalogue, values } = knownForms();
    changeForms(instead(catalogue, values));
    document.querySelector("#run")?.focus();
  };
  document.addEventListener("dx-own", () => {
    const { catalogue, values } = knownForms();
    if (general(catalogue)) changeForms(instead(catalogue, values));
    const field = document.querySelector("#prompt textarea");
    field?.focus();
    field?.select();
  });
  document.addEventListener("dx-form", draw);
  watch("value", draw);
  draw();
}
