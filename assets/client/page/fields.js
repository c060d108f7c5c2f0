// One control per kind of parameter. A control is {node, read() -> value, write(value)}; `ids` are
// attributes: the id that the label points at, and the ids of the sentences that describe it.

import { el } from "../player/dom.js";
import { tr, translated } from "../player/words.js";
import { hint, said } from "./slot.js";

function number({ kind, name, low, high, step = 0.01 }, ids, changed) {
  const whole = kind === "int",
    limits = { min: low ?? null, max: high ?? null };
  const box = el("input", {
    ...ids,
    type: "number",
    step: whole ? 1 : "any",
    inputmode: whole ? "numeric" : "decimal",
    ...limits,
  });
  const slider = el("input", { type: "range", step: whole ? 1 : step, "aria-label": tr`${name}, slider`, ...limits });
  const show = (one, value) => {
    one.value = value;
    if (box.validity.valid && box.value !== "") box.removeAttribute("aria-invalid");
    else box.setAttribute("aria-invalid", "true");
  };
  const follow = (one, value) => {
    show(one, value);
    changed();
  };
  box.addEventListener("input", () => follow(slider, box.value || (low ?? 0)));
  slider.addEventListener("input", () => follow(box, slider.value));
  const write = (value) => {
    show(slider, value ?? low ?? 0);
    show(box, value ?? "");
  };
  const bounded = low !== undefined && high !== undefined;
  const node = el("div", "field-number", bounded ? slider : null, box);
  return { node, read: () => (box.value === "" ? null : Number(box.value)), write };
}

function choice({ choices = [] }, ids, changed) {
  const box = el("select", { ...ids, onchange: changed }, ...choices.map((one) => el("option", { value: one }, one)));
  return { node: box, read: () => box.value, write: (value) => Object.assign(box, { value }) };
}

function flag(_, ids, changed) {
  const box = el("input", { ...ids, type: "checkbox", onchange: changed });
  return { node: box, read: () => box.checked, write: (value) => (box.checked = value === true) };
}

function text({ longest = 2000 }, ids, changed) {
  const box = el("textarea", { ...ids, rows: 1, maxlength: longest, spellcheck: "false", oninput: changed });
  return { node: box, read: () => box.value, write: (value) => (box.value = value ?? "") };
}

/** A longer text: one of those that ship, by its name, or changed by a person, who then sends the whole of it. */
function code({ name, presets = {} }, ids, changed) {
  const own = el("option", { value: "" }, tr`your own`);
  const pick = el(
    "select",
    { "aria-label": tr`${name}, one that ships`, onchange: () => choose() },
    ...Object.keys(presets).map((one) => el("option", { value: one }, one)),
    own,
  );
  const box = el("textarea", { ...ids, rows: 8, maxlength: 12000, spellcheck: "false", oninput: () => edited() });
  const shipped = () => Object.keys(presets).find((one) => presets[one] === box.value);
  const mark = () => {
    pick.value = shipped() ?? "";
    own.disabled = pick.value !== "";
  };
  const choose = () => {
    box.value = presets[pick.value] ?? box.value;
    edited();
  };
  const edited = () => {
    mark();
    changed();
  };
  const write = (value) => {
    box.value = presets[value] ?? value ?? "";
    mark();
  };
  return { node: el("div", "field-code", pick, box), read: () => shipped() ?? box.value, write };
}

const KINDS = { int: number, float: number, choice, bool: flag, text, code };

/** The control of a parameter; `changed` is called after each change by a person. */
export const field = (param, ids, changed) => KINDS[param.kind](param, ids, changed);

/** A parameter as a person sets it: the control with its name, what one sees of it, its default and range, and a button
    back to the default. id: the control's. value: what it holds. baseline: the title of the method that a neutral value
    equals. changed: called with the value after each change. */
export function parameter(param, { id, value, baseline }, changed) {
  const { name, symbol, kind, help, default: usual } = param;
  const control = field(param, { id, "aria-describedby": `${id}-help ${id}-hint` }, () => changed(control.read()));
  control.write(value);
  const back = () => {
    control.write(usual);
    changed(control.read());
    document.getElementById(id).focus();
  };
  const words = tr`Reset ${name} to ${said(usual)}`;
  const mark = symbol ? el("span", "param-symbol", ` (${symbol})`) : null;
  const reset = { class: "param-reset", title: words, "aria-label": words, onclick: back };
  return el(
    "div",
    { class: "param", "data-param": name, "data-kind": kind },
    el("label", { for: id }, name, mark),
    el("div", "param-row", control.node, el("button", reset, "↺")),
    el("p", { class: "param-help", id: `${id}-help` }, translated(help)),
    el("p", { class: "param-hint", id: `${id}-hint` }, hint(param, baseline)),
  );
}

/** Marks the parameters in `root` that are not at their default. set: their names. */
export function markChanged(root, set) {
  for (const node of root.querySelectorAll(".param")) {
    node.toggleAttribute("data-changed", set.has(node.dataset.param));
    node.querySelector(".param-reset").hidden = !set.has(node.dataset.param);
  }
}
