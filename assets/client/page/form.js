// The form of a slot: a method, a model of the kind that it needs, and a control for each parameter that the method
// declares. Its value is {method, model, params, row_invariant?}; the server gets it as JSON with the event that needs
// it, and is asked nothing while a person fills it in.

import { el } from "../player/dom.js";
import { tr, translated } from "../player/words.js";
import { announce, parsed } from "./dom.js";
import { markChanged, parameter } from "./fields.js";
import { chose } from "./filling.js";
import { changeForms, forms, knownForms } from "./forms.js";
import { keep } from "./kept.js";
import { tell } from "./prose.js";
import * as slot from "./slot.js";
import { begin, say, slotsToTry } from "./trymethod.js";

const OTHER = "\u2026"; // the option that opens a text field for a model that is not listed

let offer;
const offered = new Promise((resolve) => (offer = resolve));

/** The hidden component that brings the catalogue, once for all forms: props.value is its JSON. */
export const catalogue = (props) => offer(JSON.parse(props.value));

/** The chooser asks for a method and its control: {method, control, models}. */
document.addEventListener("dx-try", ({ detail }) => {
  const { catalogue, values } = knownForms(),
    slots = slotsToTry(catalogue, detail, values);
  changeForms(slots);
  begin(slots.length);
  forms.get(slots.length - 1).root.open = true; // the method that was asked for
  say(catalogue, slots);
});

/** A slot's component. props.value: the JSON of its value, from the server or from here; props.number: the slot's. */
export async function mountForm(element, props, watch) {
  const known = await offered;
  let told = "";
  const form = new Form(known, props.number, (value) => (props.value = told = JSON.stringify(value)));
  const read = () => {
    if (props.value === told) return;
    told = props.value;
    form.write(parsed(props));
    announce("dx-filled"); // by the server: a person has chosen nothing
  };
  element.replaceChildren(form.root);
  forms.set(props.number, form);
  read();
  announce("dx-form");
  watch("value", read);
  keep(forms, changeForms);
  return form;
}

/** `root` is the element, `value` what it holds. */
export class Form {
  /** number: the slot's, from 0. tell: called with the value after each change by a person. */
  constructor(catalogue, number, tell) {
    Object.assign(this, { catalogue, number, tell, name: tr`Slot ${number + 1}` });
    this.method = this.#methods();
    this.model = el("select", { id: `model-${number}`, onchange: () => this.#changeModel(true) });
    const typed = { type: "text", maxlength: 1000, spellcheck: "false", oninput: () => this.#changeModel(false) };
    this.other = el("input", {
      ...typed,
      id: `model-${number}-other`,
      "aria-label": tr`Hub id or folder of a model`,
      placeholder: tr`hub id, folder or path of a GGUF file`,
    });
    this.drafter = el("input", { ...typed, id: `drafter-${number}`, placeholder: tr`ours, or a hub id or folder` });
    this.about = el("p", { class: "method-about", id: `about-${number}` });
    this.line = el("span", "slot-said");
    this.waits = el("span", "slot-waits"); // prefetch.js says there that its model is being loaded
    this.root = this.#slot(this.#parameters());
  }

  /** Shows a value; what is not offered is replaced, and then told. */
  write(value) {
    this.value = slot.complete(this.catalogue, value);
    this.#draw();
    if (JSON.stringify(this.value) !== JSON.stringify(value)) this.tell(this.value);
  }

  /** Takes a value that was chosen elsewhere on the page. */
  become(value) {
    this.#set(slot.complete(this.catalogue, value));
    this.#draw();
  }

  get #declared() {
    return slot.methodOf(this.catalogue, this.value.method);
  }

  // what there is

  #slot(parameters) {
    const line = (label, control, ...more) =>
      el("div", "slot-line", el("label", { for: control.id }, label), control, ...more);
    const fields = el("fieldset", {}, el("legend", "dx-say", this.name), line(tr`Method`, this.method));
    this.drafts = line(tr`Drafter`, this.drafter);
    fields.append(line(tr`Model`, this.model, this.other), this.drafts, this.about, parameters);
    const head = el("summary", {}, el("strong", {}, this.name), " ", this.line, this.waits);
    return el("details", "slot-form", head, fields);
  }

  #methods() {
    const { number } = this;
    const option = ({ slug, title, kind }) => el("option", { value: slug }, tr`${title} · ${kind} model`);
    const groups = slot
      .families(this.catalogue)
      .map(([name, methods]) => el("optgroup", { label: translated(name) }, ...methods.map(option)));
    const about = `about-${number}`;
    return el(
      "select",
      { id: `method-${number}`, "aria-describedby": about, onchange: () => this.#choose() },
      ...groups,
    );
  }

  #parameters() {
    this.state = el("span", "slot-changed");
    this.reset = el("button", { class: "slot-reset", onclick: () => this.#reset() }, tr`Reset all to the defaults`);
    this.legend = el("legend", "dx-say", tr`Parameters of slot ${this.number + 1}`);
    this.params = el("fieldset", {}, this.legend);
    this.head = el("summary", {}, tr`Parameters `, this.state);
    return el("details", "slot-params", this.head, this.params);
  }

  #parameter(method, param) {
    const { name } = param;
    const baseline = this.catalogue.methods.find(({ slug }) => slug === method.baseline)?.title;
    const given = { id: `control-${this.number}-${name}`, value: this.value.params[name], baseline };
    return parameter(param, given, (value) =>
      this.#set({ ...this.value, params: { ...this.value.params, [name]: value } }),
    );
  }

  /** Row-invariant forwards, below the parameters of the method. */
  #rows(method) {
    const param = slot.rows(this.catalogue, method);
    if (!param) return [];
    const given = { id: `control-${this.number}-${param.name}`, value: Boolean(this.value.row_invariant) };
    const set = (value) => this.#set(slot.complete(this.catalogue, { ...this.value, row_invariant: value }));
    return [parameter(param, given, set)];
  }

  // what a person does

  #choose() {
    const to = slot.methodOf(this.catalogue, this.method.value);
    const params = slot.carry(this.#declared, to, this.value.params);
    this.#set(slot.complete(this.catalogue, { ...this.value, method: to.slug, params }));
    this.#draw();
  }

  #changeModel(chosen) {
    this.other.hidden = this.model.value !== OTHER;
    const target = this.other.hidden ? this.model.value : this.other.value.trim();
    const drafter = this.drafts.hidden ? "" : this.drafter.value.trim();
    this.#set({ ...this.value, model: slot.together(target, drafter) });
    if (chosen && !this.other.hidden) this.other.focus();
  }

  #reset() {
    const { method, model } = this.value;
    this.#set(slot.complete(this.catalogue, { method, model }));
    this.#draw();
    this.head.focus(); // the button is gone
  }

  #set(value) {
    chose(`slot-${this.number}`);
    this.value = value;
    this.#mark();
    this.tell(value);
    announce("dx-form");
  }

  // what is drawn

  #draw() {
    const method = this.#declared;
    this.method.value = method.slug;
    tell(this.about, method.summary);
    this.#drawModels(method);
    this.params.replaceChildren(
      this.legend,
      ...method.params.map((param) => this.#parameter(method, param)),
      ...this.#rows(method),
      this.reset,
    );
    this.#mark();
  }

  #drawModels(method) {
    const [model, drafter] = slot.parted(this.value.model);
    const models = slot.modelsFor(this.catalogue, method, Boolean(drafter));
    const listed = models.some(({ name }) => name === model);
    const options = models.map(({ name, label }) => el("option", { value: name }, label));
    if (this.catalogue.open) options.push(el("option", { value: OTHER }, tr`another: hub id, folder or GGUF file …`));
    else if (!models.length) options.push(el("option", { value: "" }, tr`no ${method.kind} model is installed here`));
    this.model.replaceChildren(...options);
    this.model.value = listed || !this.catalogue.open ? model : OTHER;
    this.other.hidden = this.model.value !== OTHER;
    this.other.value = listed ? "" : model;
    this.drafts.hidden = !(this.catalogue.open && method.drafts);
    this.drafter.value = drafter;
  }

  /** What depends on how far the values are from the defaults. */
  #mark() {
    const set = new Set(slot.changed(this.#declared, this.value.params));
    if (this.value.row_invariant) set.add("row_invariant");
    markChanged(this.params, set);
    this.reset.hidden = !set.size;
    this.state.textContent = set.size ? tr`${set.size} changed` : "";
    this.line.textContent = slot.summary(this.catalogue, this.value);
  }
}
