// One control per kind of parameter. A control is {node, read() -> value, write(value)}; `ids` are {control,
// described}: the id that the label points at, and the ids of the sentences that describe it.

import { tr } from "../player/words.js";
import { make } from "./dom.js";

function number({ kind, name, low, high, step = 0.01 }, { control, described }, changed) {
  const whole = kind === "int",
    limits = { min: low ?? null, max: high ?? null };
  const box = make("input", {
    id: control,
    type: "number",
    step: whole ? 1 : "any",
    inputmode: whole ? "numeric" : "decimal",
    "aria-describedby": described,
    ...limits,
  });
  const slider = make("input", { type: "range", step: whole ? 1 : step, "aria-label": tr`${name}, slider`, ...limits });
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
  const node = make("div", { class: "field-number" }, bounded ? slider : null, box);
  return { node, read: () => (box.value === "" ? null : Number(box.value)), write };
}

function choice({ choices = [] }, { control, described }, changed) {
  const box = make(
    "select",
    { id: control, "aria-describedby": described, onchange: changed },
    ...choices.map((one) => make("option", { value: one }, one)),
  );
  return { node: box, read: () => box.value, write: (value) => Object.assign(box, { value }) };
}

function flag(_, { control, described }, changed) {
  const box = make("input", { id: control, type: "checkbox", "aria-describedby": described, onchange: changed });
  return { node: box, read: () => box.checked, write: (value) => (box.checked = value === true) };
}

function text(_, { control, described }, changed) {
  const box = make("textarea", {
    id: control,
    rows: 1,
    maxlength: 2000,
    spellcheck: "false",
    "aria-describedby": described,
    oninput: changed,
  });
  return { node: box, read: () => box.value, write: (value) => (box.value = value ?? "") };
}

/** A longer text: one of those that ship, by its name, or changed by a person, who then sends the whole of it. */
function code({ name, presets = {} }, { control, described }, changed) {
  const own = make("option", { value: "" }, tr`your own`);
  const pick = make(
    "select",
    { "aria-label": tr`${name}, one that ships`, onchange: () => choose() },
    ...Object.keys(presets).map((one) => make("option", { value: one }, one)),
    own,
  );
  const box = make("textarea", {
    id: control,
    rows: 8,
    maxlength: 12000,
    spellcheck: "false",
    "aria-describedby": described,
    oninput: () => edited(),
  });
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
  return { node: make("div", { class: "field-code" }, pick, box), read: () => shipped() ?? box.value, write };
}

const KINDS = { int: number, float: number, choice, bool: flag, text, code };

/** The control of a parameter; `changed` is called after each change by a person. */
export const field = (param, ids, changed) => KINDS[param.kind](param, ids, changed);
