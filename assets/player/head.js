// The head of a panel: what runs here, where it comes from, how it stands.

import { el, setText } from "./dom.js";
import { lineage } from "./fork.js";

function lossless({ lossless, models }) {
  if (!lossless) return "";
  return models?.every((m) => m.dtype === "float32") ? "lossless" : "lossless in float32; near-ties may flip here";
}

export class Head {
  constructor(button) {
    this.name = el("h2", {});
    this.sub = el("p", "dx-sub");
    this.lineage = el("p", { class: "dx-lineage", hidden: true });
    this.departs = el("p", {});
    this.about = el(
      "details",
      { class: "dx-about", hidden: true },
      el("summary", {}, "Departs from the paper"),
      this.departs,
    );
    this.pill = el("span", "dx-pill");
    const words = el("div", {}, this.name, this.sub, this.lineage, this.about);
    this.root = el("header", {}, words, button, this.pill);
  }

  /** The name of a run that is not there yet. */
  await(title) {
    setText(this.name, title);
    setText(this.sub, "");
  }

  clear() {
    this.about.hidden = this.lineage.hidden = true;
  }

  show(run, title) {
    const { header } = run;
    setText(this.name, title || header.title || header.method);
    const facts = [
      header.family,
      header.models?.map((m) => m.name).join(" + "),
      lossless(header),
      header.imported_from ? `imported: ${header.imported_from}` : "",
      header.missing?.length ? `not recorded: ${header.missing.join(", ").replaceAll("_", " ")}` : "",
    ];
    setText(this.sub, facts.filter(Boolean).join(" · "));
    setText(this.lineage, lineage(run));
    this.lineage.hidden = !this.lineage.textContent;
    setText(this.departs, header.departures ?? "");
    setText(this.about.firstChild, header.imported_from ? "About this record" : "Departs from the paper");
    this.about.hidden = !header.departures;
  }
}
