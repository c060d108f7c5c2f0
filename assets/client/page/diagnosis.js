// Why is it slow: what was found about a drafter, in sentences and tables, and a lever over the measured cost of a
// round. All that is said comes from the server, which measured it; the lever derives its speeds from those seconds.

import { el } from "../player/dom.js";
import { tr } from "../player/words.js";
import { download } from "./download.js";
import { sentence } from "./sentences.js";

/** props.value: JSON of {headline, findings, tables: [{title, note, columns, rows}], places: [{title, target, draft}],
 *  rate, rows: {n: seconds}, drafts: {k: seconds}, name, report, json}; nothing is shown before there is one. */
export function mountDiagnosis(element, props, watch) {
  const draw = () => {
    const found = props.value ? JSON.parse(props.value) : null;
    element.replaceChildren(...(found?.headline ? [panel(found)] : []));
  };
  watch("value", draw);
  draw();
}

function panel(found) {
  const { headline, findings, tables, places } = found;
  return el(
    "section",
    { class: "why", "aria-label": tr`Why is it slow?` },
    el("h2", {}, sentence(headline)),
    el("ul", {}, ...findings.map((one) => el("li", {}, sentence(one)))),
    lever(found),
    el(
      "div",
      "why-save",
      saves(tr`Save the report`, found.report, "text/html", `${plain(found.name)}-why.html`),
      saves(tr`Save as JSON`, found.json, "application/json", `${plain(found.name)}-why.json`),
    ),
    ...tables.map(table),
    ...places.map(place),
  );
}

/** What drafts of each length would be worth: (1 + accepted) T(1) / (T(k + 1) + D(k)). */
export function worths(rows, drafts, chance) {
  const one = rows[1];
  let accepted = 0;
  return Object.keys(drafts)
    .map(Number)
    .sort((a, b) => a - b)
    .map((k) => {
      accepted += chance ** k;
      return { k, accepted, speed: ((1 + accepted) * one) / (rows[k + 1] + drafts[k]) };
    });
}

function lever({ rows, drafts, rate }) {
  const measured = Math.round(100 * rate),
    input = el("input", { type: "range", min: 0, max: 100, step: 1, value: measured, id: "why-chance" }),
    said = el("output", { for: "why-chance" }),
    bars = el("ol", "why-bars");
  const draw = () => {
    const found = worths(rows, drafts, input.value / 100),
      { k: drafted, speed: most } = found.reduce((a, b) => (b.speed > a.speed ? b : a)),
      part = `${input.value} %`,
      widest = Math.max(1.2, ...found.map(({ speed }) => speed));
    const worth = most.toFixed(2);
    said.textContent = tr`${part} of the drafts accepted: at best ${worth}×, with ${drafted} drafted (derived)`;
    bars.replaceChildren(
      ...found.map(({ k, speed }) =>
        el(
          "li",
          { class: speed > 1 ? "pays" : null },
          el("span", {}, tr`${k} drafted`),
          el("i", { style: `--part: ${(100 * speed) / widest}%; --one: ${100 / widest}%` }),
          el("span", {}, `${speed.toFixed(2)}×`),
        ),
      ),
    );
  };
  input.addEventListener("input", draw);
  draw();
  return el(
    "div",
    "why-lever",
    el("label", { for: "why-chance" }, tr`What if acceptance were …? Measured: ${measured} %`),
    input,
    said,
    bars,
  );
}

function table({ title, note, columns, rows }) {
  const cells = (tag, some) => some.map((one) => el(tag, tag === "th" ? { scope: "col" } : {}, sentence(one)));
  return el(
    "details",
    { class: "why-table", open: true },
    el("summary", {}, sentence(title)),
    el("p", {}, sentence(note)),
    el(
      "div",
      { class: "why-scroll", tabindex: 0, role: "group", "aria-label": sentence(title) },
      el(
        "table",
        {},
        el("thead", {}, el("tr", {}, ...cells("th", columns))),
        el("tbody", {}, ...rows.map((row) => el("tr", {}, ...cells("td", row)))),
      ),
    ),
  );
}

function place({ title, target, draft }) {
  return el(
    "div",
    "why-place",
    el("strong", {}, sentence(title)),
    el("p", {}, tr`target`, ": ", el("b", {}, target)),
    el("p", {}, tr`draft`, ": ", el("b", {}, draft)),
  );
}

const plain = (name) => name.replace(/[^\w.-]+/g, "-").slice(-60);

const saves = (words, text, type, name) => el("button", { onclick: () => download({ name, type, text }) }, words);
