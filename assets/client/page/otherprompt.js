// The sentence before Run where a prompt is none of what the chosen models know; its button puts the slots on a model
// that knows it, or reads any text.

import { el } from "../player/dom.js";
import { tr } from "../player/words.js";
import { parsed } from "./dom.js";
import { changeForms, knownForms } from "./forms.js";
import { able, fair, instead, lost } from "./slot.js";
import { say } from "./trymethod.js";

/** props.value: JSON of {task}: its slug, "" for none of ours, null where nothing is asked. */
export function mountElsewhere(element, props, watch) {
  const words = el("p", { class: "status", "data-kind": "warn", role: "status" }),
    button = el("button", { onclick: () => swap() });
  element.replaceChildren(words, button);
  let other = ""; // the model that the button offers
  const draw = () => {
    const { task } = parsed(props),
      { catalogue, values } = knownForms(),
      names = typeof task === "string" ? lost(catalogue, values, task) : [];
    other = names.length ? able(catalogue, task) : "";
    element.hidden = !names.length;
    const { example } = catalogue.models.find(({ name }) => name === names[0]) ?? {};
    words.textContent = names.length
      ? tr`${names.join(", ")} ${names.length === 1 ? tr`knows` : tr`know`} small tasks only, such as \
“${example}”, and will answer this with something unrelated.`
      : "";
    button.hidden = !other;
    button.textContent = other ? tr`Use ${other} instead` : "";
  };
  const swap = () => {
    const { catalogue, values } = knownForms();
    changeForms(instead(catalogue, values, other));
    document.querySelector("#run")?.focus();
  };
  document.addEventListener("dx-own", () => {
    const { catalogue, values } = knownForms();
    if (able(catalogue)) {
      const slots = fair(catalogue, values, able(catalogue));
      changeForms(slots);
      say(catalogue, slots);
    }
    const field = document.querySelector("#prompt textarea");
    field?.focus();
    field?.select();
  });
  for (const event of ["dx-form", "dx-filled"]) document.addEventListener(event, draw);
  watch("value", draw);
  draw();
}
