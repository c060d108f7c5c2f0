// The head of a panel: what runs here, where a fork comes from, how it stands.

import { el, setText } from "./dom.js";
import { lineage, titleOf } from "./fork.js";
import { translated } from "./words.js";

export class Head {
  constructor(button) {
    this.name = el("span");
    this.tells = el("strong");
    this.models = el("small", {});
    this.lineage = el("p", { class: "dx-lineage", hidden: true });
    this.pill = el("span", "dx-pill");
    const words = el("div", {}, el("h2", {}, this.name, this.tells, this.models), this.lineage);
    this.root = el("header", {}, words, button, this.pill);
  }

  /** The name of a run that is not there yet. */
  await(title) {
    setText(this.name, title);
    this.apart("");
    setText(this.models, "");
  }

  /** What tells this run from another one of its name, such as "threshold 0.4". */
  apart(what) {
    setText(this.tells, what && ` · ${what}`);
  }

  show(run, title) {
    const { header } = run;
    setText(this.name, title || titleOf(run));
    const models = header.models?.map(({ name }) => name).join(" + ");
    setText(this.models, [header.own, models].map((text) => (text ? ` · ${translated(text)}` : "")).join(""));
    this.apart("");
    setText(this.lineage, lineage(run));
    this.lineage.title = this.lineage.textContent;
    this.lineage.hidden = !this.lineage.textContent;
  }
}
