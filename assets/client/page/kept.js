// Prompt, slots and parameters, kept by the browser for the next time the page is opened. Under a version: what an
// older page or somebody else wrote is dropped, with a sentence, and single values that are not offered any more make
// room for the defaults. An address that names a run wins.

import { el } from "../player/dom.js";
import { store, stored } from "../player/remember.js";
import { tr } from "../player/words.js";
import { whenThere } from "./dom.js";
import { allows, complete, methodOf } from "./slot.js";

export const KEY = "decoding-explorer-form";
const VERSION = 1;
const LONGEST = 100_000; // characters of a prompt that is kept
const SLOTS = 4;
const SOON = 300; // milliseconds after the last change
const RUNS = ["scene", "run", "gallery"]; // an address with one of these fills the controls itself
const DROPPED = tr`What this browser had kept of prompt and slots was of another version, so it was dropped.`;

/** What a stored text holds: {prompt, count, values}; null where it is nothing of this version. */
export function parse(text) {
  try {
    const { version, prompt, count, values } = JSON.parse(text);
    const fits = version === VERSION && typeof prompt === "string" && Number.isInteger(count) && count <= SLOTS;
    return fits && count > 0 && Array.isArray(values) && values.length ? { prompt, count, values } : null;
  } catch {
    return null;
  }
}

/** A slot's value as this page can show it: a method that is gone becomes the first one, a value out of range the
    default. */
export function fitting(catalogue, value) {
  const given = value && typeof value === "object" ? value : {},
    { slug, params } = methodOf(catalogue, given.method),
    fits = (param, one) => (param.kind === "code" ? typeof one === "string" : allows(param, one));
  const kept = slug === given.method ? Object(given.params) : {},
    known = params.filter((param) => Object.hasOwn(kept, param.name) && fits(param, kept[param.name]));
  return complete(catalogue, {
    method: slug,
    model: typeof given.model === "string" ? given.model : "",
    params: Object.fromEntries(known.map(({ name }) => [name, kept[name]])),
    row_invariant: given.row_invariant,
  });
}

/** Called once all slots are there. forms: by number; changeForms: of form.js. */
export function keep(forms, changeForms) {
  if (forms.size === SLOTS) whenThere(["#prompt textarea", "#count input", "#status"], (...parts) => begin(parts));
  function begin([field, , status]) {
    const radios = () => [...document.querySelectorAll("#count input")],
      now = () =>
        JSON.stringify({
          version: VERSION,
          prompt: field.value.slice(0, LONGEST),
          count: Number(radios().find(({ checked }) => checked)?.value ?? 2),
          values: [...Array(SLOTS).keys()].map((number) => forms.get(number).value),
        });
    const first = now(),
      query = new URLSearchParams(location.search),
      text = stored(KEY),
      found = text && parse(text);
    if (text && !found) {
      store(KEY, null);
      status.append(el("p", { class: "waits", role: "status" }, DROPPED));
    }
    if (found && !RUNS.some((name) => query.has(name))) {
      field.value = found.prompt;
      field.dispatchEvent(new Event("input", { bubbles: true }));
      radios()
        .find(({ value }) => value === String(found.count))
        ?.click();
      changeForms(found.values.slice(0, SLOTS).map((value) => fitting(forms.get(0).catalogue, value)));
    }
    let timer = null;
    const save = () => {
      clearTimeout(timer);
      const last = now();
      if (!forgotten) store(KEY, last === first ? null : last);
    };
    const later = () => {
      clearTimeout(timer);
      timer = setTimeout(save, SOON);
    };
    let forgotten = false;
    document.addEventListener("dx-forget", () => (forgotten = true)); // until the page is opened again
    for (const event of ["input", "change", "dx-form"]) document.addEventListener(event, later);
    addEventListener("pagehide", save);
  }
}
