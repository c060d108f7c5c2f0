// The form of the studies: which one, what it says of itself, and a control for each input that it declares. Its value
// is {study, inputs}; the server gets it as JSON when it runs, and is asked nothing while a person fills it in.

import { el } from "../player/dom.js";
import { tr } from "../player/words.js";
import { whenThere } from "./dom.js";
import { markChanged, parameter } from "./fields.js";
import { tell } from "./prose.js";
import { queueLine } from "./running.js";
import * as slot from "./slot.js";

/** props.offered: JSON of the studies, [{slug, title, paper, summary, departures, params}]; props.value: JSON of
 *  {study, inputs}, from here alone. */
export function mountStudies(element, props) {
  const form = new StudyForm(JSON.parse(props.offered), (value) => (props.value = JSON.stringify(value)));
  element.replaceChildren(form.root);
  whenThere(["#study-status"], (status) => queueLine(status));
  return form;
}

/** `root` is the element, `value` what it holds. */
class StudyForm {
  #inputs = new Map(); // study -> what its inputs are now: kept while another one is looked at

  /** tell: called with the value at first and after each change. */
  constructor(offered, tell) {
    Object.assign(this, { offered, tell });
    const options = offered.map(({ slug, title }) => el("option", { value: slug }, title));
    this.choice = el(
      "select",
      { id: "study", "aria-describedby": "study-about", onchange: () => this.#draw() },
      ...options,
    );
    this.about = el("p", { class: "method-about", id: "study-about" });
    this.departures = el("p", "method-about");
    this.params = el("div", "study-params");
    const resetAll = { class: "slot-reset", onclick: () => this.#reset() };
    this.reset = el("button", resetAll, tr`Reset all to the defaults`);
    const line = el("div", "slot-line", el("label", { for: "study" }, tr`Study`), this.choice);
    this.root = el("div", "slot-form", line, this.about, this.departures, this.params, this.reset);
    this.#draw();
  }

  get #declared() {
    return this.offered.find(({ slug }) => slug === this.choice.value);
  }

  get value() {
    return { study: this.#declared.slug, inputs: this.#inputs.get(this.#declared.slug) };
  }

  #draw() {
    const study = this.#declared,
      { slug, paper, summary, departures } = study;
    if (!this.#inputs.has(slug)) this.#inputs.set(slug, slot.defaults(study));
    const about = el("span", {});
    tell(about, summary);
    this.about.replaceChildren(paper ? `${paper} · ` : "", about);
    const departs = el("span", {});
    tell(departs, departures);
    this.departures.replaceChildren(tr`Departs from the paper: ${""}`, departs);
    this.params.replaceChildren(...study.params.map((param) => this.#parameter(slug, param)));
    this.#changed();
  }

  #parameter(slug, param) {
    const { name } = param;
    return parameter(param, { id: `study-${slug}-${name}`, value: this.value.inputs[name] }, (value) => {
      this.#inputs.set(slug, { ...this.#inputs.get(slug), [name]: value });
      this.#changed();
    });
  }

  #reset() {
    this.#inputs.delete(this.#declared.slug);
    this.#draw();
    this.choice.focus(); // the button is gone
  }

  #changed() {
    const set = new Set(slot.changed(this.#declared, this.value.inputs));
    markChanged(this.params, set);
    this.reset.hidden = !set.size;
    this.tell(this.value);
  }
}
