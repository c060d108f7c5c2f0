// The parameters of a fork: what holds at the cursor, and the field of one parameter.

import { el } from "../player/dom.js";
import { translated } from "../player/words.js";

/** The method that is at work after t steps, and its parameters. */
export function settings({ header }, t) {
  const { origin, edits = [] } = header;
  const made = edits.length || !origin?.edit ? edits : [{ after_step: origin.step - 1, edit: origin.edit }];
  let now = { method: header.method, params: header.params };
  for (const { after_step, edit } of made) {
    if (after_step < t)
      now = edit.method
        ? { method: edit.method, params: edit.params ?? {} }
        : { ...now, params: { ...now.params, ...edit.params } };
  }
  return now;
}

/** The field of a parameter, as its declaration says. was: what holds unless it is changed. keep: gets a new value. */
export function paramField(param, was, value, keep) {
  const option = (choice) => el("option", { value: choice }, choice),
    name = el("span", {}, `${param.name}${param.symbol ? ` (${param.symbol})` : ""}`);
  let input;
  if (param.kind === "bool")
    input = el("input", { type: "checkbox", checked: value === true, onchange: () => keep(input.checked) });
  else if (param.kind === "choice")
    input = el("select", { onchange: () => keep(input.value) }, ...param.choices.map(option));
  else if (param.kind === "code")
    input = el("textarea", { rows: 3, maxlength: 12000, spellcheck: "false", onchange: () => keep(input.value) });
  else if (param.kind === "text")
    input = el("input", { type: "text", maxlength: 2000, onchange: () => keep(input.value) });
  else
    input = el("input", {
      type: "number",
      min: param.low,
      max: param.high,
      step: param.step ?? "any",
      onchange: () => keep(input.value === "" ? was : Number(input.value)),
    });
  if (param.kind !== "bool") input.value = param.presets?.[value] ?? value;
  return el("label", { title: translated(param.help) }, name, input);
}
