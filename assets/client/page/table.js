// A table or a set of facts from JSON: {caption, columns, rows: [[cell]], empty, stack, filters, sort, lang, runs?}. A
// cell is text or {text, sub, href, mark: "right" | "wrong", quiet, long, key, receipt, run, fold, after, lead, parts}.
// `fold`: behind a "Show". `parts`: the text behind its `lead` as sentences {text, receipt, own}, each with a receipt
// of its own; `own`: what a model or a person wrote. They are said in the page's language if all of them can be.
// `after`: hidden until that player has been at its end. `stack`: rows become cards on a narrow screen. `filters`:
// numbers of the columns that get a choice (by `key` or text), and a search field. `sort`: its heads sort it. `lang`:
// the language of its words, where that is not the page's. `href`: https, or a text of Docs (`?doc=NAME`). A number
// with a receipt asks the player to open it, with the facts of `runs[run]`. Text only ever goes through textContent.

import { el } from "../player/dom.js";
import { tr } from "../player/words.js";
import { announce, outward, parsed, searchField } from "./dom.js";
import { sentence } from "./sentences.js";
import { matching, sortable } from "./sorting.js";

const MARKS = { right: "✓ ", wrong: "✗ " };
const seen = (slot) => document.querySelector(`#panel-${slot} [data-seen]`) !== null;
const state = () => [0, 1, 2, 3].map(seen).join();
/** A number or a sentence that opens its receipt. */
const opener = (text, receipt, facts) => {
  const onclick = ({ currentTarget: anchor }) => announce("dx-receipt", { anchor, receipt, ...facts });
  return el("button", { class: "number", title: tr`How was this obtained?`, "aria-haspopup": "dialog", onclick }, text);
};
/** The sentences of a cell in the page's language, or all of them as they came. The language may have been settled
 * after this script began. */
const whole = (parts) => {
  const said = parts.map(({ text, own }) => (own ? text : (globalThis.dxWords?.sentence ?? sentence)(text)));
  return parts.every(({ own }, i) => own || /[\u3400-\u9fff]/.test(said[i])) ? said : parts.map(({ text }) => text);
};
const partOf = ({ receipt, own }, text, facts) =>
  receipt ? opener(text, receipt, facts) : own ? el("span", { translate: "no" }, text) : text;
const cellOf = (cell, runs) => {
  const given = typeof cell === "object" && cell ? cell : { text: String(cell ?? "") },
    { text = "", sub, href, mark, quiet, long, receipt, run = 0, fold, after, lead = "", parts } = given;
  if (after !== undefined && !seen(after)) {
    if (receipt) return [["…"], { "data-quiet": "", title: tr`Told when the run has been played, or after Show` }];
    const look = { class: "show", "data-after": after, title: tr`Or play the run to its end` },
      label = tr`Show the result of player ${after + 1}`,
      onclick = () => announce("dx-show", after);
    return [[el("button", { ...look, "aria-label": label, onclick }, tr`Show`)], {}];
  }
  if (fold) return [[el("details", {}, el("summary", {}, tr`Show`), text)], { "data-long": "" }];
  const shown = (MARKS[mark] ?? "") + text;
  const link = /^https:\/\//.test(href) ? outward(href, shown) : /^\?doc=/.test(href) && el("a", { href }, shown),
    inner = link || document.createTextNode(shown);
  const attributes = {
    "data-mark": mark,
    "data-quiet": quiet ? "" : null,
    "data-long": long ? "" : null,
    translate: long && !parts ? "no" : null, // what a model wrote
  };
  if (receipt) return [[opener(shown, receipt, runs[run])], {}];
  if (parts) {
    const said = whole(parts),
      told = parts.map((part, i) => partOf(part, said[i], runs[run]));
    return [[`${MARKS[mark] ?? ""}${lead}`, ...told.flatMap((part) => [" ", part])], attributes];
  }
  return [sub ? [inner, el("small", {}, sub)] : [inner], attributes];
};
const keyOf = (cell) => (typeof cell === "object" && cell ? String(cell.key ?? cell.text) : String(cell ?? ""));
/** A search field and one choice per named column over the rows of `body`; how many rows are left is announced. */
const filterBar = (columns, rows, filters, body) => {
  const search = searchField(tr`Search`, () => apply(), { "aria-label": tr`Search the table` });
  const choices = filters.flatMap((i) => {
    const keys = [...new Set(rows.map((row) => keyOf(row[i])))];
    if (keys.length < 2) return []; // nothing to choose from
    const box = el(
      "select",
      { "aria-label": columns[i], oninput: () => apply() },
      el("option", { value: "" }, tr`${columns[i]}: all`),
      ...keys.map((key) => el("option", { value: key }, key)),
    );
    return [[i, box]];
  });
  const left = el("output", { "aria-live": "polite" }),
    lines = [...body.children]; // of the rows, in whatever order they are shown
  const apply = () => {
    const fits = matching(search.value);
    let shown = 0;
    rows.forEach((row, n) => {
      const line = lines[n];
      line.hidden = !(fits(line) && choices.every(([i, box]) => !box.value || keyOf(row[i]) === box.value));
      shown += !line.hidden;
    });
    left.textContent = tr`${shown} of ${rows.length}`;
  };
  apply();
  return el("div", { class: "filters", role: "search" }, search, ...choices.map(([, box]) => box), left);
};

export function mountTable(element, props, watch) {
  let drawn = ""; // the state at the last drawing
  const draw = () => {
    const data = parsed(props);
    drawn = state();
    const { caption = "", columns = [], rows = [], empty = "", stack = false, filters = null, runs = [] } = data;
    if (data.pairs) {
      globalThis.dxPairs = { ...globalThis.dxPairs, ...data.pairs }; // what the players say of runs beside each other
      announce("dx-pairs");
    }
    const root = element.querySelector(".facts");
    if (!rows.length) return root.replaceChildren(el("p", "quiet", empty));
    const head = columns.length
      ? el("thead", {}, el("tr", {}, ...columns.map((name) => el("th", { scope: "col" }, name))))
      : "";
    const place = (cell, i) => {
      const [parts, attributes] = cellOf(cell, runs);
      return i
        ? el("td", { ...attributes, "data-label": columns[i] ?? "" }, ...parts)
        : el("th", { scope: "row", ...attributes }, ...parts);
    };
    const body = el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map(place))));
    const table = el("table", { lang: data.lang }, el("caption", {}, caption), head, body);
    root.replaceChildren(...(filters ? [filterBar(columns, rows, filters, body)] : []), table);
    if (data.sort) sortable(table);
    root.toggleAttribute("data-stack", stack);
    root.dataset.rows = rows.length;
  };
  /** A table that is wider than its place is scrolled by keyboard too: then, and only then, it takes the focus and has
   * a name. */
  const reachable = () => {
    const root = element.querySelector(".facts"),
      wide = root.scrollWidth > root.clientWidth;
    const name = root.querySelector("caption")?.textContent || root.querySelector("tbody th")?.textContent || tr`Table`;
    for (const [key, value] of Object.entries({ tabindex: 0, role: "region", "aria-label": name.slice(0, 80) }))
      wide ? root.setAttribute(key, value) : root.removeAttribute(key);
  };
  draw();
  watch("value", () => {
    draw();
    reachable();
  });
  new ResizeObserver(reachable).observe(element.querySelector(".facts"));
  // A recorded run's cells wait until its player has been at its end, or a person asks: they are drawn again when that
  // changes.
  document.addEventListener("dx-seen", () => {
    if (drawn === state() || !/"after":/.test(props.value ?? "")) return;
    const asked = element.contains(document.activeElement) && document.activeElement.closest("td");
    const at = asked ? [asked.parentNode.rowIndex, asked.cellIndex] : null;
    draw();
    reachable();
    const cell = at && element.querySelector("table")?.rows[at[0]]?.cells[at[1]];
    if (!cell) return;
    cell.tabIndex = -1;
    cell.focus({ preventScroll: true }); // the button that was pressed is gone
  });
}
