// Try: a method beside its control, in the first slots. Which model both run on is said without a document.

import { tr } from "../player/words.js";
import { announce } from "./dom.js";
import { complete, equallyLong, methodOf, modelsFor } from "./slot.js";

/** The model that a method and its control are tried on, of `models`: the one that a slot has if it fits both, else one
 * that reads any text, else the first one; "" where none fits. */
export function modelToTry(catalogue, methods, models, now = []) {
  const [first, ...others] = methods.map((method) => modelsFor(catalogue, method));
  const both = first
    .filter(({ name }) => models.includes(name))
    .filter(({ name }) => others.every((fitting) => fitting.some((one) => one.name === name)));
  const kept = both.find(({ name }) => now.includes(name)),
    open = both.find(({ tasks }) => !tasks.length);
  return (kept ?? open ?? both[0])?.name ?? "";
}

/** What a method is given beside its control: a rule that the control could have as well but has not is off, so that
 * the pair does not credit the method with it. */
const fairly = ({ params }) =>
  Object.fromEntries(params.filter(({ fair }) => fair !== undefined).map(({ name, fair }) => [name, fair]));

/** Values for the first slots: the control, then the method; the method alone where it has none that runs on its model.
 * models: the names of those to try it on; now: the slots' values. */
export function slotsToTry(catalogue, { method: slug, control, models }, now) {
  const method = methodOf(catalogue, slug),
    beside = catalogue.methods.find((one) => one.slug === control),
    used = now.map(({ model }) => model);
  const shared = beside ? modelToTry(catalogue, [method, beside], models, used) : "",
    model = shared || modelToTry(catalogue, [method], models, used);
  const slots = shared ? [beside, method] : [method];
  const filled = slots.map((one) =>
    complete(catalogue, { method: one.slug, model, params: shared ? fairly(one) : {} }),
  );
  return equallyLong(catalogue, filled);
}

/** Brings the slots and the prompt into view: as many slots as there are values, the sheet of a phone open, the prompt
 * with the focus as soon as its tab is shown. */
export function begin(count) {
  const box = document.querySelector(`#count input[value="${count}"]`);
  if (box && !box.checked) box.click();
  let tries = 90;
  const look = () => {
    const field = document.querySelector("#prompt textarea"),
      handle = document.querySelector(".sheet-handle");
    if (handle?.offsetParent && handle.getAttribute("aria-expanded") === "false") handle.click();
    if (field?.offsetParent) {
      field.focus();
      field.select();
    } else if (tries-- > 0) requestAnimationFrame(look);
  };
  look();
}

/** Says what the slots hold now, in the line below Run, and ends the scene beside it: its runs are those of before. */
export function say(catalogue, slots) {
  const names = slots.map(({ method }) => methodOf(catalogue, method).title).join(", "),
    line = document.querySelector("#status .status");
  announce("dx-filled-in");
  if (!line) return;
  Object.assign(line.dataset, { kind: "ok" });
  line.textContent = tr`The slots below hold ${names} on ${slots[0].model}. Change the prompt or keep it, and press \
Run; until then the boards show runs of before.`;
}
